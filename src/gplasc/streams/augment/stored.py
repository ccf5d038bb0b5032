"""Views that were computed before, in place of augmentation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gplasc._io.transfer import transfer


@dataclass(frozen=True)
class StoredViews:
    """Selects one of the stored views of each row: the first, or a random one of the others.

    Attributes:
        plain: Whether to select the first.
    """

    plain: bool = False

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Map rows (N, views, 1, D) to (N, D)."""
        count = x.shape[1]
        if self.plain or count == 1:
            return x[:, 0, 0]
        chosen = transfer(torch.randint(1, count, (len(x),), generator=generator), x.device)
        return x[torch.arange(len(x), device=x.device), chosen, 0]
