"""Contrast between class prototypes and samples, with importance weights (CCLIS)."""

import torch
from torch import Tensor

from gplasc.losses.inputs import full_precision, promote


def prototype_contrast(
    z: Tensor,
    y: Tensor,
    prototypes: Tensor,
    *,
    temperature: float,
    importance: Tensor | None = None,
    weighted: Tensor | None = None,
) -> Tensor:
    """Each prototype is the anchor, its class's samples are positives, all samples are the contrast set.

        loss_i = log sum_j exp(a_cj - m_cj log w_j) - a_ci,      c = y_i,  a_cj = <p_c, z_j> / temperature

    z: (N, D) unit rows; y: (N,) labels; prototypes: (C, D) unit rows, one per class. importance: (N,) positive weights
    w_j, sampling probability times the class's count in the batch; weighted: (C, N) bool mask m_cj of the pairs that
    are weighted, both or neither. Mean over samples; without samples 0 with its graph.
    """
    with full_precision(z):
        z, prototypes = promote(z), promote(prototypes)
        if len(z) == 0:
            return z.sum() * 0.0 + prototypes.sum() * 0.0
        scores = prototypes @ z.T / temperature
        contrast = scores
        if importance is not None and weighted is not None:
            contrast = scores - torch.where(weighted, importance.to(scores.dtype).log(), 0.0)
        positives = scores.gather(0, y.long().unsqueeze(0)).squeeze(0)
        return (contrast.logsumexp(1)[y.long()] - positives).mean()
