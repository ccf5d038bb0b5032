"""The theorem put to the test: minimize the contrastive loss under a cosine threshold and compare.

For |Y| balanced classes whose pairs keep cosine >= k the theorem gives the smallest loss and says that it is
reached exactly when each class is one point and all class pairs have cosine k: a regular simplex of radius
sqrt((1 - 1/|Y|)(1 - k)) around a center of norm sqrt((1 + (|Y| - 1) k) / |Y|). Two boundaries are shown too:
a k below -1/(|Y| - 1) changes nothing, and for a larger k the Gram matrix (1 - k) I + k 11' has rank |Y|, so
|Y| dimensions are needed; |Y| - 1, as the paper's statement has it, suffice only up to the simplex value.
"""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import Tensor
from torch.nn.functional import pad

from gplasc import geometry
from gplasc.experiments.descent import descend, r2scl, random_points
from gplasc.files import write_atomic
from gplasc.losses import supcon, task_center
from gplasc.report import style

CLASS_COUNTS = (2, 3, 5, 8)
THRESHOLDS = (0.0, 0.3, 0.7, 0.9)
HIGH_DIMENSION = 32
POINTS_PER_CLASS = 4
TEMPERATURE = 0.5
RANGE_WEIGHT = 4.0  # above 1/temperature, so that the threshold is held exactly (see `r2scl`)
SHORT_WEIGHT = (
    20.0  # a dimension short the pairs are unequal, and a single one may have to bear the whole force
)
RAMP = 0.3  # share of the steps over which the hinge grows to its full weight
LEARNING_RATE = 0.1
VIOLATION_TOLERANCE = 1e-3
LOSS_TOLERANCE = 1e-3  # mean loss above the bound, in nats
COSINE_TOLERANCE = 0.01  # of every pair of classes; the theorem is a statement about these


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
    center = task_center(z, y)
    cosines = (z @ z.T)[y[:, None] != y[None, :]]
    return Shape(
        radius=float((z - center).norm(dim=1).mean()),
        center_norm=float(center.norm()),
        smallest_cosine=float(cosines.min()),
        largest_cosine=float(cosines.max()),
    )


@dataclass(frozen=True)
class Setting:
    """One point of the grid."""

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
    """The best minimum found for a setting, beside the theorem. Losses are means over the rows.

    excess: loss above the bound for k. violation: how far the smallest class cosine lies below k. deviation:
    of the class cosines from the theorem's. attained: excess and deviation within tolerance. bound_holds: the
    loss is not below the bound for the smallest cosine really measured, which is the theorem's inequality
    without any slack for the penalty.
    """

    setting: Setting
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
        held = self.violation <= VIOLATION_TOLERANCE
        return held and self.bound_holds and self.attained == self.setting.attainable


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


def grid(class_counts: Sequence[int] = CLASS_COUNTS) -> list[Setting]:
    """Class counts, thresholds (below, at and above the simplex value) and dimensions (|Y| - 1, |Y|, 32).

    Two classes in one dimension are left out: the sphere is then two points, on which nothing can move.
    """
    settings = []
    for count in class_counts:
        floor = -1 / (count - 1)
        below = [] if count == 2 else [(floor - 1) / 2]
        for dim in (count - 1, count, HIGH_DIMENSION):
            if dim > 1:
                settings += [Setting(count, dim, k) for k in (*below, floor, *THRESHOLDS)]
    return settings


def examine(
    settings: Sequence[Setting],
    *,
    steps: int,
    starts: int,
    generator: torch.Generator,
    after_step: Callable[[], None] | None = None,
) -> list[Finding]:
    """Minimize each setting (all of one class count) from `starts` random starts and compare the best end.

    Ends that violate the threshold (by more than the tolerance) are worse than any that do not.
    """
    (count,) = {setting.num_classes for setting in settings}
    labels = torch.arange(count).repeat_interleave(POINTS_PER_CLASS)
    # All settings and starts descend together, one slice each. A smaller dimension is the larger one with
    # zeros in the last coordinates: gradients there are zero as well, so the points never leave it.
    wide = max(setting.dim for setting in settings)
    begin = torch.stack(
        [
            pad(random_points(len(labels), setting.dim, generator), (0, wide - setting.dim))
            for setting in settings
            for _ in range(starts)
        ]
    )
    thresholds = torch.tensor([setting.k for setting in settings for _ in range(starts)], dtype=begin.dtype)
    full = [
        RANGE_WEIGHT if setting.attainable else SHORT_WEIGHT for setting in settings for _ in range(starts)
    ]

    def objective(points: Tensor, done: float) -> Tensor:
        # A full hinge on scattered points would freeze them in place before classes have formed.
        weights = torch.tensor(full, dtype=points.dtype) * min(1.0, done / RAMP)

        def of_one(z: Tensor, k: Tensor, weight: Tensor) -> Tensor:
            return r2scl(z, labels, temperature=TEMPERATURE, k=k, range_weight=weight)

        return torch.func.vmap(of_one)(points, thresholds, weights).sum()

    ends = descend(
        objective,
        begin,
        steps=steps,
        learning_rate=LEARNING_RATE,
        after_step=after_step,
    )[-1]
    findings = []
    for setting, candidates in zip(
        settings, ends.reshape(len(settings), starts, *begin.shape[1:]), strict=True
    ):
        found = [_compare(setting, z[:, : setting.dim], labels, starts) for z in candidates]
        findings.append(
            min(found, key=lambda finding: (finding.violation > VIOLATION_TOLERANCE, finding.loss))
        )
    return findings


