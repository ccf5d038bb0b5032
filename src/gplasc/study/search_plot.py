"""The picture of a study: its accuracies in the order of the trials, and which settings mattered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gplasc.report.charts import Chart, Series, write_charts

if TYPE_CHECKING:
    from optuna import Study


def importances(study: Study) -> dict[str, float]:
    """Return how much of the variance of the accuracy each setting explains (fANOVA), the largest first.

    Only complete trials count. Empty if there are fewer than two, or all have the same accuracy.
    """
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances
    from optuna.trial import TrialState

    values = {t.value for t in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))}
    if len(values) < 2:
        return {}
    return dict(get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0)))


def plot_study(study: Study, path: Path) -> Path:
    """Draw the study as SVG.

    Args:
        study: The study.
        path: The file to write, ending in ``.svg``.

    Returns:
        The path.
    """
    from optuna.trial import TrialState

    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    pruned = [
        t for t in study.get_trials(deepcopy=False, states=(TrialState.PRUNED,)) if t.intermediate_values
    ]
    numbers = tuple(t.number for t in complete)
    values = tuple(t.value or 0.0 for t in complete)
    ends = tuple(t.intermediate_values[max(t.intermediate_values)] for t in pruned)
    history = (
        Series(
            "best so far", numbers, tuple(max(values[: place + 1]) for place in range(len(values))), color=5
        ),
        Series("complete, after the last task", numbers, values, joined=False),
        Series("pruned, when it ended", tuple(t.number for t in pruned), ends, color=6, joined=False),
    )
    weights = importances(study)
    shares = (Series("share", tuple(weights), tuple(weights.values())),)
    matters = "What mattered (fANOVA)" if weights else "What mattered: needs two different complete trials"
    charts = (
        Chart("History", "trial", "class-IL accuracy on validation, percent", history, ""),
        Chart(matters, "", "share of the variance explained", shares, "", "stack"),
    )
    return write_charts(charts, path.with_suffix(""), (".svg",), columns=2)[0]
