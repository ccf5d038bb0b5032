"""Assignment of samples to places on the sphere."""

import torch
from torch import Tensor

from gplasc.losses import kernels
from gplasc.losses.checks import check_positive, check_tensor, check_unit


def assignment_loss(features: Tensor, labels: Tensor, places: Tensor, *, temperature: float = 0.1) -> Tensor:
    """Cross-entropy of the cosines between features and places against the place of each row (balanced softmax).

        loss_i = -log softmax_p(<n(f_i), v_p> / temperature + log n_p)[labels_i],      n(x) = x / |x|

    n_p is the number of rows of place p in the batch, 0.5 if it has none, so that the few rows of a past class compete
    with the many of a new one on equal terms. The result is the mean over rows. Without rows, and with a single place,
    the loss is 0 and part of the graph.

    Args:
        features: Features of shape (N, D); they are normalized here.
        labels: The place of each row, integers of shape (N,) in [0, P).
        places: Unit rows of shape (P, D). They receive a gradient only if they require one.
        temperature: Divides the cosines.

    >>> round(assignment_loss(torch.eye(2), torch.tensor([0, 1]), torch.eye(2), temperature=1.0).item(), 4)
    0.3133
    """
    check_tensor("features", features)
    check_tensor("labels", labels, (len(features),), "labels")
    check_tensor("places", places, ("P", features.shape[1]))
    check_positive("temperature", temperature)
    if len(places) == 0:
        raise ValueError("places must have P >= 1 rows.")
    check_unit("assignment_loss", "places", places)
    if labels.device.type == "cpu" and len(labels) > 0 and not torch.compiler.is_compiling():
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= len(places):
            raise ValueError(f"labels must be in [0, {len(places)}), the places, got {low} to {high}.")
    with kernels.full_precision(features):
        return kernels.assignment(kernels.unit(features), labels, places, temperature)
