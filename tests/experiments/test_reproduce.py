"""Experiments from the grid to the table, on tiny streams, and one through the real command with real processes."""

import csv
import json
import sys
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
import torch

from gplasc._io.display import Display
from gplasc.cli import main
from gplasc.errors import UserError
from gplasc.paper import load_experiment, run_experiment
from gplasc.paper.reproduce import reproduce
from gplasc.results.group import Measure
from gplasc.results.record import Record, read_record, write_record
from gplasc.runs.execute import execute
from gplasc.runs.workspace import Workspace
from gplasc.streams.info import StandIn
from gplasc.study import experiment as definition
from gplasc.study._forecast import forecast
from gplasc.study.cell import Outcome
from gplasc.study.executors import Engine
from gplasc.study.experiment import scale_statement
from gplasc.study.processes import ThisProcess
from gplasc.study.study import Study
from gplasc.study.tables import _Number, result_tables, write_tables

CIL = Measure("final_accuracy", "class-IL", scenario="class_il")


class Here(ThisProcess):
    """Computes in this process, which is quicker for runs of a moment."""

    def __init__(self, fail: str = "") -> None:
        super().__init__(Display())
        self.fail = fail
        self.computed = 0

    def submit(self, cell, workspace, listener):
        self.computed += 1
        if not self.fail or cell.row != self.fail:
            return super().submit(cell, workspace, listener)
        future = Future()
        future.set_result(Outcome(cell, "failed", error="no luck"))
        return future


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
    monkeypatch.setattr("gplasc.study.study._DRAWS", 200)


def smoke_study(name, out, seeds=(), **narrow):
    return Study(load_experiment(name).cells("smoke", seeds, **narrow), Workspace(out, device="cpu"))


def smoke(name, out, seeds=(), executor=None, **narrow):
    """Reproduce an experiment; return its study, files, and the lines of its table.csv by row and point."""
    study = smoke_study(name, out, seeds, **narrow)
    files = reproduce(load_experiment(name), study, executor or Here())
    lines = rows_of(out / name / "table.csv")
    by_point = {(line["row"], line["point"]): line for line in lines}
    return SimpleNamespace(study=study, files=files, lines=lines, by_point=by_point)


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
    assert len(rows) == 4 * 2
    assert {(r["scale"], r["reproduction"], r["gap"], r["seeds"]) for r in rows} == {
        ("smoke", "no", "", "0 1")
    }
    assert all(r["measured_on"].startswith("synthetic:") for r in rows)
    by_row = {r["row"]: r for r in rows if r["scenario"] == "class_il"}
    records = [read_record(tmp_path / run) for run in by_row["co2l"]["runs"].split()]
    accuracy = [record["metrics"]["class_il"]["final_accuracy"] for record in records]
    assert float(by_row["co2l"]["mean"]) == pytest.approx(sum(accuracy) / 2, rel=1e-5)
    assert by_row["co2l"]["base"] == ""
    assert by_row["co2l+gplasc, signed features"]["base"] == "co2l"
    assert by_row["co2l+gplasc, signed features"]["pairs"] == "2"
    assert by_row["co2l+gplasc, signed features"]["paper_table"] == "the component ablation"
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
    assert [outcome.cell.row for outcome in done.study.failures] == ["co2l"]
    captured = capsys.readouterr()
    assert "1 failed" in captured.out
    assert "gplasc: 1 failed: no luck\n  co2l on seq-cifar10 200, seed 0" in captured.err
    lines = {line["row"]: line for line in done.lines if line["scenario"] == "class_il"}
    assert (lines["co2l"]["mean"], lines["co2l"]["missing"]) == ("", "1")
    assert (
        lines["co2l+gplasc, signed features"]["pairs"],
        lines["co2l+gplasc, signed features"]["seeds"],
    ) == ("", "0")


