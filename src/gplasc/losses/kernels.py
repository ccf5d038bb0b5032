"""The arithmetic of the losses. Arguments are trusted; the public functions of this package check them.

Rows are float32 or float64, and the kernels run outside autocast. `z` are unit rows of shape (N, D) and `y` integer
labels of shape (N,). A loss without rows or pairs is 0 and part of the graph.

Above `PAIRS_PER_BLOCK` pairs a loss over pairs is computed in blocks of rows, and each block is recomputed in the
backward pass instead of being stored. Losses over pairs take the cosines `z @ z.T` where two terms share them.
"""

import contextlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

Reduction = Literal["mean", "sum", "none"]
"""Over rows, as in PyTorch's losses."""
RangeForm = Literal["hinge", "softplus", "leaky_relu", "squared_hinge"]
"""The penalty of the range loss."""
PAIRS_PER_BLOCK = 2**22
"""Entries of a block: 16 MiB in float32. A batch of up to 2048 rows is one block."""

_LOW_PRECISION = (torch.float16, torch.bfloat16)
_SHORTEST_CENTER = 1e-4
_ABSENT = 0.5  # rows that a class without rows counts as in the balanced softmax
_PENALTIES: dict[RangeForm, Callable[[Tensor], Tensor]] = {
    "hinge": F.relu,
    "squared_hinge": lambda x: F.relu(x).square(),
    "softplus": F.softplus,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
}


class _RangePairs(NamedTuple):
    """The range loss and the share of pairs of different classes below the threshold; both 0 without such pairs."""

    loss: Tensor
    active_fraction: Tensor


def promote(tensor: Tensor) -> Tensor:
    """Convert half precision to float32; float32 and float64 stay."""
    return tensor.float() if tensor.dtype in _LOW_PRECISION else tensor


def full_precision(tensor: Tensor) -> contextlib.AbstractContextManager[object]:
    """Return a context without autocast on the tensor's device, so that float32 arithmetic stays float32."""
    kind = tensor.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return contextlib.nullcontext()


def unit(features: Tensor, eps: float = 1e-12, *, limit_gradient: bool = False) -> Tensor:
    """Divide each row by its norm, in float32 or float64; a row whose norm is at most `eps` stays.

    With `limit_gradient` the gradient of a row is at most that of a row of norm 1.
    """
    if features.dtype in _LOW_PRECISION:
        features = features.float()
    length = torch.linalg.vector_norm(features, dim=1, keepdim=True)
    z = features / torch.where(length > eps, length, torch.ones_like(length))
    if limit_gradient:
        fixed = z.detach()
        z = fixed + length.detach().clamp(max=1) * (z - fixed)
    return z


def cosines(z: Tensor) -> Tensor | None:
    """Return the cosines (N, N) of all pairs of rows, or None for a batch that is computed in blocks."""
    return z @ z.T if len(z) ** 2 <= PAIRS_PER_BLOCK else None


def supcon(
    z: Tensor,
    y: Tensor,
    temperature: float,
    *,
    anchors: Tensor | None = None,
    over: Literal["anchors", "rows"] = "anchors",
    reduction: Reduction = "mean",
    scale: float | None = None,
    cosines: Tensor | None = None,
) -> Tensor:
    """Supervised contrastive loss, see `gplasc.losses.supcon`; `scale` multiplies the loss of each row."""

    def block(start: int, stop: int, z: Tensor, y: Tensor, cosines: Tensor | None) -> Tensor:
        similarity = (z[start:stop] @ z.T if cosines is None else cosines[start:stop]) / temperature
        positive = _without_self(y[start:stop, None] == y[None, :], start, False)
        # A finite filling, not -inf: with a single row the logarithm must stay finite for its gradient.
        others = _without_self(similarity, start, torch.finfo(similarity.dtype).min)
        count = positive.sum(dim=1).to(similarity.dtype)
        attraction = torch.where(positive, similarity, 0.0).sum(dim=1) / count.clamp(min=1)
        loss = torch.where(count > 0, others.logsumexp(dim=1) - attraction, 0.0)
        return torch.stack([loss, (count > 0).to(loss.dtype)], dim=1)

    per_row, has_loss = _by_rows(block, len(z), z, y, cosines).unbind(dim=1)
    if anchors is not None:
        per_row = torch.where(anchors, per_row, 0.0)
        has_loss = torch.where(anchors, has_loss, 0.0)
    if scale is not None:
        per_row = per_row * scale
    if reduction == "mean" and over == "anchors":
        return per_row.sum() / has_loss.detach().sum().clamp(min=1)
    return _reduce_rows(per_row, reduction)


