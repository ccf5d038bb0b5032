"""What pages and pictures say about the stored comparisons holds for them."""

import re
from pathlib import Path

import pytest

from gplasc.results.group import CLASS_IL, differing_settings
from gplasc.runs.spec import RunRequest
from gplasc.settings.presets import row_name
from gplasc.study.stored import read_results

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("images/*.svg")),
]
PAIRS = [
    (
        group,
        base,
        [n for n in differing_settings([group, base]) if n.split(".")[0] not in group.settings["plugins"]],
    )
    for path in sorted((ROOT / "results").glob("*.json"))
    for results in [read_results(path)]
    for group in results.groups(stage="test")
    if (base := group.base_among(results.groups(stage="test"))) and group.gain(CLASS_IL, [base])
]


def sections(page: Path) -> list[str]:
    """Return the parts of a page, each from its heading to the next one; a picture is one part."""
    return re.split(
        r"^(?=#+ )", page.read_text(encoding="utf-8").replace("−", "-").replace("\\", ""), flags=re.M
    )


def gain_of(group, base) -> str:
    gain = group.difference(CLASS_IL, base)
    return f"{gain.mean:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_claims_more_than_the_results_hold(page):
    for section in sections(page):
        words = " ".join(section.split())
        rows = "".join(line for line in section.splitlines(keepends=True) if line.startswith("|"))
        for group, base, others in PAIRS:
            text = gain_of(group, base)
            if others and text in rows:
                assert f"{text}†" in rows, f"{page.name}: {group.row} also differs in {', '.join(others)}"
            if others and text in words:
                assert "in the plug-in alone" not in words
                assert not re.search(r"(?<!not )(?<!un)matched pair", words)
            if text in words and group.row != group.labels["row"]:
                assert "as published" not in words, group.row
                assert "signed features" in words or text not in rows, group.row


@pytest.mark.parametrize("stream", ["seq-cifar10", "seq-cifar100", "seq-tinyimagenet", "cub200"])
@pytest.mark.parametrize("method", ["co2l", "cclis", "cila", "er", "der", "icarl"])
def test_the_plugin_is_literal_at_paper_scale(method, stream):
    config = RunRequest(stream, method, ("gplasc",), scale="paper").resolve().config
    assert row_name(config.title, config.flat()) == f"{method}+gplasc"
    weights = [config.options["gplasc"][f"lambda_{name}"] for name in ("range", "position")]
    assert (config.model.features, weights) == ("relu", [1.0, 1.0])
