import math

import torch
from torch.nn.functional import normalize

from gplasc.losses.kernels import prototype_contrast


def draw(rows=6, classes=3, dim=4):
    generator = torch.Generator().manual_seed(0)
    z = normalize(torch.randn(rows, dim, generator=generator, dtype=torch.float64), dim=1)
    p = normalize(torch.randn(classes, dim, generator=generator, dtype=torch.float64), dim=1)
    y = torch.tensor([0, 1, 2, 2, 1, 1])[:rows]
    weights = torch.rand(rows, generator=generator, dtype=torch.float64) + 0.5
    mask = torch.rand(classes, rows, generator=generator) < 0.5
    return z, y, p, weights, mask


def test_equals_the_double_loop():
    z, y, p, weights, mask = draw()
    total = 0.0
    for i in range(6):
        c = y[i]
        contrast = 0.0
        for j in range(6):
            a = (p[c] @ z[j]).item() / 0.2
            contrast += math.exp(a) / (weights[j].item() if mask[c, j] else 1.0)
        total += math.log(contrast) - (p[c] @ z[i]).item() / 0.2
    found = prototype_contrast(z, y, p, temperature=0.2, importance=weights, weighted=mask)
    assert math.isclose(found.item(), total / 6, rel_tol=1e-12)


def test_gradients():
    z, y, p, weights, mask = draw()
    z.requires_grad_()
    p.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda z, p: prototype_contrast(z, y, p, temperature=0.3, importance=weights, weighted=mask), (z, p)
    )


def test_nothing_to_contrast_is_zero_with_a_graph():
    p = normalize(torch.randn(2, 3), dim=1).requires_grad_()
    loss = prototype_contrast(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), p, temperature=0.1)
    loss.backward()
    assert loss.item() == 0.0
    assert p.grad is not None


def test_low_temperature_stays_finite():
    z, y, p, _, _ = draw()
    assert torch.isfinite(prototype_contrast(z.float(), y, p.float(), temperature=0.01))
