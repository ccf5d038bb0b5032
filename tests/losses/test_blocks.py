"""Large batches in blocks of rows: the same numbers, and memory that does not grow with the square."""

import pytest
import torch

from gplasc.losses import kernels, range_loss, relation_distillation, supcon, unit_rows


def batch(size: int, dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = unit_rows(torch.randn(size, dim, generator=generator)).requires_grad_()
    teacher = unit_rows(torch.randn(size, dim, generator=generator))
    return z, teacher, torch.randint(0, 10, (size,), generator=generator)


LOSSES = {
    "supcon": lambda z, old, y: supcon(z, y, temperature=0.1),
    "range": lambda z, old, y: range_loss(z, y, 0.4),
    "relation": lambda z, old, y: relation_distillation(
        z, old, student_temperature=0.2, teacher_temperature=0.01
    ),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("height", [1, 7, 299, 300, 1000])
def test_blocks_equal_the_plain_loss_and_gradient(name, height, in_blocks):
    z, old, y = batch(300, 16)
    plain = LOSSES[name](z, old, y)
    (expected,) = torch.autograd.grad(plain, z)
    in_blocks(height, 300)
    blocks = LOSSES[name](z, old, y)
    (gradient,) = torch.autograd.grad(blocks, z)
    assert blocks.item() == pytest.approx(plain.item(), abs=1e-5)
    assert torch.allclose(gradient, expected, atol=1e-5 * expected.abs().max().item())


@pytest.mark.parametrize("name", LOSSES)
def test_large_batches_are_taken_in_blocks_on_their_own(name, monkeypatch):
    z, old, y = batch(128, 8)
    plain = LOSSES[name](z, old, y)
    (expected,) = torch.autograd.grad(plain, z)
    monkeypatch.setattr(kernels, "PAIRS_PER_BLOCK", 1000)
    shapes = []
    original = torch.Tensor.__matmul__

    def watched(first, second):
        result = original(first, second)
        shapes.append(tuple(result.shape))
        return result

    monkeypatch.setattr(torch.Tensor, "__matmul__", watched)
    blocks = LOSSES[name](z, old, y)
    (gradient,) = torch.autograd.grad(blocks, z)
    assert max(height for height, _ in shapes) == 1000 // 128
    assert blocks.item() == pytest.approx(plain.item(), abs=1e-5)
    assert torch.allclose(gradient, expected, atol=1e-6)
    with torch.no_grad():
        assert LOSSES[name](z, old, y).item() == pytest.approx(plain.item(), abs=1e-5)


def test_blocks_keep_no_pair_matrix_for_the_backward_pass(in_blocks):
    in_blocks(16, 256)
    z, old, y = batch(256, 8)
    for name, loss in LOSSES.items():
        kept: list[int] = []

        def pack(tensor: torch.Tensor, kept: list[int] = kept) -> torch.Tensor:
            kept.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss(z, old, y)
        assert max(kept) <= 256 * 8, name


def test_the_shared_cosines_are_left_out_for_large_batches(monkeypatch):
    z, _, _ = batch(64, 8)
    assert torch.equal(kernels.cosines(z), z @ z.T)
    monkeypatch.setattr(kernels, "PAIRS_PER_BLOCK", 64 * 64 - 1)
    assert kernels.cosines(z) is None


# The compiler itself instantiates the class of an autograd function and looks at `grad` while it traces.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_blocks_work_inside_a_compiled_function(in_blocks):
    in_blocks(7, 30)
    z, _, y = batch(30, 8)

    def loss(z: torch.Tensor) -> torch.Tensor:
        return supcon(z, y, temperature=0.1)

    (expected,) = torch.autograd.grad(loss(z), z)
    torch.compiler.reset()
    compiled = torch.compile(loss, backend="eager")(z)
    (gradient,) = torch.autograd.grad(compiled, z)
    assert torch.allclose(compiled, loss(z))
    assert torch.allclose(gradient, expected)
    torch.compiler.reset()
