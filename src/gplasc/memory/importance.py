"""CCLIS's memory: samples that are hard for the other classes' prototypes are kept more often."""

from __future__ import annotations

import torch
from torch import Tensor

from gplasc.memory.balanced import Choose


def importance_scores(similarity: Tensor, y: Tensor, temperature: float) -> Tensor:
    """How much a sample weighs in the contrast sets of the other classes' prototypes.

        score_i = mean over classes c != y_i of softmax over samples of <p_c, z_i> / temperature

    similarity: (N, C) cosines of samples and prototypes of all classes seen; y: (N,). Returns (N,); with one class 0s.
    """
    share = (similarity.double() / temperature).softmax(0)
    own = share.gather(1, y.unsqueeze(1)).squeeze(1)
    return (share.sum(1) - own) / max(similarity.shape[1] - 1, 1)


def class_probabilities(scores: Tensor, y: Tensor) -> Tensor:
    """Scores divided by their class's sum, (N,): the probabilities of being drawn inside the class."""
    totals = torch.zeros(int(y.max()) + 1 if len(y) else 0, dtype=scores.dtype).index_add_(0, y, scores)
    counts = torch.bincount(y, minlength=len(totals)).to(scores.dtype)
    # A class whose scores are all 0 (the only one so far) is drawn from uniformly.
    return torch.where(totals[y] > 0, scores / totals[y].clamp(min=1e-300), 1.0 / counts[y])


def weighted_choice(probabilities: Tensor, generator: torch.Generator) -> Choose:
    """Choose without replacement in proportion to ``probabilities``, (N,) by candidate index."""

    def choose(candidates: Tensor, count: int) -> Tensor:
        count = min(count, len(candidates))
        if count == 0:
            return candidates[:0]
        weights = probabilities[candidates].clamp(min=1e-300)
        return candidates[torch.multinomial(weights, count, replacement=False, generator=generator)]

    return choose
