"""Encoders: shapes, published parameter counts, sign of the features, memory layout, starting weights."""

import copy
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from gplasc.errors import UserError
from gplasc.models import ENCODERS, build_encoder
from gplasc.models._initialize import initialize
from gplasc.models.resnet import ResNet, _Shortcut
from gplasc.models.small import SmallConv


def count(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def images(n: int, channels: int, size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, channels, size, size, generator=torch.Generator().manual_seed(seed))


def test_parameter_counts_are_the_published_ones() -> None:
    # ResNet-18: 11,173,962 with the CIFAR stem and 10 classes, 11,689,512 with ImageNet's and 1000.
    assert count(ResNet(stem="cifar")) == 11_173_962 - (512 * 10 + 10) == 11_168_832
    assert count(ResNet(stem="imagenet")) == 11_689_512 - (512 * 1000 + 1000) == 11_176_512


def test_parameter_count_by_hand_at_another_width() -> None:
    w, channels = 4, 2
    expected = channels * w * 9 + 2 * w
    inputs = w
    for stage in range(4):
        out = w * 2**stage
        for block in range(2):
            expected += inputs * out * 9 + out * out * 9 + 4 * out
            if stage > 0 and block == 0:
                expected += inputs * out + 2 * out
            inputs = out
    assert count(ResNet(width=w, in_channels=channels)) == expected


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("channels", [1, 3])
def test_shapes(name: str, channels: int) -> None:
    encoder = build_encoder(name, in_channels=channels, width=4)
    size = 64 if name == "resnet18-imagenet" else 28
    out = encoder(images(2, channels, size))
    assert out.shape == (2, encoder.feature_dim)
    assert encoder.feature_dim == {"small": 128, "mlp": 4}.get(name, 32)


@pytest.mark.parametrize("size", [8, 14, 28])
def test_small_encoder_takes_small_images(size: int) -> None:
    encoder = SmallConv(in_channels=1, width=8, feature_dim=20)
    assert encoder(images(3, 1, size)).shape == (3, 20)


def test_feature_maps_shrink_as_the_stem_says() -> None:
    with torch.no_grad():
        assert ResNet(width=2).maps(images(1, 3, 32)).shape[2:] == (4, 4)
        assert ResNet(width=2, stem="imagenet").maps(images(1, 3, 224)).shape[2:] == (7, 7)


@pytest.mark.parametrize("name", ENCODERS)
def test_relu_features_are_non_negative_and_signed_ones_are_not(name: str) -> None:
    x = images(8, 3, 28)
    relu = build_encoder(name, width=8, features="relu", generator=torch.Generator().manual_seed(1))
    signed = build_encoder(name, width=8, features="signed", generator=torch.Generator().manual_seed(1))
    assert relu(x).min() >= 0
    assert relu(x).max() > 0
    assert signed(x).min() < 0
    # The two differ by the last ReLU and nothing else.
    torch.testing.assert_close(relu.maps(x), signed.maps(x).relu())


@pytest.mark.parametrize("name", [name for name in ENCODERS if name != "mlp"])
def test_channels_last_throughout(name: str) -> None:
    encoder = build_encoder(name, width=8)
    seen: list[bool] = []

    def look(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        seen.append(output.is_contiguous(memory_format=torch.channels_last))

    for module in encoder.modules():
        if isinstance(module, torch.nn.Conv2d):
            assert module.weight.is_contiguous(memory_format=torch.channels_last)
            module.register_forward_hook(look)
    encoder(images(2, 3, 32))
    assert seen
    assert all(seen)
    # A copy (the previous task's model) and freshly loaded weights keep the layout.
    other = build_encoder(name, width=8)
    other.load_state_dict(encoder.state_dict())
    for twin in (copy.deepcopy(encoder), other):
        for p in twin.parameters():
            assert p.ndim != 4 or p.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", ENCODERS)
def test_state_dict_round_trip(name: str) -> None:
    first = build_encoder(name, width=4, generator=torch.Generator().manual_seed(1))
    first(images(4, 3, 28))  # moves the running statistics
    second = build_encoder(name, width=4, generator=torch.Generator().manual_seed(2))
    x = images(4, 3, 28, seed=5)
    first.eval(), second.eval()
    assert not torch.equal(first(x), second(x))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(x), second(x))


@pytest.mark.parametrize("name", ENCODERS)
def test_weights_come_from_the_generator(name: str) -> None:
    nets = [build_encoder(name, width=4, generator=torch.Generator().manual_seed(s)) for s in (3, 3, 4)]
    flat = [torch.cat([p.flatten() for p in net.parameters()]) for net in nets]
    assert torch.equal(flat[0], flat[1])
    assert not torch.equal(flat[0], flat[2])


def test_convolutions_start_kaiming_normal_with_fan_out() -> None:
    net = build_encoder("resnet18", width=32, generator=torch.Generator().manual_seed(0))
    for conv in (m for m in net.modules() if isinstance(m, torch.nn.Conv2d)):
        fan_out = conv.out_channels * conv.kernel_size[0] * conv.kernel_size[1]
        expected = (2 / fan_out) ** 0.5
        # The standard error of a sample standard deviation is sigma / sqrt(2 n).
        assert abs(conv.weight.std().item() - expected) < 5 * expected / (2 * conv.weight.numel()) ** 0.5


@pytest.mark.parametrize("name", ENCODERS)
def test_convolutions_may_start_as_pytorch_does(name: str) -> None:
    net = build_encoder(name, width=8, generator=torch.Generator().manual_seed(0), initialization="pytorch")
    torch.manual_seed(0)
    for conv in (m for m in net.modules() if isinstance(m, torch.nn.Conv2d)):
        twin = torch.nn.Conv2d(conv.in_channels, conv.out_channels, conv.kernel_size, bias=False)
        torch.testing.assert_close(conv.weight, twin.weight, rtol=1e-6, atol=1e-7)


def test_layers_with_a_bias_start_as_pytorch_does() -> None:
    def layers() -> list[torch.nn.Module]:
        return [torch.nn.Conv2d(3, 4, 5), torch.nn.Linear(6, 2), torch.nn.BatchNorm2d(4)]

    module = torch.nn.Sequential(*layers())
    initialize(module, torch.Generator().manual_seed(3), "pytorch")
    torch.manual_seed(3)
    for ours, twin in zip(module, layers(), strict=True):
        for name, value in twin.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[name], value, rtol=1e-6, atol=1e-7)


