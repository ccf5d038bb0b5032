"""Supervised contrastive loss, and rows of unit length."""

from typing import Literal

from torch import Tensor

from gplasc.losses import kernels
from gplasc.losses.checks import check_choice, check_positive, check_tensor, check_unit
from gplasc.losses.kernels import Reduction, full_precision, promote

Divisor = Literal["anchors", "rows"]


def supcon(
    z: Tensor,
    y: Tensor,
    *,
    temperature: float,
    anchors: Tensor | None = None,
    base_temperature: float | None = None,
    divisor: Divisor = "anchors",
    reduction: Reduction = "mean",
) -> Tensor:
    """Supervised contrastive loss (SupCon, Khosla et al. 2020); with `anchors` the asymmetric form of Co2L.

        loss_i = log sum_{a != i} exp(s_ia) - mean_{j != i, y_j = y_i} s_ij,  s_ij = <z_i, z_j> / temperature

    An anchor without a positive has loss 0.

    Args:
        z: Unit rows of all views, shape (N, D).
        y: Integer labels of shape (N,).
        temperature: Divides the cosines.
        anchors: A boolean mask of shape (N,) of the rows that have a loss. All rows are positives or negatives of
            the anchors. Default: all rows.
        base_temperature: Multiplies the loss by temperature / base_temperature, as the official code does with 0.07.
        divisor: What the mean is over: "anchors" that have a positive, or all N "rows" as in Co2L's code.
        reduction: "mean", "sum", or "none" for shape (N,) with 0 where there is no loss.

    >>> import torch
    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> supcon(z, torch.tensor([0, 0, 1]), temperature=1.0)  # log(1 + 1/e)
    tensor(0.3133)
    """
    check_tensor("z", z)
    check_tensor("y", y, (len(z),), "labels")
    check_positive("temperature", temperature)
    check_choice("divisor", divisor, Divisor)
    check_choice("reduction", reduction, Reduction)
    scale = None
    if base_temperature is not None:
        check_positive("base_temperature", base_temperature)
        scale = temperature / base_temperature
    if anchors is not None:
        check_tensor("anchors", anchors, (len(z),), "mask")
    check_unit("supcon", "z", z)
    with full_precision(z):
        return kernels.supcon(
            promote(z), y, temperature, anchors=anchors, over=divisor, reduction=reduction, scale=scale
        )


def unit_rows(features: Tensor, *, eps: float = 1e-12) -> Tensor:
    """Divide each row by its norm; the result is float32 or float64.

    A row whose norm is at most `eps` is returned unchanged and has an ordinary gradient; a division by `eps` would
    multiply its gradient by 1 / eps.

    Args:
        features: Rows of shape (N, D), floating point.
        eps: The largest norm of a row that is not divided.

    >>> import torch
    >>> unit_rows(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    check_tensor("features", features)
    with full_precision(features):
        return kernels.unit(features, eps)
