"""The memory of CCLIS: samples close to the prototypes of other classes are kept more often."""

import torch
from torch import Tensor


def importance_scores(similarity: Tensor, y: Tensor, temperature: float) -> Tensor:
    """Return the share of each sample in the contrast sets of the prototypes of other classes, (N,) float64.

        score_i = mean over classes c != y_i of softmax over samples of <p_c, z_i> / temperature

    similarity: (N, C) cosines between samples and the prototypes of all classes seen. Zeros with a single class.
    """
    share = (similarity.double() / temperature).softmax(0)
    own = share.gather(1, y.unsqueeze(1)).squeeze(1)
    return (share.sum(1) - own) / max(similarity.shape[1] - 1, 1)


def class_probabilities(scores: Tensor, y: Tensor) -> Tensor:
    """Return each sample's share of the scores of its class, (N,); equal shares if these are all 0."""
    totals = torch.zeros(int(y.max()) + 1 if len(y) else 0, dtype=scores.dtype).index_add_(0, y, scores)
    counts = torch.bincount(y, minlength=len(totals)).to(scores.dtype)
    # The scores of a class are all 0 if it is the only one so far.
    return torch.where(totals[y] > 0, scores / totals[y].clamp(min=1e-300), 1.0 / counts[y])
