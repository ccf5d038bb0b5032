"""A test of the theorem: minimize the contrastive loss under a cosine threshold and compare.

For |Y| balanced classes whose pairs keep cosine >= k the theorem gives the smallest loss and says that it is
reached exactly when each class is one point and all class pairs have cosine k: a regular simplex of radius
sqrt((1 - 1/|Y|)(1 - k)) around a center of norm sqrt((1 + (|Y| - 1) k) / |Y|). Two boundaries are shown too:
a k below -1/(|Y| - 1) changes nothing, and for a larger k the Gram matrix (1 - k) I + k 11' has rank |Y|, so
|Y| dimensions are needed; |Y| - 1, as the paper's statement has it, suffice only up to the simplex value.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from gplasc import geometry
from gplasc._io.display import display
from gplasc._io.table import Column, Marked, Table
from gplasc.losses import supcon
from gplasc.paper.descent import Shape, descend, r2scl, random_points
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

_Case = tuple[int, float]
"""A dimension and a threshold."""


def run_theory(
    out: Path,
    *,
    seed: int = 0,
    steps: int = 800,
    starts: int = 6,
    class_counts: Sequence[int] = _CLASS_COUNTS,
) -> list[dict[str, Any]]:
    """Check the theorem on all cases, print a table of measured against expected, and return its rows.

    Of each case the best of `starts` descents counts.
    """
    began = time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    rows: list[dict[str, Any]] = []
    with closing(display()) as shown:
        for count in class_counts:
            cases = _cases(count)
            shown.phase(f"{count} classes, {starts * len(cases)} descents")
            rows += _examine(count, cases, steps=steps, starts=starts, generator=generator)
    files = _figure(rows, out)
    _print(rows)
    print(f"{time.perf_counter() - began:.0f} s; written: {', '.join(map(str, files))}")
    return rows


def _cases(count: int) -> list[_Case]:
    """Return thresholds (below, at and above the simplex value) in the dimensions |Y| - 1, |Y| and 32.

    Two classes in one dimension are left out: the sphere is then two points, on which nothing can move.
    """
    floor = -1 / (count - 1)
    below = [] if count == 2 else [(floor - 1) / 2]
    dims = (dim for dim in (count - 1, count, _HIGH_DIMENSION) if dim > 1)
    return [(dim, k) for dim in dims for k in (*below, floor, *_THRESHOLDS)]


def _boundary(count: int, case: _Case) -> str:
    """Return what is special about a case; one dimension short of |Y| no arrangement has all class cosines k."""
    (dim, k), floor = case, -1 / (count - 1)
    if k < floor - 1e-9:
        return "below the simplex"
    if k < floor + 1e-9:
        return "simplex"
    return "one dimension short" if dim < count else ""


def _examine(
    count: int, cases: Sequence[_Case], *, steps: int, starts: int, generator: torch.Generator
) -> list[dict[str, Any]]:
    """Minimize each case from `starts` random starts and compare the best end with the theorem.

    Ends that violate the threshold (by more than the tolerance) are worse than any that do not.
    """
    labels = torch.arange(count).repeat_interleave(_POINTS_PER_CLASS)
    # All cases and starts descend together, one slice each. A smaller dimension is the larger one with
    # zeros in the last coordinates: gradients there are zero as well, so the points never leave it.
    wide = max(dim for dim, _ in cases)
    slices = [case for case in cases for _ in range(starts)]
    begin = torch.stack(
        [pad(random_points(len(labels), dim, generator), (0, wide - dim)) for dim, _ in slices]
    )
    thresholds = torch.tensor([k for _, k in slices], dtype=begin.dtype)
    short = [_boundary(count, case) == "one dimension short" for case in slices]
    full = torch.tensor([_SHORT_WEIGHT if one else _RANGE_WEIGHT for one in short], dtype=begin.dtype)

    def objective(points: Tensor, done: float) -> Tensor:
        # A full hinge on scattered points would freeze them in place before classes have formed.
        def of_one(z: Tensor, k: Tensor, weight: Tensor) -> Tensor:
            return r2scl(z, labels, temperature=_TEMPERATURE, k=k, range_weight=weight)

        return torch.func.vmap(of_one)(points, thresholds, full * min(1.0, done / _RAMP)).sum()

    ends = descend(objective, begin, steps=steps, learning_rate=_LEARNING_RATE)[-1]
    rows = []
    for case, candidates in zip(cases, ends.reshape(len(cases), starts, *begin.shape[1:]), strict=True):
        compared = [_compare(count, case, z[:, : case[0]], labels) for z in candidates]
        rows.append(min(compared, key=lambda row: (row["violation"] > _VIOLATION_TOLERANCE, row["loss"])))
    return rows


def _compare(count: int, case: _Case, z: Tensor, labels: Tensor) -> dict[str, Any]:
    """Compare the end z (N, dim) of one descent with the theorem; losses are means over the rows.

    excess: loss above the bound for k. violation: how far the smallest class cosine lies below k. attained: excess
    and deviation of the class cosines within tolerance. bound_holds: the loss is not below the bound for the
    smallest cosine really measured, which is the theorem's inequality without any slack for the penalty. agrees:
    the result is that of the theorem with its dimension condition corrected.
    """
    dim, k = case
    boundary = _boundary(count, case)

    def bound_at(cosine: float) -> float:
        total = geometry.supcon_lower_bound(count, _POINTS_PER_CLASS, k=cosine, temperature=_TEMPERATURE)
        return total / len(labels)

    theory, measured = Shape.in_theory(count, k), Shape.measured(z, labels)
    loss, bound = float(supcon(z, labels, temperature=_TEMPERATURE)), bound_at(k)
    violation = max(0.0, k - measured.smallest_cosine)
    deviation = max(
        measured.largest_cosine - theory.largest_cosine, theory.smallest_cosine - measured.smallest_cosine
    )
    attainable = boundary != "one dimension short"
    attained = abs(loss - bound) <= _LOSS_TOLERANCE and deviation <= _COSINE_TOLERANCE
    bound_holds = loss >= bound_at(min(1.0, measured.smallest_cosine)) - 1e-9
    return {
        "classes": count,
        "dimension": dim,
        "k": k,
        "boundary": boundary,
        "loss": loss,
        "bound": bound,
        "excess": loss - bound,
        "violation": violation,
        **{f"measured_{name}": value for name, value in measured._asdict().items()},
        **{f"theory_{name}": value for name, value in theory._asdict().items()},
        "attainable": attainable,
        "attained": attained,
        "bound_holds": bound_holds,
        "agrees": violation <= _VIOLATION_TOLERANCE and bound_holds and attained == attainable,
    }


def _print(rows: Sequence[dict[str, Any]]) -> None:
    """Print the rows as a table with a sentence about the boundary cases."""
    boundaries = {"below the simplex": "k inactive", "one dimension short": "d short"}
    lines = []
    for row in rows:
        case = [row["classes"], row["dimension"], f"{row['k']:.2f}", f"{row['excess']:.0e}"]
        cosines = f"{row['measured_smallest_cosine']:.2f}..{row['measured_largest_cosine']:.2f}"
        form = (f"{row[f'measured_{n}']:.3f}/{row[f'theory_{n}']:.3f}" for n in ("radius", "center_norm"))
        verdict = "yes" if row["attained"] else "no"
        reached = verdict if row["agrees"] else Marked(f"{verdict} (!)", "worse")
        lines.append([*case, cosines, *form, reached, boundaries.get(row["boundary"], row["boundary"])])
    notes = [
        f"{sum(row['agrees'] for row in rows)} of {len(rows)} cases agree with the theorem, its dimension condition "
        "corrected: d >= |Y|, or d >= |Y| - 1 up to the simplex value of k."
    ]
    if short := [row["excess"] for row in rows if not row["attainable"]]:
        above = f"{min(short):.4f} to {max(short):.4f} above the bound."
        notes.append(f"One dimension short (d short), the best minimum stays {above}")
    heads = ("d", "k", "above\nbound", "class\ncosines", "radius", "center", "bound\nreached")
    columns: list[str | Column] = [Column("|Y|"), *heads, Column("boundary\ncase", "left")]
    breaks = [i for i in range(1, len(rows)) if rows[i]["classes"] != rows[i - 1]["classes"]]
    Table("Minimized loss and final features, measured / theorem", columns, lines, notes, breaks).print()


def _figure(rows: Sequence[dict[str, Any]], out: Path) -> list[Path]:
    """Write theory.png and theory.svg: radius, center norm and loss above the bound, over the threshold."""
    from matplotlib.figure import Figure

    titles = {"radius": "radius of the class simplex", "center_norm": "norm of its center"}
    titles["excess"] = "loss above the bound"
    curve = np.linspace(-1, 1, 401).tolist()
    full: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.4, "zorder": 4}
    hollow: dict[str, Any] = {"markerfacecolor": "white", "markeredgewidth": 0.9, "zorder": 3}
    with style.paper_style():
        figure = Figure(figsize=(7.4, 2.75), layout="constrained")
        for axes, (name, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
            axes.set(title=title, xlabel="threshold k", xlim=(-1.04, 1.04))
            for index, count in enumerate(sorted({row["classes"] for row in rows})):
                look = {"color": style.color(index), "marker": style.marker(index), "markersize": 4.2}
                heights = [getattr(Shape.in_theory(count, k), name, math.nan) for k in curve]
                axes.plot(curve, heights, **look, linewidth=1, markevery=[], label=f"{count} classes")
                for row in (row for row in rows if row["classes"] == count):
                    # Excesses of the order of rounding, of either sign, lie on the axis' lower end.
                    height = max(abs(row[name]), 1e-7) if name == "excess" else row[f"measured_{name}"]
                    axes.plot([row["k"]], [height], **look, **(full if row["attainable"] else hollow))
        axes.axhline(_LOSS_TOLERANCE, color="#5C6670", linewidth=0.8, linestyle=(0, (4, 3)))
        axes.text(-0.98, 1.25 * _LOSS_TOLERANCE, "tolerance", fontsize=6.5, color="#5C6670", va="bottom")
        axes.set(yscale="log", ylim=(5e-8, 2))
        axes.plot([], [], "o", color=style.INK, markersize=4.2, **hollow, label="one dimension short")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(handles))
        return style.save_figure(figure, out / "theory")
