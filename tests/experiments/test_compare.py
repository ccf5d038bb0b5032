"""Comparisons: as many trials for each row, never on the test split, one choice for all seeds of a stream."""

import itertools
import json
import re
import runpy
import shlex
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from scipy import stats

import gplasc
from gplasc._io.display import Display
from gplasc.cli import app, main
from gplasc.errors import UserError
from gplasc.paper import load_experiment
from gplasc.report.page import write_report
from gplasc.results.group import CLASS_IL, Group
from gplasc.results.record import FORMAT, Record, read_record
from gplasc.runs.workspace import Workspace
from gplasc.streams import Task
from gplasc.study._conclusions import conclusion
from gplasc.study._contenders import plan_contenders
from gplasc.study.cell import Outcome
from gplasc.study.compare import (
    _test_cells,
    _trial_cells,
    compare_rows,
    methods_alone,
    preview_rows,
    print_comparison,
)
from gplasc.study.executors import Engine
from gplasc.study.plan import ComparePlan
from gplasc.study.points import _balanced_points, _different_points
from gplasc.study.processes import ThisProcess
from gplasc.study.stored import choose, read_results
from gplasc.study.tables import comparison_tables

ROOT = Path(__file__).parents[2]
DOCS_SCRIPT = runpy.run_path(str(ROOT / "scripts" / "docs"))
fill_tables = DOCS_SCRIPT["fill_tables"]
NOTES = ROOT / "results" / "notes" / "README.md"
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
    LIKE = "gplasc"
    Settings = MineSettings
