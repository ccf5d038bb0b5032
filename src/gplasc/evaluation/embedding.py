"""Features in two dimensions (t-SNE), and the separation of classes (silhouette)."""

import torch
from torch import Tensor


def tsne(x: Tensor, *, seed: int = 0, perplexity: float = 30.0) -> Tensor:
    """Embed rows (N, D) in two dimensions, (N, 2) float32, so that neighbors stay neighbors.

    Distances between far groups have no meaning. With few rows the perplexity is reduced, since it must be less than
    their number.
    """
    from sklearn.manifold import TSNE

    init, perplexity = "random" if x.shape[1] < 2 else "pca", min(perplexity, (len(x) - 1) / 3)
    fitted = TSNE(perplexity=perplexity, init=init, random_state=seed)
    return torch.from_numpy(fitted.fit_transform(x.float().numpy())).float()


def silhouette(x: Tensor, y: Tensor) -> float:
    """Return the mean silhouette of the classes of rows (N, D), from -1 (mixed) over 0 (touching) to 1 (far apart).

        s_i = (b_i - a_i) / max(a_i, b_i)

    a_i is the mean distance to the other rows of the class, b_i that to the rows of the nearest other class. A row
    that is alone in its class counts 0. There must be at least two classes, and fewer classes than rows.
    """
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(x.double().numpy(), y.numpy()))
