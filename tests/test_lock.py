"""Locks between processes, and file systems that have none."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gplasc.lock import Held, locked

HOLD = """
import sys, time
from pathlib import Path
from gplasc.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holder(path: Path, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == "held\n"
    return process


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    process = holder(path, 1.0)
    with pytest.raises(Held), locked(path, wait=False):
        pass
    start = time.monotonic()
    with locked(path):
        assert time.monotonic() - start > 0.2
    assert process.wait(10) == 0
    assert path.exists(), "the file stays for the next process"


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    process = holder(tmp_path / "lock", 60)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    with locked(tmp_path / "lock", wait=False):
        pass


def test_released_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "lock"):
        raise ZeroDivisionError
    with locked(tmp_path / "lock", wait=False):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
@pytest.mark.parametrize("wait", [True, False])
def test_file_systems_without_locks_use_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, wait: bool
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def flock(*_: object) -> None:
        raise OSError(number, "no locks here")

    monkeypatch.setattr(fcntl, "flock", flock)
    path = tmp_path / "lock"
    for _ in range(2):
        with (
            pytest.warns(UserWarning, match="lock"),
            locked(path, wait=wait),
            pytest.raises(Held),
            locked(path, wait=False),
        ):
            pytest.fail("two at once")
    assert not (tmp_path / "lock.soft").exists()


def test_other_errors_are_passed_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"), locked(tmp_path / "file" / "lock"):
        pass