def test_the_perceptron_starts_as_published_and_is_given_pixels_from_0_to_1() -> None:
    net = build_encoder("mlp", in_channels=1, initialization="xavier")
    assert net.normalizes
    for layer in (net.layers[1], net.layers[3]):
        bound = (6 / sum(layer.weight.shape)) ** 0.5
        assert 0.98 * bound < layer.weight.abs().max() <= bound
        assert not layer.bias.any()
    with pytest.raises(UserError, match="28 x 28"):
        net(images(2, 1, 32))


def test_every_parameter_gets_a_gradient() -> None:
    for name in ENCODERS:
        net = build_encoder(name, width=4)
        net(images(4, 3, 28)).square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())


def test_mistakes_are_named() -> None:
    with pytest.raises(
        ValueError, match="resnet18, resnet18-fast, resnet10-fast, resnet18-imagenet, small, mlp"
    ):
        build_encoder("resnet50")
    with pytest.raises(ValueError, match="relu, signed"):
        build_encoder("small", features="both")
    with pytest.raises(ValueError, match="width is 0"):
        build_encoder("small", width=0)
    with pytest.raises(ValueError, match="in_channels is 0"):
        build_encoder("small", in_channels=0)
    with pytest.raises(ValueError, match=r"\(N, 1, H, W\)"):
        build_encoder("small", in_channels=1)(images(2, 3, 8))


@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("channels", [4, 16])
def test_shortcut_is_the_strided_convolution(channels: int, size: int) -> None:
    shortcut = _Shortcut(channels, 2 * channels, stride=2)
    x = torch.randn(3, channels, size, size)
    torch.testing.assert_close(shortcut(x), F.conv2d(x, shortcut.weight, stride=2))


def test_narrow_encoders_survive_odd_batches_on_two_threads() -> None:
    program = (
        "import torch; from gplasc.models import build_encoder\n"
        "torch.set_num_threads(2); encoder = build_encoder('resnet18', width=4)\n"
        "for _ in range(20): encoder(torch.randn(15, 3, 16, 16)).sum().backward()"
    )
    environment = {
        **os.environ,
        "OMP_WAIT_POLICY": "passive",
    }  # a thread that waits leaves the core to others
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
