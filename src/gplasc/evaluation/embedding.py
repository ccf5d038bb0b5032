"""Features in the plane (t-SNE), and how well classes keep apart (silhouette)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def tsne(x: Tensor, *, seed: int = 0, perplexity: float = 30.0) -> Tensor:
    """Embed rows in the plane so that neighbors stay neighbors: (N, D) to (N, 2) float32.

    Few rows lower the perplexity, which must stay below their number. Distances between far groups mean nothing.
    """
    if x.ndim != 2 or len(x) < 4:
        raise ValueError(f"t-SNE needs at least four rows, got a tensor of shape {tuple(x.shape)}")
    if not bool(torch.isfinite(x).all()):
        raise ValueError("t-SNE was given features that are infinite or not a number")
    from sklearn.manifold import TSNE

    fitted = TSNE(
        2,
        perplexity=min(perplexity, (len(x) - 1) / 3),
        init="random" if x.shape[1] < 2 else "pca",
        learning_rate="auto",
        random_state=seed,
    )
    return torch.from_numpy(fitted.fit_transform(x.float().numpy())).float()


def silhouette(x: Tensor, y: Tensor) -> float:
    """Mean silhouette of the classes, from -1 (mixed) over 0 (touching) to 1 (far apart): x (N, D), y (N,).

        s_i = (b_i - a_i) / max(a_i, b_i)

    a_i: mean distance to the other rows of the class; b_i: that to the rows of the nearest other class. A row alone in
    its class counts 0.
    """
    classes = y.unique()
    if len(classes) < 2:
        raise ValueError("the silhouette needs rows of at least two classes")
    distances = torch.cdist(x.double(), x.double(), compute_mode="donot_use_mm_for_euclid_dist")
    members = (y[:, None] == classes).double()  # (N, C)
    counts = members.sum(0)
    sums = distances @ members
    own = members.bool()
    own_count = (members @ counts).clamp_min(2)
    a = sums[own] / (own_count - 1)
    b = (sums / counts).masked_fill(own, float("inf")).amin(1)
    s = (b - a) / torch.maximum(a, b).clamp_min(torch.finfo(torch.float64).tiny)
    return float(s.masked_fill(members @ counts < 2, 0.0).mean())


def unit(x: Tensor) -> Tensor:
    """Map rows onto the sphere: (N, D) to (N, D)."""
    return normalize(x, dim=1)
