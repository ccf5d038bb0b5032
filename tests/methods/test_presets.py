"""The settings of the paper scale against tables of what is published."""

import csv
import importlib
import itertools
import tomllib
from importlib import resources
from pathlib import Path

import pytest
from tests.calling import call

import gplasc
from gplasc.errors import UserError
from gplasc.methods import find_method
from gplasc.plugins import find_plugin, gplasc_plus
from gplasc.runs.spec import RunRequest
from gplasc.settings.components import list_plugins
from gplasc.settings.parse import parse_value
from gplasc.settings.types import Config
from gplasc.study.plan import ComparePlan

DATA = Path(__file__).parents[1] / "data"
RULES = [
    rule
    for name in ("paper", "cpu", "smoke")
    for rule in tomllib.loads(
        resources.files("gplasc.settings.presets").joinpath(f"{name}.toml").read_text()
    )["rule"]
]
CONTRASTIVE = ("supcon", "co2l", "cila", "cclis")


def table(name):
    return list(csv.DictReader((DATA / name).read_text(encoding="utf-8").splitlines()))


def settings(stream, method, buffer=None, plugins=()):
    return RunRequest(stream, method, plugins, buffer=buffer, scale="paper").resolve().config.flat()


def in_mammoth(row):
    """A row of Mammoth's list as our settings."""
    stream = {"seq-tinyimg": "seq-tinyimagenet"}.get(row["dataset"], row["dataset"])
    method = {"sgd": "finetune"}.get(row["model"], row["model"])
    names = {
        "lr": "train.lr",
        "batch_size": "train.batch",
        "n_epochs": "train.epochs",
        "minibatch_size": f"{method}.memory_batch",
        "alpha": f"{method}.alpha",
        "beta": f"{method}.beta",
        "gamma": "gem.margin",
        "gss_minibatch_size": "gss.gradient_batch",
    }
    expected = {ours: float(row[theirs]) for theirs, ours in names.items() if row[theirs]}
    if row["optim_wd"]:  # times the sum of the squared weights in the loss, whose gradient has a factor of 2
        expected["train.weight_decay"] = 2 * float(row["optim_wd"])
    return stream, method, int(row["buffer"]) if row["buffer"] else None, expected


MAMMOTH = [in_mammoth(row) for row in table("mammoth_best_args.csv")]


@pytest.mark.parametrize(("stream", "method", "buffer", "expected"), MAMMOTH)
def test_best_settings_of_mammoth(stream, method, buffer, expected):
    flat = settings(stream, method, buffer)
    assert {name: flat[name] for name in expected} == expected


@pytest.mark.parametrize("row", table("published_settings.csv"), ids=lambda row: row["setting"])
def test_published_setting_and_its_source(row):
    resolved = RunRequest(row["stream"], row["method"], scale="paper").resolve()
    assert resolved.config.flat()[row["setting"]] == parse_value(row["value"])
    source = resolved.sources[row["setting"]]
    assert source == "ours: the default" or source.startswith(row["source"])


@pytest.mark.parametrize("method", CONTRASTIVE)
def test_the_search_space_of_the_paper_has_the_chosen_values(method):
    names = {
        "margin": "gplasc.margin",
        "learning_rate": "train.lr",
        "start_epochs": "train.first_epochs",
        "epochs": "train.epochs",
        "bsz": "train.batch",
        "tau": f"{method}.temperature",
    }
    checked = 0
    for row in table("hyperparameter_space.csv"):
        if row["parameter"] not in names:  # the final lambda_distill is outside the paper's own space
            continue
        for dataset in row["dataset"].replace("seq-tinyimg", "seq-tinyimagenet").split("/"):
            chosen = settings(dataset, method, plugins=("gplasc",))[names[row["parameter"]]]
            assert chosen in [float(value) for value in row["values"].split(";")], (dataset, row["parameter"])
            checked += 1
    assert checked == 6 * 6


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["source"][:50])
def test_every_rule_says_where_its_numbers_come_from(rule):
    assert rule["source"].startswith(("GPLASC, ", "Co2L, ", "CCLIS, ", "Mammoth, ", "ours: "))


def test_every_rule_sets_what_exists():
    kinds = Config.sections() | {name: find_plugin(name).Settings for name in list_plugins()}
    for rule in RULES:
        for section, values in rule["set"].items():
            if section != "buffer":
                kind = kinds.get(section) or find_method(section).Settings
                assert set(values) <= set(kind.model_fields), rule["source"]