def relation(
    student: Tensor,
    teacher: Tensor,
    student_temperature: float,
    teacher_temperature: float,
    *,
    reduction: Reduction = "mean",
    cosines: Tensor | None = None,
    teacher_cosines: Tensor | None = None,
) -> Tensor:
    """Relation distillation between unit rows, see `gplasc.losses.relation_distillation`."""

    def block(start: int, stop: int, z: Tensor, old: Tensor, *known: Tensor | None) -> Tensor:
        now, before = known
        before = old[start:stop] @ old.T if before is None else before[start:stop]
        lowest = torch.finfo(before.dtype).min
        target = _without_self(before / teacher_temperature, start, lowest).softmax(dim=1)
        similarity = (z[start:stop] @ z.T if now is None else now[start:stop]) / student_temperature
        others = _without_self(similarity, start, torch.finfo(similarity.dtype).min)
        # The target is exactly 0 at the self-pair, where the finite similarity keeps the product 0 too.
        return others.logsumexp(dim=1) - (target.to(similarity.dtype) * similarity).sum(dim=1)

    if len(student) < 2:
        return _reduce_rows(student.sum(dim=1) * 0.0, reduction)
    before = None if teacher_cosines is None else teacher_cosines.detach()
    return _reduce_rows(_by_rows(block, len(student), student, teacher.detach(), cosines, before), reduction)