def test_nothing_succeeded(small, tmp_path, capsys):
    done = smoke("time", tmp_path, only=["co2l"], executor=Here(fail="co2l"))
    assert len(done.study.failures) == 1
    assert {line["mean"] for line in done.lines} == {""}


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
    points = {place: float(line["mean"]) for place, line in done.by_point.items()}
    assert done.by_point["supcon", "4-3"]["paper_mean"] == "0.481"
    content = json.loads((tmp_path / "overlap" / "overlap.json").read_text())
    assert "SYNTHETIC" in content["scale"]
    supcon = next(run for run in content["runs"] if run["row"] == "supcon")
    assert points["supcon", "4-3"] == pytest.approx(supcon["overlap"][3][2])
    pairs = [supcon["overlap"][i][j] for i in range(5) for j in range(i)]
    assert points["supcon", "mean"] == pytest.approx(sum(pairs) / 10)
    assert points["supcon", "largest"] == pytest.approx(max(pairs))
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
    means = {place: float(line["mean"]) for place, line in done.by_point.items()}
    one = done.by_point["co2l+gplasc, signed features", "1"]
    assert "paper +13.3 % time" in (tmp_path / "time" / "table.md").read_text()
    overhead = 100 * (means["co2l+gplasc, signed features", "1"] / means["co2l", "1"] - 1)
    assert float(one["overhead_percent"]) == pytest.approx(overhead)
    assert one["gap"] == "", "seconds of different machines"
    record = json.loads((tmp_path / one["runs"] / "record.json").read_text())
    seconds = sum(value for phase, value in record["timings"][0].items() if phase != "evaluation")
    assert means["co2l+gplasc, signed features", "1"] == pytest.approx(seconds)
    assert means["co2l", "all"] == pytest.approx(sum(means["co2l", str(task)] for task in range(1, 6)))


# ---- tables from known numbers -------------------------------------------------------------------------------------


def study_at(scale, numbers, experiment="ablation-components"):
    """Return an experiment with given accuracies by row and seed."""
    study = Study(load_experiment(experiment).cells(scale, (0, 1, 2)))
    rows = {cell.run_id: str(cell.labels["row"]) for cell in study.cells}
    measured = [cell for cell in study.cells if rows[cell.run_id] in numbers]
    study.numbers = {cell.run_id: {CIL: numbers[rows[cell.run_id]][cell.seed]} for cell in measured}
    return study


NUMBERS = {"co2l": [60.0, 62.0, 64.0], "co2l+gplasc": [65.0, 66.0, 70.0]}


@pytest.mark.parametrize(
    ("scale", "gap", "reproduction"), [("paper", -3.59, True), ("cpu", None, False), ("smoke", None, False)]
)
def test_every_cell_is_complete(scale, gap, reproduction, tmp_path):
    study = study_at(scale, NUMBERS)
    caption = load_experiment("ablation-components").model_copy(
        update={"statement": scale_statement(study.cells)}
    )
    groups = study.groups()
    number = _Number(caption, groups, next(g for g in groups if g.labels["row"] == "co2l+gplasc"), CIL)
    assert (number.spread.mean, number.spread.count) == (67.0, 3)
    assert number.spread.std == pytest.approx(7.0**0.5)
    assert number.difference.mean == pytest.approx(5.0)
    # Differences 5, 4 and 6: std 1, and t(0.975, 2) = 4.3027.
    assert number.difference.high == pytest.approx(5 + 4.3027 / 3**0.5, abs=1e-3)
    assert number.published.mean == 70.59
    assert number.gap == (None if gap is None else pytest.approx(gap))
    assert number.is_reproduction is reproduction
    lines = number.lines({})
    assert lines[0] == "67.00 ± 2.65 (n=3)"
    assert lines[1] == "+5.00 [+2.52, +7.48] to co2l (n=3)"
    assert lines[2] == "paper 70.59 [1]"
    assert (
        lines[3:]
        == {
            "paper": ["gap -3.59"],
            "cpu": [],  # its presets have signed features, which are not published
            "smoke": [],
        }[scale]
    )
    (table,) = result_tables(caption, groups, [CIL])
    text = table.to_markdown()
    assert "2.65" in text
    changed = caption.model_copy(update={"changed": ("train.epochs",)})
    other = _Number(changed, groups, number.group, CIL)
    assert (other.gap, other.is_reproduction) == (None if scale == "paper" else number.gap, False)
    assert ("the published protocol." in scale_statement(study.cells)) == (scale == "paper")
    assert "the published protocol." not in scale_statement(study.cells, ("train.epochs",))
    write_tables(tmp_path, caption, groups, [CIL], [table])
    facts = rows_of(tmp_path / "table.csv")
    missing = next(row for row in facts if row["row"].startswith("r2scl only"))
    assert (missing["mean"], missing["missing"], missing["paper_mean"]) == ("", "3", "67.31")