def test_gcr_has_the_settings_of_derpp():
    for stream in ("seq-mnist", "seq-cifar10", "seq-cifar100", "seq-tinyimagenet"):
        for buffer in (200, 500, 5120):
            gcr, derpp = settings(stream, "gcr", buffer), settings(stream, "derpp", buffer)
            for name in ("alpha", "beta", "memory_batch"):
                assert gcr[f"gcr.{name}"] == derpp[f"derpp.{name}"]
            assert gcr["train.lr"] == derpp["train.lr"]


def test_the_default_buffer_has_the_settings_of_200():
    given = RunRequest("seq-cifar10", "derpp", buffer=200, scale="paper").resolve().config
    assert RunRequest("seq-cifar10", "derpp", scale="paper").resolve().config == given


def test_seq_mnist_at_paper_scale_is_the_published_protocol():
    config = RunRequest("seq-mnist", "er", buffer=200).resolve().config
    assert (config.model.encoder, config.model.width, config.model.initialization) == ("mlp", 100, "xavier")
    assert (config.data.padding, config.data.flip) == (0, 0)
    assert (config.train.epochs, config.train.batch, config.train.schedule) == (1, 10, "constant")


ALONE = """
from gplasc import Method
from gplasc.losses.replay import cross_entropy


class Alone(Method):
    heads = frozenset({"classifier"})

    def loss(self, parts, ctx):
        return {"ce": cross_entropy(parts["batch"].out.logits, parts["batch"].y)}

    def predictor(self, ctx):
        return ctx.network.classifier
"""


