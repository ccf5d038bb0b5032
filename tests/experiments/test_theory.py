import csv
import itertools
import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gplasc import geometry
from gplasc.losses import supcon
from gplasc.paper.descent import descend, r2scl, random_points
from gplasc.paper.theory import (
    Shape,
    TheoremCase,
    examine,
    measure_shape,
    run_theory,
    theorem_cases,
    theory_shape,
)


def simplex(count: int, k: float) -> Tensor:
    """Unit rows (count, count) with all cosines k, from the Gram matrix itself."""
    gram = torch.full((count, count), k, dtype=torch.float64).fill_diagonal_(1.0)
    return torch.linalg.cholesky(gram)


@pytest.mark.parametrize(("count", "k"), [(2, -0.4), (3, 0.3), (3, 0.7), (3, 0.9), (7, -0.1), (7, 0.5)])
def test_closed_forms_equal_the_measured_shape_of_a_simplex(count: int, k: float) -> None:
    z = simplex(count, k).repeat_interleave(2, dim=0)
    measured = measure_shape(z, torch.arange(count).repeat_interleave(2))
    theory = theory_shape(count, k)
    assert measured.deviation(theory) < 1e-12
    assert measured.smallest_cosine == pytest.approx(k)
    assert measured.largest_cosine == pytest.approx(k)


def test_paper_values_of_three_classes() -> None:
    for k, radius, norm in ((0.3, 0.6831, 0.7303), (0.7, 0.4472, 0.8944), (0.9, 0.2582, 0.9661)):
        shape = theory_shape(3, k)
        assert (round(shape.radius, 4), round(shape.center_norm, 4)) == (radius, norm)


def test_inactive_threshold_is_the_plain_simplex() -> None:
    assert theory_shape(4, None) == theory_shape(4, -0.9) == theory_shape(4, -1 / 3)
    assert theory_shape(4, None) == Shape(1.0, 0.0, -1 / 3, -1 / 3)
    with pytest.raises(ValueError, match="num_classes"):
        theory_shape(1, 0.0)


def test_deviation_is_relative_but_absolute_at_zero() -> None:
    assert Shape(0.99, 0.5, 0, 0).deviation(Shape(1.0, 0.4, 0, 0)) == pytest.approx(0.25)
    assert Shape(1.0, 0.03, 0, 0).deviation(Shape(1.0, 0.0, 0, 0)) == pytest.approx(0.03)


def test_measured_shape_with_loops() -> None:
    z = random_points(9, 4, torch.Generator().manual_seed(0))
    y = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2])
    means = [sum((z[i] for i in range(9) if y[i] == c), torch.zeros(4)) / (y == c).sum() for c in range(3)]
    center = (means[0] + means[1] + means[2]) / 3
    cosines = [float(z[i] @ z[j]) for i, j in itertools.combinations(range(9), 2) if y[i] != y[j]]
    measured = measure_shape(z, y)
    assert measured.center_norm == pytest.approx(float(center.norm()))
    assert measured.radius == pytest.approx(sum(float((row - center).norm()) for row in z) / 9)
    assert (measured.smallest_cosine, measured.largest_cosine) == pytest.approx((min(cosines), max(cosines)))


def test_grid_has_all_boundaries() -> None:
    settings = theorem_cases((2, 3, 5))
    assert {setting.boundary for setting in settings} == {
        "",
        "simplex",
        "below the simplex",
        "one dimension short",
    }
    assert all(setting.dim > 1 for setting in settings)
    assert not TheoremCase(5, 4, 0.0).attainable
    assert TheoremCase(5, 5, 0.0).attainable
    assert TheoremCase(5, 4, -0.25).attainable
    assert TheoremCase(5, 4, -0.6).attainable


def test_exact_penalty_makes_the_constrained_simplex_a_minimum() -> None:
    """Shrinking or widening the simplex costs when the weight is above 1/temperature, and widening pays without."""
    y = torch.arange(4).repeat_interleave(3)

    def loss(k: float, weight: float) -> float:
        z = simplex(4, k).repeat_interleave(3, dim=0)
        return float(r2scl(z, y, temperature=0.5, k=0.3, range_weight=weight))

    for other in (0.25, 0.29, 0.31, 0.35):
        assert loss(other, 2.1) > loss(0.3, 2.1)
    assert loss(0.25, 0.0) < loss(0.3, 0.0)


