import math

import pytest
import torch

from gplasc.evaluation.overlap import _density_overlap as density_overlap
from gplasc.evaluation.overlap import _KernelDensity as KernelDensity
from gplasc.evaluation.overlap import task_overlap


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def slow_density(points: torch.Tensor, x: torch.Tensor) -> list[float]:
    """Kernel density with Scott's covariance, by definition, with two loops."""
    count, dim = points.shape
    covariance = torch.cov(points.T).reshape(dim, dim) * count ** (-2 / (dim + 4))
    inverse = torch.linalg.inv(covariance)
    norm = math.sqrt((2 * math.pi) ** dim * float(torch.linalg.det(covariance)))
    found = []
    for row in x:
        total = 0.0
        for point in points:
            gap = row - point
            total += math.exp(-0.5 * float(gap @ inverse @ gap)) / norm
        found.append(total / count)
    return found


@pytest.mark.parametrize("dim", [1, 3])
def test_density_equals_its_definition(dim):
    points = torch.randn(30, dim, generator=generator(), dtype=torch.float64) * 3 + 5
    x = torch.randn(8, dim, generator=generator(1), dtype=torch.float64) * 4 + 5
    found = KernelDensity(points).log_density(x).exp()
    assert found.tolist() == pytest.approx(slow_density(points, x), rel=1e-6)


def test_density_equals_scipy():
    stats = pytest.importorskip("scipy.stats")
    points = torch.randn(200, 3, generator=generator(), dtype=torch.float64) @ torch.tensor(
        [[2.0, 0.5, 0], [0, 1, 0.3], [0, 0, 0.2]], dtype=torch.float64
    )
    x = points[:20] + 0.1
    expected = stats.gaussian_kde(points.T.numpy()).logpdf(x.T.numpy())
    assert KernelDensity(points).log_density(x).tolist() == pytest.approx(expected.tolist(), rel=1e-6)


def test_samples_follow_the_density():
    density = KernelDensity(torch.tensor([[0.0, 0.0], [10.0, 0.0], [10.0, 10.0]]))
    x = density.sample(40_000, generator())
    points = density.points
    inflation = 1 + 3 ** (-2 / 6) * 3 / 2  # population covariance of the points plus that of the kernel
    population = torch.cov(points.T, correction=0)
    assert torch.allclose(x.mean(0), points.mean(0), atol=0.15)
    assert torch.allclose(torch.cov(x.T), population * inflation, rtol=0.05, atol=0.5)


def test_overlap_equals_the_integral_on_a_fine_grid():
    first = KernelDensity(torch.randn(50, 1, generator=generator()))
    second = KernelDensity(torch.randn(60, 1, generator=generator(1)) * 2 + 1)
    grid = torch.linspace(-15, 15, 30_001, dtype=torch.float64)[:, None]
    smaller = torch.minimum(first.log_density(grid).exp(), second.log_density(grid).exp())
    exact = float(torch.trapezoid(smaller, grid.flatten()))
    value, error = density_overlap(first, second, draws=20_000, generator=generator())
    assert 0 < error < 0.01
    assert abs(value - exact) < 4 * error


def test_the_standard_error_is_that_of_repeated_integrals():
    first = KernelDensity(torch.randn(40, 2, generator=generator()))
    second = KernelDensity(torch.randn(40, 2, generator=generator(1)) + 1)
    repeated = [density_overlap(first, second, draws=200, generator=generator(s)) for s in range(200)]
    measured = torch.tensor([value for value, _ in repeated]).std()
    stated = sum(error for _, error in repeated) / len(repeated)
    assert stated == pytest.approx(float(measured), rel=0.2)


def test_overlap_of_two_gaussians_nears_its_closed_form():
    distance = 2.0
    a = torch.randn(4000, 3, generator=generator())
    b = torch.randn(4000, 3, generator=generator(1)) + torch.tensor([distance, 0.0, 0.0])
    value, _ = density_overlap(KernelDensity(a), KernelDensity(b), draws=2000, generator=generator())
    # The kernel widens both by the same factor, which the closed form allows for.
    width = math.sqrt(1 + 4000 ** (-2 / 7))
    exact = math.erfc(distance / width / 2 / math.sqrt(2))
    assert value == pytest.approx(exact, abs=0.03)


def test_bounds_and_symmetry():
    a = KernelDensity(torch.randn(50, 3, generator=generator()))
    far = KernelDensity(torch.randn(50, 3, generator=generator(1)) + 1000)
    assert density_overlap(a, far, draws=500, generator=generator())[0] == 0.0
    assert density_overlap(a, a, draws=500, generator=generator())[0] == 1.0
    near = KernelDensity(torch.randn(50, 3, generator=generator(1)) + 1)
    one, two = (
        density_overlap(*pair, draws=20_000, generator=generator()) for pair in ((a, near), (near, a))
    )
    assert one[0] == pytest.approx(two[0], abs=4 * (one[1] + two[1]))


def test_tasks():
    features = [torch.randn(80, 16, generator=generator(s)) + 3 * (s == 2) for s in range(3)]
    found = task_overlap(features, generator=generator(), draws=500)
    assert found.value.diagonal().tolist() == [1.0, 1.0, 1.0]
    assert torch.equal(found.value, found.value.T)
    assert torch.equal(found.error, found.error.T)
    assert found.value[1, 0] > 0.5
    assert found.value[2, 0] < 0.1
    assert 0 < found.explained < 1
    again = task_overlap(features, generator=generator(), draws=500)
    assert torch.equal(found.value, again.value)


def test_the_overlap_is_that_of_the_principal_components():
    plane = torch.linalg.qr(torch.randn(10, 2, generator=generator(), dtype=torch.float64))[0]
    flat = [torch.randn(60, 2, generator=generator(s), dtype=torch.float64) + s for s in range(2)]
    lifted = [x @ plane.T + 7 for x in flat]
    one, two = (task_overlap(x, dim=2, generator=generator(), draws=20_000) for x in (flat, lifted))
    assert one.explained == pytest.approx(1.0)
    assert two.explained == pytest.approx(1.0)
    assert one.value[0, 1].item() == pytest.approx(two.value[0, 1].item(), abs=4 * float(one.error[0, 1]) * 2)
    line = task_overlap(lifted, dim=1, generator=generator(), draws=500)
    variances = torch.linalg.eigvalsh(torch.cov(torch.cat(flat).T))
    assert line.explained == pytest.approx(float(variances[-1] / variances.sum()))


def test_features_without_variance_and_few_rows():
    found = task_overlap([torch.ones(2, 4), torch.ones(2, 4)], dim=9, generator=generator(), draws=50)
    assert found.explained == 0
    assert found.value[0, 1] == pytest.approx(1.0)


def test_collapsed_features_stay_finite():
    still = [torch.zeros(5, 4), torch.zeros(5, 4), torch.ones(5, 4)]
    found = task_overlap(still, generator=generator(), draws=50)
    assert bool(torch.isfinite(found.value).all())
    assert found.value[0, 1] == pytest.approx(1.0)
    assert found.value[0, 2] == 0.0


def test_a_single_row_has_no_density():
    with pytest.raises(ValueError, match="at least two rows"):
        KernelDensity(torch.zeros(1, 3))
