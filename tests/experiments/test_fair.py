"""Fair comparisons: as many trials for each side, never on the test split, one choice for all seeds of a stream."""

import csv
import itertools
import json
import re
import runpy
import shlex
from concurrent.futures import Future
from pathlib import Path

import pytest
from scipy import stats

from gplasc._io.display import Quiet
from gplasc.cli import main, parse
from gplasc.errors import UserError
from gplasc.paper.fair.compare import compare_fairly, preview_fair
from gplasc.paper.fair.picture import gains_chart, write_gains
from gplasc.paper.fair.plan import Protocol, plan_sides
from gplasc.paper.fair.summary import TrialResult, choose, read_summary
from gplasc.paper.fair.tables import summary_tables
from gplasc.report.page import write_report
from gplasc.results.record import read_record
from gplasc.results.statistics import paired_difference
from gplasc.runs.execute import execute
from gplasc.streams import Task
from gplasc.study.cell import Outcome
from gplasc.study.points import balanced_points, different_points

ROOT = Path(__file__).parents[2]
fill_tables = runpy.run_path(str(ROOT / "scripts" / "docs"))["fill_tables"]
TINY = "synthetic:tasks=2,classes=2,size=8,channels=1,train=10,test=4"
OTHER = "synthetic:tasks=2,classes=2,size=8,channels=1,train=10,test=5"
PLUGIN = '''
"""A plug-in of a user."""
from pydantic import Field
from gplasc import Plugin
from gplasc.settings.types import Settings

class MineSettings(Settings):
    weight: float = Field(1.0, ge=0)

class Mine(Plugin):
    Settings = MineSettings
'''


def protocol(**more):
    given = {"experiment": "table-accuracy", "scale": "smoke", "streams": (TINY,), "methods": ("co2l",)}
    return Protocol(**(given | {"plugins": ("gplasc",), "set": ("model.encoder=small",)} | more))


class Pretend:
    """An executor whose runs take no time: their accuracy follows from their settings."""

    def __init__(self, accuracy, fail=lambda config: False):
        self.accuracy, self.fail = accuracy, fail
        self.stages = []

    def open(self):
        self.stages.append([])
        return self

    def submit(self, cell, workspace, listener):
        future = Future()
        config = cell.spec.config
        self.stages[-1].append(config)
        if self.fail(config):
            future.set_result(Outcome(cell, "failed", error="no luck"))
            return future
        value = self.accuracy(config)
        metrics = {s: {"final_accuracy": value, "forgetting": 100 - value} for s in ("class_il", "task_il")}
        record = {"run_id": cell.run_id, "settings": config.model_dump(mode="json"), "metrics": metrics}
        future.set_result(Outcome(cell, "done", record))
        return future

    def stop(self, *, now=False):
        pass

    def close(self):
        pass


def pretend(tmp_path, accuracy, fail=lambda config: False, **more):
    executor = Pretend(accuracy, fail)
    done = compare_fairly(protocol(**more), out=tmp_path, device="cpu", open_executor=executor.open)
    return done, executor


# ---- the trials ----------------------------------------------------------------------------------------------------


def test_every_side_has_as_many_trials_over_the_same_shared_values():
    sides = plan_sides(protocol(methods=("co2l", "er"), trials=8))
    assert [side.row.name for side in sides] == ["er", "er+gplasc", "co2l", "co2l+gplasc"]
    by_name = {side.row.name: side for side in sides}
    for side in sides:
        assert len(side.trials) == 8
        assert len({side.tuning_run(trial, protocol(), 1000).run_id for trial in side.trials}) == 8
        assert side.trials[0].settings == {}, "the preset comes first"
    for name in ("er", "co2l"):
        base, other = by_name[name], by_name[f"{name}+gplasc"]
        own = [name for name in other.searched if name not in base.searched]
        assert own == [f"gplasc.{n}" for n in ("margin", "lambda_range", "lambda_position", "lambda_distill")]
        for mine, theirs in zip(base.trials, other.trials, strict=True):
            assert mine.values == {n: value for n, value in theirs.values.items() if n not in own}
        for setting in own:
            assert len({trial.values[setting] for trial in other.trials}) >= 3
    assert set(by_name["er"].searched) == {"train.lr", "train.epochs"}
    assert set(by_name["co2l"].searched) == {"train.lr", "train.epochs", "co2l.temperature"}
    longer = plan_sides(protocol(methods=("co2l", "er"), trials=10))
    assert [side.trials[:8] for side in longer] == [side.trials for side in sides]
    other = plan_sides(protocol(methods=("co2l", "er"), trials=8, search_seed=1))
    assert other[0].trials[1:] != sides[0].trials[1:]


