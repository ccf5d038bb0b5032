"""The SimCLR-type augmentation of Co2L.

Resized crop, flip and blur are linear and act on rows and columns separately, so together they are two small
matrices per image; brightness, contrast, saturation, hue and gray are, up to the clipping at black and white,
one 3x3 matrix and an offset per image, and the normalization goes into the same matrix. What remains are three
batched matrix products and one clamp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gplasc._io.transfer import transfer
from gplasc.streams.augment._linear import add_blur, recolor_rows, resize_matrices, shaped, tents
from gplasc.streams.augment.basic import Augmentation

_PIECE = 1 << 18
"""Numbers of a batch that go through all steps at once on a CPU: 1 MB, about half of a core's cache."""
_Range = tuple[float, float]
_LUMA = (0.299, 0.587, 0.114)  # how bright red, green and blue look (ITU-R BT.601), as in PIL


@dataclass(frozen=True)
class Contrastive(Augmentation):
    """The SimCLR-type augmentation of Co2L: resized crop, flip, color jitter, gray, blur, normalization.

    Attributes:
        image_size: Width and height of the result in pixels.
        mean: Mean of each channel, of images scaled to 0..1.
        std: Standard deviation of each channel.
        scale: Area of the crop as a fraction of the image.
        ratio: Aspect ratio of the crop.
        flip: Probability of a horizontal flip; 0 for digits and other images with a left and a right.
        jitter: Strength of brightness, contrast, saturation and hue; the last two do nothing to gray images.
        jitter_probability: Probability of the color jitter.
        gray: Probability of removing the color.
        blur: Probability of the blur; None means 0.5 above 32 px and 0 otherwise, as in Co2L.
        blur_sigma: Standard deviation of the blur in pixels of the result.

    Raises:
        ValueError: If a number is not allowed.
    """

    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: tuple[float, float] = (0.2, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    jitter_probability: float = 0.8
    gray: float = 0.2
    blur: float | None = None
    blur_sigma: tuple[float, float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        for name in ("flip", "jitter_probability", "gray", "blur"):
            self._require("a probability, between 0 and 1", **{name: 0 <= (getattr(self, name) or 0.0) <= 1})
        self._require("positive", image_size=self.image_size >= 1)
        least, greatest = self.scale
        self._require("two fractions, 0 < least <= greatest <= 1", scale=0 < least <= greatest <= 1)
        for name in ("ratio", "blur_sigma"):
            least, greatest = getattr(self, name)
            self._require("two numbers, 0 < least <= greatest", **{name: 0 < least <= greatest})
        self._require(
            "brightness, contrast, saturation and hue, none negative, hue at most 0.5",
            jitter=len(self.jitter) == 4 and min(self.jitter) >= 0 and self.jitter[3] <= 0.5,
        )

    def draw(self, n: int, height: int, width: int, generator: torch.Generator) -> Tensor:
        """Draw 11 numbers for each of n images of height x width pixels.

        Returns:
            (N, 11) float32: top, left, height and width of the crop in pixels; flip, 0 or 1; factors of brightness,
            contrast and saturation; hue in turns of the color circle; gray, 0 or 1; sigma of the blur, 0 for none.
        """
        box = _draw_boxes(n, height, width, self.scale, self.ratio, generator)
        chance = torch.rand(4, n, generator=generator)
        jittered = chance[1] < self.jitter_probability
        ranges = ((max(0.0, 1 - strength), 1 + strength) for strength in self.jitter[:3])
        factors = [torch.where(jittered, _uniform((n,), *bounds, generator), 1.0) for bounds in ranges]
        hue = torch.where(jittered, _uniform((n,), -self.jitter[3], self.jitter[3], generator), 0.0)
        blurred = chance[3] < ((0.5 if self.image_size > 32 else 0.0) if self.blur is None else self.blur)
        sigma = torch.where(blurred, _uniform((n,), *self.blur_sigma, generator), 0.0)
        flip, gray = chance[0] < self.flip, chance[2] < self.gray
        return torch.cat([box, torch.stack([flip, *factors, hue, gray, sigma], dim=1)], dim=1)

    def apply(self, x: Tensor, drawn: Tensor) -> Tensor:
        """Augment uint8 images (N, C, H, W) by drawn numbers (N, 11) -> float32, channels last."""
        n, channels, height, width = x.shape
        size, device = self.image_size, x.device
        # On a CPU one piece of the batch goes through all steps while it is in the cache, in buffers that
        # the next piece uses again (fresh memory costs more than the arithmetic); a GPU takes all at once.
        numbers = channels * max(height, size) * max(width, size)
        pieces = max(1, math.ceil(n / max(4, _PIECE // numbers))) if device.type == "cpu" else 1
        piece = max(1, math.ceil(n / pieces))
        buffers = torch.empty(2, piece * numbers, device=device)
        weights = torch.empty(piece * size * (height + width), device=device)
        out = torch.empty(n, size, size, channels, device=device)
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            sigma, box = drawn[:, 10], transfer(drawn[:, :5], device)
            vertical = tents(box[:, 0], box[:, 2], height, size)
            horizontal = tents(box[:, 1], box[:, 3], width, size, flip=box[:, 4] > 0)
            matrix, toward_mean = (transfer(m, device) for m in self._color(drawn))
            mean, std = transfer(torch.tensor((self.mean, self.std)), device)
            black = -mean / std
            bounds = black.repeat(size), ((1 - mean) / std).repeat(size)
            for start in range(0, n, piece):
                part = slice(start, min(start + piece, n))
                source = shaped(buffers[0], *x[part].shape).copy_(x[part])
                # The matrices of rows and columns side by side: (N, size, H + W).
                matrices = resize_matrices((vertical, horizontal), part, weights)
                # Contrast is relative to the mean of the crop before the blur.
                rows, columns = matrices.mean(1).split((height, width), dim=1)
                means = torch.bmm(source.view(len(source), -1, width), columns[:, :, None])
                means = torch.bmm(means.view(len(source), channels, height), rows[:, :, None])
                shift = torch.baddbmm(black[:, None], toward_mean[part], means)
                add_blur(matrices, sigma[part], size // 20)  # kernels of size // 20 * 2 + 1 taps, as in Co2L
                rows, columns = matrices.split((height, width), dim=2)
                colored = recolor_rows(source, columns, matrix[part], shift, buffers)
                # The result's rows, every pixel with its channels: (N, size, H) @ (N, H, size * C).
                result = out[part].view(-1, size, size * channels)
                torch.bmm(rows, colored, out=result).clamp_(*bounds)
        return out.permute(0, 3, 1, 2)

    def _color(self, drawn: Tensor) -> tuple[Tensor, Tensor]:
        """Color change and normalization of each image: two matrices (N, C, C), matrix and toward_mean.

        With the channels' means m (C,) of the crop, all on the scale 0 to 255, a pixel v (C,) becomes
        matrix @ v + toward_mean @ m - mean / std.
        """
        brightness, contrast, saturation, hue, gray = drawn[:, 5:10, None, None].unbind(1)
        scale = 1 / (255 * torch.tensor(self.std)[:, None])
        if len(self.std) == 1:
            return brightness * contrast * scale, brightness * (1 - contrast) * scale
        luma = torch.tensor(_LUMA).expand(3, 3)
        angle = 2 * math.pi * hue
        # Rodrigues' formula for a turn about (1, 1, 1) / sqrt 3; a positive angle turns red toward yellow.
        third = torch.full((3, 3), 1 / 3)
        cross = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]) / math.sqrt(3)
        turn = third + angle.cos() * (torch.eye(3) - third) + angle.sin() * cross
        matrix = saturation * turn + (1 - saturation) * luma
        matrix = torch.where(gray > 0, luma @ matrix, matrix) * (brightness * contrast)
        return matrix * scale, brightness * (1 - contrast) * luma * scale


def _draw_boxes(
    n: int, height: int, width: int, scale: _Range, ratio: _Range, generator: torch.Generator
) -> Tensor:
    """Boxes (N, 4) of random resized crops: top, left, height, width.

    As in torchvision: area uniform, logarithm of the aspect ratio uniform, ten attempts at a box that fits
    into the image, then uniformly placed; after ten failures the largest central box of an allowed ratio.
    """
    attempts = 10
    area = height * width * _uniform((n, attempts), *scale, generator)
    aspect = _uniform((n, attempts), math.log(ratio[0]), math.log(ratio[1]), generator).exp()
    w = (area * aspect).sqrt().round()
    h = (area / aspect).sqrt().round()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.to(torch.uint8).argmax(1, keepdim=True)
    w, h = w.gather(1, first)[:, 0], h.gather(1, first)[:, 0]
    place = torch.rand(2, n, generator=generator)
    top = (place[0] * (height - h + 1)).floor().clamp(max=height - h)
    left = (place[1] * (width - w + 1)).floor().clamp(max=width - w)

    whole = min(max(width / height, ratio[0]), ratio[1])
    central_w = float(min(width, round(height * whole)))
    central_h = float(min(height, round(width / whole)))
    central = torch.tensor([(height - central_h) // 2, (width - central_w) // 2, central_h, central_w])
    return torch.where(fits.any(1, keepdim=True), torch.stack([top, left, h, w], dim=1), central)


def _uniform(shape: tuple[int, ...], low: float, high: float, generator: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=generator)
