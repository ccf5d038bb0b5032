import csv
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from gplasc import paper as experiments
from gplasc.errors import UserError
from gplasc.paper import EXPERIMENTS, run_experiment, toy
from gplasc.paper.descent import Shape
from gplasc.paper.toy import _lattice, _overlap, _train_task, run_toy


def unit_rows(count: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, 3))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def test_lattice_integrates_over_the_sphere() -> None:
    lattice = _lattice(4000)
    assert np.allclose(np.linalg.norm(lattice, axis=1), 1)
    assert np.allclose(lattice.mean(axis=0), 0, atol=1e-3)
    assert np.allclose(lattice.T @ lattice / 4000, np.eye(3) / 3, atol=1e-3)
    # A cap of 40 degrees has the share (1 - cos 40) / 2 of the area, wherever it lies.
    for axis in unit_rows(5, 0):
        assert (lattice @ axis > math.cos(math.radians(40))).mean() == pytest.approx(
            (1 - math.cos(math.radians(40))) / 2, abs=2e-3
        )


def test_overlap_against_loops() -> None:
    tasks = [unit_rows(4, seed) for seed in range(3)]
    lattice = _lattice(300)
    densities = []
    for features in tasks:
        values = [
            sum(math.exp((float(np.dot(point, row)) - 1) / 0.3**2) for row in features) for point in lattice
        ]
        densities.append([value / sum(values) for value in values])
    pairs = [
        sum(min(p, q) for p, q in zip(a, b, strict=True)) for a, b in itertools.combinations(densities, 2)
    ]
    assert _overlap(tasks, bandwidth=0.3, count=300) == pytest.approx(sum(pairs) / 3)


def test_overlap_at_its_ends() -> None:
    task = unit_rows(5, 0)
    assert _overlap([task, task[::-1]]) == pytest.approx(1)
    north = np.array([[0.0, 0.0, 1.0]])
    assert _overlap([north, -north]) < 1e-6
    # Two kernels an angle apart: in the plane across them a normal law, whose overlap is 2 Phi(-angle / 2 width).
    angle, width = 0.2, 0.1
    turned = np.array([[0.0, math.sin(angle), math.cos(angle)]])
    expected = math.erfc(angle / (2 * width) / math.sqrt(2))
    assert _overlap([north, turned], bandwidth=width, count=20000) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("k", [None, 0.3, 0.9])
def test_training_reaches_the_closed_forms(k: float | None) -> None:
    center = None if k is None else np.array([0.6, 0.0, 0.8])
    task = _train_task(k, center, points_per_class=8, steps=300, generator=torch.Generator().manual_seed(0))
    shape = Shape.measured(torch.tensor(task.final), torch.tensor(task.labels))
    assert shape.deviation(Shape.in_theory(3, k)) < 0.02
    if center is not None:
        prototype = task.final.mean(axis=0)
        assert prototype @ center / np.linalg.norm(prototype) > 0.999


def test_run_writes_everything_and_agrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_toy(tmp_path, seed=3, steps=200, points_per_class=6)
    assert {path.name for path in tmp_path.iterdir()} == {"toy.png", "toy.svg", "toy.html", "toy.csv"}
    assert all(row["agrees"] for row in rows)
    assert [row["panel"][1] for row in rows] == list("abcdef")
    assert [row["k"] for row in rows] == pytest.approx([None, 0.3, 0.7, 0.9, None, 0.2125])
    supcon, regions = rows[4:]
    assert regions["overlap"] < supcon["overlap"]
    assert regions["closest_degrees"] > regions["guaranteed_degrees"] - 0.5 > 20
    written = list(csv.DictReader((tmp_path / "toy.csv").read_text().splitlines()))
    assert {row["agrees"] for row in written} == {"True"}
    assert float(written[1]["radius"]) == pytest.approx(0.6831, rel=0.02)
    assert float(written[4]["overlap"]) == supcon["overlap"]
    output = capsys.readouterr().out
    assert "0.6831" in output
    assert "…" not in output.split("written")[0]


def test_unconverged_run_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy, "_draw", lambda spheres, out: [])
    assert not all(row["agrees"] for row in run_toy(tmp_path, steps=2, points_per_class=3))
    assert "False" in (tmp_path / "toy.csv").read_text()
    assert " no" in capsys.readouterr().out


def test_experiments_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Path, int]] = []

    def record(out: Path, *, seed: int) -> str:
        calls.append((out, seed))
        return "done"

    monkeypatch.setattr(toy, "run_toy", record)
    assert run_experiment("toy", tmp_path, seed=7) == "done"
    assert calls == [(tmp_path, 7)]
    with pytest.raises(UserError, match="did you mean 'theory'"):
        run_experiment("teory", tmp_path)
    with pytest.raises(UserError, match=r"there is no experiment .*; allowed: .*toy"):
        run_experiment("zzz", tmp_path)


def test_every_experiment_has_its_function() -> None:
    for name in EXPERIMENTS:
        module = experiments.import_module(f"gplasc.paper.{name.replace('-', '_')}")
        assert callable(getattr(module, f"run_{name.replace('-', '_')}"))