def test_points_are_different_and_use_each_value_about_equally_often():
    axes = {"a": [1, 2, 3], "b": [1, 2, 3, 4]}
    points = different_points(axes, {"a": 1, "b": 1}, 11, seed=3)
    assert len({tuple(point.values()) for point in points}) == 11
    assert {"a": 1, "b": 1} not in points
    half = points[:5]
    for name, values in axes.items():
        counts = [sum(point[name] == value for point in half) + (value == 1) for value in values]
        assert max(counts) - min(counts) <= 1
    with pytest.raises(UserError, match="13 trials need as many different settings"):
        different_points(axes, {"a": 1, "b": 1}, 12, seed=3)
    many = {str(n): list(range(10)) for n in range(9)}
    assert len(different_points(many, {}, 3, seed=0)) == 3
    column = [point["a"] for point in balanced_points({"a": [1, 2, 3]}, 7, seed=0)]
    assert all(set(column[start : start + 3]) == {1, 2, 3} for start in (0, 3))


def test_epochs_stretch_what_belongs_to_them():
    (side,) = plan_sides(
        protocol(methods=("er",), plugins=(), streams=("seq-cifar100",), scale="cpu", set=(), buffers=(200,),
                 space=("train.epochs=x0.5,x2", "train.lr=0.3"), trials=3)
    )  # fmt: skip
    configs = [side.tuning_run(trial, protocol(), 1000).resolved.config.train for trial in side.trials]
    found = {(c.epochs, c.first_epochs, c.milestones, c.lr) for c in configs[1:]}
    assert (configs[0].epochs, configs[0].milestones) == (10, (7, 9))
    assert found == {(5, 5, (4, 4), 0.3), (20, 20, (14, 18), 0.3)}


def test_what_is_given_for_all_rows_is_not_searched():
    sides = plan_sides(protocol(set=("temperature=0.2", "gplasc.margin=0.1"), trials=3))
    assert all("co2l.temperature" not in side.searched for side in sides)
    assert all("gplasc.margin" not in side.searched for side in sides)
    assert all(side.preset.options["co2l"]["temperature"] == 0.2 for side in sides)
    assert all(side.temperature is None for side in sides)


def test_any_plugins_streams_and_buffers(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    sides = plan_sides(
        protocol(
            plugins=("gplasc", str(path)),
            streams=("seq-cifar10", "seq-digits"),
            space=("mine.weight=0.5,2",),
            trials=4,
        )
    )
    assert [(side.row.name, side.stream, side.buffer) for side in sides] == [
        (name, stream, buffer)
        for stream, buffers in (("seq-cifar10", (200, 500)), ("seq-digits", (None,)))
        for buffer in buffers
        for name in ("co2l", "co2l+gplasc", "co2l+mine")
    ]
    assert {side.row.base for side in sides} == {None, "co2l"}
    mine = sides[2]
    assert {trial.values["mine.weight"] for trial in mine.trials[1:]} == {0.5, 2}
    assert mine.trials[0].values["mine.weight"] == 1.0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"seeds": (0, 1000)}, "the seed 1000 is given for tuning and for the test"),
        ({"trials": 0}, "--trials is 0"),
        ({"validation": 1.0}, "a share between 0 and 1"),
        ({"space": ("data.evaluate_on=test",)}, "cannot be searched"),
        ({"space": ("margn=0,0.1",)}, "no row has the axis 'margn'"),
        ({"set": ("gplsc.margin=0",)}, "no row has the setting 'gplsc.margin'; did you mean 'gplasc.margin'"),
        ({"set": ("evaluate_on=test",)}, "must not look at the test split"),
        ({"space": ("train.lr=0.1", "train.epochs=1", "temperature=0.1")}, "on synthetic.*: 12 trials need"),
        ({"space": ("model.features=x2,x3",)}, "give the values"),
        ({"plugins": ("gplasc", "gplasc")}, "named twice"),
        ({"temperatures": (0.0,)}, "must be greater than 0"),
        ({"experiment": "time"}, "measures time"),
        ({"seeds": ()}, "at least one seed"),
        ({"streams": ("seq-digts",)}, "no stream 'seq-digts'; did you mean 'seq-digits'"),
        ({"tune_set": ("train.epoch=1",)}, "has no such setting; did you mean 'train.epochs'"),
        ({"tune_set": ("train.lr=0.1",)}, "--tune-set train.lr: it is searched"),
        ({"tune_set": ("data.evaluate_on=test",)}, "must not look at the test split"),
    ],
)
def test_mistakes(more, message):
    with pytest.raises(UserError, match=message):
        first_run(protocol(**more))


