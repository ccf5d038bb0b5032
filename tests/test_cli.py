import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.calling import call

from gplasc.cli import _COMMANDS, app

ROOT = Path(__file__).parent.parent
TINY = ["--stream", "synthetic:tasks=2,classes=2,size=8,channels=1,train=6,test=4", "--scale", "smoke"]
SMALL = ["--set", "model.encoder=small", "--set", "model.features=signed", "--buffer", "6", "--threads", "1"]


def test_help_and_list_import_nothing_heavy():
    heavy = ("torch", "numpy", "sklearn", "matplotlib", "jinja2", "PIL", "pooch")
    for words in (["--help"], ["list"]):
        code = (
            "import sys\nfrom gplasc.cli import main\n"
            f"try:\n    main({words!r})\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
            f"assert not [name for name in {heavy!r} if name in sys.modules], 'heavy imports'"
        )
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr


def test_help_is_a_screen_and_quick():
    """One line a command in 40 lines of 80 columns, 0.3 s of processor time (three times that on a loaded machine)."""
    code = "import time, gplasc.cli\ntry: gplasc.cli.main(['--help'])\nfinally: print(time.process_time())"
    environment = os.environ | {"COLUMNS": "80"}
    words = [sys.executable, "-c", code]
    done = [subprocess.run(words, capture_output=True, text=True, env=environment, check=True) for _ in "ab"]
    *lines, _ = map(str.rstrip, done[0].stdout.splitlines())
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    for name in " ".join(_COMMANDS.values()).split():
        assert sum(line.split()[:1] == [name] and line.endswith(".") for line in lines) == 1, name
    assert min(float(one.stdout.split()[-1]) for one in done) < 0.9


