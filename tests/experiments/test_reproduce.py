"""Experiments from the grid to the table, on tiny streams, and one through the real command with real processes."""

import csv
import json
from concurrent.futures import Future

import pytest
import torch

from gplasc._io.display import Quiet
from gplasc.cli import main
from gplasc.errors import UserError
from gplasc.paper import definition, run_experiment, views
from gplasc.paper.definition import StandIn, load_experiment, plan_runs
from gplasc.paper.reproduce import cells_of, identified, preview, reproduce
from gplasc.paper.summary import scale_statement, summarize_runs
from gplasc.paper.tables import Footnotes, cell_lines, cell_table, stream_tables
from gplasc.results.group import Measure
from gplasc.results.record import read_record
from gplasc.runs.cost import Cost
from gplasc.runs.execute import execute
from gplasc.runs.workspace import Workspace
from gplasc.study.cell import Outcome
from gplasc.study.executors import Engine
from gplasc.study.forecast import forecast

CIL = Measure("final_accuracy", "class-IL", scenario="class_il")


class Here:
    """An executor that computes in this process, which is quicker for runs of a moment."""

    def __init__(self, fail: str = "") -> None:
        self.fail = fail
        self.computed = 0

    def submit(self, cell, workspace, listener):
        future = Future()
        self.computed += 1
        if self.fail and cell.row == self.fail:
            future.set_result(Outcome(cell, "failed", error="no luck"))
        else:
            result = execute(cell.spec, workspace, display=Quiet())
            future.set_result(Outcome(cell, "done", result.record))
        return future

    def stop(self, *, now=False):
        pass

    def close(self):
        pass


@pytest.fixture
def small(monkeypatch):
    """Make stand-ins of five tasks that are learned in a fraction of a second."""
    settings = {
        "model.encoder": "small",
        "model.features": "signed",
        "train.batch": 16,
        "train.first_epochs": 1,
    }
    tiny = StandIn(stream="synthetic:tasks=5,classes=2,size=8,channels=1,train=4,test=3", settings=settings)
    monkeypatch.setattr(
        definition, "_stand_ins", lambda: dict.fromkeys(["seq-cifar10", "seq-cifar100"], tiny)
    )
    monkeypatch.setattr(views, "_DRAWS", 200)


def smoke(name, out, **more):
    return reproduce(
        name, scale="smoke", out=out, device="cpu", executor=more.pop("executor", Here()), **more
    )


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_table_beside_the_paper(small, tmp_path, capsys):
    done = smoke("ablation-components", tmp_path, seeds=(0, 1))
    text = capsys.readouterr().out
    assert "SYNTHETIC images, numbers mean nothing" in text
    assert "paper 70.59 [1]" in text
    assert "[1] 70.59 here and in the main table, 69.9 in the buffer ablation" in text
    assert "gap" not in text, "synthetic images have no gap to the paper"
    rows = rows_of(tmp_path / "ablation-components" / "table.csv")
    assert len(rows) == len(done.entries) == 4 * 2
    assert {(r["scale"], r["reproduction"], r["gap"], r["seeds"]) for r in rows} == {
        ("smoke", "no", "", "0 1")
    }
    assert all(r["measured_on"].startswith("synthetic:") for r in rows)
    by_row = {r["row"]: r for r in rows if r["scenario"] == "class_il"}
    records = [read_record(tmp_path / run) for run in by_row["co2l"]["runs"].split()]
    accuracy = [record["metrics"]["class_il"]["final_accuracy"] for record in records]
    assert float(by_row["co2l"]["mean"]) == pytest.approx(sum(accuracy) / 2, rel=1e-5)
    assert by_row["co2l"]["base"] == ""
    assert by_row["co2l+gplasc"]["base"] == "co2l"
    assert by_row["co2l+gplasc"]["pairs"] == "2"
    assert by_row["co2l+gplasc"]["paper_table"] == "tab:ablation_components"
    assert "SYNTHETIC" in (tmp_path / "ablation-components" / "table.md").read_text()
    assert r"\midrule" in (tmp_path / "ablation-components" / "table.tex").read_text()
    assert [path.name for path in done.files] == ["table.md", "table.tex", "table.csv"]
    assert f"written: {', '.join(map(str, done.files))}" in text
    # Again: everything is there, nothing is computed.
    executor = Here()
    smoke("ablation-components", tmp_path, seeds=(0, 1), executor=executor)
    assert executor.computed == 0
    # Another experiment with the same runs computes only what is new.
    smoke("ablation-range-loss", tmp_path, only=["hinge", "softplus"], executor=executor)
    assert executor.computed == 1


def test_a_failing_cell_leaves_a_gap_and_is_listed(small, tmp_path, capsys):
    done = smoke("ablation-components", tmp_path, executor=Here(fail="co2l"))
    assert [outcome.cell.row for outcome in done.failed] == ["co2l"]
    captured = capsys.readouterr()
    assert "1 failed" in captured.out
    assert "gplasc: 1 failed: no luck\n  co2l on seq-cifar10 200, seed 0" in captured.err
    entries = {(e.row, e.measure): e for e in done.entries}
    assert entries["co2l", CIL].spread.count == 0
    assert entries["co2l+gplasc", CIL].difference is None
    assert entries["co2l+gplasc", CIL].spread.count == 1