def first_run(wanted):
    side = plan_sides(wanted)[0]
    return side.tuning_run(side.trials[0], wanted, 1000)


# ---- the choice ----------------------------------------------------------------------------------------------------


def accuracy(config):
    """On validation one stream wants small learning rates and the other large ones; on test it is the other way."""
    small = (config.stream == TINY) == (config.data.evaluate_on == "validation")
    value = 50 + 10 * (-config.train.lr if small else config.train.lr)
    return value + config.seed % 7 * 0.1 + 2 * len(config.plugins)


def test_choice_is_made_for_each_stream_on_validation_and_holds_for_all_seeds(tmp_path):
    done, executor = pretend(tmp_path, accuracy, streams=(TINY, OTHER), seeds=(0, 1, 2, 3, 4))
    tuning, test = executor.stages
    assert {config.data.evaluate_on for config in tuning} == {"validation"}
    assert {config.data.validation for config in tuning} == {0.2}
    assert {config.seed for config in tuning} == {1000}
    assert len(tuning) == 2 * 2 * 12
    assert {(config.data.evaluate_on, config.data.validation) for config in test} == {("test", 0.0)}
    assert {config.seed for config in test} == {0, 1, 2, 3, 4}
    for row in done.summary.rows:
        rates = [trial.values["train.lr"] for trial in row.trials]
        wanted = min(rates) if row.stream == TINY else max(rates)
        assert row.settings["train.lr"] == wanted == row.trials[row.chosen].values["train.lr"]
        chosen = {
            config.train.lr
            for config in test
            if config.run_id in row.runs.values() and config.stream == row.stream
        }
        assert chosen == {wanted}, "one choice for all seeds"
        assert list(row.runs) == [0, 1, 2, 3, 4]


def test_settings_of_the_trials_alone(tmp_path):
    done, executor = pretend(tmp_path, accuracy, tune_set=("data.images_per_class=3",))
    tuning, test = executor.stages
    assert {config.data.images_per_class for config in tuning} == {3}
    assert 3 not in {config.data.images_per_class for config in test}
    assert "--tune-set data.images_per_class=3" in done.summary.command
    (table,) = summary_tables(done.summary, ["results"])
    assert any("(seed 1000; trials with data.images_per_class=3)" in note for note in table.notes)
    _, executor = pretend(
        tmp_path / "epochs", accuracy, set=("train.epochs=9",), tune_set=("train.epochs=2",)
    )
    assert [{config.train.epochs for config in stage} for stage in executor.stages] == [{2}, {9}]


