"""Batched augmentation against slow single-image twins, PIL, and (in distribution) kornia."""

import colorsys
import math
import pickle
import re
from typing import NamedTuple

import kornia.augmentation as K
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from gplasc.streams import list_streams
from gplasc.streams.augment import DEVIATIONS, Contrastive, Plain, Replay
from gplasc.streams.augment._linear import add_blur, resize_matrices, tents
from gplasc.streams.augment.contrastive import _draw_boxes

MEAN, STD = (0.49, 0.48, 0.44), (0.20, 0.19, 0.21)
LUMA = (0.299, 0.587, 0.114)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(n: int, channels: int, height: int, width: int, seed: int = 0) -> Tensor:
    """Smooth random uint8 images with all values from black to white."""
    coarse = torch.rand(n, channels, 5, 5, generator=seeded(seed))
    smooth = F.interpolate(coarse, (height, width), mode="bilinear", align_corners=True)
    return (smooth * 1.4 - 0.2).clamp(0, 1).mul(255).round().to(torch.uint8)


class Drawn(NamedTuple):
    """The numbers that were drawn for a batch, by name."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor
    flip: Tensor
    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    hue: Tensor
    gray: Tensor
    sigma: Tensor


def neutral(n: int, height: int, width: int, **change: float) -> Tensor:
    """What leaves images as they are, but for the numbers given."""
    numbers = Drawn(*map(torch.tensor, (0.0, 0.0, height, width, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)))
    changed = numbers._replace(**{name: torch.tensor(value) for name, value in change.items()})
    return torch.stack([value.float() for value in changed]).repeat(n, 1)


def raw(augmentation: Contrastive, x: Tensor, drawn: Tensor) -> Tensor:
    """Result on the scale 0 to 1, normalization undone."""
    out = augmentation.apply(x, drawn)
    mean, std = (torch.tensor(v)[:, None, None] for v in (augmentation.mean, augmentation.std))
    return out * std + mean


# --- slow single-image twins -------------------------------------------------------------------------


def slow_resize(image: np.ndarray, top: int, left: int, height: int, width: int, size: int) -> np.ndarray:
    """Crop (H, W) and resize with a tent kernel, pixel by pixel; widened when shrinking."""
    crop = image[top : top + height, left : left + width]

    def line(values: np.ndarray) -> np.ndarray:
        result = []
        for i in range(size):
            scale = max(1.0, len(values) / size)
            center = (i + 0.5) * len(values) / size
            weights = [max(0.0, 1 - abs(j + 0.5 - center) / scale) for j in range(len(values))]
            result.append(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))
        return np.array(result)

    crop = np.stack([line(row) for row in crop])
    return np.stack([line(column) for column in crop.T]).T


def slow_blur(image: np.ndarray, sigma: float, radius: int) -> np.ndarray:
    """Two-dimensional Gaussian on (H, W), mirrored at the border without repeating the edge."""
    padded = np.pad(image, radius, mode="reflect")
    out = np.zeros_like(image)
    total = 0.0
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            weight = math.exp(-(dy * dy + dx * dx) / (2 * sigma * sigma))
            height, width = image.shape
            out += weight * padded[radius + dy :, radius + dx :][:height, :width]
            total += weight
    return out / total


def slow_color(
    image: np.ndarray, brightness: float, contrast: float, saturation: float, hue: float, gray: bool
) -> np.ndarray:
    """One operation after the other on (3, H, W), no clipping in between."""
    image = brightness * image

    def luma(pixels: np.ndarray) -> np.ndarray:
        return LUMA[0] * pixels[0] + LUMA[1] * pixels[1] + LUMA[2] * pixels[2]

    image = contrast * image + (1 - contrast) * luma(image).mean()
    image = saturation * image + (1 - saturation) * luma(image)
    # Hue: the hexagon of the colors around their mean is turned.
    mean = image.mean(0)
    color = (image[0] - (image[1] + image[2]) / 2) + 1j * math.sqrt(3) / 2 * (image[1] - image[2])
    color = color * np.exp(2j * math.pi * hue)
    red = 2 / 3 * color.real
    image = mean + np.stack([red, -red / 2 + color.imag / math.sqrt(3), -red / 2 - color.imag / math.sqrt(3)])
    return np.broadcast_to(luma(image), image.shape).copy() if gray else image


def slow_contrastive(augmentation: Contrastive, x: Tensor, p: Drawn, n: int) -> Tensor:
    """The whole pipeline for image n, every step on its own, on the scale 0 to 1."""
    size = augmentation.image_size
    top, left, height, width = (int(v[n]) for v in p[:4])
    planes = x[n].double().numpy() / 255
    image = np.stack([slow_resize(plane, top, left, height, width, size) for plane in planes])
    if p.flip[n]:
        image = image[:, :, ::-1]
    brightness, contrast = p.brightness[n].item(), p.contrast[n].item()
    if len(image) == 3:
        image = slow_color(
            image, brightness, contrast, p.saturation[n].item(), p.hue[n].item(), bool(p.gray[n])
        )
    else:
        image = brightness * image
        image = contrast * image + (1 - contrast) * image.mean()
    if p.sigma[n] > 0:
        radius = (size // 20 * 2 + 1) // 2
        image = np.stack([slow_blur(plane, p.sigma[n].item(), radius) for plane in image])
    return torch.from_numpy(np.ascontiguousarray(image.clip(0, 1))).float()


# --- contrastive -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channels", "height", "width", "size", "blur"),
    [
        (3, 16, 16, 16, False),
        (3, 40, 40, 40, True),
        (3, 30, 44, 20, True),
        (3, 12, 9, 21, True),
        (1, 8, 8, 8, False),
    ],
)
def test_batch_equals_one_image_at_a_time(channels, height, width, size, blur):
    augment = Contrastive(size, MEAN[:channels], STD[:channels], blur=0.5 if blur else 0.0, gray=0.3)
    x = pictures(12, channels, height, width)
    drawn = augment.draw(12, height, width, seeded(3))
    p = Drawn(*drawn.unbind(1))
    assert p.flip.any()
    assert not p.flip.all()
    assert bool((p.sigma > 0).any()) == blur
    out = raw(augment, x, drawn)
    for n in range(12):
        torch.testing.assert_close(out[n], slow_contrastive(augment, x, p, n), atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [8, 40])
def test_pieces_do_not_matter(size, monkeypatch):
    """A batch goes through in pieces (here of 12, 12 and 11 images): each image is as if alone."""
    augment = Contrastive(size, MEAN, STD)
    x = pictures(35, 3, size, size)
    drawn = augment.draw(35, size, size, seeded())
    assert bool(drawn[:, -1].any()) == (size == 40)
    whole = augment.apply(x, drawn)
    monkeypatch.setattr("gplasc.streams.augment.contrastive._PIECE", 12 * 3 * size * size)
    torch.testing.assert_close(augment.apply(x, drawn), whole, atol=1e-5, rtol=0)
    for n in range(35):
        one = augment.apply(x[n : n + 1], drawn[n : n + 1])
        torch.testing.assert_close(whole[n : n + 1], one, atol=1e-5, rtol=0)


def test_every_color_operation_by_itself():
    augment = Contrastive(10, MEAN, STD)
    x = pictures(1, 3, 10, 10).clamp(60, 180)
    image = x[0].double().numpy() / 255
    change = {"brightness": 1.3, "contrast": 0.7, "saturation": 1.2, "hue": 0.07, "gray": True}
    for name, value in change.items():
        settings = {"brightness": 1.0, "contrast": 1.0, "saturation": 1.0, "hue": 0.0, "gray": False}
        p = neutral(1, 10, 10, **{name: value})
        expected = slow_color(image, **(settings | {name: value}))  # type: ignore[arg-type]
        torch.testing.assert_close(
            raw(augment, x, p)[0], torch.from_numpy(expected).float(), atol=1e-5, rtol=0
        )
        assert (raw(augment, x, p)[0] - torch.from_numpy(image)).abs().max() > 0.01


def test_neutral_parameters_give_the_image_itself():
    x = pictures(4, 3, 36, 36)
    torch.testing.assert_close(raw(Contrastive(36, MEAN, STD), x, neutral(4, 36, 36)), x / 255)


def test_result_is_normalized_clipped_float_and_channels_last():
    augment = Contrastive(33, MEAN, STD, jitter=(0.9, 0.9, 0.9, 0.5), jitter_probability=1.0)
    out = augment(pictures(20, 3, 33, 33), seeded())
    assert out.shape == (20, 3, 33, 33)
    assert out.dtype == torch.float32
    assert out.is_contiguous(memory_format=torch.channels_last)
    for c in range(3):
        assert out[:, c].min().item() == pytest.approx(-MEAN[c] / STD[c], abs=1e-5)
        assert out[:, c].max().item() == pytest.approx((1 - MEAN[c]) / STD[c], abs=1e-5)


def test_color_matrix_keeps_gray_and_hue_keeps_lengths():
    def color_matrix(**change: float) -> Tensor:
        return Contrastive(4, (0.0,) * 3, (1 / 255,) * 3)._color(neutral(1, 4, 4, **change))[0][0]

    torch.testing.assert_close(color_matrix(saturation=1.3, hue=0.08) @ torch.ones(3), torch.ones(3))
    turn = color_matrix(hue=0.08)
    torch.testing.assert_close(turn @ turn.T, torch.eye(3))
    third = color_matrix(hue=1 / 3)
    torch.testing.assert_close(third @ torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]))


@pytest.mark.parametrize("shift", [0.1, 0.04, -0.1])
def test_hue_is_close_to_that_of_hsv(shift):
    """In the mean over all colors, at most 0.6 times as far from HSV's result as the unchanged color is."""
    x = torch.randint(0, 256, (1, 3, 30, 30), generator=seeded(), dtype=torch.uint8)
    turned = [
        colorsys.hsv_to_rgb((h + shift) % 1, s, v)
        for h, s, v in (colorsys.rgb_to_hsv(*pixel) for pixel in (x / 255).flatten(2)[0].T.tolist())
    ]
    expected = torch.tensor(turned).T.view(3, 30, 30)
    p = neutral(1, 30, 30, hue=shift)
    ours = raw(Contrastive(30, MEAN, STD), x, p)[0]
    assert (ours - expected).square().mean().sqrt() < 0.6 * (x[0] / 255 - expected).square().mean().sqrt()


