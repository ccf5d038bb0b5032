"""Gradient descent of free points on the unit sphere: features without a network."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor
from torch.nn.functional import normalize

from gplasc.losses import kernels


def random_points(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """Uniform points on the unit sphere: (count, dim) float64 rows."""
    return normalize(torch.randn(count, dim, dtype=torch.float64, generator=generator), dim=1)


def r2scl(
    z: Tensor,
    y: Tensor,
    *,
    temperature: float,
    k: float | Tensor | None = None,
    range_weight: float | Tensor = 0.0,
    center: Tensor | None = None,
    position_weight: float = 0.0,
) -> Tensor:
    """The region-restricted contrastive loss of one task; without threshold and center it is plain SupCon.

    z: (N, D) unit rows; y: (N,). The hinge is an exact penalty: at the theorem's optimum the mean contrastive
    loss falls by less than 1/temperature per unit of cosine given up, so a range_weight above 1/temperature
    holds the threshold exactly, not nearly. The center fixes a direction only (cosine target); the length of
    the task prototype stays free, so that measuring it says something.
    """
    cosines = kernels.cosines(z)
    loss = kernels.supcon(z, y, temperature, cosines=cosines)
    if k is not None:
        loss = loss + range_weight * kernels.range_pairs(z, y, k, cosines=cosines).loss
    if center is not None:
        cosine = kernels.center_cosine(kernels.task_center(z, y), center.to(z.dtype))
        loss = loss + position_weight * (1 - cosine)
    return loss


def descend(
    objective: Callable[[Tensor, float], Tensor],
    start: Tensor,
    *,
    steps: int,
    learning_rate: float,
    record: Collection[int] = (),
    after_step: Callable[[], None] | None = None,
) -> list[Tensor]:
    """Minimize `objective` over unit rows from `start` (..., D); returns recorded points and the final ones.

    `objective` takes the points and the share of steps done. Adam moves the rows; each step ends on the
    sphere. The learning rate falls along a cosine to nearly nothing, because the kink of a hinge keeps any
    constant step size from settling. `record` holds the numbers of finished steps (0 is the start) whose
    points are kept, in order; the final points are always last.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}; at least one step is needed")
    points = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([points], lr=learning_rate, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=1e-4 * learning_rate)
    kept = [start.clone()] if 0 in record else []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        objective(normalize(points, dim=-1), (step - 1) / steps).backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            points.copy_(normalize(points, dim=-1))
        if step in record and step < steps:
            kept.append(points.detach().clone())
        if after_step is not None:
            after_step()
    return [*kept, points.detach()]


@contextmanager
def descent_progress(total: int) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """Show a bar on standard error while points descend.

    Args:
        total: Number of steps in all.

    Yields:
        A function that shows a description, and one to be called after every step.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=total)
        yield lambda text: progress.update(bar, description=text), lambda: progress.advance(bar)