def test_ties_failures_and_several_tuning_seeds(tmp_path):
    def trial(*scores):
        found = {n: score for n, score in enumerate(scores) if score is not None}
        return TrialResult(values={}, validation=found, runs={n: "run" for n, _ in enumerate(scores)})

    assert choose([trial(50.0), trial(60.0), trial(60.0)]) == 1
    assert choose([trial(50.0, 52.0), trial(90.0, None), trial(51.0, 52.0)]) == 2
    assert choose([trial(None)]) is None
    done, _ = pretend(
        tmp_path,
        accuracy,
        fail=lambda config: bool(config.plugins),
        trials=2,
        tune_seeds=(7, 8),
        seeds=(0, 1),
    )
    rows = {row.row: row for row in done.summary.rows}
    assert (rows["co2l+gplasc"].chosen, rows["co2l+gplasc"].metrics) == (None, {})
    assert list(rows["co2l"].trials[0].validation) == [7, 8]
    assert len(done.failed) == 2 * 2 + 2 * 2
    assert "failed" in summary_tables(done.summary)[1].to_markdown()
    preset = plan_sides(protocol())[0].preset.train.lr
    done, _ = pretend(tmp_path, accuracy, fail=lambda config: config.train.lr > preset, seeds=(0, 1))
    assert done.failed == [], "a trial that fails is a trial that is not chosen"
    assert "12 of 12" not in summary_tables(done.summary)[1].to_markdown()


# ---- the tables ----------------------------------------------------------------------------------------------------


def noisy(config):
    """A gain of two points with noise that depends on the seed."""
    return 60 + (config.seed * 37 % 11) * 0.3 + len(config.plugins) * (2 + (config.seed * 17 % 5) * 0.2)


def test_differences_are_paired_with_the_interval_of_scipy(tmp_path, capsys):
    done, _ = pretend(tmp_path, noisy, trials=2, seeds=(0, 1, 2, 3, 4, 5))
    base, other = done.summary.rows
    gains = [other.metrics["class_il"][seed] - base.metrics["class_il"][seed] for seed in range(6)]
    wanted = stats.t.interval(0.95, 5, loc=sum(gains) / 6, scale=stats.sem(gains))
    effect = done.summary.difference(other)
    assert (effect.low, effect.high) == pytest.approx(wanted, abs=1e-4)
    assert (effect.mean, effect.count) == (pytest.approx(sum(gains) / 6, abs=1e-4), 6)
    assert done.summary.difference(base) is None
    text = capsys.readouterr().out
    assert f"{effect.mean:+.2f} [{effect.low:+.2f}, {effect.high:+.2f}] to co2l (n=6)" in text
    assert "Each row was tuned with 2 trials (the preset and 1 more)" in text
    assert "Searched for co2l: train.lr: " in text
    assert f"written: {', '.join(map(str, done.files))}" in text
    names = ["table.md", "table.tex", "table.csv", "trials.csv", "summary.json", "gains.svg"]
    assert [path.name for path in done.files] == names
    lines = list(csv.DictReader((tmp_path / "table-accuracy-fair" / "trials.csv").read_text().splitlines()))
    assert len(lines) == 4
    assert [line["chosen"] for line in lines].count("yes") == 2


def test_table_of_temperatures_keeps_all_else_at_the_preset(tmp_path):
    done, executor = pretend(
        tmp_path,
        lambda config: 50 - 10 * config.options["co2l"]["temperature"] + len(config.plugins),
        seeds=(0, 1),
        trials=3,
    )
    found = {(one.row, one.temperature): one for one in done.summary.temperatures}
    assert list(found) == [(row, t) for row in ("co2l", "co2l+gplasc") for t in (0.5, 0.1)]
    preset = plan_sides(protocol(trials=3))[0].preset
    configs = {config.run_id: config for config in executor.stages[1]}
    for (_, temperature), one in found.items():
        for run in one.runs.values():
            config = configs[run]
            assert config.options["co2l"] == {**preset.options["co2l"], "temperature": temperature}
            assert (config.train, config.model) == (preset.train, preset.model)
    assert done.summary.difference(found["co2l+gplasc", 0.1]).mean == pytest.approx(1.0)
    table = summary_tables(done.summary, ["temperature"])[0]
    assert table.rows[0][2:] == ["45.00 ± 0.00 (n=2)", "49.00 ± 0.00 (n=2)", "+4.00 [+4.00, +4.00] (n=2)"]
    assert (
        summary_tables(pretend(tmp_path, noisy, temperatures=(), trials=1)[0].summary, ["temperature"]) == []
    )


def test_published_numbers_stand_beside_ours(tmp_path):
    done, _ = pretend(tmp_path, noisy, streams=("seq-cifar10",), buffers=(200,), trials=1, seeds=(0, 1))
    assert "paper 70.59 ± 1.26" in summary_tables(done.summary, ["results"])[0].to_markdown()


