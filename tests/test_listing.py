"""What programs and people read from `gplasc list` and `gplasc show`, and what the shell completes."""

import json
import shutil
import subprocess

import pytest
from tests.calling import call


def test_json_of_list_is_stable(capsys):
    """One line, these four groups in this order, names to one line of text, the same each time."""
    assert call("list", "--json") == 0
    first = capsys.readouterr().out
    assert call("list", "--json") == 0
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
    assert call("show", *words) == 0
    rows = [[cell.strip() for cell in line.split("│")] for line in capsys.readouterr().out.splitlines()]
    assert {row[1] for row in rows if len(row) > 3 and row[3] == "given"} == given


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [("re", {"report", "reproduce"}), ("run --me", {"--method"}), ("data --sk", {"--skip-corrupt"})],
)
def test_bash_completes_commands_and_options(typed, expected, tmp_path, capsys):
    call("completion", "bash")
    (tmp_path / "gplasc").write_text(capsys.readouterr().out)
    words = ["gplasc", *typed.split()]
    function = 'name=$(complete -p gplasc); name=${name#*-F }; ${name%% *}; printf "%s\\n" "${COMPREPLY[@]}"'
    script = (
        f'source "{tmp_path}/gplasc"; COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; {function}'
    )
    found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert expected <= set(found.stdout.split()), found.stderr
