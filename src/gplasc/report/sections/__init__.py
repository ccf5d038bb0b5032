"""What the page says about runs: one file a topic, from panels to figures and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gplasc.report.groups import Panel
from gplasc.report.section import Section
from gplasc.report.sections.accuracy import accuracy_by_task, matrices
from gplasc.report.sections.effect import settings_effect
from gplasc.report.sections.forgetting import forgetting
from gplasc.report.sections.geometry import geometry
from gplasc.report.sections.origin import deviations, provenance, settings
from gplasc.report.sections.paper import against_paper
from gplasc.report.sections.summary import summary
from gplasc.report.sections.time import time


def build_sections(panels: Sequence[Panel]) -> list[Section]:
    """Every section that the runs have something to say about, in the order of the page."""
    makers: tuple[Callable[[Sequence[Panel]], Section | None], ...] = (
        summary,
        against_paper,
        accuracy_by_task,
        forgetting,
        settings_effect,
        matrices,
        geometry,
        time,
        deviations,
        settings,
        provenance,
    )
    return [section for make in makers if (section := make(panels)) is not None]