def copied(module, folder):
    path = folder / f"{module.__name__.rpartition('.')[2]}2.py"
    path.write_text(Path(module.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["er", "co2l", "supcon", "ncm"])
def test_a_copy_of_a_method_has_its_settings(name, tmp_path):
    method = copied(importlib.import_module(f"gplasc.methods.{name}"), tmp_path)
    ours = RunRequest("seq-cifar10", method, ("gplasc",), buffer=200, scale="cpu").resolve()
    theirs = RunRequest("seq-cifar10", name, ("gplasc",), buffer=200, scale="cpu").resolve()
    assert ours.config.train == theirs.config.train
    assert ours.config.model == theirs.config.model
    assert list(ours.config.options.values()) == list(theirs.config.options.values())
    assert f"takes the presets of {name};" in ours.notes[0]
    assert not theirs.presets


STREAMS = ("seq-cifar10", "seq-cifar100", "seq-digits", "seq-mnist", "cub200")


@pytest.mark.parametrize("scale", ["paper", "cpu", "smoke"])
@pytest.mark.parametrize("name", [*list_plugins()])
def test_a_copy_of_a_plugin_has_its_settings_everywhere(name, scale, tmp_path):
    plugin = copied(importlib.import_module(f"gplasc.plugins.{name.replace('-', '_')}"), tmp_path)
    for stream, method in itertools.product(STREAMS, ("er", "co2l")):
        ours, theirs = (RunRequest(stream, method, (p,), scale=scale).resolve() for p in (plugin, name))
        assert list(ours.config.options.values()) == list(theirs.config.options.values())
        assert f"takes the presets of {name};" in ours.notes[0]


def test_components_with_the_same_owner_all_take_its_presets(tmp_path):
    plugin = copied(gplasc_plus, tmp_path)
    spec = RunRequest("seq-cifar10", "co2l", ("gplasc-plus", plugin), scale="cpu").resolve()
    _, first, second = spec.config.options.values()
    assert first == second
    assert first["memory_rows"] == "minibatch"


@pytest.mark.parametrize(("method", "plugins"), [("er", ()), ("co2l", ("gplasc-plus",))])
def test_a_run_of_copies_is_that_of_the_originals(method, plugins, tmp_path):
    folder = {"out": tmp_path / "runs", "scale": "smoke", "quiet": True, "device": "cpu", "train.epochs": 1}
    copies = (
        copied(importlib.import_module(f"gplasc.methods.{method}"), tmp_path),
        [copied(gplasc_plus, tmp_path) for _ in plugins],
    )
    ours, theirs = (gplasc.run("seq-digits", *names, **folder) for names in (copies, (method, plugins)))
    assert ours.run_id != theirs.run_id
    assert ours.record["matrix"] == theirs.record["matrix"]
    assert ours.record["weights_sha256"] == theirs.record["weights_sha256"]


def test_a_copy_of_a_plugin_and_a_derived_method_take_presets(tmp_path):
    plugin = copied(gplasc_plus, tmp_path)
    derived = tmp_path / "mine.py"
    derived.write_text("from gplasc.methods.derpp import DERPP\n\n\nclass Mine(DERPP):\n    pass\n")
    spec = RunRequest("seq-cifar10", "co2l", (plugin,), scale="cpu").resolve()
    twin = RunRequest("seq-cifar10", "co2l", ("gplasc-plus",), scale="cpu").resolve()
    assert list(spec.config.options.values()) == list(twin.config.options.values())
    assert spec.config.options["gplasc_plus2"]["memory_rows"] == "minibatch"
    assert RunRequest("seq-cifar10", str(derived)).resolve().config.train.lr == 0.03


def test_a_class_of_no_family_needs_like(tmp_path):
    path = tmp_path / "alone.py"
    path.write_text("from gplasc import Method\n\n\nclass Alone(Method):\n    pass\n")
    spec = RunRequest("seq-cifar10", str(path)).resolve()
    assert "takes no presets" in spec.notes[0]
    with pytest.raises(UserError, match="takes no presets"):
        spec.require_presets()
    liked = RunRequest("seq-cifar10", str(path), like="er").resolve()
    assert liked.config.train == RunRequest("seq-cifar10", "er").resolve().config.train
    liked.require_presets()
    with pytest.raises(UserError, match="like is 'er' for the method 'co2l'"):
        RunRequest("seq-cifar10", "co2l", like="er").resolve()
    path.write_text(path.read_text().replace("pass", "LIKE = 'err'"))
    with pytest.raises(UserError, match=r"LIKE in .*alone.py is 'err'; did you mean 'er'"):
        RunRequest("seq-cifar10", str(path)).resolve()


def test_what_takes_no_presets_is_said_by_every_command(tmp_path, monkeypatch, capsys):
    """`run`, `show` and `check` say so and go on; `compare` refuses it, in Python too, and takes --like."""
    monkeypatch.chdir(tmp_path)
    place = ["--scale", "smoke", "--device", "cpu", "--out", "runs"]
    words = ["--stream", "seq-digits", "--set", "train.epochs=1", *place]
    Path("alone.py").write_text(ALONE)
    said = (
        "alone.py takes no presets: every stream has the defaults; for those of a built-in method, write LIKE"
    )
    assert call("run", "--method", "alone.py", *words) == 0
    assert said in capsys.readouterr().err
    for command in (["show", "alone.py"], ["check", "alone.py"]):
        call(*command)
        assert said in capsys.readouterr().out
    Path("added.py").write_text("import gplasc\n\n\nclass Added(gplasc.Plugin):\n    pass\n")
    for more in ([], ["--dry-run"]):
        assert call("compare", "--methods", "alone.py", *more, *words) == 2
        assert said in capsys.readouterr().err
        assert call("compare", "--methods", "er", "--plugins", "added.py", *more, *words) == 2
        assert "write LIKE = 'gplasc' in its class" in capsys.readouterr().err
    more = {"scale": "smoke", "out": "runs", "device": "cpu", "quiet": True, "train.epochs": 1}
    with pytest.raises(UserError, match="takes no presets"):
        gplasc.compare("seq-digits", ["alone.py"], seeds=[0], **more)
    study = gplasc.compare("seq-digits", ["alone.py", "finetune"], seeds=[0], like="er", **more)
    alone, finetune = (group.settings for group in study.groups(stage="test"))
    assert {n: v for n, v in alone.items() if n.startswith("train.")} == {
        n: v for n, v in finetune.items() if n.startswith("train.")
    }
    assert call("compare", "--methods", "alone.py", "--like", "er", "--dry-run", *words) == 0
    assert ComparePlan(methods=("alone.py",), like="er").command.endswith("--like er")
    assert call("compare", "--methods", "er", "--like", "er", *words) == 2
    assert "it names a built-in method, for a method of your own" in capsys.readouterr().err
    result = gplasc.run("seq-digits", "alone.py", like="er", **more)
    assert result.record.flat["train.lr"] == alone["train.lr"]


def test_given_epochs_hold_for_the_first_task_too():
    def first(**settings):
        return (
            RunRequest("seq-cifar10", "co2l", scale="cpu", settings=settings)
            .resolve()
            .config.train.first_epochs
        )

    assert first() == 12
    assert first(**{"train.epochs": 3}) is None
    assert first(**{"train.epochs": 3, "train.first_epochs": 5}) == 5


def test_every_setting_of_the_paper_scale_has_a_source():
    spec = RunRequest("seq-cifar10", "co2l", ("gplasc",), buffer=200).resolve()
    assert all(spec.sources.values())
    ours = {name for name, source in spec.sources.items() if source == "ours: the default"}
    assert not {name for name in ours if name.startswith("co2l.")}
    assert spec.sources["data.crop_scale"].startswith("Co2L, main.py")
    assert spec.sources["gplasc.range_form"].startswith("GPLASC")
