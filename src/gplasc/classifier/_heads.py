"""Linear heads on the features of a frozen encoder: fitted exactly, compared by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from pydantic import BaseModel
from torch import Tensor, nn
from torch.nn.functional import normalize

HEADS = {
    "logistic": "multinomial logistic regression, C = 10, on features of unit length",
    "slda": "linear discriminant analysis, one covariance",
    "ncm": "nearest class mean of features of unit length",
}
"""The heads by name; of equal ones the first is taken."""
FOLDS = 5
_C = 10.0
_SECONDS = 40.0  # for all heads together
_RATE = 4e10  # operations a second of one core
_ITERATIONS = 40  # of the logistic regression


class Head(nn.Module):
    """Scores that are linear in the features: (N, D) to (N, C)."""

    weight: Tensor
    bias: Tensor

    def __init__(self, name: str, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.name = name
        self.register_buffer("weight", weight.float())
        self.register_buffer("bias", bias.float())

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores."""
        if self.name != "slda":
            features = normalize(features, dim=1)
        return nn.functional.linear(features, self.weight, self.bias)


class HeadScore(BaseModel):
    """A head in the comparison; no accuracy if it was left out."""

    name: str
    right: int | None
    of: int
    reason: str = ""


class Sums(BaseModel):
    """What ncm and slda are computed from: sums over the features of each class, in float64."""

    model_config = {"arbitrary_types_allowed": True}

    counts: Tensor  # (C,)
    first: Tensor  # (C, D), of features of unit length for ncm
    second: Tensor  # (C,) squares for ncm, (D, D) products for slda

    @classmethod
    def of(cls, name: str, x: Tensor, y: Tensor, classes: int) -> Sums:
        """Add up features (N, D)."""
        x = normalize(x, dim=1) if name == "ncm" else x
        counts = torch.bincount(y, minlength=classes).double()
        first = torch.zeros(classes, x.shape[1], dtype=torch.float64).index_add_(0, y, x.double())
        if name == "slda":
            return cls(counts=counts, first=first, second=(x.T @ x).double())
        squares = torch.zeros(classes, dtype=torch.float64).index_add_(0, y, x.double().square().sum(1))
        return cls(counts=counts, first=first, second=squares)

    def plus(self, old: Sums) -> Sums:
        """Return the sums of both; the other ones may lack the last classes."""
        for mine, other in ((self.counts, old.counts), (self.first, old.first), (self.second, old.second)):
            mine[: len(other)] += other
        return self

    def without(self, number: int) -> Sums:
        """Return the sums of ncm without a class."""
        rest = [row for row in range(len(self.counts)) if row != number]
        return Sums(counts=self.counts[rest], first=self.first[rest], second=self.second[rest])

    def head(self, name: str) -> Head:
        """Return the head; see `gplasc.methods.ncm` and `gplasc.methods.slda`."""
        means, counts = self.first / self.counts.clamp(min=1).unsqueeze(1), self.counts
        total, dim = float(counts.sum()), means.shape[1]
        if name == "ncm":  # Gaussians of equal variance in every direction
            within = self.second.sum() - (counts * means.square().sum(1)).sum()
            weight = means / (within / total / dim**0.5).clamp(min=1e-6)
        else:  # Gaussians of one covariance, shrunk to the identity by OAS
            covariance = (self.second - (means.T * counts) @ means) / total
            trace, squares = covariance.trace().clamp(min=1e-12), covariance.square().sum()
            below = (total + 1 - 2 / dim) * (squares - trace**2 / dim)
            share = float((((1 - 2 / dim) * squares + trace**2) / below).clamp(1e-6, 1)) if below > 0 else 1.0
            shrunk = (1 - share) * covariance + share * trace / dim * torch.eye(dim, dtype=torch.float64)
            weight = torch.linalg.solve(shrunk, means.T).T
        return Head(name, weight, -(weight * means).sum(1) / 2)


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


def fit_head(name: str, x: Tensor, y: Tensor, classes: int) -> Head:
    """Fit a head to features (N, D) float32 of all classes."""
    if classes == 1:
        return Head(name, x.new_zeros(1, x.shape[1]), x.new_zeros(1))
    if name == "logistic":
        return Head(name, *_logistic(x, y))
    return Sums.of(name, x, y, classes).head(name)


def cross_validate(name: str, x: Tensor, y: Tensor, fold: Tensor, classes: int) -> Tensor:
    """Return the scores (N, C) of each row by a head that was fitted to the other folds.

    A class that has no rows in the other folds gets the lowest score.
    """
    scores = torch.zeros(len(x), classes)
    for number in fold.unique().tolist():
        test = fold == number
        present, inner = y[~test].unique(return_inverse=True)
        if not len(present):
            continue
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


def compare_heads(
    names: Sequence[str], x: Tensor, y: Tensor, fold: Tensor, classes: int
) -> tuple[list[HeadScore], str, Tensor]:
    """Cross-validate heads on features (N, D), as many as the time allows by estimate, the cheapest first.

    The first of `HEADS` is taken that is at most a standard error of the paired difference below the best.
    """
    mask, left = measurable(y, fold), _SECONDS
    count = int(mask.sum())
    scores: dict[str, Tensor] = {}
    right: dict[str, Tensor] = {}
    costs = {name: seconds(name, len(x), classes, x.shape[1]) for name in names}
    table = {}
    for name in sorted(names, key=lambda name: costs[name]):
        if costs[name] > left and scores:
            reason = f"left out: it would take about {costs[name]:,.0f} s of {_SECONDS:.0f} s for all heads"
            table[name] = HeadScore(name=name, right=None, of=count, reason=reason)
            continue
        left -= costs[name]
        scores[name] = cross_validate(name, x, y, fold, classes)
        right[name] = (scores[name].argmax(1) == y)[mask].double()
        table[name] = HeadScore(name=name, right=int(right[name].sum()), of=count)
    best = max(right, key=lambda name: right[name].sum())

    def behind(name: str) -> bool:
        difference = right[best] - right[name]
        return bool(difference.sum() > count**0.5 * difference.std(correction=0))

    chosen = next((name for name in HEADS if name in right and not behind(name)), best)
    reason = "chosen: the best" if chosen == best else f"chosen: {best} is not better by a standard error"
    table[chosen] = table[chosen].model_copy(update={"reason": reason if len(names) > 1 else ""})
    return [table[name] for name in HEADS if name in table], chosen, scores[chosen]
