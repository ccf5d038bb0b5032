"""Linear heads on the features of a frozen encoder: fitted exactly, compared by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from gplasc.classifier._calibration import Plain
from gplasc.methods import find_method
from gplasc.methods.base import FeatureStatistics, LinearScores

HEADS = ("logistic", "slda", "ncm")
"""Logistic regression (C = 10) on features of unit length, and two methods; of equal ones the first is taken."""
FOLDS = 5
_C = 10.0
_SECONDS = 40.0  # for all heads together
_RATE = 4e10  # operations a second of one core
_ITERATIONS = 40  # of the logistic regression


class HeadScore(Plain):
    """A head in the comparison; no accuracy if it was left out."""

    name: str
    right: int | None
    of: int
    reason: str = ""


def linear_head(name: str, weight: Tensor, bias: Tensor) -> LinearScores:
    """Return a head with these weights (C, D) and biases (C,)."""
    return LinearScores(weight, bias, unit=name != "slda")


def new_sums(name: str) -> FeatureStatistics[Any]:
    """Return empty sums over the features of each class, of which ncm or slda is computed."""
    kind = find_method(name)
    assert issubclass(kind, FeatureStatistics)
    return kind(kind.Settings())


def load_sums(name: str, counts: Tensor, first: Tensor, second: Tensor) -> FeatureStatistics[Any]:
    """Return the sums with these values; second moments of ncm are of each class or of all."""
    sums = new_sums(name)
    second = second.sum() if name == "ncm" else second
    sums.load_state_dict({"counts": counts, "sums": first, sums.second: second})
    return sums


def fit_head(name: str, x: Tensor, y: Tensor, classes: int) -> LinearScores:
    """Fit a head to features (N, D) float32 of all classes."""
    if classes == 1:
        return linear_head(name, x.new_zeros(1, x.shape[1]), x.new_zeros(1))
    if name == "logistic":
        return linear_head(name, *_logistic(x, y))
    sums = new_sums(name)
    sums.add(x, y, classes)
    return linear_head(name, *sums.weights())


def _logistic(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights that scikit-learn computes, for two or more classes."""
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it did not converge
        fitted = LogisticRegression(C=_C, max_iter=1000).fit(normalize(x, dim=1).numpy(), y.numpy())
    weight, bias = torch.from_numpy(fitted.coef_), torch.from_numpy(fitted.intercept_)
    if len(weight) == 1:  # one output for two classes
        weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
    return weight, bias


def cross_validate(name: str, x: Tensor, y: Tensor, fold: Tensor, classes: int) -> Tensor:
    """Return the scores (N, C) of each row by a head that was fitted to the other folds.

    A class that has no rows in the other folds gets the lowest score.
    """
    scores = torch.zeros(len(x), classes)
    for number in fold.unique().tolist():
        test = fold == number
        present, inner = y[~test].unique(return_inverse=True)
        if len(present):
            outputs = fit_head(name, x[~test], inner, len(present))(x[test])
            part = outputs.amin(1, keepdim=True).expand(-1, classes).clone()
            part[:, present] = outputs
            scores[test] = part
    return scores


def measurable(y: Tensor, fold: Tensor) -> Tensor:
    """Tell for each row whether its class has rows in another fold, (N,)."""
    pairs = torch.unique(torch.stack([y, fold.long()], 1), dim=0)[:, 0]
    return torch.bincount(pairs, minlength=int(y.max()) + 1)[y] > 1


def seconds(name: str, rows: int, classes: int, dim: int) -> float:
    """Estimate how long fitting a head and cross-validating it take on one core."""
    scoring = 2.0 * rows * classes * dim
    if name == "logistic":
        return FOLDS * _ITERATIONS * scoring / _RATE
    fitting = rows * dim if name == "ncm" else 2.0 * rows * dim**2 + 4 * dim**3 + 4.0 * dim**2 * classes
    return (scoring + (FOLDS + 1) * fitting) / _RATE


def _is_worse(gap: Tensor) -> bool:
    """Tell whether the sum of paired differences (N,) is above its standard error."""
    total = gap.sum()
    return bool(total > (gap.square().sum() - total**2 / max(len(gap), 1)).sqrt())


def compare_heads(
    names: Sequence[str], x: Tensor, y: Tensor, fold: Tensor, classes: int
) -> tuple[list[HeadScore], str, Tensor]:
    """Cross-validate heads on features (N, D), as many as the time allows by estimate, the cheapest first.

    The first of `HEADS` is taken that is at most a standard error of the paired difference below the best.
    """
    mask, left = measurable(y, fold), _SECONDS
    count = int(mask.sum())
    costs = {name: seconds(name, len(x), classes, x.shape[1]) for name in names}
    scores: dict[str, Tensor] = {}
    right: dict[str, Tensor] = {}
    reasons = {}
    for name in sorted(names, key=costs.__getitem__):
        if costs[name] > left and scores:
            reasons[name] = f"left out: it would take about {costs[name]:,.0f} s of {_SECONDS:.0f} s for all"
            continue
        left -= costs[name]
        scores[name] = cross_validate(name, x, y, fold, classes)
        right[name] = (scores[name].argmax(1) == y)[mask].double()
    best = max(right, key=lambda name: right[name].sum())
    chosen = next(name for name in HEADS if name in right and not _is_worse(right[best] - right[name]))
    if len(names) > 1:
        reasons[chosen] = "chosen: the best"
        if chosen != best:
            reasons[chosen] = f"chosen: {best} is not better by a standard error"
    counts = {name: int(part.sum()) for name, part in right.items()}
    tried = [name for name in HEADS if name in names]
    table = [HeadScore(name=n, right=counts.get(n), of=count, reason=reasons.get(n, "")) for n in tried]
    return table, chosen, scores[chosen]