def test_summary_is_read_again_and_fills_a_page(tmp_path):
    cheaper = ("data.images_per_class=3", "train.momentum=0.0")
    done, _ = pretend(
        tmp_path, noisy, streams=(TINY, OTHER), trials=2, seeds=(0, 1), temperatures=(), tune_set=cheaper
    )
    path = done.summary.write(tmp_path / "results" / "one.json")
    summary = read_summary(path)
    assert summary == done.summary
    words = shlex.split(summary.command)
    assert words[:3] == ["gplasc", "reproduce", "table-accuracy"]
    read = parse(words[1:])
    options = {"experiment": read["name"]} | vars(read["part"]) | vars(read["own"]) | vars(read["comparison"])
    for name, value in summary.protocol:
        assert options[name] == value
    page = f"before\n<!-- fair: one.json results tuning {TINY} -->\nold\n<!-- end -->\nafter\n"
    filled = fill_tables(page, path.parent)
    first, second = summary_tables(summary, ["results", "tuning"], [TINY])
    assert first.to_markdown() in filled
    assert second.to_markdown() in filled
    assert "old" not in filled
    assert OTHER not in filled.replace(first.to_markdown(), "")
    assert fill_tables(filled, path.parent) == filled
    (short,) = summary_tables(summary, ["gains"], [TINY])
    assert short.title.startswith(TINY)
    gain = summary.difference(summary.rows[1]).mean
    assert [row[1] for row in short.rows] == ["co2l"]
    assert f"{gain:+.2f} [" in short.rows[0][3]
    assert "with gplasc" in fill_tables("<!-- fair: one.json gains -->\n<!-- end -->", path.parent)
    with pytest.raises(UserError, match="has no stream 'seq-digts'"):
        fill_tables(page.replace(TINY, "seq-digts"), path.parent)
    path.write_text(json.dumps({"format": 1}))
    with pytest.raises(UserError, match="is not the summary of a fair comparison"):
        read_summary(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_summary(tmp_path / "none.json")


@pytest.mark.filterwarnings("ignore")
def test_one_trial_needs_no_validation(tmp_path, capsys):
    done, executor = pretend(tmp_path, noisy, trials=1, seeds=(0, 1))
    assert len(executor.stages) == 1, "the runs on test alone"
    assert all(config.data.evaluate_on == "test" for config in executor.stages[0])
    assert [row.chosen for row in done.summary.rows] == [0, 0]
    assert "Nothing was tuned" in capsys.readouterr().out
    assert "tuning" not in preview_fair(protocol(trials=1, seeds=(0, 1)), out=tmp_path, device="cpu")


def test_a_search_on_validation_says_so_and_chooses_nothing(tmp_path):
    chosen = ("model.encoder=small", "data.validation=0.2", "data.evaluate_on=validation")
    done, executor = pretend(tmp_path, noisy, trials=1, seeds=(0, 1), set=chosen)
    assert all(config.data.evaluate_on == "validation" for config in executor.stages[0])
    results, gains = summary_tables(done.summary)[0], summary_tables(done.summary, ("gains",))[0]
    assert "Seeds 0, 1, evaluated on validation." in results.notes[0]
    assert "on validation" in gains.title
    assert {r["settings"]["data"]["evaluate_on"] for r in done.summary.records().values()} == {"validation"}
    with pytest.raises(UserError, match="what was chosen on validation is evaluated on test"):
        pretend(tmp_path, noisy, trials=2, seeds=(0, 1), set=chosen)


def test_several_summaries_become_one_table_with_a_column_for_each_stream(tmp_path):
    first, _ = pretend(tmp_path / "a", noisy, trials=1, temperatures=(), seeds=(0, 1))
    second, _ = pretend(tmp_path / "b", noisy, trials=1, temperatures=(), seeds=(2,), streams=("seq-digits",))
    for name, done in (("a", first), ("b", second)):
        done.summary.write(tmp_path / f"{name}.json")
    page = fill_tables("<!-- fair: a.json,b.json -->\n<!-- end -->", tmp_path)
    line = next(line for line in page.splitlines() if line.startswith("| co2l+gplasc |"))
    gains = [done.summary.difference(done.summary.rows[1]).mean for done in (first, second)]
    assert f"(n=2)<br>{gains[0]:+.2f} | " in line
    assert line.endswith(f"(n=1)<br>{gains[1]:+.2f} | {sum(gains) / 2:+.2f} |")
    assert page.count("```sh\ngplasc reproduce") == 2


def test_existing_summary_is_extended_without_the_folders_of_its_runs(tmp_path):
    def call(accuracy, folder, **more):
        executor = Pretend(accuracy)
        given = protocol(trials=2, temperatures=(), **more)
        done = compare_fairly(
            given,
            out=tmp_path / folder,
            device="cpu",
            open_executor=executor.open,
            summary_file=tmp_path / "one.json",
        )
        return done.summary, executor.stages

    first, stages = call(noisy, "a", seeds=(0, 1))
    assert [len(stage) for stage in stages] == [4, 4]
    again, stages = call(None, "b", seeds=(0, 1))
    assert (again, stages) == (first, [])
    longer, stages = call(noisy, "b", seeds=(0, 1, 2))
    assert [[config.seed for config in stage] for stage in stages] == [[2, 2]]
    whole, _ = pretend(tmp_path / "c", noisy, trials=2, temperatures=(), seeds=(0, 1, 2))
    assert longer.rows == whole.summary.rows


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name
)
def test_tables_of_pages_equal_their_summaries(page):
    text = page.read_text(encoding="utf-8")
    assert fill_tables(text, ROOT / "results") == text, "run scripts/docs"