def prototype_relation(
    student: Tensor,
    teacher: Tensor,
    prototypes: tuple[Tensor, Tensor],
    student_temperature: float,
    teacher_temperature: float,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Relation distillation to the (student, teacher) prototypes, see `prototype_relation_distillation`."""
    similarity = student @ prototypes[0].T / student_temperature
    if similarity.shape[1] == 0:
        return _reduce_rows(student.sum(dim=1) * 0.0, reduction)
    old = teacher.detach() @ prototypes[1].detach().T
    target = (old / teacher_temperature).softmax(dim=1).to(similarity.dtype)
    return _reduce_rows(similarity.logsumexp(dim=1) - (target * similarity).sum(dim=1), reduction)


def prototype_contrast(
    z: Tensor,
    y: Tensor,
    prototypes: Tensor,
    temperature: float,
    importance: Tensor | None = None,
    weighted: Tensor | None = None,
) -> Tensor:
    """Contrastive loss with prototypes as anchors (CCLIS): the positives are the samples of the class.

        mean over i of  log sum_j exp(a_cj - m_cj log w_j) - a_ci,      c = y_i,  a_cj = <p_c, z_j> / temperature

    prototypes: (C, D), one per class; importance: (N,) weights w_j of the pairs m_cj that `weighted`, (C, N), marks.
    """
    if len(z) == 0:
        return z.sum() * 0.0 + prototypes.sum() * 0.0
    scores = prototypes @ z.T / temperature
    contrast = scores
    if importance is not None and weighted is not None:
        contrast = scores - torch.where(weighted, importance.to(scores.dtype).log(), 0.0)
    positives = scores.gather(0, y.long().unsqueeze(0)).squeeze(0)
    return (contrast.logsumexp(1)[y.long()] - positives).mean()


def range_pairs(
    z: Tensor,
    y: Tensor,
    k: float | Tensor,
    form: RangeForm = "hinge",
    *,
    reduction: Literal["mean", "sum"] = "mean",
    cosines: Tensor | None = None,
) -> _RangePairs:
    """Range loss, see `gplasc.losses.range_loss`, and the share of pairs below the threshold."""

    def block(start: int, stop: int, z: Tensor, y: Tensor, cosines: Tensor | None) -> Tensor:
        x = k - (z[start:stop] @ z.T if cosines is None else cosines[start:stop])
        different = y[start:stop, None] != y[None, :]
        total = torch.where(different, _PENALTIES[form](x), 0.0).sum(dim=1)
        active = (different & (x > 0)).sum(dim=1)
        return torch.stack([total, different.sum(dim=1).to(z.dtype), active.to(z.dtype)], dim=1)

    total, pairs, active = _by_rows(block, len(z), z, y, cosines).sum(dim=0).unbind()
    pairs, active = pairs.detach(), active.detach()
    if reduction == "mean":
        total = total / pairs.clamp(min=1)
    return _RangePairs(total, active / pairs.clamp(min=1))


def class_sizes(y: Tensor) -> Tensor:
    """Return the number of rows with the label of each row, integers (N,), without synchronizing the device."""
    ordered = y.sort().values
    return torch.searchsorted(ordered, y, right=True) - torch.searchsorted(ordered, y)


def task_center(z: Tensor, y: Tensor) -> Tensor:
    """Return the mean (D,) of the class means, not normalized; zeros without rows."""
    share = 1 / class_sizes(y).to(z.dtype)
    return share @ z / share.sum().clamp(min=1)


def position(center: Tensor, vertex: Tensor, norm: float | Tensor | None = None) -> Tensor:
    """Return the squared distance between a center (D,) and the vertex (D,), or `norm` times the vertex."""
    target = vertex if norm is None else norm * vertex
    return (center - target).square().sum()


def center_cosine(center: Tensor, vertex: Tensor) -> Tensor:
    """Return the cosine between center (D,) and vertex (D,); its gradient is bounded also if the center is 0."""
    length = torch.linalg.vector_norm(center).clamp(min=_SHORTEST_CENTER)
    cosine: Tensor = (center @ vertex) / (length * torch.linalg.vector_norm(vertex))
    return cosine


def feature_distance(student: Tensor, teacher: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Return the squared distances between the rows of two matrices (N, D); no gradient reaches the teacher."""
    return _reduce_rows((student - teacher.detach()).square().sum(dim=1), reduction)


def projected_distance(
    student: Tensor, teacher: Tensor, projector: nn.Module, reduction: Reduction = "mean"
) -> Tensor:
    """Return the mean squared differences (over D) between the student and the projected teacher, both (N, D)."""
    projected: Tensor = projector(teacher.detach())
    return _reduce_rows((student - projected).square().mean(dim=1), reduction)


def assignment(z: Tensor, labels: Tensor, places: Tensor, temperature: float) -> Tensor:
    """Balanced softmax of the cosines with the places (P, D), see `gplasc.losses.assignment_loss`."""
    if len(z) == 0:
        return z.sum()
    labels, places = labels.long(), places.to(z)
    rows = torch.zeros(len(places), dtype=z.dtype, device=z.device)
    rows = rows.index_add(0, labels, torch.ones_like(z[:, 0]))  # bincount would synchronize a GPU
    return F.cross_entropy(z @ places.T / temperature + rows.clamp(min=_ABSENT).log(), labels)


def _reduce_rows(per_row: Tensor, reduction: Reduction) -> Tensor:
    """Reduce (N,) by "none", "sum" or "mean"; the mean without rows is 0 and part of the graph."""
    if reduction == "none":
        return per_row
    total = per_row.sum()
    return total / max(1, len(per_row)) if reduction == "mean" else total


def _by_rows(block: Callable[..., Tensor], rows: int, *tensors: Tensor | None) -> Tensor:
    """Stack `block(start, stop, *tensors)`, one entry per row of start:stop, over all rows."""
    step = max(1, PAIRS_PER_BLOCK // max(1, rows))
    if step >= rows:
        return block(0, rows, *tensors)
    stacked: Tensor = _Blocks.apply(block, rows, step, *tensors)  # type: ignore[no-untyped-call]
    return stacked


def _without_self(values: Tensor, start: int, fill: float | bool) -> Tensor:
    """Return a copy of a block (rows, N) that begins at row `start`, its self-pairs replaced by `fill`."""
    values = values.clone()
    values.diagonal(start).fill_(fill)
    return values


class _Blocks(torch.autograd.Function):
    """Compute blocks one after the other, and each again for its gradient.

    torch.utils.checkpoint would do the same with less code, but the objects it allocates between the large blocks
    fragment the heap: relation distillation of 16,384 rows then takes four times the memory.
    """

    @staticmethod
    def forward(
        ctx: Any, block: Callable[..., Tensor], rows: int, step: int, *tensors: Tensor | None
    ) -> Tensor:
        ctx.block, ctx.rows, ctx.step = block, rows, step
        ctx.save_for_backward(*tensors)
        return torch.cat([block(start, min(start + step, rows), *tensors) for start in range(0, rows, step)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        wanted = ctx.needs_input_grad[3:]
        tensors = [
            tensor.detach().requires_grad_() if want else tensor
            for tensor, want in zip(ctx.saved_tensors, wanted, strict=True)
        ]
        leaves = [tensor for tensor, want in zip(tensors, wanted, strict=True) if want]
        totals = [torch.zeros_like(leaf) for leaf in leaves]
        for start in range(0, ctx.rows, ctx.step):
            stop = min(start + ctx.step, ctx.rows)
            with torch.enable_grad(), full_precision(gradient):
                piece = ctx.block(start, stop, *tensors)
            parts = torch.autograd.grad(piece, leaves, gradient[start:stop])
            for total, part in zip(totals, parts, strict=True):
                total += part
        remaining = iter(totals)
        return (None, None, None, *(next(remaining) if want else None for want in wanted))
