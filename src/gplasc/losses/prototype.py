"""Contrastive loss between class prototypes and samples, with importance weights (CCLIS)."""

import torch
from torch import Tensor

from gplasc.losses._inputs import full_precision, promote


def prototype_contrast(
    z: Tensor,
    y: Tensor,
    prototypes: Tensor,
    *,
    temperature: float,
    importance: Tensor | None = None,
    weighted: Tensor | None = None,
) -> Tensor:
    """Contrastive loss with prototypes as anchors (CCLIS): the positives are the samples of the class.

        loss_i = log sum_j exp(a_cj - m_cj log w_j) - a_ci,      c = y_i,  a_cj = <p_c, z_j> / temperature

    Args:
        z: Unit rows of shape (N, D).
        y: Integer labels of shape (N,).
        prototypes: Unit rows of shape (C, D), one per class.
        temperature: Divides the cosines.
        importance: Positive weights w_j of shape (N,): the sampling probability times the number of rows of the class
            in the batch. Used only together with `weighted`.
        weighted: A boolean mask m_cj of shape (C, N) of the pairs that are weighted.

    Returns:
        The mean over samples, a tensor of shape (); without samples 0, as part of the graph.
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
