import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.report.blocks import render_blocks

from gplasc.report import style
from gplasc.report.projection import feature_sphere
from gplasc.report.render import Section, render
from gplasc.report.sphere import (
    Array,
    Cap,
    Sphere,
    TaskFeatures,
    _ball,
    _camera,
    _cap_cosine,
    _circle,
    sphere_figure,
)

VIEWS = [np.array(view) for view in ([0.0, 0.0, 1.0], [1.0, 0.4, 0.2], [-0.3, 0.9, -0.5])]


def unit(values: list[float]) -> Array:
    array = np.array(values)
    return np.asarray(array / np.linalg.norm(array))


def panel(tasks: int = 2, title: str = "a <title>") -> Sphere:
    generator = np.random.default_rng(0)
    drawn = []
    for index in range(tasks):
        history = generator.normal(size=(3, 12, 3))
        history /= np.linalg.norm(history, axis=-1, keepdims=True)
        cap = Cap(np.eye(3)[index], 0.5) if index == 0 else None
        drawn.append(TaskFeatures(f"task {index}", history, np.arange(12) % 3, style.color(index), cap))
    return Sphere(title, "first\nsecond", tuple(drawn), unit([1.0, 1.0, 1.0]), unit([0.0, 0.0, 1.0]))


@pytest.mark.parametrize("view", VIEWS)
def test_camera_is_a_rotation_with_the_pole_upright(view: Array) -> None:
    pole = np.array([0.0, 1.0, 0.3])
    frame = _camera(view, pole)
    assert np.allclose(frame @ frame.T, np.eye(3))
    assert np.linalg.det(frame) == pytest.approx(1)
    assert np.allclose(frame[2], view / np.linalg.norm(view))
    assert (frame @ pole)[0] == pytest.approx(0, abs=1e-12)
    assert (frame @ pole)[1] > 0


def test_circle_lies_on_the_sphere_at_the_half_angle() -> None:
    points = _circle(np.array([1.0, -2.0, 0.5]), 0.6)
    assert np.allclose(np.linalg.norm(points, axis=1), 1)
    assert np.allclose(points @ unit([1.0, -2.0, 0.5]), np.cos(0.6))
    assert np.allclose(points[0], points[-1])


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("axis", [[0.2, 0.1, 1.0], [1.0, -0.5, 0.1], [-0.4, -0.3, -0.8]])
def test_cap_is_filled_where_its_directions_are_seen(axis: list[float], view: Array) -> None:
    """The slow way: throw points on the sphere and ask each for its cosine to the axis, in front and behind."""
    frame = _camera(view, np.array([0.1, 0.2, -0.9]))
    ball = _ball(401)
    points = np.random.default_rng(1).normal(size=(500, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    seen = points @ frame.T
    column, row = np.rint(200 * (seen[:, :2] + 1)).astype(int).T
    inner = np.hypot(*seen[:, :2].T) < 0.95  # nearer to the edge a pixel is many directions
    for front in (True, False):
        side = inner & ((seen[:, 2] > 0) == front)
        cosine = _cap_cosine(Cap(np.array(axis), 0.7), frame, ball, front=front)
        assert np.allclose(cosine[row[side], column[side]], (points @ unit(axis))[side], atol=0.02)


def test_figure_has_a_ball_for_each_panel_and_is_the_same_twice(tmp_path: Path) -> None:
    written = []
    for name in ("one", "two"):
        with style.paper_style():
            figure = sphere_figure([panel(), panel(1)], columns=2)
            paths = style.save_figure(figure, tmp_path / name)
        assert [len(axes.get_images()) for axes in figure.axes] == [1, 1]
        assert [path.name for path in paths] == [f"{name}.png", f"{name}.svg"]
        written.append([path.read_bytes() for path in paths])
    assert written[0][0].startswith(b"\x89PNG")
    assert b"<svg" in written[0][1]
    assert written[0] == written[1]


def test_the_page_gets_every_step_as_thousandths() -> None:
    shown = panel(2)
    found = re.search(r'<script type="application/json">(.*?)</script>', render_blocks(shown))
    assert found is not None
    data = json.loads(found[1])
    for task, sent in zip(shown.tasks, data["tasks"], strict=True):
        assert np.allclose(
            np.array(sent["history"]).reshape(task.history.shape) / 1000, task.history, atol=6e-4
        )
        assert sent["labels"] == task.labels.tolist()
    assert data["tasks"][0]["cap"] == pytest.approx([1.0, 0.0, 0.0, 0.5])
    assert data["tasks"][1]["cap"] is None
    assert 'max="5"' in render_blocks(shown)  # two tasks, three moments each
    marked = replace(shown, tasks=tuple(replace(task, marks=("</script><!--",)) for task in shown.tasks))
    assert render_blocks(marked).count("</script>") == 1
    still = replace(shown, tasks=tuple(replace(t, history=t.history[-1:]) for t in shown.tasks))
    assert "<input" not in render_blocks(still)


def test_page_is_self_contained_and_escapes_text() -> None:
    page = render("T & t", ["x < y"], [Section("Spheres", (panel(1), panel(1)))])
    assert "T &amp; t" in page
    assert "x &lt; y" in page
    assert "a &lt;title&gt;" in page
    assert "first<br>second" in page
    assert page.count("<canvas") == 2
    assert 'src="http' not in page
    assert len(page) < 60_000


def test_features_are_projected_to_the_directions_of_the_task_centers() -> None:
    """The slow way: the directions by an SVD of the centers, every row on its own."""
    generator = np.random.default_rng(2)
    labels = [np.repeat([2 * task, 2 * task + 1], 10) for task in range(4)]
    features = [generator.normal(size=(20, 9)) + 3 * np.eye(9)[task] for task in range(4)]
    drawn = feature_sphere("name", features, labels, [str(label) for label in range(8)])
    centers = []
    for x, y in zip(features, labels, strict=True):
        rows = x / np.linalg.norm(x, axis=1, keepdims=True)
        centers.append(unit(((rows[y == y.min()].mean(0) + rows[y == y.max()].mean(0)) / 2).tolist()))
    _, lengths, directions = np.linalg.svd(np.stack(centers))
    shares = []
    for x, task in zip(features, drawn.tasks, strict=True):
        for row, point in zip(x, task.final, strict=True):
            seen = directions[:3] @ unit(row.tolist())
            shares.append(seen @ seen)
            assert np.allclose(np.abs(point), np.abs(unit(seen.tolist())))  # a direction may be turned around
    assert f"{np.mean(shares):.0%} of the squared length of the features" in drawn.caption
    assert f"{(lengths[:3] ** 2).sum() / 4:.0%} of that of the task centers" in drawn.caption
    cosines = np.stack(centers) @ np.stack(centers).T
    assert f"centers: {cosines[np.triu_indices(4, 1)].mean():.2f}." in drawn.caption.replace("−", "-")
    assert [task.marks for task in drawn.tasks] == [("0", "1"), ("2", "3"), ("4", "5"), ("6", "7")]


def test_dollar_signs_in_names_are_text(tmp_path: Path) -> None:
    """A method's file may be called cost$_$5.py."""
    assert [path.name for path in panel(title="cost$_$5").write(tmp_path / "s")] == ["s.svg", "s.pdf"]
    assert "cost$_$5" in (tmp_path / "s.svg").read_text()
