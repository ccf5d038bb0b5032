"""The command measures what it says, compares with stored figures, and the page shows the stored ones."""

import json
import runpy
from pathlib import Path

import pytest
import torch
from benchmarks.speed import plain_loop, steps
from benchmarks.speed.clock import alternate, ratio
from benchmarks.speed.command import _MEASUREMENTS, STORED, bench, main
from benchmarks.speed.figure import Figure, Measured, got_worse, read_measured, write_measured

from gplasc.errors import UserError

ROOT = Path(__file__).parent.parent


def test_works_take_turns_and_every_second_round_is_reversed():
    calls = []
    times = alternate({name: lambda name=name: calls.append(name) for name in "abc"}, 2)
    assert "".join(calls) == "abc" + "cba" + "abc"
    assert {name: len(values) for name, values in times.items()} == {"a": 2, "b": 2, "c": 2}
    assert ratio({"a": [3.0, 2.0, 8.0], "b": [1.0, 1.0, 2.0]}, "a", "b") == 3.0


@pytest.mark.parametrize(
    ("value", "bar", "at", "within"),
    [
        (1.0, 2.0, "most", True),
        (3.0, 2.0, "most", False),
        (3.0, 2.0, "least", True),
        (9.0, None, "most", True),
    ],
)
def test_a_figure_knows_whether_it_is_within_its_bar(value, bar, at, within):
    assert Figure("item", "name", value, bar, at).within is within


def test_only_what_was_within_its_bar_or_unknown_got_worse():
    before = Measured([Figure("i", "a", 1.0, 2.0), Figure("i", "b", 3.0, 2.0)])
    now = Measured([Figure("i", name, 2.5, 2.0) for name in "abc"] + [Figure("i", "d", 1.0, 2.0)])
    assert [figure.name for figure in got_worse(before, now)] == ["a", "c"]


def test_figures_survive_their_file(tmp_path):
    measured = Measured(
        [Figure("i", "a", 0.3, 0.5, "least", "s"), Figure("i", "b", 0.1)],
    )
    path = write_measured(tmp_path / "figures.json", measured, {})
    assert read_measured(path) == measured
    path.write_text("[]")
    with pytest.raises(UserError, match="not a file of figures"):
        read_measured(path)


@pytest.mark.filterwarnings("ignore")
def test_the_command_measures_and_compares(tmp_path, capsys):
    items = ["overhead", "efficiency", "teacher", "peer", "precision", "growth", "checkpoints", "evaluation"]
    assert main([*items, "--quick", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "bench.json").read_text())
    assert {figure["item"] for figure in found["figures"]} == set(items)
    assert all(figure["value"] == figure["value"] for figure in found["figures"])
    assert "verdict" in capsys.readouterr().out


def test_a_figure_that_falls_behind_its_bar_fails_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(_MEASUREMENTS, "teacher", lambda quick: [Figure("teacher", "slow", 0.4, 0.25)])
    against = tmp_path / "stored.json"
    assert bench(["teacher"], tmp_path, quick=False, against=against) == 1
    assert "worse than the bar" in capsys.readouterr().out
    assert bench(["teacher"], tmp_path, quick=False, against=against, store=True) == 1
    assert bench(["teacher"], tmp_path, quick=False, against=against) == 0  # known by now


def test_an_unknown_item_is_a_sentence(capsys):
    assert main(["speed", "--quick"]) == 2
    assert "there is no item 'speed'" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")
def test_the_plain_loop_minimizes_the_same_terms():
    """The straightforward loop is a fair opponent: with equal weights and views, it has the learner's loss."""
    learner = steps.learner_in_second_task("co2l", ("gplasc",), steps.StepSize(4, 8, 1, 8))
    ctx = learner.ctx
    part = learner.method.parts(ctx.pool.take(torch.arange(len(ctx.pool))), ctx)["batch"]
    out = part.out = ctx.forward(part)
    terms = learner.method.loss({"batch": part}, ctx)
    anchors = part.y >= ctx.task.classes.start
    contrast = plain_loop._contrast(out.projection, part.y, anchors)
    assert contrast.item() == pytest.approx(terms["supcon"].item(), rel=1e-4)
    relations = plain_loop._relations(out.projection, part.previous.projection)
    assert relations.item() == pytest.approx(terms["ird"].item(), rel=1e-4)


def test_the_page_shows_the_stored_figures():
    script = runpy.run_path(str(ROOT / "scripts" / "docs"))
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert script["fill_performance"](page) == page, "run scripts/docs"
    missed = [figure for figure in read_measured(STORED).figures if not figure.within]
    assert page.count("missed: ") == len(missed)
    assert all(figure.name.replace("_", "\\_") in page for figure in missed)
