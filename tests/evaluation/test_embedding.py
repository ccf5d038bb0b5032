import pytest
import torch

from gplasc.evaluation.embedding import silhouette, tsne


def blobs(count: int = 15, gap: float = 20.0) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.arange(3).repeat_interleave(count)
    x = torch.randn(len(y), 8, generator=torch.Generator().manual_seed(0))
    x[:, :3] += gap * torch.nn.functional.one_hot(y, 3)
    return x, y


def test_neighbors_stay_neighbors():
    x, y = blobs()
    flat = tsne(x, seed=1)
    assert flat.shape == (len(x), 2)
    nearest = (torch.cdist(flat, flat) + 1e9 * torch.eye(len(x))).argmin(1)
    assert bool((y[nearest] == y).all())
    assert torch.equal(flat, tsne(x, seed=1))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_features_that_are_not_finite_cannot_be_embedded(value):
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        tsne(torch.full((9, 2), value))


def slow_silhouette(x: torch.Tensor, y: torch.Tensor) -> float:
    total = 0.0
    for i in range(len(x)):
        by_class: dict[int, list[float]] = {}
        for j in range(len(x)):
            if i != j:
                by_class.setdefault(int(y[j]), []).append(float((x[i] - x[j]).norm()))
        own = by_class.pop(int(y[i]), [])
        if own:
            a = sum(own) / len(own)
            b = min(sum(d) / len(d) for d in by_class.values())
            total += (b - a) / max(a, b)
    return total / len(x)


def test_silhouette_equals_its_definition():
    x, y = blobs(count=4, gap=1.0)
    y[-1] = 7  # alone in its class
    assert silhouette(x, y) == pytest.approx(slow_silhouette(x.double(), y))
    for labels in (torch.zeros(len(x)), torch.arange(len(x))):
        with pytest.raises(ValueError, match="Number of labels"):
            silhouette(x, labels)
