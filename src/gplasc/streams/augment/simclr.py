"""The SimCLR-type augmentation of Co2L.

Resized crop, flip and blur are linear and act on rows and columns separately, so together they are two small
matrices per image; brightness, contrast, saturation, hue and gray are, up to the clipping at black and white,
one 3x3 matrix and an offset per image, and the normalization goes into the same matrix. What remains are three
batched matrix products and one clamp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gplasc._io.transfer import transfer
from gplasc.streams.augment.blur import apply_blur, half_kernels
from gplasc.streams.augment.checks import check_images, check_normalization, check_probability
from gplasc.streams.augment.color import LUMA, color_matrix, recolor
from gplasc.streams.augment.crop import draw_crop, uniform
from gplasc.streams.augment.parameters import ContrastiveParameters
from gplasc.streams.augment.resize import resize_matrices, resize_rows, shaped, tents, weighted_means

_PIECE = 1 << 18
"""Numbers of a batch that go through all steps at once on a CPU: 1 MB, about half of a core's cache."""


def contrastive(
    image_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    scale: tuple[float, float] = (0.2, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    flip: float = 0.5,
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1),
    jitter_probability: float = 0.8,
    gray: float = 0.2,
    blur: bool | None = None,
    blur_probability: float = 0.5,
    blur_sigma: tuple[float, float] = (0.1, 2.0),
) -> ContrastiveAugmentation:
    """The SimCLR-type augmentation of Co2L: resized crop, flip, color jitter, gray, blur, normalization.

    Args:
        image_size: Width and height of the result in pixels.
        mean: Mean of each channel, of images scaled to 0..1.
        std: Standard deviation of each channel.
        scale: Area of the crop as a fraction of the image.
        ratio: Aspect ratio of the crop.
        flip: Probability of a horizontal flip; 0 for digits and other images with a left and a right.
        jitter: Strength of brightness, contrast, saturation and hue; the last two do nothing to gray images.
        jitter_probability: Probability of the color jitter.
        gray: Probability of removing the color.
        blur: Whether to blur; None means only above 32 px, as in Co2L.
        blur_probability: Probability of the blur.
        blur_sigma: Standard deviation of the blur in pixels of the result.

    Returns:
        The augmentation: uint8 (N, C, H, W) -> float32 (N, C, image_size, image_size).

    Raises:
        ValueError: If a number is not allowed.
    """
    return ContrastiveAugmentation(
        image_size=image_size,
        mean=tuple(mean),
        std=tuple(std),
        scale=scale,
        ratio=ratio,
        flip=flip,
        jitter=jitter,
        jitter_probability=jitter_probability,
        gray=gray,
        blur_probability=blur_probability if (image_size > 32 if blur is None else blur) else 0.0,
        blur_sigma=blur_sigma,
    )


