"""One self-contained page about the last update of a classifier: what it brought, and what to look at."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from gplasc._io.files import write_atomic
from gplasc._io.table import Table, Value
from gplasc._io.text import html_text
from gplasc.classifier._gate import Share
from gplasc.classifier._model import Results
from gplasc.classifier._state import CANDIDATE, INDEX, read_results, read_rows, read_state
from gplasc.report.render import render
from gplasc.report.section import Section

_MOST_PAIRS, _MOST_PICTURES = 40, 48
_FIGURES = {
    "accuracy": "images of this month, right among all classes",
    "before": "earlier images, right before",
    "after": "earlier images, right now",
    "to_new": "earlier images, right before, now taken for a new class",
    "damage": "earlier images, right before, now taken for another earlier class",
    "total": "all images, right",
}


def write_page(folder: Path, path: Path, title: str) -> Path:
    """Write a page about the last update of a state folder, also if it was refused."""
    refused = (folder / CANDIDATE).exists()
    state = read_state(folder, CANDIDATE if refused else INDEX)
    results, rows, task = read_results(folder, state), read_rows(folder, state), state.tasks[-1]
    names = [str(label) for label in state.labels]
    new = ", ".join(map(str, task.new_classes)) or "none"
    lead = [
        f"Month {len(state.tasks)}: {task.images} images; new classes: {new}. {len(names)} classes in all."
    ]
    figures = [
        [text, str(getattr(task.figures, name)).strip()] for name, text in _FIGURES.items() if task.figures
    ]
    heads = [
        [h.name, str(Share(count=h.right, of=h.of)) if h.right is not None else "", h.reason]
        for h in task.heads
    ]
    months: list[list[Value]] = [
        [
            f"month {number}",
            len(old.new_classes),
            old.images,
            str(Share.where(right, results.month == number - 1)).strip(),
        ]
        for number, old in enumerate(state.tasks, 1)
        for right in [results.after == results.y]
    ]
    sections = [
        Section("The update", (Table("", ["figure", f"{task.measured}, 95 % interval"], figures),)),
        Section("Heads", (Table("", ["head", "right, cross-validated", "reason"], heads),))
        if heads
        else None,
        Section("Accuracy by month", (Table("", ["month", "new classes", "images", "right now"], months),)),
        _confusion(results, names),
    ]
    warnings = [*(f"Refused: {reason}." for reason in task.refused), *task.notes]
    page = render(title, lead, [section for section in sections if section], warnings=warnings)
    kept = rows.kept.nonzero().flatten()
    galleries = ""
    if rows.thumbnails.shape[1] and len(kept) == len(results.y):
        wrong = (results.after >= 0) & (results.after != results.y)
        damage = wrong & (results.before == results.y)
        order = results.confidence.argsort(descending=True)
        for heading, mask in (("Right before, wrong now", damage), ("The most confident mistakes", wrong)):
            chosen = [row for row in order.tolist() if mask[row]][:_MOST_PICTURES]
            galleries += _gallery(heading, chosen, results, names, rows.thumbnails)
    return write_atomic(path, page.replace("</main>", f"{galleries}</main>"))


def _confusion(results: Results, names: Sequence[str]) -> Section:
    """Return the most frequent mistakes as a table."""
    wrong = (results.after >= 0) & (results.after != results.y)
    pairs = Counter(zip(results.y[wrong].tolist(), results.after[wrong].tolist(), strict=True))
    sizes = Counter(results.y[results.after >= 0].tolist())
    rows = [[names[y], names[now], n, sizes[y]] for (y, now), n in pairs.most_common(_MOST_PAIRS)]
    text = "The most frequent mistakes of heads that were not fitted to the image."
    return Section(
        "Confusion between classes", (Table("", ["true", "taken for", "images", "of"], rows),), text
    )


def _gallery(
    heading: str, rows: Sequence[int], results: Results, names: Sequence[str], pictures: Tensor
) -> str:
    """Return a section with a small picture of each row."""
    cards = ""
    for row in rows:
        true, now = (html_text(names[int(column[row])]) for column in (results.y, results.after))
        data = base64.b64encode(pictures[row].numpy().tobytes().rstrip(b"\0")).decode()
        cards += (
            f'<figure class="card"><img src="data:image/jpeg;base64,{data}" alt="{true}" width="96" height="96">'
            f"<figcaption><b>{true}</b><br>taken for {now}, {float(results.confidence[row]):.0%}</figcaption></figure>"
        )
    style = "grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr))"
    body = f'<div class="grid" style="{style}">{cards}</div>' if cards else "<p>None.</p>"
    return f"<section><h2>{heading}</h2>{body}</section>\n"
