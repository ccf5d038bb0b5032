"""The files of examples/: short, complete, and run as their docstrings say."""

import ast
import runpy
import shlex
import sys
import warnings
from pathlib import Path

import pytest
from tests.calling import call
from tests.smoke import TINY, option

from gplasc.conformance import check_component

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
COMPONENTS = [path for path in EXAMPLES if path.name in ("own_method.py", "own_plugin.py")]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_short_and_say_what_to_run(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    described = ast.get_docstring(ast.parse(text))
    assert f"examples/{path.name}" in described
    assert "Expect" in described


@pytest.mark.parametrize(
    "path", [path for path in EXAMPLES if path not in COMPONENTS], ids=lambda path: path.name
)
def test_programs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes about features belong to the example
        runpy.run_path(str(path), run_name="__main__")
    *_, last = capsys.readouterr().out.splitlines()
    if path.name == "own_loop.py":  # its docstring promises about 95 % after the last task
        assert float(last.partition("accuracy ")[2].partition(" ")[0]) > 90


@pytest.mark.parametrize("path", COMPONENTS, ids=lambda path: path.name)
def test_components_pass_the_checks(path):
    table, passed = check_component(str(path), ["gplasc"])
    assert passed, table.to_markdown()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", COMPONENTS, ids=lambda path: path.name)
def test_components_run_as_their_docstrings_say(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(path.parent)
    lines = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()
    (words,) = [shlex.split(line)[1:] for line in lines if line.strip().startswith("gplasc run")]
    words = option(option(words, "--stream", TINY), "--scale", "smoke")
    code = call(*words, "--set", "model.encoder=small", "--buffer", "6", "--quiet")
    assert code == 0, capsys.readouterr().err
