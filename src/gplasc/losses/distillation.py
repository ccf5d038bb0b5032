"""Distillation of features: keep the features of past samples close to those of the previous model."""

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from gplasc.losses import kernels
from gplasc.losses.checks import check_choice, check_tensor
from gplasc.losses.kernels import Reduction, full_precision, promote


def feature_distillation(
    student: Tensor,
    teacher: Tensor,
    *,
    normalize: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    """Squared distance between the features of the student and of the teacher (GPLASC, L_distill).

        loss_i = | n(f_i) - n(g_i) | ** 2,      n(x) = x / |x|

    No gradient reaches the teacher. Without rows the loss is 0 and part of the graph.

    Args:
        student: Features of the current model, shape (N, D).
        teacher: Features of the same samples from the previous model, shape (N, D).
        normalize: Whether to normalize the rows first.
        reduction: "mean" over rows, "sum", or "none" for shape (N,).

    Returns:
        The loss, a tensor of shape () or (N,).
    """
    check_tensor("student", student)
    check_tensor("teacher", teacher, tuple(student.shape))
    check_choice("reduction", reduction, Reduction)
    with full_precision(student):
        rows = kernels.unit if normalize else promote
        return kernels.feature_distance(rows(student), rows(teacher), reduction)


class FeatureProjector(nn.Module):
    """An under-complete autoencoder that maps the previous model's features to the current model's.

    Linear, ReLU, linear, sigmoid: (N, feature_dim) -> (N, feature_dim). The weights have the distribution of
    nn.Linear, but are drawn from `generator`. Add the parameters to the optimizer of the encoder.

    Args:
        feature_dim: The number of features.
        code_dim: The number of hidden features. Default: an eighth of `feature_dim`, 64 for a ResNet-18.
        sigmoid: Whether the output is a sigmoid, which suits pooled ReLU features; use False for signed features.
        generator: A CPU generator. Default: a new one with seed 0.

    Raises:
        ValueError: If `code_dim` is not in [1, feature_dim).
    """

    def __init__(
        self,
        feature_dim: int,
        code_dim: int | None = None,
        *,
        sigmoid: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if code_dim is None:
            code_dim = max(1, feature_dim // 8)
        if not 1 <= code_dim < feature_dim:
            raise ValueError(
                f"code_dim must be at least 1 and less than feature_dim {feature_dim}, got {code_dim}: "
                "the autoencoder is under-complete."
            )
        if generator is None:
            generator = torch.Generator().manual_seed(0)
        # Without initialization, which would draw from the global generator.
        self.encoder = skip_init(nn.Linear, feature_dim, code_dim)
        self.decoder = skip_init(nn.Linear, code_dim, feature_dim)
        for layer in (self.encoder, self.decoder):
            bound = 1 / math.sqrt(layer.in_features)
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
        self.sigmoid = sigmoid

    def forward(self, features: Tensor) -> Tensor:
        """Map features (N, D) to features (N, D)."""
        output: Tensor = self.decoder(torch.relu(self.encoder(features)))
        return output.sigmoid() if self.sigmoid else output


def projector_distillation(
    student: Tensor,
    teacher: Tensor,
    projector: nn.Module,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Squared distance between the student's features and the projected features of the teacher.

        loss_i = mean over d of (f_id - projector(g_i)_d) ** 2

    The student and the projector receive gradients, the teacher does not. Without rows the loss is 0 and part of the
    graph.

    Args:
        student: Raw features of the current model, shape (N, D).
        teacher: Raw features of the same samples from the previous model, shape (N, D).
        projector: A module from (N, D) to (N, D), for example a `FeatureProjector`.
        reduction: "mean" over rows, "sum", or "none" for shape (N,).

    Returns:
        The loss, a tensor of shape () or (N,).
    """
    check_tensor("student", student)
    check_tensor("teacher", teacher, tuple(student.shape))
    check_choice("reduction", reduction, Reduction)
    with full_precision(student):
        return kernels.projected_distance(promote(student), promote(teacher), projector, reduction)
