import csv
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gplasc.geometry import (
    Region,
    class_places,
    nonnegative_frame,
    orthonormal_frame,
    region,
    simplex_etf,
    smallest_angle,
    supcon_lower_bound,
)
from gplasc.losses import supcon

TABLE = Path(__file__).parent / "data" / "derived_geometry.csv"


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(points=st.integers(2, 30), extra=st.integers(0, 20), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_the_frame_is_a_simplex_from_one_dimension_less_than_points(points, extra, seed):
    dim = points - 1 + extra
    frame = simplex_etf(points, dim, generator=generator(seed))
    expected = torch.full((points, points), -1 / (points - 1), dtype=torch.float64).fill_diagonal_(1)
    assert frame.shape == (points, dim)
    assert frame.dtype == torch.float64
    assert torch.allclose(frame @ frame.T, expected, atol=1e-12)
    assert torch.allclose(frame.sum(dim=0), torch.zeros(dim, dtype=torch.float64), atol=1e-12)


def test_one_point_is_a_unit_vector_and_two_are_opposite():
    one = simplex_etf(1, 7)
    assert one.shape == (1, 7)
    assert one.norm().item() == pytest.approx(1, abs=1e-12)
    assert simplex_etf(1, 1).abs().item() == pytest.approx(1, abs=1e-12)
    two = simplex_etf(2, 1)
    assert torch.allclose(two[0], -two[1])


def test_the_orientation_follows_the_generator_and_not_the_global_seed():
    torch.manual_seed(1)
    first = simplex_etf(5, 8, generator=generator(3))
    default = simplex_etf(5, 8)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    assert torch.equal(first, simplex_etf(5, 8, generator=generator(3)))
    assert torch.equal(default, simplex_etf(5, 8))
    assert not torch.allclose(first, simplex_etf(5, 8, generator=generator(4)))
    assert torch.equal(state, torch.get_rng_state())


def test_the_orientation_has_no_preferred_direction():
    first_vertices = torch.stack([simplex_etf(3, 3, generator=generator(seed))[0] for seed in range(400)])
    # The mean of n uniform unit vectors has length about 1 / sqrt(n).
    assert first_vertices.mean(dim=0).norm() < 0.15


@pytest.mark.parametrize(
    ("points", "dim", "degrees"),
    [
        *((3, 1, 0.0), (4, 2, 90.0), (7, 2, 360 / 7), (5, 3, 90.0), (6, 3, 90.0), (8, 4, 90.0)),
        (12, 3, 63.4349488),  # icosahedron
        (9, 3, 70.5287794),
    ],
)
def test_fewer_dimensions_give_the_best_known_spread_and_a_warning(points, dim, degrees):
    with pytest.warns(UserWarning, match=f"{points} points form a simplex only in {points - 1}"):
        spread = simplex_etf(points, dim)
    assert spread.shape == (points, dim)
    assert torch.allclose(spread.norm(dim=1), torch.ones(points, dtype=torch.float64))
    assert math.degrees(smallest_angle(spread)) == pytest.approx(degrees, abs=0.05)


def test_many_points_in_few_dimensions_beat_random_ones_and_are_repeatable():
    with pytest.warns(UserWarning, match="spread"):
        spread = simplex_etf(40, 6, generator=generator(1))
    with pytest.warns(UserWarning, match="spread"):
        again = simplex_etf(40, 6, generator=generator(1))
    random = torch.nn.functional.normalize(torch.randn(40, 6, dtype=torch.float64, generator=generator(1)))
    assert torch.equal(spread, again)
    assert smallest_angle(spread) > 2 * smallest_angle(random)


@pytest.mark.parametrize(("points", "dim"), [(0, 3), (3, 0), (-1, 2)])
def test_an_empty_frame_is_an_error(points, dim):
    with pytest.raises(ValueError, match="at least one point"):
        simplex_etf(points, dim)


def test_smallest_angle_is_the_double_loops():
    points = torch.nn.functional.normalize(torch.randn(9, 4, dtype=torch.float64, generator=generator()))
    slow = min(math.acos(float(points[i] @ points[j])) for i in range(9) for j in range(i))
    assert smallest_angle(points) == pytest.approx(slow, abs=1e-9)
    assert smallest_angle(points[:1]) == math.pi
    with pytest.raises(ValueError, match="shape"):
        smallest_angle(points[0])


def table() -> list[dict[str, str]]:
    with TABLE.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", table(), ids=lambda row: f"{row['setting']}-{row['T']}-{row['margin']}")
def test_regions_agree_with_the_table_of_the_papers_settings(row):
    found = region(int(row["T"]), int(row["classes_per_task"]), float(row["margin"]))
    expected = {name: float(row[name]) for name in ("k_min", "k")}
    assert found.k_min == pytest.approx(expected["k_min"], abs=1e-6)
    assert found.k == pytest.approx(expected["k"], abs=1e-6)
    assert found.radius == pytest.approx(float(row["rho_final_radius"]), abs=1e-6)
    assert found.center_norm == pytest.approx(float(row["optimal_prototype_norm"]), abs=1e-6)
    assert math.degrees(found.half_angle) == pytest.approx(float(row["cap_half_angle_deg"]), abs=1e-5)
    assert math.degrees(found.gap) == pytest.approx(float(row["gap_deg"]), abs=1e-5)


@given(tasks=st.integers(2, 60), classes=st.integers(2, 60), margin=st.floats(0, 0.999))
@settings(deadline=None)
def test_a_region_is_what_its_class_means_span(tasks, classes, margin):
    """Place the class means at cosine k and measure them."""
    found = region(tasks, classes, margin)
    gram = torch.full((classes, classes), found.k, dtype=torch.float64).fill_diagonal_(1)
    center_square = gram.mean().item()
    assert found.center_norm**2 == pytest.approx(center_square, abs=1e-9)
    assert found.radius**2 == pytest.approx(1 - center_square, abs=1e-9)
    assert -1 / (classes - 1) <= found.k_min <= found.k < 1
    assert found.gap >= 0
    assert math.sin(found.half_angle) == pytest.approx(found.radius, abs=1e-9)


def test_tasks_of_different_class_counts_share_all_but_the_threshold():
    few, many = region(5, 2, 0.1), region(5, 7, 0.1)
    assert few.k < many.k
    for name in ("radius", "center_norm", "half_angle", "gap"):
        assert getattr(few, name) == pytest.approx(getattr(many, name))


def test_one_task_and_one_class_switch_the_hinge_off():
    assert region(1, 10, 0.2) == Region(-1.0, -1.0, 1.0, 0.0, math.pi / 2, 0.0)
    assert region(1, 1, 0.2).center_norm == 1
    single = region(5, 1, 0.2)
    assert (single.k, single.radius, single.center_norm) == (-1.0, 0.0, 1.0)
    assert single.gap == pytest.approx(math.acos(-1 / 4))


def test_two_tasks_at_margin_zero_are_half_spheres():
    half = region(2, 4, 0.0)
    assert half.k == pytest.approx(-1 / 3)
    assert half.center_norm == pytest.approx(0, abs=1e-7)
    assert region(2, 4, 0.25).center_norm == pytest.approx(0.5)


def test_a_given_angle_replaces_the_simplexes():
    default, given_ = region(5, 3, 0.1), region(5, 3, 0.1, angle=math.acos(-1 / 4))
    for name in ("k_min", "k", "radius", "center_norm", "half_angle", "gap"):
        assert getattr(default, name) == pytest.approx(getattr(given_, name), abs=1e-12)
    right = region(6, 3, 0.0, angle=math.pi / 2)
    assert right.half_angle == pytest.approx(math.pi / 4)
    assert right.k == pytest.approx(0.25)


@pytest.mark.parametrize("margin", [-0.01, 1.0, 1.5, float("nan")])
def test_a_margin_outside_zero_to_one_is_an_error(margin):
    with pytest.raises(ValueError, match=r"margin must be in \[0, 1\)"):
        region(5, 2, margin)


def test_other_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="at least one task"):
        region(0, 2, 0.1)
    with pytest.raises(ValueError, match="at least one task"):
        region(2, 0, 0.1)
    for angle in (0.0, -1.0, 4.0):
        with pytest.raises(ValueError, match="angle must be"):
            region(3, 2, 0.1, angle=angle)


