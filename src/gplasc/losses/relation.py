"""Distillation of relations: between samples (IRD), and between samples and prototypes (PRD)."""

from typing import get_args

import torch
from torch import Tensor

from gplasc.losses import _inputs
from gplasc.losses._inputs import Reduction
from gplasc.losses._rows import by_rows, without_self


def relation_distillation(
    student: Tensor,
    teacher: Tensor,
    *,
    student_temperature: float,
    teacher_temperature: float,
    reduction: Reduction = "mean",
    student_gram: Tensor | None = None,
    teacher_gram: Tensor | None = None,
    chunk_rows: int | None = None,
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
        student_gram: The cosines of the student of shape (N, N), if they are known already.
        teacher_gram: The cosines of the teacher of shape (N, N), if they are known already.
        chunk_rows: The number of rows of the pair matrices to compute at a time, if neither is given.

    Returns:
        The loss, a tensor of shape () or (N,).

    Raises:
        TypeError: If an argument is not a tensor of the right type.
        ValueError: If shapes do not fit, rows are not unit rows, or an option is unknown.
    """
    _inputs.require_pair(("student", "teacher"), student, teacher, same_width=False)
    rows = len(student)
    _inputs.require_positive("student_temperature", student_temperature)
    _inputs.require_positive("teacher_temperature", teacher_temperature)
    _inputs.require_choice("reduction", reduction, get_args(Reduction))
    for name, z, gram in (("student", student, student_gram), ("teacher", teacher, teacher_gram)):
        if gram is None:
            _inputs.require_unit_rows("relation_distillation", name, z)
        else:
            _inputs.require_gram(f"{name}_gram", gram, rows)
            chunk_rows = max(1, rows)

    def block(
        start: int, stop: int, z: Tensor, old: Tensor, gram: Tensor | None, old_gram: Tensor | None
    ) -> Tensor:
        cosines = z[start:stop] @ z.T if gram is None else gram
        old_cosines = old[start:stop] @ old.T if old_gram is None else old_gram
        lowest = torch.finfo(old_cosines.dtype).min
        target = without_self(old_cosines / teacher_temperature, start, lowest).softmax(dim=1)
        similarity = cosines / student_temperature
        others = without_self(similarity, start, torch.finfo(similarity.dtype).min)
        # The target is exactly 0 at the self-pair, where the finite similarity keeps the product 0 too.
        return others.logsumexp(dim=1) - (target.to(similarity.dtype) * similarity).sum(dim=1)

    with _inputs.full_precision(student):
        z, old = _inputs.promote(student), _inputs.promote(teacher.detach())
        gram = None if student_gram is None else _inputs.promote(student_gram)
        old_gram = None if teacher_gram is None else _inputs.promote(teacher_gram.detach())
        if rows < 2:
            return _inputs.reduce_rows(z.sum(dim=1) * 0.0, reduction)
        return _inputs.reduce_rows(by_rows(block, rows, chunk_rows, z, old, gram, old_gram), reduction)


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

    Raises:
        TypeError: If an argument is not a tensor of the right type.
        ValueError: If shapes do not fit, rows are not unit rows, or an option is unknown.
    """
    _inputs.require_pair(("student", "teacher"), student, teacher, same_width=False)
    names = ("student_prototypes", "teacher_prototypes")
    _inputs.require_pair(names, student_prototypes, teacher_prototypes, same_width=False)
    _inputs.require_positive("student_temperature", student_temperature)
    _inputs.require_positive("teacher_temperature", teacher_temperature)
    _inputs.require_choice("reduction", reduction, get_args(Reduction))
    for side, z, prototypes in (
        ("student", student, student_prototypes),
        ("teacher", teacher, teacher_prototypes),
    ):
        if z.shape[1] != prototypes.shape[1]:
            raise ValueError(
                f"{side} and {side}_prototypes must have the same width, got {z.shape[1]} and "
                f"{prototypes.shape[1]}."
            )
        _inputs.require_unit_rows("prototype_relation_distillation", side, z)
    _inputs.require_unit_rows("prototype_relation_distillation", "student_prototypes", student_prototypes)
    with _inputs.full_precision(student):
        similarity = _inputs.promote(student) @ _inputs.promote(student_prototypes).T / student_temperature
        if similarity.shape[1] == 0:
            return _inputs.reduce_rows(_inputs.promote(student).sum(dim=1) * 0.0, reduction)
        old = _inputs.promote(teacher.detach()) @ _inputs.promote(teacher_prototypes.detach()).T
        target = (old / teacher_temperature).softmax(dim=1).to(similarity.dtype)
        per_row = similarity.logsumexp(dim=1) - (target * similarity).sum(dim=1)
        return _inputs.reduce_rows(per_row, reduction)
