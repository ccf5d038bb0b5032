"""Distillation: keep features, or relations between samples or with prototypes, as the previous model has them."""

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from gplasc.losses import kernels
from gplasc.losses.checks import check_choice, check_positive, check_tensor, check_unit
from gplasc.losses.kernels import Reduction, full_precision, promote


def feature_distillation(
    student: Tensor, teacher: Tensor, *, normalize: bool = True, reduction: Reduction = "mean"
) -> Tensor:
    """Squared distance between the features of the student and of the teacher (GPLASC, L_distill).

        loss_i = | n(f_i) - n(g_i) | ** 2,      n(x) = x / |x|

    No gradient reaches the teacher. Without rows the loss is 0 and part of the graph.

    Args:
        student: Features of the current model, shape (N, D).
        teacher: Features of the same samples from the previous model, shape (N, D).
        normalize: Whether to normalize the rows first.
        reduction: "mean" over rows, "sum", or "none" for shape (N,).
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
        code_dim: The number of hidden features, below `feature_dim`. Default: an eighth of it, 64 for a ResNet-18.
        sigmoid: Whether the output is a sigmoid, which suits pooled ReLU features; use False for signed features.
        generator: A CPU generator. Default: a new one with seed 0.
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
        code_dim = max(1, feature_dim // 8) if code_dim is None else code_dim
        if not 1 <= code_dim < feature_dim:
            raise ValueError(
                f"code_dim must be at least 1 and less than feature_dim {feature_dim}, got {code_dim}: "
                "the autoencoder is under-complete."
            )
        generator = generator or torch.Generator().manual_seed(0)
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
    student: Tensor, teacher: Tensor, projector: nn.Module, *, reduction: Reduction = "mean"
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
    """
    check_tensor("student", student)
    check_tensor("teacher", teacher, tuple(student.shape))
    check_choice("reduction", reduction, Reduction)
    with full_precision(student):
        return kernels.projected_distance(promote(student), promote(teacher), projector, reduction)


def relation_distillation(
    student: Tensor,
    teacher: Tensor,
    *,
    student_temperature: float,
    teacher_temperature: float,
    reduction: Reduction = "mean",
) -> Tensor:
    """Instance-wise relation distillation (IRD, Co2L): keep the similarities between samples.

        loss_i = - sum_{j != i} q_ij log p_ij,      p_i = softmax_{j != i}(<z_i, z_j> / student_temperature)

    and q_i the same for the teacher with its own temperature. No gradient reaches the teacher. With a single row the
    loss is 0.

    Args:
        student: Unit rows of shape (N, D).
        teacher: Unit rows of the same samples, shape (N, E).
        student_temperature: Divides the cosines of the student.
        teacher_temperature: Divides the cosines of the teacher.
        reduction: "mean" over rows, "sum", or "none" for shape (N,).
    """
    temperatures = student_temperature, teacher_temperature
    _check_relation("relation_distillation", student, teacher, *temperatures, reduction)
    with full_precision(student):
        return kernels.relation(promote(student), promote(teacher), *temperatures, reduction=reduction)


def prototype_relation_distillation(
    student: Tensor,
    teacher: Tensor,
    student_prototypes: Tensor,
    teacher_prototypes: Tensor,
    *,
    student_temperature: float,
    teacher_temperature: float,
    reduction: Reduction = "mean",
) -> Tensor:
    """Prototype-instance relation distillation (PRD, CCLIS): keep the similarities to the old prototypes.

        loss_i = - sum_c q_ic log p_ic,      p_i = softmax_c(<z_i, w_c> / student_temperature)

    and q_i the same for the features and prototypes of the teacher with its own temperature. No gradient reaches the
    teacher. Without prototypes the loss is 0.

    Args:
        student: Unit rows of shape (N, D).
        teacher: Unit rows of the same samples, shape (N, E).
        student_prototypes: Unit rows of the C previous classes, shape (C, D).
        teacher_prototypes: Rows of the same classes, shape (C, E); their length counts.
        student_temperature: Divides the cosines of the student.
        teacher_temperature: Divides the cosines of the teacher.
        reduction: "mean" over rows, "sum", or "none" for shape (N,).
    """
    caller, temperatures = "prototype_relation_distillation", (student_temperature, teacher_temperature)
    _check_relation(caller, student, teacher, *temperatures, reduction)
    check_tensor("student_prototypes", student_prototypes, ("C", student.shape[1]))
    check_tensor("teacher_prototypes", teacher_prototypes, (len(student_prototypes), teacher.shape[1]))
    check_unit(caller, "student_prototypes", student_prototypes)
    prototypes = promote(student_prototypes), promote(teacher_prototypes)
    with full_precision(student):
        now, before = promote(student), promote(teacher)
        return kernels.prototype_relation(now, before, prototypes, *temperatures, reduction=reduction)


def _check_relation(
    caller: str, student: Tensor, teacher: Tensor, now: float, before: float, reduction: str
) -> None:
    """Check the unit rows of both models, their temperatures and the reduction."""
    check_tensor("student", student)
    check_tensor("teacher", teacher, (len(student), "E"))
    check_positive("student_temperature", now)
    check_positive("teacher_temperature", before)
    check_choice("reduction", reduction, Reduction)
    check_unit(caller, "student", student)
    check_unit(caller, "teacher", teacher)