def simplex_with_cosine(classes: int, k: float) -> torch.Tensor:
    """Unit rows with all pairwise cosines k: (C, C)."""
    gram = torch.full((classes, classes), k, dtype=torch.float64).fill_diagonal_(1)
    values, vectors = torch.linalg.eigh(gram)
    return vectors * values.clamp(min=0).sqrt()


@given(
    classes=st.integers(2, 6),
    rows=st.integers(2, 4),
    k=st.floats(-1, 0.95),
    temperature=st.floats(0.05, 2),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_the_bound_is_attained_at_the_simplex_and_not_undercut(classes, rows, k, temperature, seed):
    k = max(k, -1 / (classes - 1))
    means = simplex_with_cosine(classes, k)
    labels = torch.arange(classes).repeat_interleave(rows)
    bound = supcon_lower_bound(classes, rows, k=k, temperature=temperature)
    attained = supcon(means[labels], labels, temperature=temperature, reduction="sum").item()
    assert attained == pytest.approx(bound, rel=1e-9, abs=1e-9)
    # Any other arrangement has some smallest inter-class cosine, whose own bound it may not undercut.
    moved = means[labels] + 0.5 * torch.randn(
        len(labels), classes, dtype=torch.float64, generator=generator(seed)
    )
    moved = torch.nn.functional.normalize(moved)
    lowest = (moved @ moved.T)[labels[:, None] != labels].min().item()
    value = supcon(moved, labels, temperature=temperature, reduction="sum").item()
    assert value >= supcon_lower_bound(classes, rows, k=lowest, temperature=temperature) - 1e-9


def test_the_bound_of_special_batches():
    assert supcon_lower_bound(4, 1) == 0
    assert supcon_lower_bound(1, 3, temperature=0.1) == pytest.approx(3 * math.log(2))
    assert supcon_lower_bound(3, 2, k=-0.9) == supcon_lower_bound(3, 2) == supcon_lower_bound(3, 2, k=-0.5)
    assert supcon_lower_bound(3, 2, k=0.1, sphere_radius=2.0) == pytest.approx(
        supcon_lower_bound(3, 2, k=0.1, temperature=0.25)
    )
    # exp(-1 / 0.0001) is 0 in floating point: only the positives remain.
    assert supcon_lower_bound(3, 2, k=0.0, temperature=1e-4) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 0}, "at least one class"),
        ({"rows_per_class": 0}, "at least one class"),
        ({"temperature": 0.0}, "must be positive"),
        ({"sphere_radius": -1.0}, "must be positive"),
        ({"k": 1.1}, "at most 1"),
        ({"k": float("nan")}, "at most 1"),
    ],
)
def test_wrong_bounds_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        supcon_lower_bound(**{"num_classes": 3, "rows_per_class": 2} | arguments)


