"""Distillation of relations: between samples (IRD), and between samples and prototypes (PRD)."""

from torch import Tensor

from gplasc.losses import kernels
from gplasc.losses.checks import check_choice, check_positive, check_tensor, check_unit
from gplasc.losses.kernels import Reduction, full_precision, promote


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

    Returns:
        The loss, a tensor of shape () or (N,).
    """
    check_tensor("student", student)
    check_tensor("teacher", teacher, (len(student), "E"))
    check_positive("student_temperature", student_temperature)
    check_positive("teacher_temperature", teacher_temperature)
    check_choice("reduction", reduction, Reduction)
    check_unit("relation_distillation", "student", student)
    check_unit("relation_distillation", "teacher", teacher)
    with full_precision(student):
        return kernels.relation(
            promote(student), promote(teacher), student_temperature, teacher_temperature, reduction=reduction
        )


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

    Returns:
        The loss, a tensor of shape () or (N,).
    """
    check_tensor("student", student)
    check_tensor("teacher", teacher, (len(student), "E"))
    check_tensor("student_prototypes", student_prototypes, ("C", student.shape[1]))
    check_tensor("teacher_prototypes", teacher_prototypes, (len(student_prototypes), teacher.shape[1]))
    check_positive("student_temperature", student_temperature)
    check_positive("teacher_temperature", teacher_temperature)
    check_choice("reduction", reduction, Reduction)
    check_unit("prototype_relation_distillation", "student", student)
    check_unit("prototype_relation_distillation", "teacher", teacher)
    check_unit("prototype_relation_distillation", "student_prototypes", student_prototypes)
    with full_precision(student):
        return kernels.prototype_relation(
            promote(student),
            promote(teacher),
            (promote(student_prototypes), promote(teacher_prototypes)),
            student_temperature,
            teacher_temperature,
            reduction=reduction,
        )