def test_a_gap_to_a_published_mean_with_its_spread_is_given_in_standard_errors():
    """ER: 80.43 ± 1.89 over ten seeds, and 2.0 over three here."""
    study = study_at("paper", {"er": [76.0, 78.0, 80.0]}, "seq-mnist")
    caption = load_experiment("seq-mnist").model_copy(update={"statement": scale_statement(study.cells)})
    groups = study.groups()
    group = next(one for one in groups if one.labels["row"] == "er")
    error = (2.0**2 / 3 + 1.89**2 / 10) ** 0.5
    wanted = f"gap -2.43, {2.43 / error:.1f} standard errors"
    assert _Number(caption, groups, group, CIL).lines({})[1:] == ["paper 80.43 ± 1.89", wanted]


def test_a_study_in_tables_of_its_own():
    study = study_at("paper", NUMBERS)
    table = study.pivot(["row"], "stream", CIL)
    assert [column.name for column in table.columns] == ["row", "seq-cifar10"]
    assert [row for row in table.rows if row[1]] == [
        ["co2l", "62.00 ± 2.00 (n=3)"],
        ["co2l+gplasc", "67.00 ± 2.65 (n=3)"],
    ]


def test_a_study_as_a_frame_of_pandas(monkeypatch):
    study = study_at("paper", NUMBERS)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="pandas is not installed"):
        study.to_frame()
    monkeypatch.setitem(
        sys.modules, "pandas", SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns))
    )
    rows, columns = study.to_frame()
    assert columns == ["row", "stream", "buffer", "seed", "run_id", "final_accuracy_class_il", "error"]
    cell = study.cells[1]
    assert rows[1] == ["co2l", "seq-cifar10", 200, 1, cell.run_id, 62.0, None], "labels keep their types"


# ---- dry run -------------------------------------------------------------------------------------------------------


def test_dry_run_measures_with_the_threads_of_a_worker(small, tmp_path, monkeypatch):
    study = smoke_study("ablation-components", tmp_path, (0,), only=["co2l"])
    used = []

    def measured(resolved, **more):
        used.append(torch.get_num_threads())
        return 1.0, ""

    monkeypatch.setattr("gplasc.study._forecast.measure_cost", measured)
    before = torch.get_num_threads()
    forecast(study.cells, study.workspace, threads=before + 1)
    study.forecast(Engine(workers=1, threads=before + 2).processes("smoke"))
    assert used == [before + 1, before + 2]
    assert torch.get_num_threads() == before


def test_dry_run_counts_and_estimates(small, tmp_path, capsys):
    study = smoke_study("ablation-components", tmp_path, (0, 1), only=["co2l", "co2l+gplasc"])
    cells, workspace = study.cells, study.workspace
    text = forecast(cells, workspace)
    assert text.startswith(
        "4 runs, 0 complete, 0 cut off (they continue), 4 to begin\ntime for 4 of the 4 left: "
    )
    assert text.endswith("\n  4 from a few measured steps")
    assert not list(tmp_path.iterdir()), "nothing is written"
    record = execute(cells[0].spec, workspace, display=Display()).record
    write_record(tmp_path / cells[0].run_id, Record.parse({**record.to_dict(), "seconds": 4000.0}))
    folder = tmp_path / cells[2].run_id
    folder.mkdir()
    (folder / "checkpoint-000000001.pt").touch()
    text = forecast(cells, workspace)
    assert text.startswith(
        "4 runs, 1 complete, 1 cut off (they continue), 2 to begin\ntime for 3 of the 3 left: "
    )
    assert "\n  1 as long as complete runs of the same kind\n" in text
    assert "time for 1 of the 1 left: about 1:06:40, about 33:20 with 2" in forecast(
        cells[:2], workspace, workers=2
    )
    assert "time for the other 2: unknown" in forecast(cells, workspace, budget=0.0)
    words = "ablation-components --scale smoke --only co2l --device cpu --dry-run --out"
    assert command(*words.split(), str(tmp_path)) == 0
    text = capsys.readouterr().out
    assert "1 runs, 1 complete" in text
    assert "SYNTHETIC" in text


def test_dry_run_without_data_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("GPLASC_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cells = load_experiment("ablation-components").cells("cpu", (0,))
    text = Study(cells, Workspace(tmp_path, tmp_path)).forecast(Engine().processes("cpu"))
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
