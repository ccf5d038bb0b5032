"""From a finished run's folder back to its network and stream, for a look at what was learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gplasc._io.reading import open_regular
from gplasc.errors import UserError
from gplasc.learning import Learner
from gplasc.learning.checkpoints import digest
from gplasc.learning.devices import check_device
from gplasc.learning.evaluator import evaluation_samples
from gplasc.models import EncoderBuilder, Network
from gplasc.results.record import Record
from gplasc.runs.build import build_learner, open_inputs
from gplasc.runs.encoder import EncoderChoice, choose_encoder
from gplasc.runs.spec import RunSpec
from gplasc.runs.workspace import WEIGHTS
from gplasc.settings.components import is_file, source_digest
from gplasc.settings.types import Config
from gplasc.streams import Samples, Stream, Task
from gplasc.streams.arrays import as_images

if TYPE_CHECKING:
    from gplasc.runs.result import Result


@dataclass(frozen=True)
class Restored:
    """A finished run: its record, its stream and its network, in evaluation mode."""

    record: Record
    config: Config
    stream: Stream
    learner: Learner

    @property
    def network(self) -> Network:
        """Encoder and heads as they were after the last task."""
        return self.learner.ctx.network

    @property
    def predictor(self) -> nn.Module:
        """Maps features (N, D) to class scores (N, C), as it was after the last task."""
        assert self.learner.ctx.predictor is not None
        return self.learner.ctx.predictor

    def evaluation_samples(self, task: Task) -> Samples:
        """Return the split of a task that the run was evaluated on."""
        return evaluation_samples(task, self.config)

    def features(self, images: Samples | Any) -> Tensor:
        """Return the encoder's raw features, (N, D) float32 on the CPU.

        Args:
            images: Samples of a task, or uint8 images, N x H x W x C or N x C x H x W, of the size of the stream's.
        """
        if not isinstance(images, Samples):
            x = as_images(images, "images")
            if x.shape[1:] != self.stream.image_shape:
                raise UserError(
                    f"images are {tuple(x.shape[1:])}, those of the stream {self.stream.image_shape}; resize them"
                )
            images = Samples(x, x.new_zeros(len(x), dtype=torch.int64))
        return self.learner.ctx.features(images).cpu()


def restore(
    result: Result,
    named: Sequence[str | None],
    encoder: str | nn.Module | EncoderBuilder | None,
    stream: Stream | None,
    data_dir: str | Path | None,
    device: str | None,
) -> Restored:
    """Load a run, see `Result.load`; code is loaded from files that its settings or the caller name, not its record."""
    record, folder = result.record, result.folder
    choice = None if encoder is None else choose_encoder(encoder)
    spec = None if any(named) or choice else result._spec
    spec = spec or _planned(record, named, choice)
    if spec.run_id != record.run_id and spec is result._spec:
        raise UserError(
            f"{folder} holds the run {record.run_id}, not {spec.run_id}; run it again with --restart"
        )
    path = folder / WEIGHTS
    tensors, device, own_encoder = (
        _read_weights(path),
        check_device(device),
        choice.encoder if choice else None,
    )
    stream, opened = open_inputs(spec, data_dir, stream=stream, encoder=own_encoder, device=device)
    learner = build_learner(spec.config, stream, encoder=opened, device=device)
    ctx = learner.ctx
    # Settings that a module keeps next to its weights are not in the file; the learner has just set them again.
    own = {name: value for name, value in tensors.items() if not name.startswith("predictor.")}
    if set(own) != {name for name, value in ctx.modules.state_dict().items() if isinstance(value, Tensor)}:
        raise UserError(
            f"the weights {path} do not belong to the settings of its record; run it again with --restart"
        )
    predictor = {name.removeprefix("predictor."): value for name, value in tensors.items() if name not in own}
    # Records of version 0.2.0 and before cover the settings of GPLASC too.
    weights = (digest(own), digest(own, extra_state=True))
    if record.weights_sha256 not in weights or digest(predictor) != record.predictor_sha256:
        raise UserError(f"the weights {path} are not those of its record; run it again with --restart")
    ctx.modules.load_state_dict(own, strict=False)
    ctx.modules.eval()
    ctx.classes_per_task = list(stream.classes_per_task)
    ctx.predictor = learner.new_predictor()
    ctx.predictor.load_state_dict(predictor)
    ctx.predictor.eval()
    return Restored(record, spec.config, stream, learner)


def _planned(record: Record, given: Sequence[str | None], encoder: EncoderChoice | None) -> RunSpec:
    """Return what was computed; code is loaded only from files that were given, in the version that the run used."""
    identity, names = record["settings"].get("identity", {}), [record.method, *record.plugins]

    def check(
        name: str, named: str | None, argument: str, digest: str | None, digests: Sequence[str]
    ) -> None:
        if named is None:
            raise UserError(
                f"the run used {name}; code that a record names is not loaded unless you name it: load({argument}=...)"
            )
        if digest not in digests:
            raise UserError(
                f"{named} is not what the run used as {name}; give that version: load({argument}=...)"
            )

    for place, name in enumerate(names):
        if is_file(name):
            named = given[place] if place < len(given) else None
            digests = [source_digest(named)] if named else []
            check(name, named, "plugins" if place else "method", identity.get(name), digests)
            names[place] = str(named)
    wanted = str(record.flat.get("model.encoder", ""))
    if ":" in wanted:
        own = [encoder.identity] if encoder else []
        check(wanted, encoder.name if encoder else None, "encoder", identity.get("encoder"), own)
    return RunSpec.stored(record, names[0], names[1:])


def _read_weights(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        open_regular(path).close()
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"the weights {path} cannot be read ({error}); run it again with --restart") from None
