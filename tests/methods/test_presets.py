"""The settings of the paper scale against tables of what is published."""

import csv
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from gplasc.methods import find_method
from gplasc.plugins import find_plugin
from gplasc.runs.spec import RunRequest
from gplasc.settings.components import list_plugins
from gplasc.settings.parse import parse_value
from gplasc.settings.types import Config

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
    assert source == "default" or source.startswith(row["source"])


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
