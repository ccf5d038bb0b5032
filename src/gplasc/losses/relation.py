"""Distillation of relations: between samples (IRD), and between samples and prototypes (PRD)."""

import torch
from torch import Tensor

from gplasc.losses import inputs
from gplasc.losses.rows import by_rows, without_self


def relation_distillation(
    student: Tensor,
    teacher: Tensor,
    *,
    student_temperature: float,
    teacher_temperature: float,
    reduction: str = "mean",
    student_gram: Tensor | None = None,
    teacher_gram: Tensor | None = None,
    chunk_rows: int | None = None,
) -> Tensor:
    """Instance-wise relation distillation (IRD, Co2L): keep how similar each sample is to all others.

        loss_i = - sum_{j != i} q_ij log p_ij,      p_i = softmax_{j != i}(<z_i, z_j> / student_temperature)

    and q_i the same of the teacher with its own temperature. student: (N, D), teacher: (N, E), unit rows of
    the same samples; no gradient reaches the teacher. A single row has no relations: 0.

    reduction: "mean" over rows, "sum", or "none" for (N,). student_gram, teacher_gram: (N, N) cosines when
    the caller has them already; blocks of rows (see `rows.py`) are used when neither is given.
    """
    inputs.require_pair(("student", "teacher"), student, teacher, same_width=False)
    rows = len(student)
    inputs.require_positive("student_temperature", student_temperature)
    inputs.require_positive("teacher_temperature", teacher_temperature)
    inputs.require_choice("reduction", reduction, ("mean", "sum", "none"))
    for name, z, gram in (("student", student, student_gram), ("teacher", teacher, teacher_gram)):
        if gram is None:
            inputs.require_unit_rows("relation_distillation", name, z)
        else:
            inputs.require_gram(f"{name}_gram", gram, rows)
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

    with inputs.full_precision(student):
        z, old = inputs.promote(student), inputs.promote(teacher.detach())
        gram = None if student_gram is None else inputs.promote(student_gram)
        old_gram = None if teacher_gram is None else inputs.promote(teacher_gram.detach())
        if rows < 2:
            return inputs.reduce_rows(z.sum(dim=1) * 0.0, reduction)
        return inputs.reduce_rows(by_rows(block, rows, chunk_rows, z, old, gram, old_gram), reduction)


def prototype_relation_distillation(
    student: Tensor,
    teacher: Tensor,
    student_prototypes: Tensor,
    teacher_prototypes: Tensor,
    *,
    student_temperature: float,
    teacher_temperature: float,
    reduction: str = "mean",
) -> Tensor:
    """Prototype-instance relation distillation (PRD, CCLIS): keep how similar samples are to old prototypes.

        loss_i = - sum_c q_ic log p_ic,      p_i = softmax_c(<z_i, w_c> / student_temperature)

    and q_i the same of the teacher's features and prototypes with its own temperature. student: (N, D),
    teacher: (N, E); student_prototypes: (C, D), teacher_prototypes: (C, E) of the same C previous classes;
    all unit rows. No gradient reaches the teacher's side. Without prototypes the loss is 0.

    reduction: "mean" over rows, "sum", or "none" for (N,).
    """
    inputs.require_pair(("student", "teacher"), student, teacher, same_width=False)
    names = ("student_prototypes", "teacher_prototypes")
    inputs.require_pair(names, student_prototypes, teacher_prototypes, same_width=False)
    inputs.require_positive("student_temperature", student_temperature)
    inputs.require_positive("teacher_temperature", teacher_temperature)
    inputs.require_choice("reduction", reduction, ("mean", "sum", "none"))
    for side, z, prototypes in (
        ("student", student, student_prototypes),
        ("teacher", teacher, teacher_prototypes),
    ):
        if z.shape[1] != prototypes.shape[1]:
            raise ValueError(
                f"{side} and {side}_prototypes must have the same width, got {z.shape[1]} and "
                f"{prototypes.shape[1]}."
            )
        inputs.require_unit_rows("prototype_relation_distillation", side, z)
        inputs.require_unit_rows("prototype_relation_distillation", f"{side}_prototypes", prototypes)
    with inputs.full_precision(student):
        similarity = inputs.promote(student) @ inputs.promote(student_prototypes).T / student_temperature
        if similarity.shape[1] == 0:
            return inputs.reduce_rows(inputs.promote(student).sum(dim=1) * 0.0, reduction)
        old = inputs.promote(teacher.detach()) @ inputs.promote(teacher_prototypes.detach()).T
        target = (old / teacher_temperature).softmax(dim=1).to(similarity.dtype)
        per_row = similarity.logsumexp(dim=1) - (target * similarity).sum(dim=1)
        return inputs.reduce_rows(per_row, reduction)
