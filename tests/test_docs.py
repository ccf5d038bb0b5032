"""The pages are run: Python blocks and `gplasc` commands are executed, at smoke scale, and links are followed."""

import re
import runpy
import shlex
import shutil
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.calling import call
from tests.smoke import (
    BLOCK,
    NOT_EXECUTED,
    OTHER_PROGRAMS,
    at_smoke_scale,
    blocks,
    commands,
    commands_in_text,
    lines,
    redirected_commands,
)

from gplasc._io.display import Display
from gplasc.cli import app
from gplasc.criterion import GPLASC
from gplasc.methods import find_method
from gplasc.plugins import find_plugin
from gplasc.settings.components import list_methods, list_plugins
from gplasc.study.executors import Engine
from gplasc.study.processes import ThisProcess

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "docs"))
GENERATED = SCRIPT["generated_pages"]()  # written when the site is built
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += [page for page in sorted(DOCS.glob("*.md")) if page.name not in GENERATED]
OURS = [page for page in PAGES if not page.name.startswith("results")]
SNIPPET = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)
AVOIDED = re.compile(r"\b(beside|whoever|by hand|taken in turns)\b", re.IGNORECASE)
# The encoder file that pages speak of, with an encoder that is small and needs no download.
BACKBONE = """
import gplasc
from torch import nn


def resnet50():
    return gplasc.ForeignEncoder(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), image_size=8)
"""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch, capsys):
    """An example is shown whole and run by tests/test_examples.py."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, options, code in blocks(page):
        if example := SNIPPET.search(code):
            assert (ROOT / example[1]).is_file()
            assert (options, code) == (f' title="{example[1]}"', f"{example[0]}\n")
        elif language == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # notes about ReLU features belong to the page's run
                exec(compile(code, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page):
    for words in [*commands(page), *commands_in_text(page)]:
        if words[0] not in ("--version", "--help"):
            app.parse_args(words)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with what the pages speak of; several runs follow one another in this process."""
    monkeypatch.setattr(Engine, "open", lambda *_, **__: ThisProcess(Display()))
    monkeypatch.chdir(folder := tmp_path)
    draw = np.random.default_rng(0)
    classes = {
        "spring": ("tulip", "daisy"),
        "summer": ("rose", "lily"),
        "month1": ("auklet", "grebe"),
        "month2": ("gull", "tern"),
        "my-images": ("a", "b"),
        "more": ("",),
    }
    for images in [f"{name}/{kind}" for name, kinds in classes.items() for kind in kinds]:
        (folder / images).mkdir(parents=True)
        for number in range(6):
            pixels = draw.integers(0, 255, (8, 8, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / images / f"{number}.png")
    shutil.copy(folder / "spring/tulip/0.png", folder / "photo.jpg")
    (folder / "backbone.py").write_text(BACKBONE)
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
@pytest.mark.filterwarnings("ignore")
def test_commands_run(page, place, capsys):
    """Reports are written last, of what the other commands of the page have computed."""
    _prepare_classifiers(page)
    for words, target in sorted(redirected_commands(page), key=lambda command: command[0][0] == "report"):
        short = at_smoke_scale(words)
        if short is not None:
            code, printed = call(*short), capsys.readouterr()
            assert code == 0, f"gplasc {shlex.join(short)}\n{printed.err}{printed.out}"
            if target and not target.startswith("~"):
                (place / target).write_text(printed.out)


def _prepare_classifiers(page):
    """Make the classifiers that the page uses and does not create."""
    created = {words[1] for words in commands(page) if words[0] == "learn"}
    used = {words[1] for words in commands(page) if words[0] in ("predict", "info", "export")}
    for name in used - created:
        call(*at_smoke_scale(["learn", name, "spring", "--method", "ncm"]))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_of_blocks_are_known_to_the_site(page):
    """The site shows a block with other options as a paragraph of text."""
    for _, options, _ in blocks(page):
        assert not options or re.fullmatch(r' title="[^"]+"', options)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_other_programs_are_known(page):
    """A line that is no gplasc command is not executed; its program and the reason are listed."""
    assert {words[0] for words in lines(page)} <= {"gplasc", *OTHER_PROGRAMS}


def test_only_listed_commands_are_not_executed():
    """Each reason applies to a command of the pages; every other command is executed."""
    every = [words for page in PAGES for words in commands(page)]
    for reason, applies in NOT_EXECUTED:
        assert any(applies(words) for words in every), reason
    assert sum(at_smoke_scale(words) is None for words in every) < len(every) / 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    anchors = {}
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in target or path in GENERATED:
            continue
        there = page.parent / path if path else page
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
    here = {page.name for page in DOCS.glob("*.md")} | set(GENERATED)
    assert set(found) == here


def test_page_of_deviations_has_every_sentence_of_the_code():
    text = GENERATED["deviations-by-method.md"]
    for names, find in ((list_methods(), find_method), (list_plugins(), find_plugin)):
        for name in names:
            section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
            assert section
            assert section.count("\n- ") == len(find(name).DEVIATIONS)
            assert all(sentence in section for sentence in find(name).DEVIATIONS)


def test_pages_of_the_api_have_every_public_name():
    text = "\n".join(GENERATED[name] for name in SCRIPT["API"])
    for package, names in SCRIPT["public_names"]():
        section = text.partition(f"\n## {package}\n")[2].partition("\n## ")[0]
        for name in names:
            assert re.search(rf"(^::: \S+\.|`){name}(`|$)", section, re.MULTILINE), f"{package}.{name}"


@pytest.mark.parametrize("page", OURS, ids=lambda page: page.name)
def test_pages_are_plain(page):
    """No command with options inside a sentence, and none of the words that need a second reading."""
    assert not [words for words in commands_in_text(page) if len(words) > 1]
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    assert not AVOIDED.findall(re.sub(r"<!-- (fair|bench): .*?<!-- end -->", "", text, flags=re.DOTALL))


def test_what_was_never_run_is_said():
    """On the first page and on that about devices, with the command for the first person who has one."""
    readme, devices = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/devices.md"))
    assert "Nothing here was run on a GPU" in readme
    assert "**Nothing in this project was run on a GPU.**" in devices
    assert "gplasc check --device cuda" in devices


def test_the_page_of_own_loops_says_which_criterion_is_which():
    text = (ROOT / "docs" / "own-loop.md").read_text(encoding="utf-8")
    for words in ("`GPLASC(...)` has small weights (0.02, 0.02, 0.1)", "has the paper's weights (1, 1, 1)"):
        assert words in text
    defaults, published = GPLASC(3, 8), GPLASC.published(3, 8)
    for criterion, weights in ((defaults, (0.02, 0.02, 0.1)), (published, (1.0, 1.0, 1.0))):
        assert (criterion.lambda_range, criterion.lambda_position, criterion.lambda_distill) == weights


def test_there_are_few_pages_with_few_words():
    """The words of the results, which are measured, and of pages made from the code are not counted."""
    texts = [page.read_text(encoding="utf-8") for page in OURS if page.parent == DOCS]
    assert len(texts) + len(GENERATED) <= 22
    assert sum(len(text.split()) for text in texts) <= 12_000
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900
    assert len((DOCS / "results.md").read_text(encoding="utf-8").split()) <= 3_000
