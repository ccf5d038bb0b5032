"""GPLASC as a callback of Lightning: it opens and closes tasks, and its state is part of Lightning's checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gplasc.criterion.loop import GPLASCLoop
from gplasc.errors import UserError

if TYPE_CHECKING:
    from pytorch_lightning import Callback, LightningModule, Trainer
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        try:
            from pytorch_lightning import Callback
        except ImportError:
            raise UserError("this integration needs Lightning: pip install pytorch-lightning") from None


class GPLASCCallback(Callback):
    """Makes each ``trainer.fit`` one task.

    In your ``training_step``, add the terms to the loss; ``self.gplasc`` is set by this callback::

        def training_step(self, batch, batch_index):
            x, y = batch
            features = self.encoder(x)
            terms = self.gplasc.terms(x, y, features=features)
            return cross_entropy(self.head(features), y) + sum(terms.values())

    A task begins with ``fit`` and is complete when ``fit`` ends without an exception; ``fit(ckpt_path=...)`` with a
    checkpoint from the middle of a task continues that task. The previous encoder and the memory are stored in the
    checkpoint as state of this callback and not in the state dict of the model. With several processes, each keeps the
    samples it saw.

    Args:
        loop: The object that computes the terms.
        name: The attribute of the LightningModule that refers to it.
    """

    def __init__(self, loop: GPLASCLoop, *, name: str = "gplasc") -> None:
        self.loop = loop
        self._name = name

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Give the module access to the terms."""
        setattr(pl_module, self._name, self.loop)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin the next task, or continue the open one."""
        self.loop.criterion.to(pl_module.device)
        if self.loop.task is None:
            self.loop.begin_task()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Complete the task."""
        self.loop.end_task()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state of the terms, for Lightning's checkpoint."""
        return self.loop.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the state of the terms."""
        self.loop.load_state_dict(state_dict)