def _compare(setting: Setting, z: Tensor, labels: Tensor, starts: int) -> Finding:
    """The end z (N, dim) of one descent beside the theorem."""
    count, k = setting.num_classes, setting.k

    def bound_at(cosine: float) -> float:
        total = geometry.supcon_lower_bound(count, POINTS_PER_CLASS, k=cosine, temperature=TEMPERATURE)
        return total / len(labels)

    theory, measured = theory_shape(count, k), measure_shape(z, labels)
    loss = float(supcon(z, labels, temperature=TEMPERATURE))
    excess = loss - bound_at(k)
    deviation = max(
        measured.largest_cosine - theory.largest_cosine, theory.smallest_cosine - measured.smallest_cosine
    )
    return Finding(
        setting=setting,
        loss=loss,
        bound=bound_at(k),
        excess=excess,
        violation=max(0.0, k - measured.smallest_cosine),
        measured=measured,
        theory=theory,
        deviation=deviation,
        attained=abs(excess) <= LOSS_TOLERANCE and deviation <= COSINE_TOLERANCE,
        bound_holds=loss >= bound_at(min(1.0, measured.smallest_cosine)) - 1e-9,
        starts=starts,
    )


def run_theory(
    out: Path,
    *,
    seed: int = 0,
    steps: int = 800,
    starts: int = 6,
    class_counts: Sequence[int] = CLASS_COUNTS,
    console: Console | None = None,
) -> TheoryResult:
    """Check the theorem on the grid; write theory.csv, theory.json, theory.png and theory.svg into `out`.

    Prints a table of measured against expected. Progress goes to standard error, the table to `console`
    (standard output by default). Raises UserError when matplotlib is missing.
    """
    console = console or Console()
    out = Path(out)
    style.require("matplotlib")
    began = time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    findings: list[Finding] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
    stderr = Console(stderr=True, quiet=console.quiet)
    with Progress(*columns, TimeElapsedColumn(), console=stderr, transient=True) as progress:
        bar = progress.add_task("theory", total=steps * len(class_counts))
        for count in class_counts:
            settings = grid([count])
            progress.update(bar, description=f"{count} classes, {starts * len(settings)} descents")
            findings += examine(
                settings,
                steps=steps,
                starts=starts,
                generator=generator,
                after_step=lambda: progress.advance(bar),
            )
    record = {
        "seed": seed,
        "steps": steps,
        "settings": {
            "points_per_class": POINTS_PER_CLASS,
            "temperature": TEMPERATURE,
            "range_weight": RANGE_WEIGHT,
            "range_weight_one_dimension_short": SHORT_WEIGHT,
            "learning_rate": LEARNING_RATE,
            "loss_tolerance": LOSS_TOLERANCE,
            "ramp": RAMP,
            "cosine_tolerance": COSINE_TOLERANCE,
        },
        "findings": [_flat(finding) for finding in findings],
    }
    files = [
        write_atomic(out / "theory.csv", _table_text(findings)),
        write_atomic(out / "theory.json", json.dumps(record, indent=2) + "\n"),
        *_figure(findings, out),
    ]
    result = TheoryResult(seed, tuple(findings), time.perf_counter() - began, tuple(files))
    _print(result, console)
    return result


def _flat(finding: Finding) -> dict[str, float | int | str | bool]:
    """The finding as one row of plain values."""
    setting = finding.setting
    row: dict[str, float | int | str | bool] = {
        "classes": setting.num_classes,
        "dimension": setting.dim,
        "k": setting.k,
        "boundary": setting.boundary,
        "loss": finding.loss,
        "bound": finding.bound,
        "excess": finding.excess,
        "violation": finding.violation,
    }
    row |= {f"measured_{name}": value for name, value in asdict(finding.measured).items()}
    row |= {f"theory_{name}": value for name, value in asdict(finding.theory).items()}
    return row | {
        "cosine_deviation": finding.deviation,
        "attainable": setting.attainable,
        "attained": finding.attained,
        "bound_holds": finding.bound_holds,
        "agrees": finding.agrees,
        "starts": finding.starts,
    }


