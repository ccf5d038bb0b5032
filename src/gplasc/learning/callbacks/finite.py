"""Stops a run whose loss is no longer a finite number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gplasc.errors import UserError
from gplasc.learning.callbacks.base import Callback

if TYPE_CHECKING:
    from gplasc.learning.learner import Learner


class NotFinite(UserError):
    """A loss term is infinite or not a number."""


class FiniteCheck(Callback):
    """Raises `NotFinite`, naming the term and the step, before a checkpoint of the broken weights is written."""

    def on_log(self, learner: Learner, rows: Sequence[Mapping[str, Any]]) -> None:
        """Check every term of every row."""
        for row in rows:
            for name, value in row.items():
                if not math.isfinite(value):
                    raise NotFinite(
                        f"the term '{name}' is {value} at task {row['task'] + 1}, epoch {row['epoch'] + 1}, "
                        f"step {row['step']}; the last checkpoint is kept: lower the learning rate or the term's weight"
                    )