@pytest.mark.parametrize("name", " ".join(_COMMANDS.values()).split())
def test_examples_in_the_help_of_a_command_parse(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert call(name, "--help") == 0
    text = capsys.readouterr().out
    assert all(len(line) <= 80 for line in text.splitlines() if not line.startswith("  gplasc "))
    examples = re.findall(r"^  gplasc (.*?)(?: > .*)?$", text, re.MULTILINE)
    assert examples
    for words in examples:
        app.parse_args(words.split())


def test_list_shows_everything(capsys):
    assert call("list", "--json") == 0
    groups = json.loads(capsys.readouterr().out)
    methods = "agem cclis cila co2l der derpp er er-ace fdr finetune gcr gem gss icarl joint ncm slda supcon"
    assert " ".join(sorted(groups["methods"])) == methods
    assert set(groups["plug-ins"]) == {"gplasc", "gplasc-plus"}
    downloaded = {"seq-cifar10", "seq-cifar100", "seq-tinyimagenet", "cub200", "imagenet-r", "imagenet-a"}
    assert {"seq-digits", *downloaded} < set(groups["streams"])
    assert {"toy", "theory"} < set(groups["experiments"])
    assert all(text for entries in groups.values() for text in entries.values())


def test_json_is_the_last_line_of_standard_output(tmp_path, capsys):
    assert call("run", *TINY, *SMALL, "--plugin", "gplasc", "--out", str(tmp_path), "--json") == 0
    captured = capsys.readouterr()
    record = json.loads(captured.out.splitlines()[-1])
    assert record["metrics"]["class_il"]["final_accuracy"] >= 0
    assert "task 2/2 learned" in captured.err


def test_tables_for_people(tmp_path, capsys):
    assert call("run", *TINY, *SMALL, "--out", str(tmp_path), "--quiet") == 0
    assert "final accuracy" in capsys.readouterr().out
    assert call("show", "co2l", "--plugin", "gplasc") == 0
    shown = capsys.readouterr().out
    assert "deviations from the paper" in shown
    assert "gplasc.margin" in shown


def test_toml_round_trip(tmp_path, capsys):
    assert call("show", *TINY, *SMALL[:-2], "--plugin", "gplasc", "--seed", "3", "--toml") == 0
    path = tmp_path / "settings.toml"
    path.write_text(capsys.readouterr().out)
    assert call("show", "--config", str(path), "--toml") == 0
    assert capsys.readouterr().out == path.read_text()
    assert call("show", "--config", str(path), "--seed", "4", "--toml") == 0
    assert "seed = 4" in capsys.readouterr().out


def test_tensorboard_files(tmp_path):
    pytest.importorskip("tensorboard")
    assert call("run", *TINY, *SMALL, "--out", str(tmp_path), "--quiet", "--json", "--tensorboard") == 0
    assert list(tmp_path.glob("*/events.out.tfevents.*"))


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ("/nowhere/python3", "was not found; install Python 3.11 or newer"),
        ("old", "Python 3.11 or newer is needed"),
        ("bare", "has no venv module"),
    ],
)
def test_set_up_without_python_or_venv_is_a_sentence(python, said, tmp_path):
    """A stand-in for python that is too old, or has no venv."""
    if not python.startswith("/"):
        script = tmp_path / python
        # The script asks three things in turn: whether it exists, whether it is new enough, whether it has venv.
        fails = "sys.version_info" if python == "old" else "ensurepip"
        script.write_text(
            f'#!/bin/sh\ncase "$*" in *{fails}*) exit 1;; *-V*) echo Python 3.8;; esac\nexit 0\n'
        )
        script.chmod(0o755)
        python = str(script)
    found = subprocess.run(
        ["sh", str(ROOT / "scripts" / "install"), "dev"],
        env={"PYTHON": python, "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1
    assert said in found.stderr
    assert "Traceback" not in found.stderr
    assert not (tmp_path / ".venv").exists()


# Each command is a process that ends as others do; its output goes into a file, to another program, or nowhere.
COMMANDS = """
import json, os, subprocess, sys
from contextlib import suppress
from gplasc.cli import main

def send(stream, where):
    number = stream.fileno()
    if where.startswith("|"):
        reader = subprocess.Popen(where[1:].split(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        os.dup2(reader.stdin.fileno(), number)
        reader.stdin.close()
    elif where:
        os.dup2(os.open(where, os.O_WRONLY | os.O_CREAT), number)
    else:
        os.close(number)

codes, commands = [], json.load(sys.stdin)
with suppress(SystemExit):
    main([*commands[0][0], "--seed", "1"])
sys.stdout.flush()
for words, out, err in commands:
    child = os.fork()
    if not child:
        send(sys.stdout, out)
        os.dup2(1, 2) if out and err == out else send(sys.stderr, err)
        sys.stdout, sys.stderr = sys.stdout if out else None, sys.stderr if err else None
        main(words)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(codes)
"""


def test_a_run_goes_on_when_nobody_reads_what_it_says(tmp_path):
    log = str(tmp_path / "log{}")
    cases = [  # more words, standard output, standard error, exit code
        ([], "|head -1", "|head -1", 0),
        ([], "|true", "|true", 0),
        ([], "/dev/null", "/dev/full", 0),
        ([], "", "", 0),
        ([], "/dev/null", "", 0),
        (["--json"], "|head -c 1", log, 0),
        ([], "/dev/full", log, 1),
        (["--json"], "/dev/full", log, 1),
    ]
    commands = [
        (["run", *TINY, *SMALL, "--out", f"{tmp_path}/{number}", *more], out, err.format(number))
        for number, (more, out, err, _) in enumerate(cases)
    ]
    words, given = [sys.executable, "-c", COMMANDS], json.dumps(commands)
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [code for *_, code in cases]
    for number, (*_, err, code) in enumerate(cases):
        assert len(list(tmp_path.glob(f"{number}/*/record.json"))) == (1 if number else 2)
        said = Path(err.format(number)).read_text() if err == log else ""
        assert "Traceback" not in said
        assert ("standard output cannot be written (No space left on device)" in said) == (code == 1)