def _table_text(findings: Sequence[Finding]) -> str:
    """All findings as CSV text."""
    rows = [_flat(finding) for finding in findings]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _print(result: TheoryResult, console: Console) -> None:
    """The table of findings, a sentence about the boundary cases, and the files."""
    table = Table(
        title="Minimized loss and final features, measured / theorem",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=0,
    )
    for name in (
        "|Y|",
        "d",
        "k",
        "above\nbound",
        "class\ncosines",
        "\nradius",
        "\ncenter",
        "bound\nreached",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("boundary\ncase", no_wrap=True)
    last = None
    for finding in result.findings:
        setting, measured, theory = finding.setting, finding.measured, finding.theory
        if last is not None and last != setting.num_classes:
            table.add_section()
        last = setting.num_classes
        verdict = "yes" if finding.attained else "no"
        table.add_row(
            str(setting.num_classes),
            str(setting.dim),
            f"{setting.k:.2f}",
            f"{finding.excess:.0e}",
            f"{measured.smallest_cosine:.2f}..{measured.largest_cosine:.2f}",
            f"{measured.radius:.3f}/{theory.radius:.3f}",
            f"{measured.center_norm:.3f}/{theory.center_norm:.3f}",
            verdict if finding.agrees else f"[bold red]{verdict} (!)[/]",
            {"below the simplex": "k inactive", "one dimension short": "d short"}.get(
                setting.boundary, setting.boundary
            ),
        )
    console.print(table)
    agreeing = sum(finding.agrees for finding in result.findings)
    short = [finding for finding in result.findings if not finding.setting.attainable]
    console.print(
        f"{agreeing} of {len(result.findings)} settings agree with the theorem, its dimension condition mended:"
        " d >= |Y|, or d >= |Y| - 1 up to the simplex value of k."
    )
    if short:
        console.print(
            f"One dimension short (d short), the best minimum stays {min(f.excess for f in short):.4f} to "
            f"{max(f.excess for f in short):.4f} above the bound."
        )
    console.print(f"{result.seconds:.0f} s; wrote " + ", ".join(map(str, result.files)), soft_wrap=True)


def _figure(findings: Sequence[Finding], out: Path) -> list[Path]:
    """Write theory.png and theory.svg: radius, center norm and loss above the bound, over the threshold."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    counts = sorted({finding.setting.num_classes for finding in findings})
    curve = [-1 + 2 * index / 400 for index in range(401)]
    with style.paper_style():
        figure = Figure(figsize=(7.4, 2.75), layout="constrained")
        panels = figure.subplots(1, 3)
        for index, count in enumerate(counts):
            shapes = [theory_shape(count, k) for k in curve]
            panels[0].plot(curve, [shape.radius for shape in shapes], color=style.color(index), linewidth=1)
            panels[1].plot(
                curve, [shape.center_norm for shape in shapes], color=style.color(index), linewidth=1
            )
            for finding in findings:
                if finding.setting.num_classes != count:
                    continue
                enough = finding.setting.attainable
                look = {
                    "marker": style.marker(index),
                    "color": style.color(index),
                    "markersize": 4.2,
                    "linestyle": "none",
                    "markerfacecolor": style.color(index) if enough else "white",
                    "markeredgecolor": "white" if enough else style.color(index),
                    "markeredgewidth": 0.4 if enough else 0.9,
                    "zorder": 4 if enough else 3,
                }
                k = finding.setting.k
                panels[0].plot([k], [finding.measured.radius], **look)
                panels[1].plot([k], [finding.measured.center_norm], **look)
                # Excesses of the order of rounding, of either sign, lie on the axis' lower end.
                panels[2].plot([k], [max(abs(finding.excess), 1e-7)], **look)
        panels[2].axhline(LOSS_TOLERANCE, color="#5C6670", linewidth=0.8, linestyle=(0, (4, 3)))
        panels[2].text(-0.98, 1.25 * LOSS_TOLERANCE, "tolerance", fontsize=6.5, color="#5C6670", va="bottom")
        panels[2].set_yscale("log")
        panels[2].set_ylim(5e-8, 2)
        for axes, title in zip(
            panels, ("radius of the class simplex", "norm of its center", "loss above the bound"), strict=True
        ):
            axes.set_title(title)
            axes.set_xlabel("threshold k")
            axes.set_xlim(-1.04, 1.04)
        handles = [
            Line2D(
                [],
                [],
                color=style.color(i),
                marker=style.marker(i),
                markersize=4.2,
                linewidth=1,
                label=f"{c} classes",
            )
            for i, c in enumerate(counts)
        ]
        handles.append(
            Line2D(
                [],
                [],
                color=style.INK,
                marker="o",
                markersize=4.2,
                linestyle="none",
                markerfacecolor="white",
                label="one dimension short",
            )
        )
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        return style.save_figure(figure, out / "theory")