def resize_matrix(start: int, length: int, source: int, size: int, flip: bool = False) -> Tensor:
    line = tents(
        torch.tensor([float(start)]), torch.tensor([float(length)]), source, size, torch.tensor([flip])
    )
    return resize_matrices((line,), slice(None), torch.empty(size * source))[0]


@pytest.mark.parametrize(
    ("start", "length", "source", "size"), [(3, 9, 20, 20), (1, 18, 20, 7), (0, 5, 5, 13)]
)
def test_resize_is_that_of_pil_and_torch(start, length, source, size):
    line = torch.rand(source, generator=seeded())
    matrix = resize_matrix(start, length, source, size)
    cut = line[start : start + length].view(1, 1, 1, length)
    torch_line = F.interpolate(cut, (1, size), mode="bilinear", antialias=True)[0, 0, 0]
    torch.testing.assert_close(matrix @ line, torch_line)
    pil = Image.fromarray(cut[0, 0].numpy()).resize((size, 1), Image.Resampling.BILINEAR)
    torch.testing.assert_close(matrix @ line, torch.from_numpy(np.array(pil))[0])
    torch.testing.assert_close(resize_matrix(start, length, source, size, flip=True), matrix.flip(0))


@pytest.mark.parametrize(("radius", "size"), [(1, 5), (3, 12), (11, 30)])
def test_blur_matrix(radius, size):
    sigma = torch.tensor([0.1, 0.7, 2.0])
    image = torch.rand(size, size, generator=seeded(), dtype=torch.float64)
    matrices = torch.eye(size).repeat(4, 1, 1)
    add_blur(matrices, torch.tensor([0.1, 0.7, 0.0, 2.0]), radius)
    assert torch.equal(matrices[2], torch.eye(size)), "the third is not blurred"
    for matrix, s in zip(matrices[[0, 1, 3]].double(), sigma, strict=True):
        expected = torch.from_numpy(slow_blur(image.numpy(), s.item(), radius))
        torch.testing.assert_close(matrix @ image @ matrix.T, expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(matrix.sum(1), torch.ones(size, dtype=torch.float64), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("size", "blur", "share"), [(32, None, 0), (33, None, 0.5), (32, 0.5, 0.5), (64, 0.0, 0)]
)
def test_blur_is_off_up_to_32_pixels_unless_asked_for(size, blur, share):
    drawn = Contrastive(size, MEAN, STD, blur=blur).draw(1000, size, size, seeded())
    assert (drawn[:, -1] > 0).float().mean() == pytest.approx(share, abs=0.06 if share else 0)


def test_drawn_parameters_have_the_right_frequencies_and_ranges():
    n = 20_000
    p = Drawn(*Contrastive(64, MEAN, STD).draw(n, 64, 64, seeded()).unbind(1))

    def close(mask: Tensor, probability: float) -> bool:
        return abs(mask.float().mean().item() - probability) < 4 * math.sqrt(
            probability * (1 - probability) / n
        )

    assert close(p.flip, 0.5)
    assert close(p.gray, 0.2)
    assert close(p.sigma > 0, 0.5)
    jittered = p.hue != 0
    assert close(jittered, 0.8)
    for factor in (p.brightness, p.contrast, p.saturation):
        assert torch.equal(factor != 1, jittered)  # all four or none
        values = factor[jittered].sort().values
        uniform = torch.linspace(0.6, 1.4, len(values))
        assert (values - uniform).abs().max() < 0.8 * 1.95 / math.sqrt(len(values))  # Kolmogorov, p 0.001
    assert p.hue.abs().max() <= 0.1
    assert p.sigma[p.sigma > 0].min() >= 0.1
    assert p.sigma.max() <= 2.0
    # Independent of each other
    columns = torch.stack([p.brightness, p.contrast, p.saturation, p.hue, p.sigma, p.height])[:, jittered]
    off_diagonal = torch.corrcoef(columns) - torch.eye(6)
    assert off_diagonal.abs().max() < 0.04


@pytest.mark.parametrize(("height", "width"), [(32, 32), (40, 24)])
def test_crop_boxes_follow_the_sequential_recipe(height, width):
    """Same distribution as ten attempts one after the other, as torchvision makes them."""
    n = 4000
    boxes = _draw_boxes(n, height, width, (0.2, 1.0), (3 / 4, 4 / 3), seeded())
    rng = np.random.default_rng(0)
    slow = []
    for _ in range(n):
        for _ in range(10):
            area = height * width * rng.uniform(0.2, 1.0)
            aspect = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                slow.append((rng.integers(0, height - h + 1), rng.integers(0, width - w + 1), h, w))
                break
        else:
            ratio = width / height
            w = width if ratio < 4 / 3 else round(height * 4 / 3)
            h = height if ratio > 3 / 4 else round(width / (3 / 4))
            slow.append(((height - h) // 2, (width - w) // 2, h, w))
    expected = torch.tensor(slow).float()
    assert (boxes == boxes.round()).all()
    assert (boxes >= 0).all()
    assert (boxes[:, 0] + boxes[:, 2] <= height).all()
    assert (boxes[:, 1] + boxes[:, 3] <= width).all()
    for column in range(4):
        a, b = boxes[:, column], expected[:, column]
        grid = torch.arange(max(height, width) + 1)[:, None]
        gap = ((a <= grid).float().mean(1) - (b <= grid).float().mean(1)).abs().max()
        assert gap < 1.95 * math.sqrt(2 / n)  # Kolmogorov-Smirnov, p 0.001


def test_crop_without_a_fitting_box_is_the_central_one():
    boxes = _draw_boxes(5, 10, 100, (1.0, 1.0), (3 / 4, 4 / 3), seeded())
    assert torch.equal(boxes, torch.tensor([[0.0, 43.0, 10.0, 13.0]]).expand(5, 4))


# --- kornia, in distribution -------------------------------------------------------------------------


def moments(x: Tensor) -> Tensor:
    """Per image: mean and deviation of each channel, correlation of left and right half: (N, 7)."""
    flat = x.flatten(2)
    half = x.shape[3] // 2
    return torch.cat(
        [flat.mean(2), flat.std(2), (x[..., :half].mean((1, 2, 3)) - x[..., half:].mean((1, 2, 3)))[:, None]],
        1,
    )


@pytest.mark.parametrize(
    ("settings", "oracle"),
    [
        ({}, K.RandomResizedCrop((32, 32), scale=(0.2, 1.0), ratio=(3 / 4, 4 / 3), align_corners=False)),
        ({"flip": 0.5, "scale": (1.0, 1.0), "ratio": (1.0, 1.0)}, K.RandomHorizontalFlip(p=0.5)),
        ({"gray": 0.2, "scale": (1.0, 1.0), "ratio": (1.0, 1.0)}, K.RandomGrayscale(p=0.2)),
        (
            {
                "jitter": (0.4, 0.4, 0.4, 0.0),
                "jitter_probability": 0.8,
                "scale": (1.0, 1.0),
                "ratio": (1.0, 1.0),
            },
            K.ColorJitter(0.4, 0.4, 0.4, 0.0, p=0.8),
        ),
        (
            {"blur": 0.5, "scale": (1.0, 1.0), "ratio": (1.0, 1.0)},
            K.RandomGaussianBlur((3, 3), (0.1, 2.0), p=0.5),
        ),
    ],
    ids=["crop", "flip", "gray", "jitter", "blur"],
)
def test_distribution_is_that_of_kornia(settings, oracle):
    n = 3000
    off: dict[str, object] = {"flip": 0.0, "jitter_probability": 0.0, "gray": 0.0, "blur": 0.0}
    augment = Contrastive(32, MEAN, STD, **(off | settings))  # type: ignore[arg-type]
    # One image between a quarter and a half of white, so that nothing is clipped, many times.
    image = pictures(1, 3, 32, 32, seed=4)
    image = (64 + image.float() / 4).to(torch.uint8).expand(n, 3, 32, 32)
    mean, std = (torch.tensor(v)[:, None, None] for v in (MEAN, STD))
    ours = moments(augment(image, seeded()) * std + mean)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = moments(oracle(image / 255))
    spread = theirs.std(0) + 1e-6
    # Means within four standard errors (and the rounding of the input), deviations within a tenth.
    assert ((ours.mean(0) - theirs.mean(0)).abs() < 4 * spread * math.sqrt(2 / n) + 2e-4).all()
    assert ((ours.std(0) - theirs.std(0)).abs() < 0.1 * spread + 2e-4).all()
    assert theirs.std(0).max() > 1e-3


# --- replay, plain, views ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channels", "height", "width", "size", "padding"), [(3, 9, 9, 9, 4), (1, 8, 8, 8, 1), (3, 10, 7, 6, 2)]
)
def test_replay_equals_one_image_at_a_time(channels, height, width, size, padding):
    augment = Replay(size, MEAN[:channels], STD[:channels], padding=padding)
    x = torch.randint(0, 256, (30, channels, height, width), generator=seeded(), dtype=torch.uint8)
    drawn = augment.draw(30, height, width, seeded(1))
    out = augment.apply(x, drawn)
    top, left, flip = drawn.T
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert flip.any()
    assert not flip.all()
    for n in range(30):
        for c in range(channels):
            for i in range(size):
                for j in range(size):
                    column = size - 1 - j if flip[n] else j
                    row, column = i + int(top[n]) - padding, column + int(left[n]) - padding
                    inside = 0 <= row < height and 0 <= column < width
                    value = x[n, c, row, column].item() / 255 if inside else 0.0
                    assert out[n, c, i, j].item() == pytest.approx((value - MEAN[c]) / STD[c], abs=1e-5)


def test_replay_does_not_change_its_input_and_draws_uniformly():
    augment = Replay(8, MEAN, STD, padding=2)
    x = pictures(10, 3, 8, 8)
    before = x.clone()
    for padding in (0, 2):
        Replay(8, MEAN, STD, padding=padding)(x, seeded())
        assert torch.equal(x, before)
    top, left, flip = augment.draw(10_000, 8, 8, seeded()).T
    for offsets in (top, left):
        counts = torch.bincount(offsets, minlength=5)
        assert len(counts) == 5
        assert ((counts - 2000).square() / 2000).sum() < 18.5  # chi-square, 4 degrees, p 0.001
    assert abs(flip.float().mean() - 0.5) < 0.02
    assert not Replay(8, MEAN, STD, flip=0.0).draw(100, 8, 8, seeded())[:, 2].any()


def test_replay_without_padding_is_plain():
    x = pictures(5, 3, 8, 8)
    assert torch.equal(Replay(8, MEAN, STD, padding=0, flip=0.0)(x, seeded()), Plain(MEAN, STD)(x, seeded()))


def test_plain_normalizes_and_draws_nothing():
    generator = seeded()
    state = generator.get_state()
    x = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(2, 3, 16, 16)
    out = Plain(MEAN, STD)(x, generator)
    mean, std = (torch.tensor(v)[:, None, None] for v in (MEAN, STD))
    torch.testing.assert_close(out, (x / 255 - mean) / std)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(generator.get_state(), state)


def test_views_are_view_major_and_differ():
    x = pictures(6, 3, 16, 16)
    augment = Contrastive(16, MEAN, STD)
    out = augment(x, seeded(), views=2)
    assert out.shape == (12, 3, 16, 16)
    assert out.is_contiguous(memory_format=torch.channels_last)
    for n in range(6):
        assert not torch.equal(out[n], out[n + 6])
    stacked = Plain(MEAN, STD)(x, seeded(), views=3)
    assert torch.equal(stacked, Plain(MEAN, STD)(x, seeded()).repeat(3, 1, 1, 1))
    with pytest.raises(ValueError, match="views is 0"):
        augment(x, seeded(), views=0)


# --- all of them -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "augment",
    [Contrastive(16, MEAN, STD, blur=0.5), Contrastive(40, MEAN, STD), Replay(16, MEAN, STD, padding=14)],
)
def test_a_generator_state_decides_everything(augment):
    x = pictures(9, 3, 16, 16)
    generator = seeded(5)
    state = generator.get_state()
    first, second = augment(x, generator), augment(x, generator)
    assert not torch.equal(first, second)
    generator.set_state(state)
    torch.manual_seed(123)  # the global generator has no say
    assert torch.equal(augment(x, generator), first)
    assert torch.equal(augment(x, generator), second)


@pytest.mark.parametrize(
    "augment", [Contrastive(8, (0.5,), (0.5,)), Replay(8, (0.5,), (0.5,)), Plain((0.5,), (0.5,))]
)
def test_digits_empty_batches_layouts_and_pickles(augment):
    x = pictures(7, 1, 8, 8)
    out = augment(x, seeded())
    assert out.shape == (7, 1, 8, 8)
    assert torch.equal(pickle.loads(pickle.dumps(augment))(x, seeded()), out)
    assert torch.equal(augment(x.contiguous(memory_format=torch.channels_last), seeded()), out)
    assert augment(x[:0], seeded()).shape == (0, 1, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(augment(x, seeded()), out)
    with pytest.raises(ValueError, match="uint8"):
        augment(x.float(), seeded())
    with pytest.raises(ValueError, match=r"\(2, 3, 8, 8\)"):
        augment(pictures(2, 3, 8, 8), seeded())


def test_channels_last_color_input_gives_the_same():
    x = pictures(5, 3, 40, 40)
    for augment in (Contrastive(40, MEAN, STD), Replay(40, MEAN, STD), Plain(MEAN, STD)):
        out = augment(x, seeded())
        assert torch.equal(augment(x.contiguous(memory_format=torch.channels_last), seeded()), out)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="scale is"):
        Contrastive(8, MEAN, STD, scale=(0.0, 1.0))
    with pytest.raises(ValueError, match="ratio is"):
        Contrastive(8, MEAN, STD, ratio=(2.0, 1.0))
    with pytest.raises(ValueError, match="jitter is"):
        Contrastive(8, MEAN, STD, jitter=(0.4, 0.4, 0.4, 0.6))
    with pytest.raises(ValueError, match=r"gray is 1\.2"):
        Contrastive(8, MEAN, STD, gray=1.2)
    with pytest.raises(ValueError, match="std must be positive"):
        Plain(MEAN, (0.0, 0.1, 0.1))
    with pytest.raises(ValueError, match="1 or 3 channels"):
        Replay(8, (0.5, 0.5), (0.5, 0.5))
    with pytest.raises(ValueError, match="smaller than the crop"):
        Replay(20, MEAN, STD, padding=2)(pictures(1, 3, 8, 8), seeded())


@pytest.mark.parametrize("name", ["CIFAR-10", "CIFAR-100"])
def test_deviations_name_the_constants_that_are_used(name):
    """What is written about CIFAR's normalization is what the stream declares, and differs from the others'."""
    (text,) = (line for line in DEVIATIONS if line.startswith(f"{name} "))
    info = next(info for info in list_streams() if info.name == f"seq-{name.lower().replace('-', '')}")
    found = [tuple(map(float, group.split(", "))) for group in re.findall(r"\(([\d., ]+)\)", text)]
    ours, theirs = found[: len(found) // 2], found[len(found) // 2 :]
    assert ours == [info.mean, info.std][-len(ours) :]
    assert all(group not in (info.mean, info.std) for group in theirs)
    assert theirs