@dataclass(frozen=True)
class ContrastiveAugmentation:
    """Resized crop, flip, color jitter, gray, blur, normalization; made by `contrastive`."""

    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: tuple[float, float]
    ratio: tuple[float, float]
    flip: float
    jitter: tuple[float, float, float, float]
    jitter_probability: float
    gray: float
    blur_probability: float
    blur_sigma: tuple[float, float]

    def __post_init__(self) -> None:
        check_normalization(self.mean, self.std)
        if self.image_size < 1:
            raise ValueError(f"image_size is {self.image_size}; it must be positive")
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(f"scale is {self.scale}; it must be two fractions, 0 < least <= greatest <= 1")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError(f"ratio is {self.ratio}; it must be two numbers, 0 < least <= greatest")
        if not 0 < self.blur_sigma[0] <= self.blur_sigma[1]:
            raise ValueError(
                f"blur_sigma is {self.blur_sigma}; it must be two numbers, 0 < least <= greatest"
            )
        if len(self.jitter) != 4 or min(self.jitter) < 0 or self.jitter[3] > 0.5:
            raise ValueError(
                f"jitter is {self.jitter}; it must be brightness, contrast, saturation and hue, "
                "none negative, hue at most 0.5"
            )
        for name in ("flip", "jitter_probability", "gray", "blur_probability"):
            check_probability(name, getattr(self, name))
        if self.blur_probability and self.blur_radius >= self.image_size:
            raise ValueError(f"images of {self.image_size} px are too small to blur; set blur=False")

    @property
    def blur_radius(self) -> int:
        """Half the blur's kernel: the kernel has image_size // 20 * 2 + 1 taps, as in Co2L."""
        return self.image_size // 20

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Augment uint8 images (N, C, H, W), C 1 or 3 -> float32 (N, C, image_size, image_size)."""
        check_images(x, self.mean)
        return self.apply(x, self.draw(len(x), x.shape[2], x.shape[3], generator))

    def draw(self, n: int, height: int, width: int, generator: torch.Generator) -> ContrastiveParameters:
        """Draw the parameters of n images of height x width pixels."""
        box = draw_crop(n, height, width, self.scale, self.ratio, generator)
        chance = torch.rand(4, n, generator=generator)
        jittered = chance[1] < self.jitter_probability

        def factor(strength: float) -> Tensor:
            value = uniform(n, (max(0.0, 1 - strength), 1 + strength), generator)
            return torch.where(jittered, value, 1.0)

        brightness, contrast, saturation = (factor(strength) for strength in self.jitter[:3])
        hue = uniform(n, (-self.jitter[3], self.jitter[3]), generator)
        sigma = uniform(n, self.blur_sigma, generator)
        return ContrastiveParameters(
            box=box,
            flip=chance[0] < self.flip,
            brightness=brightness,
            contrast=contrast,
            saturation=saturation,
            hue=torch.where(jittered, hue, 0.0),
            gray=chance[2] < self.gray,
            sigma=torch.where(chance[3] < self.blur_probability, sigma, 0.0),
        )

    def apply(self, x: Tensor, parameters: ContrastiveParameters) -> Tensor:
        """The images that belong to these parameters: uint8 (N, C, H, W) -> float32, channels last."""
        check_images(x, self.mean)
        n, channels, height, width = x.shape
        size, device = self.image_size, x.device
        # On a CPU one piece of the batch goes through all steps while it is in the cache, in buffers that
        # the next piece uses again (fresh memory costs more than the arithmetic); a GPU takes all at once.
        numbers = channels * max(height, size) * max(width, size)
        pieces = max(1, math.ceil(n / max(4, _PIECE // numbers))) if device.type == "cpu" else 1
        piece = max(1, math.ceil(n / pieces))
        first, second = torch.empty(2, piece * numbers, device=device)
        weights = torch.empty(piece * size * (height + width), device=device)
        out = torch.empty(n, size, size, channels, device=device)
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            box = transfer(parameters.box, device)
            vertical = tents(box[:, 0], box[:, 2], height, size)
            horizontal = tents(box[:, 1], box[:, 3], width, size, transfer(parameters.flip, device))
            matrix, toward_mean = (transfer(m, device) for m in self._color(parameters))
            mean, std = transfer(torch.tensor((self.mean, self.std)), device)
            black = -mean / std
            bounds = black.repeat(size), ((1 - mean) / std).repeat(size)
            blurs = self._blurs(parameters.sigma, piece, device)
            for number, start in enumerate(range(0, n, piece)):
                part = slice(start, min(start + piece, n))
                source = shaped(first, *x[part].shape).copy_(x[part])
                # The matrices of rows and columns side by side: (N, size, H + W).
                matrices = resize_matrices((vertical, horizontal), part, weights)
                # Contrast is relative to the mean of the crop before the blur.
                means = weighted_means(source, *matrices.mean(1).split((height, width), dim=1))
                shift = torch.baddbmm(black[:, None], toward_mean[part], means)
                apply_blur(matrices, *blurs[number])
                rows, columns = matrices.split((height, width), dim=2)
                half = resize_rows(source, columns, second)
                colored = recolor(half, matrix[part], shift, first, second)
                # The result's rows, every pixel with its channels: (N, size, H) @ (N, H, size * C).
                result = out[part].view(-1, size, size * channels)
                torch.bmm(rows, colored, out=result).clamp_(*bounds)
        return out.permute(0, 3, 1, 2)

    def _blurs(self, sigma: Tensor, piece: int, device: torch.device) -> list[tuple[Tensor, Tensor]]:
        """For each piece of the batch: which of its images are blurred (M,), and their kernels (M, taps)."""
        # sigma is on the CPU: looking for those that are not 0 does not synchronize the device.
        which = sigma.nonzero()[:, 0]
        kernels = transfer(half_kernels(sigma[which], self.blur_radius), device)
        counts = [int(part.count_nonzero()) for part in sigma.split(piece)]
        places = transfer(which % piece, device).split(counts)
        return list(zip(places, kernels.split(counts), strict=True))

    def _color(self, p: ContrastiveParameters) -> tuple[Tensor, Tensor]:
        """Color change and normalization of each image: two matrices (N, C, C), matrix and toward_mean.

        With the channels' means m (C,) of the crop, all on the scale 0 to 255, a pixel v (C,) becomes
        matrix @ v + toward_mean @ m - mean / std.
        """
        if len(self.std) == 1:
            matrix, luma = (p.brightness * p.contrast)[:, None, None], torch.ones(1, 1)
        else:
            matrix, luma = color_matrix(p), torch.tensor(LUMA).expand(3, 3)
        toward_mean = (p.brightness * (1 - p.contrast))[:, None, None] * luma
        scale = 1 / (255 * torch.tensor(self.std)[:, None])
        return matrix * scale, toward_mean * scale
