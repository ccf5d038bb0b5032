"""One palette and one matplotlib style for every figure of the project."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc._io.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The colors of Okabe and Ito, which stay apart under the three common kinds of color blindness. Never the
# only carrier of meaning: figures add marker shapes, line styles or labels.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

STRUCTURE = "#C8102E"  # the red of "what the theory predicts" and of the final class structure
INK = "#22262B"
SOFT = "#59636E"
RULE = "#DFE3E8"
PAPER = "#FFFFFF"
COLORS = {f"c{i}": value for i, value in enumerate(PALETTE)} | {
    "ink": INK, "soft": SOFT, "rule": RULE, "card": PAPER, "structure": STRUCTURE,
}  # fmt: skip
"""What the names of colors mean in files; in the page they are variables of its style sheet."""

NO_METADATA = {"Date": None, "Creator": None}
"""For `savefig`: the date would make equal figures differ."""

_NAMES = {value.lower(): name for name, value in COLORS.items()}


def in_page(value: str) -> str:
    """A color of the page: the variable that stands for it, which follows the theme, or the color itself.

    >>> in_page(STRUCTURE), in_page("#123456")
    ('var(--structure)', '#123456')
    """
    return f"var(--{_NAMES[value.lower()]})" if value.lower() in _NAMES else value


def color(index: int) -> str:
    """The color of task, class or method number `index`; the palette repeats after its end."""
    return PALETTE[index % len(PALETTE)]


def marker(index: int) -> str:
    """The matplotlib marker that goes with `color(index)`; where the colors repeat, the markers do not."""
    return MARKERS[(index % len(PALETTE) + 3 * (index // len(PALETTE))) % len(MARKERS)]


PAGE = Path(__file__).with_name("page.mplstyle")
"""What charts add to the project's style."""


@contextmanager
def paper_style(*more: Path | dict[str, Any]) -> Iterator[None]:
    """Inside this block matplotlib draws in the project's style, without a display, and with what `more` adds."""
    from matplotlib import style

    with style.context([PAGE.with_name("paper.mplstyle"), *more]):
        yield


def save_figure(
    figure: Figure, stem: Path, suffixes: tuple[str, ...] = (".png", ".svg"), *, note: str = ""
) -> list[Path]:
    """Write the figure once per suffix (whole files only) and return the paths.

    The note, such as the scale of the numbers, is written below the figure: a picture travels without its text.
    """
    import matplotlib

    if note:
        size = 0.82 * float(matplotlib.rcParams["font.size"])
        width = max(40, int(136 * figure.get_figwidth() / size))
        figure.supxlabel("\n".join(textwrap.wrap(note, width)), fontsize=size, x=0.01, ha="left")
    paths = [stem.with_name(stem.name + suffix) for suffix in suffixes]
    extras: dict[str, dict[str, Any]] = {
        ".svg": {"metadata": NO_METADATA},
        ".png": {"pil_kwargs": {"optimize": True}},
    }
    for path in paths:
        with atomic_path(path) as temporary:
            figure.savefig(temporary, bbox_inches="tight", pad_inches=0.04, **extras.get(path.suffix, {}))
    return paths
