import re
from pathlib import Path

import numpy as np
import pytest
import torch

from gplasc import paper as experiments
from gplasc.errors import UserError
from gplasc.paper import EXPERIMENTS, run_experiment, toy
from gplasc.paper.descent import Shape
from gplasc.paper.toy import _train_task, run_toy


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
    assert {path.name for path in tmp_path.iterdir()} == {"toy.png", "toy.svg", "toy.html"}
    assert all(row["agrees"] for row in rows)
    assert [row["panel"][1] for row in rows] == list("abcdef")
    assert [row["k"] for row in rows] == pytest.approx([None, 0.3, 0.7, 0.9, None, 0.2125])
    supcon, regions = rows[4:]
    apart, assured = map(int, re.findall(r"(\d+)°", regions["caption"]))
    assert apart >= assured > 20 > int(re.findall(r"(\d+)°", supcon["caption"])[0])
    assert rows[1]["radius"] == pytest.approx(0.6831, rel=0.02)
    output = capsys.readouterr().out
    assert "0.6831" in output
    assert "…" not in output.split("written")[0]


def test_unconverged_run_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy, "_draw", lambda spheres, out: [])
    assert not all(row["agrees"] for row in run_toy(tmp_path, steps=2, points_per_class=3))
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
