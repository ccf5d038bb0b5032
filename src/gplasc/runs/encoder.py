"""The encoder of a run: what a user may give as one, how it identifies a run, and how it is built."""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from gplasc._io.text import did_you_mean
from gplasc.errors import UserError
from gplasc.learning import ImageFormat
from gplasc.learning.checkpoints import digest
from gplasc.models import ENCODERS, Encoder, EncoderBuilder, ForeignEncoder, as_encoder, build_encoder
from gplasc.random import Generators
from gplasc.settings.components import source_digest
from gplasc.settings.types import OBJECT, Config


@dataclass(frozen=True)
class EncoderChoice:
    """An encoder by its name in the settings, and the module unless it is a built-in one."""

    name: str
    identity: str
    """Digest of the source and of the weights; empty for a built-in encoder."""
    encoder: Encoder | None = None

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that follow: the name, and encoder_lr 0 for an object without trainable parameters."""
        chosen: dict[str, Any] = {"model.encoder": self.name}
        stated = {"encoder_lr", "model.encoder_lr"} & set(given)
        if self.encoder and self.name.startswith(OBJECT) and not stated:
            trainable = any(parameter.requires_grad for parameter in self.encoder.parameters())
            chosen["model.encoder_lr"] = 1.0 if trainable else 0.0
        return chosen


def choose_encoder(value: str | nn.Module | EncoderBuilder) -> EncoderChoice:
    """Choose the encoder that a user names (also ``FILE.py:function``, ``package.module:function``) or gives."""
    if isinstance(value, str):
        return _choose_by_name(value)
    encoder = as_encoder(copy.deepcopy(value) if isinstance(value, nn.Module) else value)
    inner = encoder.module if isinstance(encoder, ForeignEncoder) else encoder
    title = type(inner).__name__
    try:
        source = inspect.getsource(type(inner))
    except (OSError, TypeError):  # defined in an interactive session
        source = title
    facts = f"{source}{encoder.image_size}"
    if isinstance(encoder, ForeignEncoder):
        facts += f"{encoder.mean.flatten().tolist()}{encoder.std.flatten().tolist()}"
    facts_digest, weights = hashlib.sha256(facts.encode()).hexdigest(), digest(encoder.state_dict())
    return EncoderChoice(f"{OBJECT}{title}", f"{weights[:32]}{facts_digest[:32]}", encoder)


def _choose_by_name(name: str) -> EncoderChoice:
    if name.startswith(OBJECT) or name in ENCODERS:
        return EncoderChoice(name, "")
    if ":" in name:
        source, encoder = source_digest(name), as_encoder(name)
        return EncoderChoice(name, f"{digest(encoder.state_dict())[:32]}{source[:32]}", encoder)
    raise UserError(
        f"there is no encoder '{name}'; {did_you_mean(name, ENCODERS)} "
        "(your own: FILE.py:function or package.module:function)"
    )


def configured_encoder(config: Config, channels: int = 3) -> Encoder:
    """Build the encoder that the settings name, frozen if they say so; a built-in one for images of some channels."""
    model = config.model
    if model.encoder.startswith(OBJECT):
        raise UserError(
            f"the encoder was passed as an object ({model.encoder.removeprefix(OBJECT)}); pass it again as encoder="
        )
    if ":" in model.encoder:
        encoder = as_encoder(model.encoder)
    else:
        encoder = build_encoder(
            model.encoder,
            in_channels=channels,
            width=model.width,
            features=model.features,
            generator=Generators(config.seed)["weights.encoder"],
            initialization=model.initialization,
        )
    if model.encoder_lr == 0:
        encoder.freeze()
    return encoder


def image_format(
    shape: tuple[int, int, int], mean: tuple[float, ...], std: tuple[float, ...], encoder: Encoder
) -> ImageFormat:
    """Return the format of images for an encoder: one that normalizes itself gets images scaled to 0..1."""
    if isinstance(encoder, ForeignEncoder):
        encoder.check_size(shape[-1])
    if encoder.normalizes:
        return ImageFormat(shape, (0.0,) * shape[0], (1.0,) * shape[0])
    return ImageFormat(shape, mean, std)
