"""Distillation of features: keep samples of past tasks where the previous model put them."""

import math

import torch
from torch import Tensor, nn

from gplasc.losses import inputs


def feature_distillation(
    student: Tensor,
    teacher: Tensor,
    *,
    normalize: bool = True,
    reduction: str = "mean",
    dimensions: str = "sum",
) -> Tensor:
    """Squared distance between a sample's features now and under the previous model (GPLASC, L_distill).

        loss_i = | n(f_i) - n(g_i) | ** 2,      n(x) = x / |x|

    student, teacher: (N, D) features of the same samples, not necessarily unit; `normalize=False` compares
    them as they are. No gradient reaches the teacher. Without rows the loss is 0 and keeps its graph.
    reduction: "mean" over rows, "sum", or "none" for (N,). dimensions: "sum" or "mean" over D.
    """
    inputs.require_pair(("student", "teacher"), student, teacher, same_width=True)
    inputs.require_choice("reduction", reduction, ("mean", "sum", "none"))
    inputs.require_choice("dimensions", dimensions, ("sum", "mean"))
    with inputs.full_precision(student):
        student, teacher = inputs.promote(student), inputs.promote(teacher.detach())
        if normalize:
            student, teacher = inputs.unit_rows(student), inputs.unit_rows(teacher)
        return inputs.reduce_rows(_distance(student, teacher, dimensions), reduction)


class FeatureProjector(nn.Module):
    """Under-complete autoencoder between the previous model's features and the present ones.

    Linear to a narrow code, ReLU, linear back, sigmoid: (N, feature_dim) -> (N, feature_dim). The default
    code has an eighth of the width, 64 for a ResNet-18. The sigmoid suits raw pooled ReLU features, which
    are not negative; `sigmoid=False` leaves the output free, for signed features. Weights are drawn as
    nn.Linear draws them, but from `generator`. Its parameters are trained together with the encoder: give
    them to the optimizer.
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
        self.encoder = _linear(feature_dim, code_dim, generator)
        self.decoder = _linear(code_dim, feature_dim, generator)
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
    reduction: str = "mean",
    dimensions: str = "mean",
) -> Tensor:
    """Squared distance between the features now and the projected features of the previous model.

        loss_i = mean over d of (f_id - projector(g_i)_d) ** 2

    student, teacher: (N, D) raw features of the same samples; projector: maps (N, D) to (N, D), for example
    a `FeatureProjector`. The student and the projector receive gradients, the teacher none. Without rows
    the loss is 0 and keeps its graph. reduction: "mean" over rows, "sum", or "none" for (N,). dimensions:
    "mean" or "sum".
    """
    inputs.require_pair(("student", "teacher"), student, teacher, same_width=True)
    inputs.require_choice("reduction", reduction, ("mean", "sum", "none"))
    inputs.require_choice("dimensions", dimensions, ("sum", "mean"))
    with inputs.full_precision(student):
        projected: Tensor = projector(inputs.promote(teacher.detach()))
        return inputs.reduce_rows(_distance(inputs.promote(student), projected, dimensions), reduction)


def _distance(first: Tensor, second: Tensor, dimensions: str) -> Tensor:
    squares = (first - second).square()
    return squares.mean(dim=1) if dimensions == "mean" else squares.sum(dim=1)


def _linear(width: int, out: int, generator: torch.Generator) -> nn.Linear:
    # Made on the meta device first, so that nothing is drawn from the global generator.
    layer = nn.Linear(width, out, device="meta").to_empty(device="cpu")
    bound = 1 / math.sqrt(width)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer
