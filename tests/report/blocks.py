"""Figures and tables as they stand in a page."""

from gplasc.report.render import _environment, _sort


def render_blocks(*blocks) -> str:
    """Return the elements of figures and tables."""
    module = _environment().get_template("blocks.html.jinja").module
    return str(module.show(_sort(blocks), ()))