def test_nothing_succeeded(small, tmp_path, capsys):
    done = smoke("time", tmp_path, only=["co2l"], executor=Here(fail="co2l"))
    assert len(done.failed) == 1
    assert all(entry.spread.count == 0 for entry in done.entries)


@pytest.mark.parametrize(
    ("name", "only", "figure"),
    [
        ("sensitivity", ["seq-cifar10", "margin = 0.1*", "co2l"], "sensitivity.svg"),
        (
            "ablation-task-number",
            ["seq-cifar100", "expected tasks = known", "*= 20"],
            "ablation-task-number.png",
        ),
        (
            "ablation-distillation",
            ["IRD (1)", "IRD (1) + MSE (1)", "no distillation"],
            "ablation-distillation.svg",
        ),
    ],
)
def test_figures(name, only, figure, small, tmp_path):
    done = smoke(name, tmp_path, only=only)
    assert tmp_path / name / figure in done.files
    assert (tmp_path / name / figure).stat().st_size > 5000


def test_overlap(small, tmp_path, capsys):
    done = smoke("overlap", tmp_path, only=["supcon", "co2l"])
    points = {(e.row, e.measure.point): e for e in done.entries}
    assert str(points["supcon", "4-3"].published) == "0.481"
    content = json.loads((tmp_path / "overlap" / "overlap.json").read_text())
    assert "SYNTHETIC" in content["scale"]
    supcon = next(run for run in content["runs"] if run["row"] == "supcon")
    assert points["supcon", "4-3"].spread.mean == pytest.approx(supcon["overlap"][3][2])
    pairs = [supcon["overlap"][i][j] for i in range(5) for j in range(i)]
    assert points["supcon", "mean"].spread.mean == pytest.approx(sum(pairs) / 10)
    assert points["supcon", "largest"].spread.mean == pytest.approx(max(pairs))
    assert 0 < supcon["error"][1][0] < 0.1
    assert "standard error of the Monte-Carlo integral" in capsys.readouterr().out
    assert (tmp_path / "overlap" / "overlap.png").exists()


def test_tsne(small, tmp_path):
    smoke("tsne", tmp_path, only=["supcon"])
    content = json.loads((tmp_path / "tsne" / "tsne.json").read_text())
    assert content["classes"] == ["pattern 1", "pattern 2", "pattern 5", "pattern 7", "pattern 8"]
    assert [picture["features"] for picture in content["pictures"]] == ["as they are", "on the sphere"]
    assert content["pictures"][0]["task"] == [task for task in range(5) for _ in range(3)]
    assert (tmp_path / "tsne" / "tsne.png").exists()


def test_time_and_its_overhead(small, tmp_path):
    done = smoke("time", tmp_path, methods=["co2l"])
    found = {(e.row, e.measure.point): e for e in done.entries}
    one = found["co2l+gplasc", "1"]
    assert one.published_overhead == pytest.approx(13.3, abs=0.05)
    assert one.overhead == pytest.approx(100 * (one.spread.mean / found["co2l", "1"].spread.mean - 1))
    assert one.gap is None, "seconds of different machines"
    record = json.loads((tmp_path / one.runs[0] / "record.json").read_text())
    assert one.spread.mean == pytest.approx(
        sum(v for k, v in record["timings"][0].items() if k != "evaluation")
    )
    assert found["co2l", "all"].spread.mean == pytest.approx(
        sum(found["co2l", str(task)].spread.mean for task in range(1, 6))
    )


# ---- tables from known numbers -------------------------------------------------------------------------------------


def entries_at(scale, numbers):
    """Entries of the component ablation with given accuracies by row and seed."""
    experiment = load_experiment("ablation-components")
    cells = plan_runs(experiment, scale, (0, 1, 2))
    values = {
        cell.run_id: {CIL: numbers[cell.row.name][cell.seed]} for cell in cells if cell.row.name in numbers
    }
    return experiment, cells, summarize_runs(experiment, cells, values)


NUMBERS = {"co2l": [60.0, 62.0, 64.0], "co2l+gplasc": [65.0, 66.0, 70.0]}


