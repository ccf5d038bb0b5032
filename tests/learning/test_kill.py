"""A run that is killed at any moment, or that the disk fails, ends as if nothing had happened, bit for bit.

A few cuts of every method; `make soak` makes hundreds.
"""

import errno
import os
import signal
import time
from functools import cache
from random import Random

import pytest
from tests.soak.cuts import METHODS, Cut, Runner, command, cut_off, processes

from gplasc.cli import main


@pytest.fixture(scope="module")
def context():
    return processes()


@pytest.fixture(scope="module")
def whole(context, tmp_path_factory):
    """Return a function that tells how a run ends that is not cut off; each is computed once."""

    @cache
    def compute(method, plugin):
        runner = Runner(context, method, plugin, tmp_path_factory.mktemp("whole"))
        assert runner.finish("whole") == 0, runner.printed
        return runner.result("whole")

    return compute


@pytest.mark.parametrize(
    ("method", "plugin"), [(method, ("", "gplasc")[number % 2]) for number, method in enumerate(METHODS)]
)
def test_killed_and_resumed_equals_uninterrupted(method, plugin, context, tmp_path):
    """Every method once, every second with the plug-in, at a moment that is drawn with a fixed seed."""
    runner = Runner(context, method, plugin, tmp_path)
    for cut, wrong in cut_off(runner, Random(f"{method}{plugin}"), 1, fault=False):
        assert not wrong, cut


@pytest.mark.parametrize(
    "cuts",
    [
        [Cut("probe", 2), Cut("probe", 1, after=True)],
        [Cut("last files", 1, after=True), Cut("record", 1), Cut("record", 1, after=True)],
        [Cut("rename", 3), Cut("fsync", 2, after=True), Cut("write", 3), Cut("log", 2)],
    ],
    ids=["in the probe", "between the last checkpoint and the record", "while files are written"],
)
def test_kills_at_the_places_that_matter(cuts, context, whole, tmp_path):
    runner = Runner(context, "co2l", "gplasc", tmp_path)
    for cut in cuts:
        assert runner.finish("cut", cut) == -signal.SIGKILL, f"{cut}: {runner.printed}"
    assert runner.finish("cut") == 0, runner.printed
    assert runner.differences("cut", whole("co2l", "gplasc")) == ""


@pytest.mark.parametrize("place", ["write", "fsync", "rename", "log"])
def test_a_disk_that_fails_is_a_sentence_and_the_run_goes_on_when_mended(place, context, whole, tmp_path):
    runner = Runner(context, "er", "gplasc", tmp_path)
    for error in (errno.ENOSPC, errno.EIO):
        assert runner.finish("cut", Cut(place, 3, error=error)) == 2
        lines = [line for line in runner.printed.splitlines() if os.strerror(error) in line]
        assert len(lines) == 1, runner.printed
        assert "Traceback" not in runner.printed
    assert runner.finish("cut") == 0, runner.printed
    assert runner.differences("cut", whole("er", "gplasc")) == ""


@pytest.fixture
def at_work(context, tmp_path):
    """A process in the middle of a long run, and the words it was started with."""
    words = command("co2l", "gplasc", tmp_path, epochs=2000)
    words[words.index("--save-steps") + 1] = "100000"
    process = context.Process(target=main, args=(words,))
    process.start()
    while not list(tmp_path.glob("*/terms.jsonl")):
        assert process.is_alive()
        time.sleep(0.01)
    yield process, words
    process.kill()
    process.join(1800)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_signal_saves_first(number, at_work, tmp_path):
    process, _ = at_work
    os.kill(process.pid, number)
    process.join(1800)
    assert process.exitcode == 130
    assert list(tmp_path.glob("*/checkpoint-*.pt"))


def test_a_second_process_is_refused(at_work, capsys):
    with pytest.raises(SystemExit) as caught:
        main(at_work[1])
    assert caught.value.code == 2
    assert "another process is working on the run" in capsys.readouterr().err
