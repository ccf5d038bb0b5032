"""Network and Outputs: each quantity once, right graph, right precision, state in and out."""

import copy

import pytest
import torch
from torch import Tensor, nn

from gplasc.models import LinearClassifier, Network, ProjectionHead
from gplasc.models._initialize import initialize
from gplasc.models.small import SmallConv


class Counting(nn.Module):
    """Counts how often the module inside is called."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        out: Tensor = self.inner(x)
        return out


def network(features: str = "relu", seed: int = 0) -> Network:
    g = torch.Generator().manual_seed(seed)
    encoder = SmallConv(width=4, in_channels=1, feature_dim=16, features=features)  # type: ignore[arg-type]
    initialize(encoder, g)
    return Network(encoder, ProjectionHead(16, 12, 8, generator=g), LinearClassifier(16, 5, generator=g))


def batch(n: int = 6) -> Tensor:
    return torch.randn(n, 1, 8, 8, generator=torch.Generator().manual_seed(9))


def test_everything_is_what_it_says() -> None:
    net = network().eval()
    out = net(batch())
    assert net.feature_dim == 16
    f = net.encoder(batch())
    assert torch.equal(out.features, f)
    assert net.projection is not None
    assert net.classifier is not None
    assert torch.equal(out.projection, net.projection(f))
    assert torch.equal(out.logits, net.classifier(f))
    for i in range(6):
        for j in range(6):
            torch.testing.assert_close(out.projection_gram[i, j], out.projection[i] @ out.projection[j])


def test_heads_run_at_most_once_and_only_when_asked() -> None:
    net = network()
    projection, classifier = Counting(ProjectionHead(16)), Counting(LinearClassifier(16, 5))
    net.projection, net.classifier = projection, classifier
    encoder_calls: list[int] = []
    net.encoder.register_forward_hook(lambda *_: encoder_calls.append(1))
    out = net(batch())
    assert (projection.calls, classifier.calls) == (0, 0)
    for name in ("features", "projection", "logits", "projection_gram"):
        assert getattr(out, name) is getattr(out, name)
    assert (projection.calls, classifier.calls, len(encoder_calls)) == (1, 1, 1)
    net(batch())
    assert (projection.calls, classifier.calls) == (1, 1)


def test_a_look_inside_no_grad_does_not_rob_the_loss_of_its_gradient() -> None:
    net = network()
    out = net(batch())
    with torch.no_grad():
        assert out.projection_gram.requires_grad
        assert out.logits.requires_grad
    (out.projection_gram.sum() + out.logits.sum()).backward()
    assert all(p.grad is not None for p in net.parameters())


def test_a_teacher_under_no_grad_has_no_graph_wherever_it_is_asked() -> None:
    net = network()
    with torch.no_grad():
        out = net(batch())
    assert not out.projection.requires_grad
    assert not out.logits.requires_grad
    assert not out.projection_gram.requires_grad


def test_shared_terms_have_the_gradient_of_separate_ones() -> None:
    net = network()
    twin = copy.deepcopy(net)
    out = net(batch())
    (out.projection_gram.pow(2).sum() + out.projection_gram.sum()).backward()
    for power in (2, 1):
        z = twin(batch()).projection
        (z @ z.T).pow(power).sum().backward()
    for p, q in zip(net.encoder.parameters(), twin.encoder.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-4)


def test_autocast_of_the_forward_pass_holds_for_the_heads() -> None:
    net = network()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside, outside = net(batch()), net(batch())
        assert inside.logits.dtype == torch.bfloat16
    # Asked for outside, where bfloat16 features would not fit float32 weights.
    assert outside.logits.dtype == torch.bfloat16
    assert torch.equal(outside.logits, inside.logits)
    for out in (inside, outside):
        assert out.projection.dtype == out.projection_gram.dtype == torch.float32
        torch.testing.assert_close(out.projection_gram.diagonal(), torch.ones(6))
        # Products of float32 unit rows, not of rows rounded to bfloat16.
        torch.testing.assert_close(out.projection_gram, out.projection @ out.projection.T)
    (outside.logits.float().sum() + outside.projection_gram.sum()).backward()
    assert all(p.grad is not None for p in net.parameters())


def test_missing_heads_are_named() -> None:
    out = Network(SmallConv(width=2))(batch())
    for ask in ("projection", "projection_gram"):
        with pytest.raises(ValueError, match="no projection head"):
            getattr(out, ask)
    with pytest.raises(ValueError, match="no classifier"):
        out.logits  # noqa: B018
    assert out.features.shape[0] == 6


def test_state_dict_round_trip() -> None:
    first, second = network(seed=1), network(seed=2)
    first(batch())
    second.load_state_dict(first.state_dict())
    first.eval(), second.eval()
    a, b = first(batch()), second(batch())
    assert torch.equal(a.logits, b.logits)
    assert torch.equal(a.projection, b.projection)


def test_empty_batch_in_eval_mode() -> None:
    out = network().eval()(batch()[:0])
    assert out.logits.shape == (0, 5)
    assert out.projection_gram.shape == (0, 0)