@pytest.mark.parametrize(
    ("scale", "gap", "reproduction"), [("paper", -3.59, True), ("cpu", -3.59, False), ("smoke", None, False)]
)
def test_every_cell_is_complete(scale, gap, reproduction):
    experiment, cells, entries = entries_at(scale, NUMBERS)
    cell = next(e for e in entries if e.row == "co2l+gplasc")
    assert (cell.spread.mean, cell.spread.count) == (67.0, 3)
    assert cell.spread.std == pytest.approx(7.0**0.5)
    assert cell.difference.mean == pytest.approx(5.0)
    # Differences 5, 4 and 6: std 1, and t(0.975, 2) = 4.3027.
    assert cell.difference.high == pytest.approx(5 + 4.3027 / 3**0.5, abs=1e-3)
    assert cell.published.mean == 70.59
    assert cell.gap == (None if gap is None else pytest.approx(gap))
    assert cell.is_reproduction is reproduction
    lines = cell_lines(cell, Footnotes())
    assert lines[0] == "67.00 ± 2.65 (n=3)"
    assert lines[1] == "+5.00 [+2.52, +7.48] to co2l (n=3)"
    assert lines[2] == "paper 70.59 [1]"
    assert (
        lines[3:]
        == {
            "paper": ["gap -3.59"],
            "cpu": ["gap -3.59 (cpu - paper scale)"],
            "smoke": [],
        }[scale]
    )
    (table,) = stream_tables(experiment, entries, scale_statement(scale, cells))
    text = table.to_markdown()
    assert ("NOT a reproduction" in text) == (scale == "cpu")
    assert ("not a reproduction" in text) == (scale == "cpu")
    assert "2.65" in text
    missing = next(
        row for row in rows_of_text(cell_table(experiment, entries).to_csv()) if row["row"] == "r2scl only"
    )
    assert (missing["mean"], missing["missing"], missing["paper_mean"]) == ("", "3", "67.31")


def rows_of_text(text):
    return list(csv.DictReader(text.splitlines()))


# ---- dry run -------------------------------------------------------------------------------------------------------


def test_dry_run_measures_with_the_threads_of_a_worker(small, tmp_path, monkeypatch):
    cells = plan_runs(load_experiment("ablation-components"), "smoke", (0,), only=["co2l"])
    used = []

    def measured(resolved, **more):
        used.append(torch.get_num_threads())
        return Cost(seconds=1.0, images=1, details={})

    monkeypatch.setattr("gplasc.study.forecast.measure_cost", measured)
    before = torch.get_num_threads()
    forecast(cells_of(identified(cells, None)), Workspace(tmp_path, device="cpu"), threads=before + 1)
    engine = Engine(workers=1, threads=before + 2)
    preview("ablation-components", scale="smoke", out=tmp_path, only=["co2l"], device="cpu", engine=engine)
    assert used == [before + 1, before + 2]
    assert torch.get_num_threads() == before


def test_dry_run_counts_and_estimates(small, tmp_path):
    runs = plan_runs(load_experiment("ablation-components"), "smoke", (0, 1), only=["co2l", "co2l+gplasc"])
    cells, workspace = cells_of(identified(runs, None)), Workspace(tmp_path, device="cpu")
    found = forecast(cells, workspace)
    assert (found.total, found.complete, found.cut_off) == (4, 0, 0)
    assert found.seconds > 0
    assert found.sources == {"from a few measured steps": 4}
    assert not list(tmp_path.iterdir()), "nothing is written"
    record = execute(cells[0].spec, workspace, display=Quiet()).record
    (tmp_path / cells[2].run_id).mkdir()
    (tmp_path / cells[2].run_id / "checkpoint-000000001.pt").touch()
    found = forecast(cells, workspace)
    assert (found.total, found.complete, found.cut_off, found.remaining) == (4, 1, 1, 3)
    assert found.sources["as long as complete runs of the same kind"] == 1
    only_same = forecast(cells[:2], workspace)
    assert only_same.seconds == pytest.approx(record["seconds"])
    none = forecast(cells, workspace, budget=0.0)
    assert "time for the other 2: unknown" in none.text(1)
    text = preview(
        "ablation-components",
        scale="smoke",
        out=tmp_path,
        only=["co2l"],
        engine=Engine(workers=2),
        device="cpu",
    )
    assert "1 runs, 1 complete" in text
    assert "SYNTHETIC" in text


def test_dry_run_without_data_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("GPLASC_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = preview("ablation-components", out=tmp_path, seeds=(0,), data_dir=tmp_path)
    assert text.count("could not be measured: seq-cifar10 was not found") == 1
    assert "time for the other 4: unknown" in text


# ---- the command ---------------------------------------------------------------------------------------------------


def command(*words):
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", *words])
    return caught.value.code


def test_the_real_command_with_real_processes(tmp_path, capfd):
    words = ["digits", "--scale", "smoke", "--methods", "co2l", "--out", str(tmp_path), "--threads", "1"]
    assert command(*words, "--device", "cpu") == 0
    captured = capfd.readouterr()
    assert "digits on seq-digits (scale smoke" in captured.out
    assert "[2/2] co2l" in captured.err
    assert "co2l+gplasc on seq-digits, seed 0" in captured.err
    assert len(list(tmp_path.glob("*/record.json"))) == 2
    assert command(*words, "--dry-run") == 0
    assert "2 runs, 2 complete" in capfd.readouterr().out


def test_mistakes_are_one_sentence(capsys, tmp_path):
    assert command("overlapp") == 2
    assert "did you mean 'overlap'?" in capsys.readouterr().err
    assert command("overlap", "--methods", "er", "--out", str(tmp_path)) == 2
    assert "has no method 'er'" in capsys.readouterr().err
    with pytest.raises(UserError, match="is a grid"):
        run_experiment("overlap", tmp_path)