def test_descent_stays_on_the_sphere_and_records_in_order() -> None:
    start = random_points(6, 3, torch.Generator().manual_seed(0))
    target = random_points(6, 3, torch.Generator().manual_seed(1))
    shares: list[float] = []
    ticks: list[int] = []

    def objective(points: Tensor, done: float) -> Tensor:
        shares.append(done)
        return (points - target).square().sum()

    path = descend(
        objective,
        start,
        steps=200,
        learning_rate=0.1,
        record={0, 10, 200},
        after_step=lambda: ticks.append(1),
    )
    assert len(path) == 3
    assert torch.equal(path[0], start)
    assert torch.allclose(path[2], target, atol=1e-3)
    assert all(torch.allclose(points.norm(dim=1), torch.ones(6, dtype=points.dtype)) for points in path)
    assert shares[:2] == [0.0, 0.005]
    assert len(ticks) == 200
    with pytest.raises(ValueError, match="steps"):
        descend(objective, start, steps=0, learning_rate=0.1)


@pytest.mark.parametrize("count", [3, 4])
def test_minimization_finds_the_theorem_and_its_boundaries(count: int) -> None:
    floor = -1 / (count - 1)
    settings = [
        TheoremCase(count, count, 0.3),
        TheoremCase(count, 2 * count, 0.8),
        TheoremCase(count, count - 1, (floor - 1) / 2),
        TheoremCase(count, count - 1, 0.3),
    ]
    findings = examine(settings, steps=400, starts=4, generator=torch.Generator().manual_seed(0))
    for finding in findings:
        assert finding.agrees
        assert finding.bound_holds
        rows = 4 * count
        total = geometry.supcon_lower_bound(count, 4, k=finding.case.k, temperature=0.5)
        assert finding.bound == pytest.approx(total / rows)
        assert finding.excess == pytest.approx(finding.loss - finding.bound)
    assert [finding.attained for finding in findings] == [True, True, True, False]
    for finding in findings[:3]:
        assert finding.measured.radius == pytest.approx(finding.theory.radius, rel=0.01)
        assert finding.measured.center_norm == pytest.approx(finding.theory.center_norm, abs=0.01)
    # A dimension short the classes keep the threshold, but not all pairs of them can meet at it.
    assert findings[3].violation < 1e-3
    assert findings[3].excess > 0.02
    assert findings[3].measured.largest_cosine > 0.35


def test_settings_of_lower_dimension_descend_alone_as_together() -> None:
    """Padding with zeros must not change the outcome: a twin without it."""
    setting = TheoremCase(3, 2, -0.5)
    labels = torch.arange(3).repeat_interleave(4)
    start = random_points(12, 2, torch.Generator().manual_seed(3))
    alone = descend(
        lambda z, done: r2scl(z, labels, temperature=0.5, k=-0.5, range_weight=4.0 * min(1.0, done / 0.3)),
        start,
        steps=100,
        learning_rate=0.1,
    )[-1]
    wide = TheoremCase(3, 6, 0.5)
    found = examine([setting, wide], steps=100, starts=1, generator=torch.Generator().manual_seed(3))[0]
    assert found.loss == pytest.approx(float(supcon(alone, labels, temperature=0.5)), rel=1e-9)


def test_run_writes_table_record_and_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_theory(tmp_path, seed=1, steps=30, starts=1, class_counts=(2, 3))
    names = {path.name for path in result.files}
    assert names == {"theory.csv", "theory.json", "theory.png", "theory.svg"}
    assert {path.name for path in tmp_path.iterdir()} == names
    with (tmp_path / "theory.csv").open() as file:
        rows = list(csv.DictReader(file))
    record = json.loads((tmp_path / "theory.json").read_text())
    assert len(rows) == len(record["findings"]) == len(result.findings) == len(theorem_cases((2, 3)))
    for row, finding in zip(rows, result.findings, strict=True):
        assert float(row["loss"]) == finding.loss
        assert math.isfinite(finding.excess)
        # Far from converged, yet never below the bound for the cosines really reached.
        assert finding.bound_holds
    output = capsys.readouterr().out
    assert f"{sum(f.agrees for f in result.findings)} of {len(rows)} cases agree" in output
    assert "…" not in output


def test_same_seed_same_findings() -> None:
    first, second, other = (
        examine(theorem_cases([3]), steps=5, starts=2, generator=torch.Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    )
    assert first == second
    assert first != other
