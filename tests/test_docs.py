"""The pages are run: Python blocks and `gplasc` commands are executed, at smoke scale, and links are followed."""

import importlib.machinery
import importlib.util
import re
import shlex
import shutil
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest
import tyro
from PIL import Image

from gplasc.cli import _Command, main
from gplasc.components import list_methods, list_plugins
from gplasc.conformance import check_component
from gplasc.methods import find_method
from gplasc.plugins import find_plugin

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GENERATED = {"deviations-by-method.md"}  # written by scripts/docs when the site is built
# Pages whose commands need data, hardware or hours: parsed only.
PARSED_ONLY = {
    "results.md",
    "deviations.md",
    "parity.md",
    "classifier.md",
    "encoders.md",
    "export.md",
    "scale.md",
    "cluster.md",
    "tuning.md",
    "performance.md",
    "devices.md",
    "reliability.md",
}
TINY = "synthetic:tasks=2,classes=2,size=8,channels=1,train=6,test=4"


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(page):
    for language, _, code in blocks(page):
        if language == "sh":
            for line in code.splitlines():
                if line.startswith("gplasc "):
                    words = shlex.split(line, comments=True)[1:]
                    yield [word for word in words if not word.startswith("$")]  # variables of the shell


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, options, code in blocks(page):
        if language == "python" and "file=" in options:
            path = tmp_path / options.partition("file=")[2].strip()
            path.write_text(code)
            table, passed = check_component(str(path), ["gplasc"])
            assert passed, table.to_markdown()
        elif language == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # notes about ReLU features belong to the page's run
                exec(compile(code, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page):
    for words in commands(page):
        if words != ["--version"]:
            tyro.cli(_Command, args=words, config=(tyro.conf.FlagCreatePairsOff,))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with what the pages speak of; all pages share `runs`, so that a command is computed once."""
    folder = tmp_path_factory.mktemp("docs")
    draw = np.random.default_rng(0)
    for images in (
        "spring/tulip",
        "spring/daisy",
        "summer/rose",
        "summer/lily",
        "my-images/a",
        "my-images/b",
    ):
        (folder / images).mkdir(parents=True)
        for number in range(6):
            pixels = draw.integers(0, 255, (8, 8, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / images / f"{number}.png")
    shutil.copy(folder / "spring/tulip/0.png", folder / "photo.jpg")
    for page in PAGES:
        for _, options, code in blocks(page):
            if "file=" in options:
                (folder / options.partition("file=")[2].strip()).write_text(code)
    return folder


def option(words, name, value):
    """Return the words with an option set to one value."""
    if name in words:
        start = words.index(name)
        end = next((n for n in range(start + 1, len(words)) if words[n].startswith("--")), len(words))
        words = words[:start] + words[end:]
    return words if value is None else [*words, name, value]


def at_smoke_scale(words):
    """Return the same command for data that is there and settings that take a second; None if it runs elsewhere."""
    kind, stream = words[0], words[words.index("--stream") + 1] if "--stream" in words else ""
    if kind == "check" or words == ["--version"]:
        return None  # the files are checked with the blocks; tests/test_cli.py calls the other
    if kind == "data":
        if words[1] == "get":
            return None  # nothing is downloaded here
        return [word.replace("seq-cifar10", "seq-digits") for word in words]
    if kind == "learn" and not Path(words[1]).exists():
        for name, value in (("--image-size", "8"), ("--buffer", "6"), ("--encoder", "small")):
            words = option(words, name, value)
        return [*words, "--scale", "smoke", "--quiet"]
    if kind in ("run", "sweep", "reproduce"):
        words = option(words, "--scale", "smoke")
        words = option(words, "--workers", None if kind == "run" else "1")
    if kind in ("run", "sweep"):
        if not stream.startswith("folder:"):
            words = option(words, "--stream", TINY)
        words += ["--set", "model.encoder=small", "--buffer", "6"] if "--buffer" not in words else []
        words += ["--quiet"]
    if kind in ("sweep", "reproduce"):
        words = option(words, "--seeds", "0")
    if words[:2] == ["reproduce", "ablation-components"]:
        words = [*option(words, "--only", None), "--only", "co2l", "co2l+gplasc"]
    if kind == "sweep":  # one point of the grid
        words = [word.partition(",")[0] if "=" in word and word != TINY else word for word in words]
    return words


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in PARSED_ONLY], ids=lambda p: p.name
)
@pytest.mark.filterwarnings("ignore")
def test_commands_run(page, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    shutil.rmtree(place / "garden", ignore_errors=True)  # each page begins with its own classifier
    for words in commands(page):
        short = at_smoke_scale(words)
        if short is not None:
            with pytest.raises(SystemExit) as caught:
                main(short)
            assert caught.value.code == 0, f"gplasc {shlex.join(short)}\n{capsys.readouterr().err}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    anchors = {}
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in target or path in GENERATED:
            continue
        there = page.parent / path if path else page
        if there.name in PARSED_ONLY and not there.exists():
            continue  # a page that is being written
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            if there not in anchors:
                text = BLOCK.sub("", there.read_text(encoding="utf-8"))
                anchors[there] = {_anchor(title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
            assert anchor in anchors[there], target


def _anchor(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def test_navigation_names_every_page_once():
    def pages(entries):
        for entry in entries:
            for value in entry.values():
                yield from [value] if isinstance(value, str) else pages(value)

    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    found = list(pages(settings["project"]["nav"]))
    assert len(found) == len(set(found))
    here = {page.name for page in DOCS.glob("*.md")} | GENERATED
    assert here <= set(found) <= here | PARSED_ONLY


def test_page_of_deviations_has_every_sentence_of_the_code():
    loader = importlib.machinery.SourceFileLoader("docs_script", str(ROOT / "scripts" / "docs"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("docs_script", loader))
    loader.exec_module(module)
    text = module.deviations()
    for names, find in ((list_methods(), find_method), (list_plugins(), find_plugin)):
        for name in names:
            section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
            assert section
            assert section.count("\n- ") == len(find(name).DEVIATIONS)
            assert all(sentence in section for sentence in find(name).DEVIATIONS)
