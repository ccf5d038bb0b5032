"""Help as plain text in two columns, as wide as the terminal."""

from __future__ import annotations

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
        for paragraph in str(getattr(plain, "plain", plain) or "").strip().split("\n\n"):
            example = paragraph.startswith("gplasc ")
            wrapped = textwrap.fill(paragraph, min(console.width, 100))
            text += f"  {paragraph}\n" if example else f"\n{wrapped}\n"
        print(text.lstrip("\n"), file=console.file)


FORMATTER = _Formatter(
    panel_spec=PanelSpec(box=_NO_LINES, padding=0),
    table_spec=TableSpec(show_header=False, padding=(0, 2, 0, 0)),
)
