"""Some generated cases with a fixed seed; `make fuzz` tries thousands."""

import os
import re
import sys
from pathlib import Path
from random import Random

import pytest
from tests.fuzz.__main__ import main
from tests.fuzz.damage import damage_bytes
from tests.fuzz.driver import OUTCOMES, Limits, Outcome, run_cases
from tests.fuzz.formats import FORMATS, Format


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in /proc")
@pytest.mark.filterwarnings("default")
def test_no_input_breaks_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tests.fuzz", "--cases", "160", "--seed", "0"])
    code, printed = main(), capsys.readouterr().out
    assert code == 0, printed
    (line,) = re.findall(r"^all +(.*)$", printed, re.MULTILINE)
    tried, *counts = map(int, line.split())
    assert tried == 160 == sum(counts)
    by_name = dict(zip(OUTCOMES, counts, strict=True))
    assert by_name["clear"] > 80
    assert by_name["accepted and equal"] > 5


def test_damage_is_the_same_for_the_same_seed_and_changes_something():
    content = bytes(range(256)) * 8
    done = [damage_bytes(content, Random(number)) for number in range(100)]
    assert done == [damage_bytes(content, Random(number)) for number in range(100)]
    assert len({kind for kind, _ in done}) > 8
    assert sum(damaged != content for _, damaged in done) > 90


def _hang(place):
    while True:
        pass


def _grow(place):
    return str(len(bytearray(600 * 2**20).replace(b"\0", b"\1")))


def _run(place):
    (place.parent.parent / "outside" / "ran").touch()
    return ""


def _outside(place):
    (place.parent / "elsewhere").touch()
    return ""


def _crash(place):
    raise ZeroDivisionError


def _die(place):
    os._exit(3)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in /proc")
@pytest.mark.parametrize(
    ("use", "what"),
    [
        (_hang, "hang"),
        (_grow, "over memory"),
        (_run, "code run"),
        (_outside, "file outside"),
        (_crash, "traceback"),
        (_die, "traceback"),
        (lambda place: "other", "accepted and different"),
    ],
)
def test_the_driver_finds_what_must_not_happen(use, what, monkeypatch, tmp_path):
    def once(place):
        return "intact" if place.name == "intact" else use(place)

    monkeypatch.setitem(
        FORMATS, "made up", Format(lambda place: None, lambda *_: "nothing", once, checksum=True)
    )
    ours = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf(
        "SC_PAGE_SIZE"
    )  # a child begins with it
    limits = Limits(seconds={_grow: 20.0, _hang: 0.2}.get(use, 2.0), bytes=ours + 300 * 10**6)
    (outcome,) = run_cases([("made up", 0)], tmp_path, seed=0, limits=limits)
    assert outcome.what == what, outcome.detail
    assert outcome.wrong


def test_difference_is_allowed_only_without_a_checksum():
    outcomes = [Outcome(name, 0, "accepted and different", "") for name in FORMATS]
    assert {outcome.format for outcome in outcomes if outcome.wrong} == {
        name for name, kind in FORMATS.items() if kind.checksum
    }
