"""Every file that comes from outside is opened by one function: pipes and devices are refused, without a wait."""

from __future__ import annotations

import os
import signal

import pytest

from gplasc._io.reading import MissingError, read_bytes, read_text
from gplasc.errors import UserError
from gplasc.learning.checkpoints import load_newest
from gplasc.results.record import load_records, read_record
from gplasc.runs.workspace import _read_settings
from gplasc.settings.components import find_object, source_digest
from gplasc.settings.parse import read_toml
from gplasc.streams import fingerprint, open_stream
from gplasc.study.plan import ComparePlan
from gplasc.study.stored import read_results

DOORS = {
    "record.json": lambda path: read_record(path.parent),
    "settings.toml": read_toml,
    "plan.toml": ComparePlan.read,
    "summary.json": read_results,
    "checkpoint-1.pt": lambda path: load_newest(path.parent),
    "method.py": lambda path: source_digest(str(path)),
    "encoder.py": lambda path: find_object(f"{path}:build"),
    "features.json": lambda path: open_stream(f"features:{path.parent}"),
    "arrays.npz": open_stream,
    "images.parquet": lambda path: fingerprint(f"parquet:{path}"),
    "train-images-idx3-ubyte": lambda path: open_stream("seq-mnist", data_dir=path.parent),
    "data_batch_1": lambda path: open_stream("seq-cifar10", data_dir=path.parent),
    "a.tar.gz": lambda path: open_stream("cub200", data_dir=path),
}


@pytest.fixture(autouse=True)
def no_wait(monkeypatch, tmp_path):
    """A function that waits for a pipe, or reads a device without end, fails after ten seconds."""
    monkeypatch.setenv("GPLASC_CACHE", str(tmp_path / "cache"))
    signal.alarm(10)
    yield
    signal.alarm(0)


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", DOORS)
def test_only_regular_files_are_read(tmp_path, name, kind):
    path = tmp_path / name
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(UserError, match=f"{tmp_path}|was not found"):
        DOORS[name](path)


def test_what_may_be_damaged_is_passed_over(tmp_path):
    for name in ("record.json", "settings.json"):
        os.mkfifo(tmp_path / name)
    assert load_records([tmp_path])[0] == []
    assert _read_settings(tmp_path / "settings.json") == {}


def test_content_is_bounded(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**40)  # a terabyte that takes no room on the disk
    with pytest.raises(UserError, match="more than 67,108,864 bytes"):
        read_bytes(path)
    with pytest.raises(UserError, match="more than 1,000 bytes"):
        read_bytes("/proc/self/maps", 1000)
    path.write_bytes(b"\xff")
    with pytest.raises(UserError, match="cannot be read as text"):
        read_text(path)
    with pytest.raises(MissingError):
        read_text(path / "inner")
    with pytest.raises(UserError, match="null"):
        read_text(f"{path}\0")
