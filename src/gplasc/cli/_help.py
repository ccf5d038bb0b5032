"""Help as plain text in two columns, as wide as the terminal."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from cyclopts.help import DefaultFormatter, PanelSpec, TableSpec
from rich.box import Box

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

_NO_LINES = Box("    \n" * 8)


class _Formatter(DefaultFormatter):
    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        """Write the paragraphs of a docstring; commands are indented and not wrapped."""
        plain = getattr(description, "primary_renderable", description)
        text = ""
        for paragraph in re.split(r"\n\n(?!gplasc )", str(getattr(plain, "plain", plain) or "").strip()):
            head, *examples = re.split(r"\n+(?=gplasc )", paragraph)
            text += "\n  ".join([f"\n{textwrap.fill(head, min(console.width, 100))}", *examples]) + "\n"
        print(text.lstrip("\n"), file=console.file)


FORMATTER = _Formatter(
    panel_spec=PanelSpec(box=_NO_LINES, padding=0),
    table_spec=TableSpec(show_header=False, padding=(0, 2, 0, 0)),
)