QUOTED = re.compile(r"([+-]?\d+\.\d+) \[([+-]?\d+\.\d+), ([+-]?\d+\.\d+)\]")


def known_differences():
    """Every paired difference of two rows of a summary, as (mean, low, high) with two and with three decimals."""
    found = set()
    for path in sorted((ROOT / "results").rglob("*.json")):
        summary = read_summary(path)
        for first, second in itertools.permutations((*summary.rows, *summary.temperatures), 2):
            for name in first.metrics.keys() & second.metrics.keys():
                one = paired_difference(first.metrics[name], second.metrics[name])
                ends = (one.mean, one.low, one.high)
                found |= {tuple(f"{end:.{digits}f}" for end in ends) for digits in (2, 3)}
    return found


def test_differences_in_the_text_of_pages_are_those_of_the_summaries():
    known, quoted = known_differences(), 0
    for page in (ROOT / "README.md", ROOT / "docs" / "results.md"):
        text = re.sub(r"<!-- fair: .*?<!-- end -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for match in QUOTED.finditer(text.replace("−", "-").replace("\n", " ")):
            quoted += 1
            assert tuple(part.removeprefix("+") for part in match.groups()) in known, (page.name, match[0])
    assert quoted


def test_picture_of_the_gains_equals_the_summaries(tmp_path):
    found = [read_summary(path) for path in sorted((ROOT / "results").glob("*.json"))]
    tuned = [one for one in found if one.protocol.experiment == "ladder" and one.protocol.tunes]
    (path,) = write_gains(tmp_path / "gains.svg", tuned)
    assert path.read_text() == (ROOT / "docs" / "images" / "gains.svg").read_text(), "run scripts/docs"


def test_picture_has_a_mark_for_each_row_that_is_compared(tmp_path):
    done, _ = pretend(tmp_path, noisy, trials=1, seeds=(0, 1, 2), buffers=(20, 40), temperatures=())
    chart = gains_chart([done.summary])
    assert [series.name for series in chart.series] == ["gplasc"]
    assert chart.series[0].x == tuple(f"co2l on {TINY}, buffer {size}" for size in (20, 40))
    effects = [done.summary.difference(row) for row in done.summary.rows if row.base]
    assert chart.series[0].points() == [
        (x, e.mean, e.low, e.high) for x, e in zip(chart.series[0].x, effects, strict=True)
    ]
    assert any(path.name == "gains.svg" for path in done.files)
    alone, _ = pretend(tmp_path, noisy, trials=1, methods=("er",), plugins=(), seeds=(0,))
    assert not any(path.name == "gains.svg" for path in alone.files), "nothing is compared"


# ---- real runs -----------------------------------------------------------------------------------------------------


class Here:
    """An executor that computes in this process."""

    def submit(self, cell, workspace, listener):
        future = Future()
        result = execute(cell.spec, workspace, display=Quiet())
        future.set_result(Outcome(cell, "done", result.record))
        return future

    def stop(self, *, now=False):
        pass

    def close(self):
        pass


@pytest.mark.filterwarnings("ignore")
def test_test_split_is_not_touched_while_tuning(tmp_path, monkeypatch, capsys):
    stages, touched = [], set()

    def watched(self, name):
        if name == "test" and stages:
            touched.add(stages[-1])
        return object.__getattribute__(self, name)

    def open_executor():
        stages.append("test" if stages else "tuning")
        return Here()

    monkeypatch.setattr(Task, "__getattribute__", watched, raising=False)
    small = protocol(methods=("er",), trials=2, seeds=(0, 1))
    assert "4 runs, 0 complete" in preview_fair(small, out=tmp_path, device="cpu")
    done = compare_fairly(small, out=tmp_path, device="cpu", overlap=True, open_executor=open_executor)
    assert touched == {"test"}
    assert done.summary.command.endswith(" --overlap")
    for row in done.summary.rows:
        for trial in row.trials:
            for seed, run in trial.runs.items():
                record = read_record(tmp_path / run)
                assert record["settings"]["data"]["evaluate_on"] == "validation"
                found = record["metrics"]["class_il"]["final_accuracy"]
                assert trial.validation[seed] == pytest.approx(found, abs=1e-4)
        assert set(row.metrics) == {"class_il", "task_il", "forgetting", "overlap"}
    # Again: everything is there, the overlaps too.
    again = compare_fairly(small, out=tmp_path, device="cpu", open_executor=Here)
    assert again.summary == done.summary
    assert "4 runs, 4 complete" in preview_fair(small, out=tmp_path, device="cpu")
    # The report shows the runs on test and says that it leaves the others out.
    write_report([tmp_path], tmp_path / "report.html")
    assert "4 runs that were evaluated on a validation split" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")
def test_overlap_that_a_summary_lacks_is_measured(tmp_path):
    small = protocol(methods=("er",), plugins=("gplasc",), trials=1, seeds=(0,))
    opened = []

    def call(folder, overlap):
        def open_executor():
            opened.append(folder)
            return Here()

        done = compare_fairly(small, out=tmp_path / folder, device="cpu", overlap=overlap,
                              summary_file=tmp_path / "one.json", open_executor=open_executor)  # fmt: skip
        return done.summary

    before = call("a", overlap=False)
    measured = call("b", overlap=True)  # the folders of the runs are not there: they are computed again
    assert all("overlap" not in row.metrics for row in before.rows)
    assert all(row.metrics["overlap"].keys() == {0} for row in measured.rows)
    assert [row.metrics["class_il"] for row in measured.rows] == [
        row.metrics["class_il"] for row in before.rows
    ]
    assert call("c", overlap=True) == measured
    assert opened == ["a", "b"]


def command(*words):
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", *words])
    return caught.value.code


def test_the_command(tmp_path, capsys):
    words = ["table-accuracy", "--fair", "--streams", TINY, "--methods", "er", "--plugins", "gplasc", "--trials", "3",
             "--seeds", "0", "1", "--scale", "smoke", "--set", "model.encoder=small", "--set", "model.features=signed",
             "--out", str(tmp_path)]  # fmt: skip
    assert command(*words, "--dry-run", "--device", "cpu") == 0
    text = capsys.readouterr().out
    assert "tuning, 3 trials for each of 2 rows:\n6 runs, 0 complete" in text
    assert "test, 2 seeds for each row:\n4 runs, 0 complete" in text
    assert not list(tmp_path.iterdir()), "nothing is written"
    assert command("table-accuracy", "--trials", "3") == 2
    assert "--trials belongs to a fair comparison; add --fair" in capsys.readouterr().err
    assert command("toy", "--fair") == 2
    assert "leave out --fair" in capsys.readouterr().err
    assert command("table-accuracy", "--fair", "--seeds", "1000") == 2
    assert "the seed 1000" in capsys.readouterr().err
