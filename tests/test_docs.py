"""The pages are run: Python blocks are executed, files are written, `gplasc` lines are parsed."""

import re
import shlex
import warnings
from pathlib import Path

import pytest
import tyro

from gplasc.cli import _Command
from gplasc.conformance import check_component

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, options, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python" and "file=" in options:
            path = tmp_path / options.partition("file=")[2].strip()
            path.write_text(code)
            table, passed = check_component(str(path), ["gplasc"])
            assert passed, table.to_markdown()
        elif language == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # notes about ReLU features belong to the page's run
                exec(compile(code, str(page), "exec"), names)


def commands():
    for page in PAGES:
        for language, _, code in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language == "sh":
                for line in code.splitlines():
                    if line.startswith("gplasc "):
                        yield pytest.param(line, id=f"{page.name}: {line[:60]}")


@pytest.mark.parametrize("line", list(commands()))
def test_commands_exist(line):
    words = shlex.split(line, comments=True)[1:]
    tyro.cli(_Command, args=words, config=(tyro.conf.FlagCreatePairsOff,))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