@pytest.mark.parametrize("frame", [orthonormal_frame, nonnegative_frame])
@pytest.mark.parametrize(("num_points", "dim"), [(1, 1), (1, 7), (3, 7), (5, 5), (10, 64), (40, 64)])
def test_frames_are_orthonormal(frame, num_points, dim):
    rows = frame(num_points, dim)
    assert rows.shape == (num_points, dim)
    assert rows.dtype == torch.float64
    assert torch.allclose(rows @ rows.T, torch.eye(num_points, dtype=torch.float64), atol=1e-12)
    assert torch.equal(rows, frame(num_points, dim))
    other = frame(num_points, dim, generator=torch.Generator().manual_seed(1))
    assert dim == 1 or num_points == dim or not torch.equal(rows, other)
    if frame is nonnegative_frame:
        assert (rows >= 0).all()
        assert ((rows > 0).sum(dim=0) <= 1).all()


@pytest.mark.parametrize("start", [simplex_etf, orthonormal_frame, nonnegative_frame])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extended_frames_keep_their_rows(start, dtype):
    first = start(4, 12).to(dtype)
    extend = nonnegative_frame if start is nonnegative_frame else orthonormal_frame
    rows = first
    for num_points in (4, 5, 7):
        rows = extend(num_points, 12, start=rows).to(dtype)
    assert torch.equal(rows[:4], first)
    gram = (rows @ rows.T).double()
    assert torch.allclose(gram[4:], torch.eye(7, dtype=torch.float64)[4:], atol=1e-6)


def test_a_nonnegative_frame_grows_by_one_for_a_long_time():
    rows = nonnegative_frame(10, 512)
    while len(rows) < 100:
        rows = nonnegative_frame(len(rows) + 1, 512, start=rows)
    assert torch.allclose(rows @ rows.T, torch.eye(100, dtype=torch.float64))


def test_frames_without_room_are_an_error():
    with pytest.raises(ValueError, match=r"3 dimensions have room for 3 more orthogonal rows .* not for 4"):
        orthonormal_frame(4, 3)
    with pytest.raises(ValueError, match="room for 1 more orthogonal rows next to the 3 given, not for 2"):
        orthonormal_frame(5, 3, start=simplex_etf(3, 3))
    with pytest.raises(ValueError, match="3 of 3 dimensions are free, 4 more rows"):
        nonnegative_frame(4, 3)
    for frame in (orthonormal_frame, nonnegative_frame):
        with pytest.raises(ValueError, match="at least one point"):
            frame(0, 3)
        with pytest.raises(ValueError, match=r"start must have shape \(S, 3\), S <= 2"):
            frame(2, 3, start=torch.eye(3))


@pytest.mark.parametrize(
    ("tasks", "classes", "margin"), [(5, 2, 0.1), (5, 2, 0.5), (3, 4, 0.15), (2, 1, 0.1), (1, 3, 0.1)]
)
def test_class_places_form_the_simplex_of_the_region(tasks, classes, margin):
    size = region(tasks, classes, margin)
    vertex = simplex_etf(tasks, 9)[0]
    places = class_places(vertex, classes, size, generator=torch.Generator().manual_seed(3))
    assert places.norm(dim=1).tolist() == pytest.approx([1.0] * classes)
    for a in range(classes):
        for b in range(a):
            # The threshold of a single task is below that of any simplex.
            wanted = size.k if tasks > 1 else -1 / (classes - 1)
            assert float(places[a] @ places[b]) == pytest.approx(wanted)
    assert torch.allclose(places.mean(0), (size.center_norm if classes > 1 else 1.0) * vertex, atol=1e-9)