'''


def plan(**more):
    given = {"experiment": "table-accuracy", "scale": "smoke", "streams": (TINY,), "methods": ("co2l",)}
    given["tune_seeds"] = (1000,)
    return ComparePlan(**(given | {"plugins": ("gplasc",), "set": ("model.encoder=small",)} | more))


def contenders(**more):
    """Return the rows of a plan; the `tried` of each are the values of what is searched, one dict a trial."""
    wanted = plan(**more)
    rows = plan_contenders(wanted, load_experiment(wanted.experiment))
    for row in rows:
        flat = [cell.spec.config.flat() for cell in _trial_cells(wanted, [row])]
        object.__setattr__(row, "tried", [{name: values[name] for name in row.searched} for values in flat])
    return rows


class Pretend:
    """An executor whose runs take no time: their accuracy follows from their settings."""

    slots = None

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
        record = {
            "format": FORMAT,
            "run_id": cell.run_id,
            "title": config.title,
            "settings": config.model_dump(mode="json"),
            "stream": {"name": config.stream, "test_samples": [1, 1]},
            "matrix": {name: [[100.0, None], [value, value]] for name in ("class_il", "task_il")},
            "geometry": [],
            "timings": [],
        }
        future.set_result(Outcome(cell, "done", Record.parse(record)))
        return future

    def stop(self, *, now=False):
        pass

    def close(self):
        pass


def compute(wanted, out, open_executor, *, summary=None, overlap=False):
    """Compare as the command does: compute, write and print."""
    workspace = Workspace(out, device="cpu")
    experiment = load_experiment(wanted.experiment) if wanted.experiment else methods_alone(wanted)
    study, results, files = compare_rows(
        wanted, experiment, workspace, open_executor, summary=summary, overlap=overlap
    )
    code = print_comparison(study, results, files)
    rows = {group.labels["row"]: group for group in results.groups(stage="test")}
    return SimpleNamespace(study=study, results=results, files=files, code=code, rows=rows)


def pretend(tmp_path, accuracy, fail=lambda config: False, **more):
    executor = Pretend(accuracy, fail)
    return compute(plan(**more), tmp_path, executor.open), executor


def gain_of(results, row):
    """Return the paired difference in class-IL of a row to its base."""
    groups = results.groups(stage="test")
    return row.difference(CLASS_IL, row.base_among(groups))


# ---- the trials ----------------------------------------------------------------------------------------------------


def test_every_row_has_as_many_trials_over_the_same_shared_values():
    rows = contenders(methods=("co2l", "er"), trials=8)
    assert [one.row.name for one in rows] == ["er", "er+gplasc", "co2l", "co2l+gplasc"]
    by_name = {one.row.name: one for one in rows}
    for one in rows:
        assert len(one.trials) == 8
        assert len({cell.run_id for cell in _trial_cells(plan(), [one])}) == 8
        assert one.trials[0] == {}, "the preset comes first"
    for name in ("er", "co2l"):
        base, other = by_name[name], by_name[f"{name}+gplasc"]
        own = [name for name in other.searched if name not in base.searched]
        assert own == [f"gplasc.{n}" for n in ("margin", "lambda_range", "lambda_position", "lambda_distill")]
        for mine, theirs in zip(base.tried, other.tried, strict=True):
            assert mine == {n: value for n, value in theirs.items() if n not in own}
        for setting in own:
            assert len({trial[setting] for trial in other.tried}) >= 3
    assert set(by_name["er"].searched) == {"train.lr", "train.epochs"}
    assert set(by_name["co2l"].searched) == {"train.lr", "train.epochs", "co2l.temperature"}
    longer = contenders(methods=("co2l", "er"), trials=10)
    assert [one.trials[:8] for one in longer] == [one.trials for one in rows]
    other = contenders(methods=("co2l", "er"), trials=8, search_seed=1)
    assert other[0].trials[1:] != rows[0].trials[1:]


def test_points_are_different_and_use_each_value_about_equally_often():
    axes = {"a": [1, 2, 3], "b": [1, 2, 3, 4]}
    points = _different_points(axes, {"a": 1, "b": 1}, 11, seed=3)
    assert len({tuple(point.values()) for point in points}) == 11
    assert {"a": 1, "b": 1} not in points
    half = points[:5]
    for name, values in axes.items():
        counts = [sum(point[name] == value for point in half) + (value == 1) for value in values]
        assert max(counts) - min(counts) <= 1
    with pytest.raises(UserError, match="13 trials need as many different settings"):
        _different_points(axes, {"a": 1, "b": 1}, 12, seed=3)
    many = {str(n): list(range(10)) for n in range(9)}
    assert len(_different_points(many, {}, 3, seed=0)) == 3
    column = [point["a"] for point in _balanced_points({"a": [1, 2, 3]}, 7, seed=0)]
    assert all(set(column[start : start + 3]) == {1, 2, 3} for start in (0, 3))


def test_epochs_stretch_what_belongs_to_them():
    wanted = plan(
        methods=("er",), plugins=(), streams=("seq-cifar100",), scale="cpu", set=(), buffers=(200,),
        space=("train.epochs=x0.5,x2", "train.lr=0.3"), trials=3,
    )  # fmt: skip
    (row,) = plan_contenders(wanted, load_experiment(wanted.experiment))
    configs = [cell.spec.config.train for cell in _trial_cells(wanted, [row])]
    found = {(c.epochs, c.first_epochs, c.milestones, c.lr) for c in configs[1:]}
    assert (configs[0].epochs, configs[0].milestones) == (10, (7, 9))
    assert found == {(5, 5, (4, 4), 0.3), (20, 20, (14, 18), 0.3)}


def test_what_is_given_for_all_rows_is_not_searched():
    for one in contenders(set=("temperature=0.2", "gplasc.margin=0.1"), trials=3):
        assert not {"co2l.temperature", "gplasc.margin"} & one.searched.keys()
        assert one.config.options["co2l"]["temperature"] == 0.2
        assert {cell.labels["stage"] for cell in _test_cells(plan(), [replace(one, chosen={})])} == {"test"}


def test_any_plugins_streams_and_buffers(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    rows = contenders(
        plugins=("gplasc", str(path)),
        streams=("seq-cifar10", "seq-digits"),
        space=("mine.weight=0.5,2",),
        trials=4,
    )
    assert [(one.row.name, *one.place) for one in rows] == [
        (name, stream, buffer)
        for stream, buffers in (("seq-cifar10", (200, 500)), ("seq-digits", (None,)))
        for buffer in buffers
        for name in ("co2l", "co2l+gplasc", "co2l+mine")
    ]
    assert {one.row.base for one in rows} == {None, "co2l"}
    assert {trial["mine.weight"] for trial in rows[2].tried[1:]} == {0.5, 2}
    assert rows[2].tried[0]["mine.weight"] == 1.0


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
        ({"plugins": ("gplasc", "gplasc")}, "the plug-in 'gplasc' is named twice"),
        ({"methods": ("er", "er")}, "the method 'er' is named twice"),
        ({"experiment": "time"}, "measures time"),
        ({"seeds": ()}, "at least one seed"),
        ({"streams": ("seq-digts",)}, "no stream 'seq-digts'; did you mean 'seq-digits'"),
        (
            {"tune_set": ("train.epoch=1",)},
            "there is no setting 'train.epoch' here; did you mean 'train.epochs'",
        ),
        ({"tune_set": ("train.lr=0.1",)}, "--tune-set train.lr: it is searched"),
        ({"tune_set": ("data.evaluate_on=test",)}, "must not look at the test split"),
    ],
)
def test_mistakes(more, message):
    with pytest.raises(UserError, match=message):
        contenders(**more)


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
    for row in done.results.groups(stage="test"):
        trials = done.results.trials(row)
        rates = [trial.settings["train.lr"] for trial in trials]
        wanted = min(rates) if row.labels["stream"] == TINY else max(rates)
        chosen = trials[done.results.chosen(row)]
        assert row.settings["train.lr"] == wanted == chosen.settings["train.lr"]
        rates = {config.train.lr for config in test if config.run_id in row.runs.values()}
        assert rates == {wanted}, "one choice for all seeds"
        assert list(row.runs) == [0, 1, 2, 3, 4]


def test_settings_of_the_trials_alone(tmp_path):
    done, executor = pretend(tmp_path, accuracy, tune_set=("data.images_per_class=3",))
    tuning, test = executor.stages
    assert {config.data.images_per_class for config in tuning} == {3}
    assert 3 not in {config.data.images_per_class for config in test}
    assert "--tune-set data.images_per_class=3" in done.results.command
    (table,) = comparison_tables(done.results, ["results"])
    assert any("(seed 1000; trials with data.images_per_class=3)" in note for note in table.notes)
    _, executor = pretend(
        tmp_path / "epochs", accuracy, set=("train.epochs=9",), tune_set=("train.epochs=2",)
    )
    assert [{config.train.epochs for config in stage} for stage in executor.stages] == [{2}, {9}]


def test_ties_failures_and_several_tuning_seeds(tmp_path):
    def trial(*scores):
        found = {n: score for n, score in enumerate(scores) if score is not None}
        return Group({}, {CLASS_IL: found} if found else {}, {n: "run" for n, _ in enumerate(scores)})

    assert choose([trial(50.0), trial(60.0), trial(60.0)]) == 1
    assert choose([trial(50.0, 52.0), trial(90.0, None), trial(51.0, 52.0)]) == 2
    assert choose([trial(None)]) is None
    few = {"trials": 2, "tune_seeds": (7, 8), "seeds": (0, 1)}
    done, _ = pretend(tmp_path, accuracy, fail=lambda config: bool(config.plugins), **few)
    assert done.results.chosen(done.rows["co2l+gplasc"]) is None
    assert done.rows["co2l+gplasc"].values == {}
    assert list(done.results.trials(done.rows["co2l"])[0].by_seed(CLASS_IL)) == [7, 8]
    assert len(done.study.failures) == 2 * 2
    assert done.code == 1
    results, tuning = (table.to_markdown() for table in comparison_tables(done.results)[:2])
    assert "2 failed" in results
    assert "failed" in tuning
    preset = contenders()[0].config.train.lr
    done, _ = pretend(tmp_path, accuracy, fail=lambda config: config.train.lr > preset, seeds=(0, 1))
    assert done.code == 0, "a trial that fails is a trial that is not chosen"
    assert "12 of 12" not in comparison_tables(done.results)[1].to_markdown()


# ---- the bases ------------------------------------------------------------------------------------------------------


def lucky(config):
    """The seed of the trials flatters co2l at its preset; the plug-in gains one point in the same settings."""
    preset = config.train.lr == 0.1
    value = (
        50 + (0 if preset else 4) + config.seed % 5 * 0.1 + len(config.plugins) * (1 + config.seed % 3 * 0.1)
    )
    return value + (10 if preset and config.seed == 1000 and not config.plugins else 0)


FIXED = ("model.encoder=small", "temperature=0.1", "train.epochs=1", "gplasc.margin=0.1")


def test_a_gain_is_to_the_better_of_two_bases_which_other_seeds_choose(tmp_path):
    wanted = {"space": ("train.lr=0.1,0.3",), "trials": 2, "set": FIXED, "seeds": (0, 1, 2, 3, 4)}
    done, executor = pretend(tmp_path, lucky, **wanted)
    _, bases, test = executor.stages
    assert {config.seed for config in bases} == {1001}, "a seed that no trial had"
    assert {(c.plugins, c.data.evaluate_on) for c in bases} == {((), "validation")}
    same = "co2l (settings of co2l+gplasc)"
    assert list(done.rows) == ["co2l", same, "co2l+gplasc"]
    assert [row.settings["train.lr"] for row in done.rows.values()] == [0.1, 0.3, 0.3]
    assert done.rows["co2l+gplasc"].bases == (same, "co2l")
    assert len(test) == 15
    results, tests = (table.to_markdown() for table in comparison_tables(done.results, ["results", "tests"]))
    assert "+1.08" in results
    assert f"to {same} (n=5)" in results
    assert "to co2l (n=5)" in results
    assert "| significant |" in tests
    sentence = conclusion(done.results)
    assert (
        f"co2l+gplasc gains 1.08 points [+0.98, +1.18] of class-IL over {same} (+5.08 over co2l)" in sentence
    )
    assert "survives Holm's correction over 1 test; each row has the shared settings of the base" in sentence
    # With equal settings there is one base, and nothing to choose.
    alone, executor = pretend(tmp_path / "b", noisy, trials=1, seeds=(0, 1, 2))
    assert len(executor.stages) == 1
    assert list(alone.rows) == ["co2l", "co2l+gplasc"]
    assert "(3 seeds: not tested)" in conclusion(alone.results)
    assert "not tested: 3 of at least 5 seeds" in comparison_tables(alone.results, ["tests"])[0].to_markdown()
    few, _ = pretend(tmp_path / "c", noisy, trials=1, seeds=(0, 1))
    assert "cannot be told from co2l with 2 of at least 3 seeds" in conclusion(few.results)


PLAN = f"""
scale = "smoke"
streams = ["{TINY}"]
methods = ["co2l"]
plugins = ["gplasc"]
seeds = [0, 1, 2, 3, 4]
set = ["model.encoder=small"]
family = ["co2l+gplasc"]

[[rows]]
name = "co2l, large rate"
method = "co2l"
settings = {{ "train.lr" = 0.3 }}

[[rows]]
name = "co2l+gplasc, large rate"
method = "co2l"
plugins = ["gplasc"]
settings = {{ "train.lr" = 0.3 }}
base = "co2l, large rate"
also = ["co2l"]
"""


def test_a_plan_is_a_file_with_rows_and_the_family(tmp_path, capsys):
    path = tmp_path / "large.toml"
    path.write_text(PLAN)
    wanted = ComparePlan.read(path)
    executor = Pretend(noisy)
    done = compute(wanted, tmp_path / "runs", executor.open)
    assert list(done.rows) == ["co2l", "co2l+gplasc", "co2l, large rate", "co2l+gplasc, large rate"]
    assert done.rows["co2l+gplasc, large rate"].bases == ("co2l, large rate", "co2l")
    assert done.results.command == f"gplasc compare --plan {path}"
    assert done.files[0].parent.name == "compare-large"
    assert conclusion(done.results).count("gains") == 1, "the family has one row"
    (table,) = comparison_tables(done.results, ["tests"])
    assert "Rows differ in train.lr: 0.1 (co2l; co2l+gplasc), 0.3 (co2l, large" in table.notes[-1]
    assert "co2l+gplasc gains" in capsys.readouterr().out.splitlines()[-1]


def test_methods_without_plugins_are_told_apart_too(tmp_path):
    """No row has a base, so there is no table of gains; an own method stands next to a built-in one."""
    mine = tmp_path / "mine.py"
    mine.write_text("from gplasc.methods.er import ER\n\n\nclass Mine(ER):\n    pass\n")
    done, _ = pretend(tmp_path, noisy, experiment="", methods=("co2l", str(mine)), plugins=(), trials=1)
    (table,) = comparison_tables(done.results)
    assert "Rows differ in train.momentum: 0.9 (co2l), 0.0 (mine)." in table.notes


def test_what_a_plan_sets_is_no_published_protocol(tmp_path):
    """Settings of all rows, or of one row that is called like a published one, leave no gap and are named."""
    paper = {"scale": "paper", "streams": ("seq-cifar10",), "trials": 1, "seeds": (0,), "plugins": ()}
    row = {"name": "co2l", "method": "co2l", "settings": {"train.epochs": 1}, "base": None}
    for more in ({"set": ("train.epochs=1",)}, {"set": (), "rows": (row,), "methods": ("er",)}, {"set": ()}):
        done, _ = pretend(tmp_path, noisy, **paper | more)
        table = comparison_tables(done.results)[0]
        text = table.to_markdown()
        assert ("scale paper, changed: train.epochs)" in text) == (more != {"set": ()})
        assert ("gap" in text.partition("Scale paper")[0]) == (more == {"set": ()})


def test_an_own_method_that_is_called_like_a_published_one_has_no_published_number(tmp_path):
    mine = tmp_path / "co2l.py"
    mine.write_text("from gplasc.methods.co2l import Co2L\n\n\nclass Mine(Co2L):\n    pass\n")
    paper = {
        "scale": "paper",
        "streams": ("seq-cifar10",),
        "trials": 1,
        "seeds": (0,),
        "plugins": (),
        "set": (),
    }
    for method, there in ((str(mine), False), ("co2l", True)):
        done, _ = pretend(tmp_path, noisy, **paper, methods=(method,))
        (table,) = comparison_tables(done.results, ["results"])
        assert ("paper 6" in "".join(map(str, table.rows))) == there


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("rows =", "is not a plan in TOML"),
        (
            "sedes = [0]",
            "sedes: Extra inputs are not permitted; allowed in a plan: experiment, scale, streams",
        ),
        ("seeds = [0]", "names nothing to compare"),
        (PLAN.replace('family = ["co2l+gplasc"]', 'family = ["gplasc"]'), "the family has the row 'gplasc'"),
        (PLAN.replace("[0, 1, 2, 3, 4]", "[1003]"), "the seed 1003 is given for tuning and for the test"),
    ],
)
def test_plans_that_cannot_be_read(text, message, tmp_path):
    path = tmp_path / "plan.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=re.escape(message)):
        compute(ComparePlan.read(path), tmp_path, Pretend(noisy).open)


# ---- the tables ----------------------------------------------------------------------------------------------------


def noisy(config):
    """A gain of two points with noise that depends on the seed."""
    return 60 + (config.seed * 37 % 11) * 0.3 + len(config.plugins) * (2 + (config.seed * 17 % 5) * 0.2)


def test_differences_are_paired_with_the_interval_of_scipy(tmp_path, capsys):
    done, _ = pretend(tmp_path, noisy, trials=2, seeds=(0, 1, 2, 3, 4, 5))
    base, other = done.rows.values()
    gains = [other.by_seed(CLASS_IL)[seed] - base.by_seed(CLASS_IL)[seed] for seed in range(6)]
    wanted = stats.t.interval(0.95, 5, loc=sum(gains) / 6, scale=stats.sem(gains))
    gain = gain_of(done.results, other)
    assert (gain.low, gain.high) == pytest.approx(wanted, abs=1e-4)
    assert (gain.mean, gain.count) == (pytest.approx(sum(gains) / 6, abs=1e-4), 6)
    assert base.base_among(done.rows.values()) is None
    text = capsys.readouterr().out
    assert f"{gain.mean:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}] to co2l (n=6)" in text
    assert "Each row was tuned with 2 trials (the preset and 1 more)" in text
    assert "Searched for co2l: train.lr: " in text
    assert f"written: {', '.join(map(str, done.files))}" in text
    names = ["table.md", "table.tex", "table.csv", "summary.json"]
    assert [path.name for path in done.files] == names


def test_published_numbers_stand_beside_ours(tmp_path):
    done, _ = pretend(tmp_path, noisy, streams=("seq-cifar10",), buffers=(200,), trials=1, seeds=(0, 1))
    assert "paper 70.59 ± 1.26" in comparison_tables(done.results, ["results"])[0].to_markdown()


def test_summary_is_read_again_and_fills_a_page(tmp_path):
    cheaper = ("data.images_per_class=3", "train.momentum=0.0")
    done, _ = pretend(tmp_path, noisy, streams=(TINY, OTHER), trials=2, seeds=(0, 1), tune_set=cheaper)
    path = done.results.write(tmp_path / "results" / "one.json")
    results = read_results(path)
    assert results == done.results
    words = shlex.split(results.command)
    assert words[:3] == ["gplasc", "reproduce", "table-accuracy"]
    bound = app.parse_args(words[1:])[1]
    bound.apply_defaults()
    options = {"experiment": bound.arguments["name"]}
    options |= vars(bound.arguments["part"]) | vars(bound.arguments["comparison"])
    for name, value in results.plan:
        assert name in ("rows", "family", "file") or options[name] == value
    page = f"before\n<!-- fair: one.json results tuning {TINY} -->\nold\n<!-- end -->\nafter\n"
    filled = fill_tables(page, path.parent)
    first, second = comparison_tables(results, ["results", "tuning"], [TINY])
    assert first.to_markdown() in filled
    assert second.to_markdown() in filled
    assert "old" not in filled
    assert OTHER not in filled.replace(first.to_markdown(), "")
    assert fill_tables(filled, path.parent) == filled
    with pytest.raises(UserError, match="has no stream 'seq-digts'"):
        fill_tables(page.replace(TINY, "seq-digts"), path.parent)
    path.write_text(json.dumps({"format": 1}))
    with pytest.raises(UserError, match="is not the summary of a comparison"):
        read_results(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_results(tmp_path / "none.json")


@pytest.mark.filterwarnings("ignore")
def test_one_trial_needs_no_validation(tmp_path, capsys):
    done, executor = pretend(tmp_path, noisy, trials=1, seeds=(0, 1))
    assert len(executor.stages) == 1, "the runs on test alone"
    assert all(config.data.evaluate_on == "test" for config in executor.stages[0])
    assert [done.results.chosen(row) for row in done.rows.values()] == [0, 0]
    assert "Nothing was tuned" in capsys.readouterr().out
    assert "tuning" not in preview(plan(trials=1, seeds=(0, 1)), tmp_path)


def test_a_search_on_validation_says_so_and_chooses_nothing(tmp_path):
    chosen = ("model.encoder=small", "data.validation=0.2", "data.evaluate_on=validation")
    done, executor = pretend(tmp_path, noisy, trials=1, seeds=(0, 1), set=chosen)
    assert all(config.data.evaluate_on == "validation" for config in executor.stages[0])
    results, tests = comparison_tables(done.results)
    assert "Seeds 0, 1, evaluated on validation." in results.notes[0]
    assert "evaluated on validation" in tests.title
    assert {row.settings["data.evaluate_on"] for row in done.rows.values()} == {"validation"}
    with pytest.raises(UserError, match="what was chosen on validation is evaluated on test"):
        pretend(tmp_path, noisy, trials=2, seeds=(0, 1), set=chosen)


def test_several_summaries_become_one_table_with_a_column_for_each_stream(tmp_path):
    first, _ = pretend(tmp_path / "a", noisy, trials=1, seeds=(0, 1))
    second, _ = pretend(tmp_path / "b", noisy, trials=1, seeds=(2,), streams=("seq-digits",))
    for name, done in (("a", first), ("b", second)):
        done.results.write(tmp_path / f"{name}.json")
    page = fill_tables("<!-- fair: a.json,b.json -->\n<!-- end -->", tmp_path)
    line = next(line for line in page.splitlines() if line.startswith("| co2l+gplasc |"))
    gains = [gain_of(done.results, done.rows["co2l+gplasc"]).mean for done in (first, second)]
    assert f"(n=2)<br>{gains[0]:+.2f} | " in line
    assert line.endswith(f"(n=1)<br>{gains[1]:+.2f} | {sum(gains) / 2:+.2f} |")
    assert page.count("```sh\ngplasc reproduce") == 2


@pytest.mark.parametrize("moved", [False, True], ids=["same machine", "machine with bfloat16"])
def test_existing_summary_is_extended_without_the_folders_of_its_runs(moved, tmp_path, monkeypatch):
    def call(accuracy, folder, summary="one.json", **more):
        native = moved and folder != "a"
        monkeypatch.setattr("gplasc.runs.spec.computes_bfloat16", lambda device: native)
        executor = Pretend(accuracy)
        wanted = plan(trials=2, set=("model.encoder=small", "model.width=32"), **more)
        done = compute(wanted, tmp_path / folder, executor.open, summary=tmp_path / summary)
        return done.results, executor.stages

    first, stages = call(noisy, "a", seeds=(0, 1))
    assert [len(stage) for stage in stages] == [4, 4]
    again, stages = call(None, "b", seeds=(0, 1))
    assert (again, stages) == (first, [])
    longer, stages = call(noisy, "b", seeds=(0, 1, 2))
    assert [[config.seed for config in stage] for stage in stages] == [[2, 2]]
    assert {config.train.precision for config in stages[0]} == {"float32"}
    moved = False
    whole = call(noisy, "c", summary="whole.json", seeds=(0, 1, 2))[0]
    assert longer.numbers == whole.numbers


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", NOTES, *sorted((ROOT / "docs").glob("*.md"))],
    ids=lambda p: f"{p.parent.name}/{p.name}",
)
def test_tables_of_pages_equal_the_stored_results(page):
    text = page.read_text(encoding="utf-8")
    assert fill_tables(text, ROOT / "results") == text, "run scripts/docs"


QUOTED = re.compile(r"([+-]?\d+\.\d+) \[([+-]?\d+\.\d+), ([+-]?\d+\.\d+)\]")


def known_differences():
    """Every paired difference of two rows of stored results, as (mean, low, high) with two and with three decimals."""
    found = set()
    for path in sorted((ROOT / "results").rglob("*.json")):
        results = read_results(path)
        groups = results.groups(stage="test")
        for first, second in itertools.permutations(groups, 2):
            for measure in first.values.keys() & second.values.keys():
                one = second.difference(measure, first)
                ends = (one.mean, one.low, one.high)
                found |= {tuple(f"{end:.{digits}f}" for end in ends) for digits in (2, 3)}
    return found


def test_differences_in_the_text_of_pages_are_those_of_the_stored_results():
    known, quoted = known_differences(), 0
    for page in (ROOT / "README.md", ROOT / "docs" / "results.md", NOTES):
        text = re.sub(
            r"<!-- (fair|pairs): .*?<!-- end -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        for match in QUOTED.finditer(text.replace("−", "-").replace("\n", " ")):
            quoted += 1
            assert tuple(part.removeprefix("+") for part in match.groups()) in known, (page.name, match[0])
    assert quoted


@pytest.mark.parametrize(
    "path", sorted((ROOT / "results" / "plans").glob("*.toml")), ids=lambda path: path.stem
)
def test_plans_of_the_page_name_rows_that_exist_and_seeds_that_nobody_has_looked_at(path):
    plan = ComparePlan.read(path)
    rows = {one.row.name for one in plan_contenders(plan, methods_alone(plan))}
    assert set(plan.family) <= rows
    assert not {1, 2, 3, 5, 6, 13} & set(plan.seeds)
    assert not plan.tunes


def test_page_says_how_many_pairs_are_matched_and_how_many_survive():
    """Rows that differ in more than the plug-in are marked; Holm's correction is over the pairs of each plug-in."""
    pairs = DOCS_SCRIPT["tuned_pairs"](ROOT / "results")
    differ = [pair for pair in pairs if pair.other]
    kept = DOCS_SCRIPT["surviving"](pairs)
    gains = {name: [pair for pair in pairs if pair.plugin == name] for name in ("gplasc", "gplasc-plus")}
    left = {
        name: [pair.gain.mean for pair in own if (pair.file, pair.row.labels["row"]) in kept]
        for name, own in gains.items()
    }
    assert len(gains["gplasc"]) == len(gains["gplasc-plus"]) == 19
    assert all(gain > 0 for gain in left["gplasc-plus"])
    assert [f"{gain:.2f}" for gain in left["gplasc"]] == ["-4.00"], "iCaRL on Seq-Fashion"
    text = " ".join((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())
    assert f"Of the {len(pairs)} pairs on test below, {len(differ)} differ in learning rate" in text
    assert f"over the 19 pairs of each plug-in, {len(left['gplasc-plus'])} of the gains" in text
    literal = [pair.gain for pair in gains["gplasc"]]
    up, down = sum(gain.low > 0 for gain in literal), sum(gain.high < 0 for gain in literal)
    assert f"consistent with {up} of 19 intervals, {down} contradict it" in text
    assert text.count("† |") + text.count("†** |") >= len(differ)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{len(differ)} of {len(pairs)} pairs" in readme


# ---- real runs -----------------------------------------------------------------------------------------------------


def here():
    return ThisProcess(Display())


def preview(wanted, out):
    processes = Engine().processes(wanted.scale)
    workspace = Workspace(out, device="cpu")
    return preview_rows(wanted, load_experiment(wanted.experiment), workspace, processes)


@pytest.mark.filterwarnings("ignore")
def test_test_split_is_not_touched_while_tuning(tmp_path, monkeypatch, capsys):
    stages, touched = [], set()

    def watched(self, name):
        if name == "test" and stages:
            touched.add(stages[-1])
        return object.__getattribute__(self, name)

    def open_executor():
        stages.append("test" if stages else "tuning")
        return here()

    monkeypatch.setattr(Task, "__getattribute__", watched, raising=False)
    small = plan(methods=("er",), trials=2, seeds=(0, 1))
    assert "4 runs, 0 complete" in preview(small, tmp_path)
    done = compute(small, tmp_path, open_executor, overlap=True)
    assert touched == {"test"}
    assert done.results.command.endswith(" --overlap")
    for row in done.rows.values():
        for trial in done.results.trials(row):
            for seed, run in trial.runs.items():
                record = read_record(tmp_path / run)
                assert record["settings"]["data"]["evaluate_on"] == "validation"
                found = record["metrics"]["class_il"]["final_accuracy"]
                assert trial.by_seed(CLASS_IL)[seed] == pytest.approx(found, abs=1e-4)
        assert [measure.metric for measure in row.values] == ["final_accuracy"] * 2 + [
            "forgetting",
            "overlap",
        ]
    # Again: everything is there, the overlaps too.
    again = compute(small, tmp_path, here)
    assert again.results == done.results
    assert "4 runs, 4 complete" in preview(small, tmp_path)
    # The report shows the runs on test and says that it leaves the others out.
    write_report([tmp_path], tmp_path / "report.html")
    assert "4 runs that were evaluated on a validation split" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")
def test_a_comparison_from_python_and_the_command_are_the_same(tmp_path, capsys):
    settings = {"model.encoder": "small", "model.features": "signed"}
    study = gplasc.compare(
        TINY, ["er"], ["gplasc"], seeds=[0], scale="smoke", out=tmp_path, device="cpu", quiet=True, **settings
    )
    groups = study.groups(stage="test")
    assert [group.labels["row"] for group in groups] == ["er", "er+gplasc"]
    assert groups[1].difference(CLASS_IL, groups[1].base_among(groups)).count == 1
    assert study.failures == []
    (folder,) = tmp_path.glob("compare-*")
    results = read_results(folder / "summary.json")
    written = {path: path.read_bytes() for path in folder.iterdir()}
    words = shlex.split(results.command)
    assert words[:2] == ["gplasc", "compare"]
    with pytest.raises(SystemExit) as caught:
        main([*words[1:], "--out", str(tmp_path), "--device", "cpu", "--quiet"])
    assert caught.value.code == 0
    assert {path: path.read_bytes() for path in folder.iterdir()} == written, "nothing is computed again"
    assert f"er on {TINY} (scale smoke" in capsys.readouterr().out
    with pytest.raises(UserError, match="--tune is 0"):
        gplasc.compare(TINY, "er", tune=0)


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
    assert "tuning, 3 trials for each of 2 rows:\n18 runs, 0 complete" in text
    assert "test, 2 seeds for each row:\n4 runs, 0 complete" in text
    assert not list(tmp_path.iterdir()), "nothing is written"
    assert command("table-accuracy", "--trials", "3") == 2
    assert "--trials belongs to a fair comparison; add --fair" in capsys.readouterr().err
    assert command("toy", "--fair") == 2
    assert "leave out --fair" in capsys.readouterr().err
    assert command("table-accuracy", "--fair", "--seeds", "1000") == 2
    assert "the seed 1000" in capsys.readouterr().err
