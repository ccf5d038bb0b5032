"""One palette and one matplotlib style for every figure of the project."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gplasc._io.files import atomic_path
from gplasc.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The colors of Okabe and Ito, which stay apart under the three common kinds of color blindness. Never the
# only carrier of meaning: figures add marker shapes, line styles or labels.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

STRUCTURE = "#C8102E"  # the red of "what the theory predicts" and of the final class structure
INK = "#22262B"
FAINT = "#9AA3AD"
PAPER = "#FFFFFF"
COLORS = {f"c{i}": value for i, value in enumerate(PALETTE)} | {
    "ink": INK, "soft": "#59636E", "rule": "#DFE3E8", "card": PAPER, "structure": STRUCTURE,
    "heat": "#1F77B4", "cool": "#C2571A",
}  # fmt: skip
"""What the names of colors mean in files; in the page they are variables of its style sheet."""


_NAMES = {value: name for name, value in COLORS.items()}


def in_page(value: str) -> str:
    """A color of the page: the variable that stands for it, which follows the theme, or the color itself.

    >>> in_page(STRUCTURE), in_page("#123456")
    ('var(--structure)', '#123456')
    """
    return f"var(--{_NAMES[value]})" if value in _NAMES else value


def color_name(index: int) -> str:
    """The name in `COLORS` of `color(index)`."""
    return f"c{index % len(PALETTE)}"


def color(index: int) -> str:
    """The color of task, class or method number `index`; the palette repeats after its end."""
    return PALETTE[index % len(PALETTE)]


def marker(index: int) -> str:
    """The matplotlib marker that goes with `color(index)`; where the colors repeat, the markers do not."""
    return MARKERS[marker_number(index)]


def marker_number(index: int) -> int:
    """The place in the list of markers that goes with `color(index)`.

    >>> marker_number(1), marker_number(9)
    (1, 4)
    """
    return (index % len(PALETTE) + 3 * (index // len(PALETTE))) % len(MARKERS)


def _missing(name: str) -> UserError:
    """The error for a figure that cannot be drawn because the package `name` is not installed."""
    return UserError(f"drawing with {name} needs the extra 'report': pip install 'gplasc[report]'")


def require(*names: str) -> None:
    """Raise UserError now, before any work is done, when one of the drawing packages `names` is missing."""
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            raise _missing(name) from error


@contextmanager
def paper_style() -> Iterator[None]:
    """Inside this block matplotlib draws in the project's style, without a display.

    Raises UserError when matplotlib is missing.
    """
    require("matplotlib")
    import matplotlib
    from cycler import cycler

    settings: dict[Any, Any] = {
        "axes.axisbelow": True,
        "axes.edgecolor": INK,
        "axes.grid": True,
        "axes.labelcolor": INK,
        "axes.labelsize": 8,
        "axes.linewidth": 0.6,
        "axes.prop_cycle": cycler(color=PALETTE),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 8.5,
        "figure.dpi": 100,
        "figure.facecolor": PAPER,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same picture on every machine
        "font.size": 8,
        "grid.color": "#E3E6EA",
        "grid.linewidth": 0.5,
        "legend.fontsize": 7.5,
        "legend.frameon": False,
        "lines.linewidth": 1.2,
        "mathtext.fontset": "dejavusans",
        "savefig.dpi": 200,
        "svg.fonttype": "path",
        "svg.hashsalt": "gplasc",  # equal data give equal bytes
        "text.color": INK,
        "xtick.color": INK,
        "xtick.labelsize": 7.5,
        "ytick.color": INK,
        "ytick.labelsize": 7.5,
    }
    with matplotlib.rc_context(settings):
        yield


def save_figure(figure: Figure, stem: Path, suffixes: tuple[str, ...] = (".png", ".svg")) -> list[Path]:
    """Write `figure` once per suffix beside each other (whole files only) and return the paths."""
    paths = [stem.with_name(stem.name + suffix) for suffix in suffixes]
    for path in paths:
        # The date would make equal figures differ.
        extra: dict[str, Any] = {}
        if path.suffix == ".svg":
            extra["metadata"] = {"Date": None}
        elif path.suffix == ".png":
            extra["pil_kwargs"] = {"optimize": True}
        with atomic_path(path) as temporary:
            figure.savefig(temporary, bbox_inches="tight", pad_inches=0.04, **extra)
    return paths
