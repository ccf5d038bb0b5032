"""One self-contained page about the last update of a classifier: what it brought, and what to look at."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from gplasc._io.files import write_atomic
from gplasc._io.table import Table
from gplasc._io.text import html_text
from gplasc.classifier._gate import Share
from gplasc.classifier._rows import Rows
from gplasc.classifier._state import CANDIDATE, INDEX, read_rows, read_state
from gplasc.report.render import Section, render

_MOST_PAIRS, _MOST_PICTURES = 40, 48


def write_page(folder: Path, path: Path, title: str) -> Path:
    """Write a page about the last update of a state folder, also if it was refused."""
    state = read_state(folder, CANDIDATE if (folder / CANDIDATE).exists() else INDEX)
    rows, task = read_rows(folder, state), state.tasks[-1]
    names = list(map(str, state.names))
    new = ", ".join(map(str, task.new_classes)) or "none"
    lead = f"Month {len(state.tasks)}: {task.images} images; new classes: {new}. {len(state.labels)} classes in all."
    measured = rows.after >= 0
    wrong = measured & (rows.after != rows.y)
    heads = [
        (h.name, Share(count=h.right or 0, of=0 if h.right is None else h.of), h.reason) for h in task.heads
    ]
    months = []
    for number, old in enumerate(state.tasks):
        share = Share.where(~wrong, measured & (rows.month == number))
        months.append((f"month {number + 1}", len(old.new_classes), old.images, share))
    update = task.figures.texts() if task.figures else []
    tables: list[tuple[str, list[str], Sequence[Sequence[object]]]] = [
        ("The update", ["figure", f"{task.measured}, 95 % interval"], update),
        ("Heads", ["head", "right, cross-validated", "reason"], heads),
        ("Accuracy by month", ["month", "new classes", "images", "right now"], months),
        ("Confusion between classes", ["true", "taken for", "images", "of"], _confusion(rows, wrong, names)),
    ]
    sections = [Section(name, (_table(columns, cells),)) for name, columns, cells in tables if cells]
    warnings = [*(f"Refused: {reason}." for reason in task.refused), *task.notes]
    page = render(title, [lead], sections, warnings=warnings)
    galleries, kept = "", rows.take(rows.kept)
    if rows.thumbnails.shape[1]:
        mistakes = (kept.after >= 0) & (kept.after != kept.y)
        order = kept.confidence.argsort(descending=True)
        damage = mistakes & (kept.before == kept.y)
        for heading, mask in (("Right before, wrong now", damage), ("The most confident mistakes", mistakes)):
            galleries += _gallery(heading, order[mask[order]][:_MOST_PICTURES].tolist(), kept, names)
    return write_atomic(path, page.replace("</main>", f"{galleries}</main>"))


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    cells = [[cell if isinstance(cell, int) else str(cell).strip() for cell in row] for row in rows]
    return Table("", columns, cells)


def _confusion(rows: Rows, wrong: Tensor, names: Sequence[str]) -> list[tuple[str, str, int, int]]:
    """Return the most frequent mistakes of heads that were not fitted to the image."""
    pairs = Counter(zip(rows.y[wrong].tolist(), rows.after[wrong].tolist(), strict=True))
    sizes = Counter(rows.y[rows.after >= 0].tolist())
    return [(names[y], names[now], count, sizes[y]) for (y, now), count in pairs.most_common(_MOST_PAIRS)]


def _gallery(heading: str, chosen: Sequence[int], rows: Rows, names: Sequence[str]) -> str:
    """Return a section with a small picture of each row."""
    cards = ""
    for row in chosen:
        true, now = (html_text(names[int(column[row])]) for column in (rows.y, rows.after))
        data = base64.b64encode(rows.thumbnails[row].numpy().tobytes().rstrip(b"\0")).decode()
        cards += (
            f'<figure class="card"><img src="data:image/jpeg;base64,{data}" alt="{true}" width="96" height="96">'
            f"<figcaption><b>{true}</b><br>taken for {now}, {float(rows.confidence[row]):.0%}</figcaption></figure>"
        )
    style = "grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr))"
    body = f'<div class="grid" style="{style}">{cards}</div>' if cards else "<p>None.</p>"
    return f"<section><h2>{heading}</h2>{body}</section>\n"
