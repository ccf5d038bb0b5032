"""What the page says about runs: one file a topic, from panels to figures and tables."""

from __future__ import annotations

from collections.abc import Sequence

from gplasc.report.panels import Panel
from gplasc.report.section import Section
from gplasc.report.sections.accuracy import accuracy_by_task, forgetting, matrices
from gplasc.report.sections.effect import settings_effect
from gplasc.report.sections.geometry import geometry
from gplasc.report.sections.provenance import provenance
from gplasc.report.sections.summary import against_paper, summary
from gplasc.report.sections.time import time


def build_sections(panels: Sequence[Panel]) -> list[Section]:
    """Every section that the runs have something to say about, in the order of the page."""
    sections = [
        summary(panels),
        against_paper(panels),
        accuracy_by_task(panels),
        forgetting(panels),
        settings_effect(panels),
        matrices(panels),
        geometry(panels),
        time(panels),
        *provenance(panels),
    ]
    return [section for section in sections if section is not None]
