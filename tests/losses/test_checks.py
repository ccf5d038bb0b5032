import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gplasc.losses import checks, supcon, unit_rows
from gplasc.losses.checks import check_unit


@given(seed=st.integers(0, 1000), scale=st.floats(1e-6, 1e6))
@settings(max_examples=30, deadline=None)
def test_unit_rows_have_length_one_and_the_same_direction(seed, scale):
    x = scale * torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    z = unit_rows(x)
    assert torch.allclose(z.norm(dim=1), torch.ones(5, dtype=torch.float64))
    assert torch.allclose(z * x.norm(dim=1, keepdim=True), x)


def test_unit_rows_gradient_is_right_and_harmless_for_a_row_of_zeros():
    x = torch.randn(3, 4, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(unit_rows, x)
    zero = torch.zeros(2, 3, requires_grad=True)
    unit_rows(zero).sum().backward()
    assert torch.equal(zero.grad, torch.ones(2, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_unit_rows_of_half_precision_are_float32_also_under_autocast(dtype):
    x = torch.randn(4, 8).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = unit_rows(x)
    assert z.dtype == torch.float32
    assert torch.allclose(z.norm(dim=1), torch.ones(4), atol=1e-6)


def test_rows_of_wrong_length_are_named():
    check_unit("loss", "z", torch.eye(3))
    check_unit("loss", "z", torch.zeros(2, 3))
    check_unit("loss", "z", torch.empty(0, 3))
    check_unit("loss", "z", torch.full((1, 3), float("nan")))
    check_unit("loss", "z", torch.nn.functional.normalize(torch.randn(50, 64).bfloat16()))
    with pytest.raises(ValueError, match=r"features must have rows of length 1, but row 1 has length 0\.5"):
        check_unit("loss", "features", torch.tensor([[1.0, 0.0], [0.5, 0.0]]))


def test_other_devices_are_checked_once_for_each_loss(monkeypatch):
    """A device other than the CPU must not be synchronized at every step."""
    checked = []
    monkeypatch.setattr(checks, "_checked", set())

    class Elsewhere:
        device = torch.device("cuda")

        def __len__(self) -> int:
            return 2

        def detach(self) -> torch.Tensor:
            checked.append("z")
            return torch.eye(2)

    for _ in range(3):
        check_unit("supcon", "z", Elsewhere())
        check_unit("range_loss", "z", Elsewhere())
    assert checked == ["z", "z"]
    check_unit("supcon", "z", torch.empty(2, 2, device="meta"))
    assert len(checked) == 2


def test_shapes_and_types_are_checked_without_data():
    """On the meta device there is no data, so a check that looked at it would fail."""
    z, y = torch.empty(4, 3, device="meta"), torch.empty(4, dtype=torch.int64, device="meta")
    assert supcon(z, y, temperature=0.1).shape == ()
    with pytest.raises(ValueError, match="y must have shape"):
        supcon(z, y[:3], temperature=0.1)


@pytest.mark.parametrize("value", [[[1.0, 0.0]], torch.eye(2).numpy(), None, 3.0])
def test_what_is_no_tensor_is_named_with_its_type(value):
    with pytest.raises(TypeError, match=r"features must be a torch\.Tensor, got [\w.]+: convert it"):
        unit_rows(value)
    with pytest.raises(TypeError, match=r"y must be a torch\.Tensor, got [\w.]+: convert it"):
        supcon(torch.eye(2), value, temperature=0.1)
