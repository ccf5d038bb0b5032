"""A test of the theorem: minimize the contrastive loss under a cosine threshold and compare.

For |Y| balanced classes whose pairs keep cosine >= k the theorem gives the smallest loss and says that it is
reached exactly when each class is one point and all class pairs have cosine k: a regular simplex of radius
sqrt((1 - 1/|Y|)(1 - k)) around a center of norm sqrt((1 + (|Y| - 1) k) / |Y|). Two boundaries are shown too:
a k below -1/(|Y| - 1) changes nothing, and for a larger k the Gram matrix (1 - k) I + k 11' has rank |Y|, so
|Y| dimensions are needed; |Y| - 1, as the paper's statement has it, suffice only up to the simplex value.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from gplasc import geometry
from gplasc._io.files import write_atomic
from gplasc._io.table import Column, Marked, Table
from gplasc.losses import kernels, supcon
from gplasc.paper.descent import descend, descent_progress, r2scl, random_points
from gplasc.report import style

_CLASS_COUNTS = (2, 3, 5, 8)
_THRESHOLDS = (0.0, 0.3, 0.7, 0.9)
_HIGH_DIMENSION = 32
_POINTS_PER_CLASS = 4
_TEMPERATURE = 0.5
_RANGE_WEIGHT = 4.0  # above 1/temperature, so that the threshold is held exactly (see `r2scl`)
_SHORT_WEIGHT = 20.0  # one dimension short the pairs are unequal, and one may bear the whole force
_RAMP = 0.3  # share of the steps over which the hinge grows to its full weight
_LEARNING_RATE = 0.1
_VIOLATION_TOLERANCE = 1e-3
_LOSS_TOLERANCE = 1e-3  # mean loss above the bound, in nats
_COSINE_TOLERANCE = 0.01  # of every pair of classes; the theorem is a statement about these


@dataclass(frozen=True)
class Shape:
    """Form of one task: distance of features to their center, its norm, range of cosines between classes."""

    radius: float
    center_norm: float
    smallest_cosine: float
    largest_cosine: float

    def deviation(self, theory: Shape) -> float:
        """Largest relative difference of radius and center norm; absolute where theory says 0."""
        pairs = ((self.radius, theory.radius), (self.center_norm, theory.center_norm))
        return max(abs(measured - expected) / (expected or 1.0) for measured, expected in pairs)


def theory_shape(num_classes: int, k: float | None) -> Shape:
    """The theorem's form for threshold k; None, or a k below -1/(|Y| - 1), gives the plain simplex.

    >>> shape = theory_shape(3, 0.7)
    >>> round(shape.radius, 4), round(shape.center_norm, 4)
    (0.4472, 0.8944)
    """
    if num_classes < 2:
        raise ValueError(f"num_classes is {num_classes}; the theorem speaks of at least two classes")
    floor = -1 / (num_classes - 1)
    if k is None or k <= floor:
        return Shape(1.0, 0.0, floor, floor)
    radius = math.sqrt((1 - 1 / num_classes) * (1 - k))
    return Shape(radius, math.sqrt((1 + (num_classes - 1) * k) / num_classes), k, k)


def measure_shape(z: Tensor, y: Tensor) -> Shape:
    """Form of the features z (N, D), unit rows with labels y (N,); radius: mean distance to the center."""
    center = kernels.task_center(z, y)
    cosines = (z @ z.T)[y[:, None] != y[None, :]]
    return Shape(
        radius=float((z - center).norm(dim=1).mean()),
        center_norm=float(center.norm()),
        smallest_cosine=float(cosines.min()),
        largest_cosine=float(cosines.max()),
    )


@dataclass(frozen=True)
class TheoremCase:
    """One case of the theorem: number of classes, dimension and threshold."""

    num_classes: int
    dim: int
    k: float

    @property
    def boundary(self) -> str:
        """What is special here: "below the simplex", "simplex", "one dimension short", or nothing."""
        floor = -1 / (self.num_classes - 1)
        if self.k < floor - 1e-9:
            return "below the simplex"
        if self.k < floor + 1e-9:
            return "simplex"
        return "one dimension short" if self.dim < self.num_classes else ""

    @property
    def attainable(self) -> bool:
        """Whether an arrangement with all class cosines equal to k (or to the simplex value) exists."""
        return self.boundary != "one dimension short"


@dataclass(frozen=True)
class Finding:
    """The best minimum found for a case, beside the theorem. Losses are means over the rows.

    excess: loss above the bound for k. violation: how far the smallest class cosine lies below k. deviation:
    of the class cosines from the theorem's. attained: excess and deviation within tolerance. bound_holds: the
    loss is not below the bound for the smallest cosine really measured, which is the theorem's inequality
    without any slack for the penalty.
    """

    case: TheoremCase
    loss: float
    bound: float
    excess: float
    violation: float
    measured: Shape
    theory: Shape
    deviation: float
    attained: bool
    bound_holds: bool
    starts: int

    @property
    def agrees(self) -> bool:
        """Whether the minimization found what the theorem, with its dimension condition mended, says."""
        held = self.violation <= _VIOLATION_TOLERANCE
        return held and self.bound_holds and self.attained == self.case.attainable


@dataclass(frozen=True)
class TheoryResult:
    """All findings and the files written."""

    seed: int
    findings: tuple[Finding, ...]
    seconds: float
    files: tuple[Path, ...]

    @property
    def agrees(self) -> bool:
        """Whether every finding agrees with the theorem."""
        return all(finding.agrees for finding in self.findings)


def theorem_cases(class_counts: Sequence[int] = _CLASS_COUNTS) -> list[TheoremCase]:
    """Class counts, thresholds (below, at and above the simplex value) and dimensions (|Y| - 1, |Y|, 32).

    Two classes in one dimension are left out: the sphere is then two points, on which nothing can move.
    """
    cases = []
    for count in class_counts:
        floor = -1 / (count - 1)
        below = [] if count == 2 else [(floor - 1) / 2]
        for dim in (count - 1, count, _HIGH_DIMENSION):
            if dim > 1:
                cases += [TheoremCase(count, dim, k) for k in (*below, floor, *_THRESHOLDS)]
    return cases


def examine(
    cases: Sequence[TheoremCase],
    *,
    steps: int,
    starts: int,
    generator: torch.Generator,
    after_step: Callable[[], None] | None = None,
) -> list[Finding]:
    """Minimize each case (all of one class count) from `starts` random starts and compare the best end.

    Ends that violate the threshold (by more than the tolerance) are worse than any that do not.
    """
    (count,) = {case.num_classes for case in cases}
    labels = torch.arange(count).repeat_interleave(_POINTS_PER_CLASS)
    # All cases and starts descend together, one slice each. A smaller dimension is the larger one with
    # zeros in the last coordinates: gradients there are zero as well, so the points never leave it.
    wide = max(case.dim for case in cases)
    begin = torch.stack(
        [
            pad(random_points(len(labels), case.dim, generator), (0, wide - case.dim))
            for case in cases
            for _ in range(starts)
        ]
    )
    thresholds = torch.tensor([case.k for case in cases for _ in range(starts)], dtype=begin.dtype)
    full = [_RANGE_WEIGHT if case.attainable else _SHORT_WEIGHT for case in cases for _ in range(starts)]

    def objective(points: Tensor, done: float) -> Tensor:
        # A full hinge on scattered points would freeze them in place before classes have formed.
        weights = torch.tensor(full, dtype=points.dtype) * min(1.0, done / _RAMP)

        def of_one(z: Tensor, k: Tensor, weight: Tensor) -> Tensor:
            return r2scl(z, labels, temperature=_TEMPERATURE, k=k, range_weight=weight)

        return torch.func.vmap(of_one)(points, thresholds, weights).sum()

    ends = descend(
        objective,
        begin,
        steps=steps,
        learning_rate=_LEARNING_RATE,
        after_step=after_step,
    )[-1]
    findings = []
    for case, candidates in zip(cases, ends.reshape(len(cases), starts, *begin.shape[1:]), strict=True):
        found = [_compare(case, z[:, : case.dim], labels, starts) for z in candidates]
        findings.append(
            min(found, key=lambda finding: (finding.violation > _VIOLATION_TOLERANCE, finding.loss))
        )
    return findings


def _compare(case: TheoremCase, z: Tensor, labels: Tensor, starts: int) -> Finding:
    """The end z (N, dim) of one descent beside the theorem."""
    count, k = case.num_classes, case.k

    def bound_at(cosine: float) -> float:
        total = geometry.supcon_lower_bound(count, _POINTS_PER_CLASS, k=cosine, temperature=_TEMPERATURE)
        return total / len(labels)

    theory, measured = theory_shape(count, k), measure_shape(z, labels)
    loss = float(supcon(z, labels, temperature=_TEMPERATURE))
    excess = loss - bound_at(k)
    deviation = max(
        measured.largest_cosine - theory.largest_cosine, theory.smallest_cosine - measured.smallest_cosine
    )
    return Finding(
        case=case,
        loss=loss,
        bound=bound_at(k),
        excess=excess,
        violation=max(0.0, k - measured.smallest_cosine),
        measured=measured,
        theory=theory,
        deviation=deviation,
        attained=abs(excess) <= _LOSS_TOLERANCE and deviation <= _COSINE_TOLERANCE,
        bound_holds=loss >= bound_at(min(1.0, measured.smallest_cosine)) - 1e-9,
        starts=starts,
    )


def run_theory(
    out: Path,
    *,
    seed: int = 0,
    steps: int = 800,
    starts: int = 6,
    class_counts: Sequence[int] = _CLASS_COUNTS,
) -> TheoryResult:
    """Check the theorem on all cases and print a table of measured against expected.

    Args:
        out: Folder for theory.csv, theory.json, theory.png and theory.svg.
        seed: Seed of the starting points.
        steps: Steps of each descent.
        starts: Descents of each case, of which the best counts.
        class_counts: Numbers of classes.

    Returns:
        All findings and the files written.

    Raises:
        UserError: If matplotlib is missing.
    """
    out = Path(out)
    began = time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    findings: list[Finding] = []
    with descent_progress(steps * len(class_counts)) as (describe, after_step):
        for count in class_counts:
            cases = theorem_cases([count])
            describe(f"{count} classes, {starts * len(cases)} descents")
            findings += examine(cases, steps=steps, starts=starts, generator=generator, after_step=after_step)
    rows = [_flat(finding) for finding in findings]
    record = {
        "seed": seed,
        "steps": steps,
        "settings": {
            "points_per_class": _POINTS_PER_CLASS,
            "temperature": _TEMPERATURE,
            "range_weight": _RANGE_WEIGHT,
            "range_weight_one_dimension_short": _SHORT_WEIGHT,
            "learning_rate": _LEARNING_RATE,
            "loss_tolerance": _LOSS_TOLERANCE,
            "ramp": _RAMP,
            "cosine_tolerance": _COSINE_TOLERANCE,
        },
        "findings": rows,
    }
    table = Table("", list(rows[0]), [[str(value) for value in row.values()] for row in rows])
    files = [
        write_atomic(out / "theory.csv", table.to_csv()),
        write_atomic(out / "theory.json", json.dumps(record, indent=2) + "\n"),
        *_figure(findings, out),
    ]
    result = TheoryResult(seed, tuple(findings), time.perf_counter() - began, tuple(files))
    _print(result)
    return result


def _flat(finding: Finding) -> dict[str, float | int | str | bool]:
    """The finding as one row of plain values."""
    case = finding.case
    row: dict[str, float | int | str | bool] = {
        "classes": case.num_classes,
        "dimension": case.dim,
        "k": case.k,
        "boundary": case.boundary,
        "loss": finding.loss,
        "bound": finding.bound,
        "excess": finding.excess,
        "violation": finding.violation,
    }
    row |= {f"measured_{name}": value for name, value in asdict(finding.measured).items()}
    row |= {f"theory_{name}": value for name, value in asdict(finding.theory).items()}
    return row | {
        "cosine_deviation": finding.deviation,
        "attainable": case.attainable,
        "attained": finding.attained,
        "bound_holds": finding.bound_holds,
        "agrees": finding.agrees,
        "starts": finding.starts,
    }


def _print(result: TheoryResult) -> None:
    """Print the table of findings, a sentence about the boundary cases, and the files."""
    boundaries = {"below the simplex": "k inactive", "one dimension short": "d short"}
    rows: list[list[str | Marked]] = []
    for finding in result.findings:
        case, measured, theory = finding.case, finding.measured, finding.theory
        verdict = "yes" if finding.attained else "no"
        rows.append(
            [
                str(case.num_classes),
                str(case.dim),
                f"{case.k:.2f}",
                f"{finding.excess:.0e}",
                f"{measured.smallest_cosine:.2f}..{measured.largest_cosine:.2f}",
                f"{measured.radius:.3f}/{theory.radius:.3f}",
                f"{measured.center_norm:.3f}/{theory.center_norm:.3f}",
                verdict if finding.agrees else Marked(f"{verdict} (!)", "worse"),
                boundaries.get(case.boundary, case.boundary),
            ]
        )
    counts = [finding.case.num_classes for finding in result.findings]
    agreeing = sum(finding.agrees for finding in result.findings)
    short = [finding.excess for finding in result.findings if not finding.case.attainable]
    notes = [
        f"{agreeing} of {len(rows)} cases agree with the theorem, its dimension condition corrected: "
        "d >= |Y|, or d >= |Y| - 1 up to the simplex value of k."
    ]
    if short:
        notes.append(
            "One dimension short (d short), the best minimum stays "
            f"{min(short):.4f} to {max(short):.4f} above the bound."
        )
    heads = ("d", "k", "above\nbound", "class\ncosines", "radius", "center", "bound\nreached")
    Table(
        "Minimized loss and final features, measured / theorem",
        [Column("|Y|"), *heads, Column("boundary\ncase", "left")],
        rows,
        notes,
        breaks=[i for i in range(1, len(rows)) if counts[i] != counts[i - 1]],
    ).print()
    print(f"{result.seconds:.0f} s; written: {', '.join(map(str, result.files))}")


def _figure(findings: Sequence[Finding], out: Path) -> list[Path]:
    """Write theory.png and theory.svg: radius, center norm and loss above the bound, over the threshold."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    counts = sorted({finding.case.num_classes for finding in findings})
    curve = [-1 + 2 * index / 400 for index in range(401)]
    with style.paper_style():
        figure = Figure(figsize=(7.4, 2.75), layout="constrained")
        panels = figure.subplots(1, 3)
        for index, count in enumerate(counts):
            shade = style.color(index)
            shapes = [theory_shape(count, k) for k in curve]
            panels[0].plot(curve, [shape.radius for shape in shapes], color=shade, linewidth=1)
            panels[1].plot(curve, [shape.center_norm for shape in shapes], color=shade, linewidth=1)
            for finding in (finding for finding in findings if finding.case.num_classes == count):
                enough = finding.case.attainable
                # Excesses of the order of rounding, of either sign, lie on the axis' lower end.
                excess = max(abs(finding.excess), 1e-7)
                heights = (finding.measured.radius, finding.measured.center_norm, excess)
                for axes, height in zip(panels, heights, strict=True):
                    axes.plot(
                        [finding.case.k],
                        [height],
                        marker=style.marker(index),
                        color=shade,
                        markersize=4.2,
                        linestyle="none",
                        markerfacecolor=shade if enough else "white",
                        markeredgecolor="white" if enough else shade,
                        markeredgewidth=0.4 if enough else 0.9,
                        zorder=4 if enough else 3,
                    )
        panels[2].axhline(_LOSS_TOLERANCE, color="#5C6670", linewidth=0.8, linestyle=(0, (4, 3)))
        panels[2].text(-0.98, 1.25 * _LOSS_TOLERANCE, "tolerance", fontsize=6.5, color="#5C6670", va="bottom")
        panels[2].set_yscale("log")
        panels[2].set_ylim(5e-8, 2)
        for axes, title in zip(
            panels, ("radius of the class simplex", "norm of its center", "loss above the bound"), strict=True
        ):
            axes.set_title(title)
            axes.set_xlabel("threshold k")
            axes.set_xlim(-1.04, 1.04)
        looks: list[dict[str, Any]] = [
            {"color": style.color(i), "marker": style.marker(i), "linewidth": 1, "label": f"{count} classes"}
            for i, count in enumerate(counts)
        ]
        short = {"color": style.INK, "marker": "o", "linestyle": "none", "markerfacecolor": "white"}
        looks.append({**short, "label": "one dimension short"})
        handles = [Line2D([], [], markersize=4.2, **look) for look in looks]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        return style.save_figure(figure, out / "theory")
