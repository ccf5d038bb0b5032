"""From a finished run's folder back to its network and stream, for a look at what was learned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from gplasc._io.reading import open_regular
from gplasc.errors import UserError
from gplasc.learning import Learner
from gplasc.learning.checkpoints import digest
from gplasc.learning.devices import check_device
from gplasc.learning.evaluator import evaluation_samples
from gplasc.models import Network
from gplasc.results.record import Record, read_record
from gplasc.runs.build import build_learner
from gplasc.runs.inputs import open_inputs
from gplasc.runs.spec import RunSpec
from gplasc.runs.workspace import WEIGHTS
from gplasc.settings.types import Config
from gplasc.streams import Samples, Stream, Task


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

    def evaluation_samples(self, task: Task) -> Samples:
        """Return the split of a task that the run was evaluated on."""
        return evaluation_samples(task, self.config)

    def features(self, samples: Samples) -> Tensor:
        """Return the encoder's raw features of the samples, (N, D) float32 on the CPU."""
        return self.learner.ctx.features(samples).cpu()


def restore(
    folder: Path,
    *,
    data_dir: str | Path | None = None,
    stream: Stream | None = None,
    device: str | None = None,
) -> Restored:
    """Load the network of a finished run, checked bit for bit against its record, and open its stream.

    `stream` is the stream itself where it has no name that can be opened.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    record = read_record(folder)
    if record is None:
        raise UserError(f"there is no finished run in {folder}; run it, or give the folder of another one")
    path = folder / WEIGHTS
    try:
        open_regular(path).close()
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"the weights {path} cannot be read ({error}); run it again with --restart") from None
    spec, device = RunSpec.stored(record), check_device(device)
    stream, encoder = open_inputs(spec, data_dir, stream=stream, device=device)
    learner = build_learner(spec.config, stream, encoder=encoder, device=device)
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
