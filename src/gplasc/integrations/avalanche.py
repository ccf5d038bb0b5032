"""GPLASC as a plug-in for the supervised strategies of Avalanche."""

from __future__ import annotations

from typing import Any

from gplasc.criterion.loop import GPLASCLoop
from gplasc.errors import UserError

try:
    from avalanche.core import SupervisedPlugin
except ImportError:
    raise UserError("gplasc.integrations.avalanche needs Avalanche: pip install avalanche-lib") from None


class GPLASCPlugin(SupervisedPlugin):
    """Makes each training experience a task and adds the terms to the loss of every minibatch.

    Works with other plug-ins, such as replay: rows of earlier tasks in the minibatch count as past samples. The
    encoder of ``loop`` must be a part of the strategy's model.

    Args:
        loop: The object that computes the terms.
    """

    def __init__(self, loop: GPLASCLoop) -> None:
        super().__init__()
        self.loop = loop

    def before_training_exp(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        """Begin a task."""
        self.loop.criterion.to(strategy.device)
        self.loop.begin_task()

    def before_backward(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        """Add the terms to the loss."""
        strategy.loss = strategy.loss + sum(self.loop.terms(strategy.mb_x, strategy.mb_y).values())

    def after_training_exp(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        """Complete the task."""
        self.loop.end_task()
