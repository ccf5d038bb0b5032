"""What must stay as it was in commit e46d05f, which wrote tests/net/data: run ids, record keys, exit codes, tables."""

import hashlib
import json
import shlex
from pathlib import Path

import pytest

from . import adapters

DATA = Path(__file__).parent / "data"
SCALES = ("smoke", "cpu", "paper")
RUN_IDS = adapters.read_json(DATA / "run_ids.json")
EXITS = adapters.read_json(DATA / "exit_codes.json")
LEAVES = frozenset(
    {"settings.options", "sources", "deviations", *(f"settings.{n}" for n in ("data", "identity"))}
)
SMOKE = "run --stream seq-digits --method co2l --plugin gplasc --buffer 10 --scale smoke --device cpu --json --quiet"


@pytest.fixture(autouse=True)
def _float32_is_native(monkeypatch):
    """The default precision depends on the machine; pinned is that of one without bfloat16."""
    monkeypatch.setattr(adapters.COMPUTES_BFLOAT16, lambda device: False)


def grid_digest(ids: list[str]) -> list[object]:
    return [len(ids), hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()]


def test_every_experiment_is_in_the_net():
    assert set(adapters.experiments()) - {"forms", "seq-mnist"} == set(RUN_IDS["experiments"])


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("experiment", RUN_IDS["experiments"])
def test_run_ids_of_experiments(experiment, scale):
    assert grid_digest(adapters.run_ids(experiment, scale)) == RUN_IDS["experiments"][experiment][scale]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("stream", RUN_IDS["methods"])
def test_run_ids_of_methods_and_plugins(stream, scale):
    expected = RUN_IDS["methods"][stream][scale]
    younger = {"er-ace"}
    assert {title.partition("+")[0] for title in expected} == set(adapters.methods()) - younger
    present = {title: adapters.method_run_id(stream, title, scale) for title in expected}
    assert present == expected


def test_keys_of_a_record(tmp_path):
    code, printed = adapters.command([*SMOKE.split(), "--out", str(tmp_path)])
    assert code == 0
    (path,) = tmp_path.glob("*/record.json")
    expected = adapters.read_json(DATA / "record_keys.json")
    assert sorted(adapters.nested_keys(json.loads(printed), LEAVES)) == expected["printed"]
    assert sorted(adapters.nested_keys(adapters.read_json(path), LEAVES)) == expected["stored"]
    assert path.parent.name == expected["run_id"]


@pytest.mark.parametrize("words", EXITS["codes"])
def test_exit_codes(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPLASC_CACHE", str(tmp_path / "cache"))
    for name, text in EXITS["files"].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert adapters.command(shlex.split(words))[0] == EXITS["codes"][words]


def test_bytes_of_the_tables_of_stored_results():
    assert adapters.table_digests() == adapters.read_json(DATA / "tables.json")
