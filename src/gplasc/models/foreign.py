"""Any module as an encoder: a pretrained backbone, or one of the user's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Any

import torch
from torch import Tensor, nn

from gplasc.errors import UserError
from gplasc.models.encoder import Encoder
from gplasc.models.statistics import evaluating
from gplasc.settings.components import find_object

EncoderBuilder = Callable[[], nn.Module]
"""A function without arguments that returns an encoder."""

_PROBE_SIZE = 64  # of the image that tells the number of features, where the encoder has no size of its own


class ForeignEncoder(Encoder):
    """A module that maps images to vectors or feature maps, as an encoder.

    Feature maps (N, D, h, w) are averaged. An output with the attribute ``pooler_output`` (transformers) is replaced by
    that attribute. Images are resized to ``image_size``, gray ones get three equal channels, and all are normalized by
    ``mean`` and ``std``: the module sees what it was trained with, whatever the data set.

    >>> ForeignEncoder(nn.Conv2d(3, 8, 3), image_size=32).feature_dim
    8

    Args:
        module: Maps normalized images (N, C, image_size, image_size) to (N, D) or (N, D, h, w).
        image_size: Width and height that the module was trained with; default: images are not resized.
        mean: Of each channel of images scaled to 0..1; default: ImageNet's.
        std: Of each channel of images scaled to 0..1; default: ImageNet's.

    Raises:
        UserError: If the module cannot be applied to such images, or returns something else.
    """

    normalizes = True
    mean: Tensor
    std: Tensor

    def __init__(
        self,
        module: nn.Module,
        *,
        image_size: int | None = None,
        mean: Sequence[float] = (0.485, 0.456, 0.406),
        std: Sequence[float] = (0.229, 0.224, 0.225),
    ) -> None:
        super().__init__()
        if len(mean) != len(std) or not len(mean) or min(std) <= 0:
            given = f"mean is {tuple(mean)} and std {tuple(std)}"
            raise UserError(f"{given}; give one number for each channel, std above 0")
        if image_size is not None and image_size < 1:
            raise UserError(f"image_size is {image_size}; give a number of pixels, or leave it out")
        self.module = module
        self._title = type(module).__name__
        self.image_size = image_size
        self.in_channels = len(mean)
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1), persistent=False)
        self.feature_dim = self._count_features(image_size or _PROBE_SIZE)

    def forward(self, x: Tensor) -> Tensor:
        """Map images scaled to 0..1, (N, C, H, W), to features (N, feature_dim)."""
        out = self.maps(x)
        return out.mean((2, 3)) if out.ndim == 4 else out

    def maps(self, x: Tensor) -> Tensor:
        """Return what the module returns for normalized images: (N, feature_dim) or (N, feature_dim, h, w)."""
        if x.shape[1] == 1 and self.in_channels > 1:
            x = x.expand(-1, self.in_channels, -1, -1)
        size = self.image_size
        if size is not None and x.shape[-2:] != (size, size):
            x = nn.functional.interpolate(x, (size, size), mode="bilinear", antialias=True)
        out: Any = self.module((x - self.mean) / self.std)
        pooled: Tensor = getattr(out, "pooler_output", out)
        return pooled

    def check_size(self, size: int) -> None:
        """Check that images of a width and height can be encoded; those that are resized always can."""
        count = self.feature_dim if self.image_size else self._count_features(size)
        if count != self.feature_dim:
            raise UserError(
                f"the encoder {self._title} returned {count} features for images of {size} x {size} and "
                f"{self.feature_dim} for others; wrap it in gplasc.ForeignEncoder with its own image_size"
            )

    def _count_features(self, size: int) -> int:
        try:
            with torch.no_grad(), evaluating(self.module):
                out = self.maps(torch.zeros(2, self.in_channels, size, size, device=self.mean.device))
        except (Exception, SystemExit) as error:  # a user's module may raise anything
            raise UserError(
                f"the encoder {self._title} cannot be applied to images of {self.in_channels} x {size} x {size} "
                f"({_reason(error)}); wrap it in gplasc.ForeignEncoder with its own image_size"
            ) from error
        if not isinstance(out, Tensor) or out.ndim not in (2, 4) or len(out) != 2:
            returned = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise UserError(
                f"the encoder {self._title} returned {returned} for 2 images; "
                "it must return features (N, D) or feature maps (N, D, h, w): wrap it in a module that does"
            )
        return int(out.shape[1])


def as_encoder(value: str | nn.Module | EncoderBuilder) -> Encoder:
    """Return an encoder for a module, for a function that builds one, or for the name of either (``FILE.py:function``).

    A function is called with torch's global generator at a fixed seed, so that weights it draws are reproducible. What
    cannot be used as an encoder is a UserError.
    """
    made = find_object(value) if isinstance(value, str) else value
    if callable(made) and not isinstance(made, nn.Module):
        made = _build(made)
    if not isinstance(made, nn.Module):
        raise UserError(f"encoder is {value!r}; give a name, a torch.nn.Module or a function that builds one")
    return made if isinstance(made, Encoder) else ForeignEncoder(made)


def _build(function: Callable[[], object]) -> nn.Module:
    """Return what a user's function builds."""
    name = getattr(function, "__name__", function)
    # Standard output belongs to our results; some packages print there that they load weights.
    with torch.random.fork_rng(devices=[]), redirect_stdout(sys.stderr):
        torch.manual_seed(0)
        try:
            built = function()
        except UserError:
            raise
        except (Exception, SystemExit) as error:  # a user's function may raise anything
            raise UserError(
                f"the function {name} of the encoder raised {_reason(error)}; it must work without arguments"
            ) from error
    if not isinstance(built, nn.Module):
        raise UserError(f"the function {name} returned a {type(built).__name__}; return a torch.nn.Module")
    return built


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
