"""What programs and people read from `gplasc list` and `gplasc show`."""

import json

import pytest

from gplasc.cli import main


def call(*words):
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    assert caught.value.code == 0


def test_json_of_list_is_stable(capsys):
    """One line, these four groups in this order, names to one line of text, the same each time."""
    call("list", "--json")
    first = capsys.readouterr().out
    call("list", "--json")
    assert capsys.readouterr().out == first
    assert first.count("\n") == 1
    groups = json.loads(first)
    assert list(groups) == ["methods", "plug-ins", "streams", "experiments"]
    for entries in groups.values():
        assert all(text and "\n" not in text for text in entries.values())
    for group in ("methods", "plug-ins"):
        assert list(groups[group]) == sorted(groups[group])


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], set()),
        (["--seed", "0"], {"seed"}),
        (["--stream", "seq-digits", "--scale", "cpu"], {"stream", "scale"}),
        (["co2l", "--plugin", "gplasc", "--buffer", "50"], {"method", "plugins", "buffer"}),
        (["--set", "train.lr=0.1"], {"train.lr"}),
    ],
)
def test_show_says_given_for_what_was_given(words, given, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call("show", *words)
    rows = [[cell.strip() for cell in line.split("│")] for line in capsys.readouterr().out.splitlines()]
    assert {row[1] for row in rows if len(row) > 3 and row[3] == "given"} == given
