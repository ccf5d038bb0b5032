"""Help as plain text in two columns, as wide as the terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

_WIDEST = 100
_LEFT = 22


class HelpFormatter:
    """What cyclopts calls to write the parts of a help text."""

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Write the first line."""
        print(f"Usage: {_plain(usage)}\n", file=console.file)

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        """Write the paragraphs of a docstring; commands are indented and not wrapped."""
        width = min(console.width, _WIDEST)
        text = ""
        for paragraph in _plain(description).split("\n\n"):
            example = paragraph.startswith("gplasc ")
            text += f"  {paragraph}\n" if example else f"\n{textwrap.fill(paragraph, width)}\n"
        print(text.lstrip("\n"), file=console.file)

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Write a group of commands or options."""
        if not panel.entries:
            return
        width = min(console.width, _WIDEST)
        rows = [(", ".join(entry.display_labels_with_metavar), _describe(entry)) for entry in panel.entries]
        left = min(max((len(name) for name, _ in rows)), _LEFT)
        lines = [f"{panel.title}:"]
        for name, text in rows:
            first, *more = textwrap.wrap(text, width - left - 4, break_on_hyphens=False) or [""]
            if len(name) > left:
                lines, name = [*lines, f"  {name}"], ""
            lines += [f"  {name:{left}}  {first}".rstrip(), *(" " * (left + 4) + line for line in more)]
        print("\n".join([*lines, ""]), file=console.file)


def _describe(entry: HelpEntry) -> str:
    text = " ".join(_plain(entry.description).split())
    choices = entry.choices or ()
    if any(choice not in text for choice in choices):
        text += f" ({', '.join(choices)})"
    return f"{text} (required)" if entry.required else text


def _plain(text: Any) -> str:
    text = getattr(text, "primary_renderable", text)
    return str(getattr(text, "plain", text) or "").strip()
