import itertools
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gplasc import geometry
from gplasc.losses import supcon
from gplasc.paper.descent import Shape, descend, r2scl, random_points
from gplasc.paper.theory import _boundary, _cases, _examine, run_theory


def simplex(count: int, k: float) -> Tensor:
    """Unit rows (count, count) with all cosines k, from the Gram matrix itself."""
    gram = torch.full((count, count), k, dtype=torch.float64).fill_diagonal_(1.0)
    return torch.linalg.cholesky(gram)


@pytest.mark.parametrize(("count", "k"), [(2, -0.4), (3, 0.3), (3, 0.7), (3, 0.9), (7, -0.1), (7, 0.5)])
def test_closed_forms_equal_the_measured_shape_of_a_simplex(count: int, k: float) -> None:
    z = simplex(count, k).repeat_interleave(2, dim=0)
    measured = Shape.measured(z, torch.arange(count).repeat_interleave(2))
    theory = Shape.in_theory(count, k)
    assert measured.deviation(theory) < 1e-12
    assert measured.smallest_cosine == pytest.approx(k)
    assert measured.largest_cosine == pytest.approx(k)


def test_paper_values_of_three_classes() -> None:
    for k, radius, norm in ((0.3, 0.6831, 0.7303), (0.7, 0.4472, 0.8944), (0.9, 0.2582, 0.9661)):
        shape = Shape.in_theory(3, k)
        assert (round(shape.radius, 4), round(shape.center_norm, 4)) == (radius, norm)


def test_inactive_threshold_is_the_plain_simplex() -> None:
    assert Shape.in_theory(4, None) == Shape.in_theory(4, -0.9) == Shape.in_theory(4, -1 / 3)
    assert Shape.in_theory(4, None) == Shape(1.0, 0.0, -1 / 3, -1 / 3)


def test_deviation_is_relative_but_absolute_at_zero() -> None:
    assert Shape(0.99, 0.5, 0, 0).deviation(Shape(1.0, 0.4, 0, 0)) == pytest.approx(0.25)
    assert Shape(1.0, 0.03, 0, 0).deviation(Shape(1.0, 0.0, 0, 0)) == pytest.approx(0.03)


def test_measured_shape_with_loops() -> None:
    z = random_points(9, 4, torch.Generator().manual_seed(0))
    y = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2])
    means = [sum((z[i] for i in range(9) if y[i] == c), torch.zeros(4)) / (y == c).sum() for c in range(3)]
    center = (means[0] + means[1] + means[2]) / 3
    cosines = [float(z[i] @ z[j]) for i, j in itertools.combinations(range(9), 2) if y[i] != y[j]]
    measured = Shape.measured(z, y)
    assert measured.center_norm == pytest.approx(float(center.norm()))
    assert measured.radius == pytest.approx(sum(float((row - center).norm()) for row in z) / 9)
    assert (measured.smallest_cosine, measured.largest_cosine) == pytest.approx((min(cosines), max(cosines)))


def test_grid_has_all_boundaries() -> None:
    cases = {count: _cases(count) for count in (2, 3, 5)}
    assert {_boundary(count, case) for count, some in cases.items() for case in some} == {
        "",
        "simplex",
        "below the simplex",
        "one dimension short",
    }
    assert all(dim > 1 for some in cases.values() for dim, _ in some)
    names = ["one dimension short", "", "simplex", "below the simplex"]
    assert [_boundary(5, case) for case in ((4, 0.0), (5, 0.0), (4, -0.25), (4, -0.6))] == names


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

    def objective(points: Tensor, done: float) -> Tensor:
        shares.append(done)
        return (points - target).square().sum()

    path = descend(
        objective,
        start,
        steps=200,
        learning_rate=0.1,
        record={0, 10, 200},
    )
    assert len(path) == 3
    assert torch.equal(path[0], start)
    assert torch.allclose(path[2], target, atol=1e-3)
    assert all(torch.allclose(points.norm(dim=1), torch.ones(6, dtype=points.dtype)) for points in path)
    assert shares[:2] == [0.0, 0.005]


@pytest.mark.parametrize("count", [3, 4])
def test_minimization_finds_the_theorem_and_its_boundaries(count: int) -> None:
    floor = -1 / (count - 1)
    cases = [(count, 0.3), (2 * count, 0.8), (count - 1, (floor - 1) / 2), (count - 1, 0.3)]
    rows = _examine(count, cases, steps=400, starts=4, generator=torch.Generator().manual_seed(0))
    for row, (_, k) in zip(rows, cases, strict=True):
        assert row["agrees"]
        assert row["bound_holds"]
        total = geometry.supcon_lower_bound(count, 4, k=k, temperature=0.5)
        assert row["bound"] == pytest.approx(total / (4 * count))
        assert row["excess"] == pytest.approx(row["loss"] - row["bound"])
    assert [row["attained"] for row in rows] == [True, True, True, False]
    for row in rows[:3]:
        assert row["measured_radius"] == pytest.approx(row["theory_radius"], rel=0.01)
        assert row["measured_center_norm"] == pytest.approx(row["theory_center_norm"], abs=0.01)
    # A dimension short the classes keep the threshold, but not all pairs of them can meet at it.
    assert rows[3]["violation"] < 1e-3
    assert rows[3]["excess"] > 0.02
    assert rows[3]["measured_largest_cosine"] > 0.35


def test_cases_of_lower_dimension_descend_alone_as_together() -> None:
    """Padding with zeros must not change the outcome: a twin without it."""
    labels = torch.arange(3).repeat_interleave(4)
    start = random_points(12, 2, torch.Generator().manual_seed(3))
    alone = descend(
        lambda z, done: r2scl(z, labels, temperature=0.5, k=-0.5, range_weight=4.0 * min(1.0, done / 0.3)),
        start,
        steps=100,
        learning_rate=0.1,
    )[-1]
    generator = torch.Generator().manual_seed(3)
    row = _examine(3, [(2, -0.5), (6, 0.5)], steps=100, starts=1, generator=generator)[0]
    assert row["loss"] == pytest.approx(float(supcon(alone, labels, temperature=0.5)), rel=1e-9)


def test_run_writes_table_and_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_theory(tmp_path, seed=1, steps=30, starts=1, class_counts=(2, 3))
    assert {path.name for path in tmp_path.iterdir()} == {"theory.png", "theory.svg"}
    assert len(rows) == len(_cases(2)) + len(_cases(3))
    for row in rows:
        assert math.isfinite(row["excess"])
        # Far from converged, yet never below the bound for the cosines really reached.
        assert row["bound_holds"]
    output = capsys.readouterr().out
    assert f"{sum(row['agrees'] for row in rows)} of {len(rows)} cases agree" in output
    assert "…" not in output


def test_same_seed_same_rows() -> None:
    first, second, other = (
        _examine(3, _cases(3), steps=5, starts=2, generator=torch.Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    )
    assert first == second
    assert first != other
