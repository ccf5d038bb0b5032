import csv
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import Field

from gplasc.errors import UserError
from gplasc.runs.spec import RunRequest
from gplasc.settings.parse import parse_assignments, read_toml
from gplasc.settings.types import Settings


def test_sources_tell_where_a_value_comes_from():
    resolved = RunRequest(
        "seq-cifar10", "co2l", ["gplasc"], buffer=200, scale="paper", settings={"train.lr": 0.3}
    ).resolve()
    assert resolved.config.train.lr == 0.3
    assert resolved.sources["train.lr"] == "given"
    assert resolved.config.options["gplasc"]["margin"] == 0.15
    assert "final hyper-parameters" in resolved.sources["gplasc.margin"]
    assert resolved.sources["data.validation"] == "ours: the default"


def test_paper_scale_follows_the_table_of_final_hyper_parameters():
    names = {"seq-tinyimg": "seq-tinyimagenet"}
    text = (Path(__file__).parent / "data" / "final_hyperparameters.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 9
    for row in rows:
        stream = names.get(row["dataset"], row["dataset"])
        method = row["method"].split("+")[0].lower()
        config = RunRequest(stream, method, ["gplasc"], buffer=200, scale="paper").resolve().config
        assert config.train.epochs == int(row["epochs"])
        assert config.train.first_epochs == int(row["start_epochs"])
        assert config.train.batch == int(row["bsz"])
        options = config.options["gplasc"]
        for name in ("margin", "lambda_distill", "lambda_position", "lambda_range"):
            assert options[name] == float(row[name])
        assert config.options[method]["temperature"] == float(row["tau"])


def test_run_id_depends_on_every_setting_and_on_nothing_else():
    first = RunRequest("seq-digits", "co2l", seed=1).resolve().config
    assert first.run_id == RunRequest("seq-digits", "co2l", seed=1).resolve().config.run_id
    others = [
        RunRequest("seq-digits", "co2l", seed=2).resolve(),
        RunRequest("seq-digits", "co2l", seed=1, settings={"train.lr": 0.123}).resolve(),
        RunRequest("seq-digits", "co2l", ["gplasc"], seed=1).resolve(),
        RunRequest("seq-digits", "co2l", seed=1, settings={"co2l.temperature": 0.3}).resolve(),
    ]
    ids = {first.run_id, *(other.config.run_id for other in others)}
    assert len(ids) == 5


def test_toml_out_and_in_gives_the_same_run(tmp_path):
    config = (
        RunRequest("seq-digits", "co2l", ["gplasc"], seed=3, scale="cpu", settings={"margin": 0.25})
        .resolve()
        .config
    )
    path = tmp_path / "run.toml"
    path.write_text(config.to_toml())
    given = read_toml(path)
    top = {name: given.pop(name) for name in ("stream", "method", "plugins", "buffer", "seed", "scale")}
    assert RunRequest(**top, settings=given).resolve().config.run_id == config.run_id


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"train.learning_rate": 0.1}, "there is no setting 'train.learning_rate'"),
        ({"margn": 0.1}, "did you mean 'margin'"),
        ({"lr": 0.1}, "could be train.lr or probe.lr"),
        ({"train.lr": -1}, "greater than 0"),
        ({"gplasc.margin": 1.5}, "less than 1"),
        ({"gplasc.distillation": "cosine"}, "one of mse, ird, projector; got 'cosine'"),
        ({"data.evaluate_on": "validation"}, "data.validation is 0"),
    ],
)
def test_bad_settings_get_one_sentence(settings, said):
    with pytest.raises(UserError) as caught:
        RunRequest("seq-digits", "co2l", ["gplasc"], settings=settings).resolve()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("method", "plugins", "said"),
    [("coco2l", (), "did you mean 'co2l'"), ("co2l", ("gplas",), "did you mean 'gplasc'")],
)
def test_unknown_names_are_answered_with_the_nearest(method, plugins, said):
    with pytest.raises(UserError, match=said):
        RunRequest("seq-digits", method, plugins).resolve()


def test_assignments():
    assert parse_assignments(["a=1", "b=none", "c=[1, 2]", "d=true", "e=x:1+y"]) == {
        "a": 1,
        "b": None,
        "c": [1, 2],
        "d": True,
        "e": "x:1+y",
    }
    with pytest.raises(UserError, match="name=value"):
        parse_assignments(["train.lr"])


def test_missing_and_broken_files(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = [")
    with pytest.raises(UserError, match="cannot be read as TOML"):
        read_toml(tmp_path / "bad.toml")


class _Old(Settings):
    alpha: float = 1.0
    places: str = "class"
    reduction: str = "mean"


class _New(Settings):
    RETIRED: ClassVar[Mapping[str, Any]] = {"reduction": "mean"}
    RENAMED: ClassVar[Mapping[str, str]] = {"prototypes": "places"}

    alpha: float = 1.0
    prototypes: str = "class"
    share: bool = Field(False, exclude_if=operator.not_)


def test_deleted_renamed_and_added_settings_keep_the_hash():
    assert _New().hashed_values() == _Old().model_dump()
    assert _New(prototypes="task").hashed_values() == _Old(places="task").model_dump()
    assert _New(share=True).hashed_values() == {**_Old().model_dump(), "share": True}
    assert _New(**_Old(places="task").model_dump()) == _New(prototypes="task")
    with pytest.raises(UserError, match=r"reduction='sum' was removed, only 'mean' is left; .* e46d05f"):
        _New(reduction="sum")


def test_retired_settings_of_runs():
    plain = RunRequest("seq-digits", "cila", seed=1, scale="smoke").resolve().config
    assert "cila.divisor" not in plain.flat()
    assert plain.run_id == "fd51187c01dc", (
        "the run id of the commit that had divisor, teacher_mode and average_over"
    )
    given = RunRequest("seq-digits", "cila", seed=1, scale="smoke", settings={"divisor": "rows"}).resolve()
    assert given.config == plain
    assert "cila.divisor" not in given.sources
    with pytest.raises(UserError, match="divisor='anchors' was removed"):
        RunRequest("seq-digits", "cila", settings={"cila.divisor": "anchors"}).resolve()
