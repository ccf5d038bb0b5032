"""Locks between processes, and file systems that have none."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gplasc._io.lock import Held, locked

HOLD = """
import sys
from pathlib import Path
from gplasc._io.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Start a process that holds a lock until its standard input is closed."""
    words = [sys.executable, "-c", HOLD, str(path)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == "held\n"
    return process


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    process = holder(path)
    with pytest.raises(Held), locked(path, wait=False):
        pass
    order = []

    def wait() -> None:
        with locked(path):
            order.append("second")

    thread = threading.Thread(target=wait)
    thread.start()
    order.append("first")
    assert process.stdin is not None
    process.stdin.close()
    thread.join()
    assert order == ["first", "second"]
    assert process.wait() == 0
    assert path.exists(), "the file stays for the next process"


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    process = holder(tmp_path / "lock")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
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
