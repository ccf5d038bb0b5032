"""Heads: unit rows, prototypes that stay on the sphere, two forward passes before one backward."""

import torch
import torch.nn.functional as F

from gplasc.models import LinearClassifier, ProjectionHead, Prototypes


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_projection_head_is_linear_relu_linear_with_unit_rows() -> None:
    head = ProjectionHead(6, hidden=5, out=4, generator=generator())
    x = torch.randn(7, 6, generator=generator(1))
    first, last = head.layers[0], head.layers[2]
    for row, z in zip(x, head(x), strict=True):
        hidden = (first.weight @ row + first.bias).clamp(min=0)
        raw = last.weight @ hidden + last.bias
        torch.testing.assert_close(z, raw / raw.square().sum().sqrt())


def test_default_sizes() -> None:
    head = ProjectionHead(512)
    assert sum(p.numel() for p in head.parameters()) == 512 * 512 + 512 + 512 * 128 + 128


def test_projection_is_float32_under_autocast() -> None:
    head = ProjectionHead(6, hidden=5, out=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = head(torch.randn(3, 6))
    assert z.dtype == torch.float32
    torch.testing.assert_close(z.norm(dim=1), torch.ones(3))


def test_classifier() -> None:
    classifier = LinearClassifier(6, 3, generator=generator())
    x = torch.randn(2, 6)
    torch.testing.assert_close(classifier(x), x @ classifier.weight.T + classifier.bias)
    assert classifier.out_features == 3
    assert torch.equal(classifier.weight, LinearClassifier(6, 3, generator=generator()).weight)


def test_heads_grow_and_keep_what_they_have() -> None:
    classifier, prototypes = (
        LinearClassifier(6, 3, generator=generator()),
        Prototypes(3, 5, generator=generator()),
    )
    before = [classifier.weight.detach().clone(), prototypes.weight.detach().clone()]
    for head, old in zip((classifier, prototypes), before, strict=True):
        head.grow(5, generator=generator(1))
        assert len(head.weight) == 5
        assert torch.equal(head.weight[:3], old)
        assert head.weight.requires_grad
    assert classifier(torch.zeros(2, 6)).shape == (2, 5)


def test_prototypes_start_as_the_unit_rows_of_a_linear_layer() -> None:
    prototypes = Prototypes(3, 5, generator=generator(2))
    torch.manual_seed(2)
    linear = torch.nn.Linear(5, 3, bias=False)
    torch.testing.assert_close(prototypes.weight, F.normalize(linear.weight, dim=1))


def test_prototypes_are_normalized_in_place() -> None:
    prototypes = Prototypes(3, 5, generator=generator())
    torch.testing.assert_close(prototypes.weight.norm(dim=1), torch.ones(3))
    before = prototypes.weight.detach().clone()
    with torch.no_grad():
        prototypes.weight.mul_(torch.tensor([[2.0], [0.5], [7.0]]))
    prototypes.normalize_()
    torch.testing.assert_close(prototypes.weight.detach(), before)
