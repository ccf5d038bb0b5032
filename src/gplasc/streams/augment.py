"""Augmentation of whole batches: random per image, on any device, driven by a generator that is passed in.

An augmentation is a frozen object that is called with uint8 images (N, C, H, W) and a generator and gives
float32 images, normalized, channels last:

    augment = contrastive(32, mean, std)
    x = views(images, augment, 2, generator)            # two views for the contrastive methods
    x = replay(32, mean, std)(images, generator)        # padded crop and flip for the replay methods
    x = plain(mean, std)(images, generator)             # test time

Every random number is drawn on the CPU first (`draw`), then the images are computed from those numbers
(`apply`), so a generator state gives the same parameters whatever the device.

How the contrastive augmentation is so quick: resized crop, flip and blur are linear and act on rows and
columns separately, so together they are two small matrices per image; brightness, contrast, saturation, hue
and gray are, up to the clipping at black and white, one 3x3 matrix and an offset per image, and the
normalization goes into the same matrix. What remains are three batched matrix products and one clamp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

DEVIATIONS = (
    "hue turns the colors about the gray axis of RGB, which keeps the mean of the channels; turning the hue "
    "in HSV keeps the largest and the smallest channel instead",
    "the order is brightness, contrast, saturation, hue, gray, not drawn anew for each image",
    "clipping to black and white happens once, after color and blur, not after every color operation",
    "values are not rounded to 256 steps between the operations",
)
"""Where `contrastive` departs from the pipeline of torchvision and PIL that Co2L's code is built on."""


_PIECE = 1 << 18
"""Numbers of a batch that go through all steps at once on a CPU: 1 MB, about half of a core's cache."""


class Augmentation(Protocol):
    """Called with uint8 images (N, C, H, W) and a generator; gives float32 (N, C, H', W'), normalized."""

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Augment every image by its own random numbers; the result is channels last."""
        ...


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
) -> Contrastive:
    """The SimCLR-type augmentation of Co2L: resized crop, flip, color jitter, gray, blur, normalization.

    scale, ratio: area (as a fraction of the image) and aspect ratio of the crop. flip, gray,
    jitter_probability, blur_probability: chance per image. jitter: strength of brightness, contrast,
    saturation and hue. blur: None means only above 32 px, as in Co2L. Gray images (C = 1) have no saturation,
    hue and gray. For digits and other images with a left and a right set flip=0.
    """
    return Contrastive(
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


def replay(
    image_size: int, mean: Sequence[float], std: Sequence[float], *, padding: int = 4, flip: float = 0.5
) -> Replay:
    """The augmentation of the replay methods: black border, random crop, flip, normalization."""
    return Replay(image_size=image_size, mean=tuple(mean), std=tuple(std), padding=padding, flip=flip)


def plain(mean: Sequence[float], std: Sequence[float]) -> Plain:
    """Normalization alone, for test time; the generator is not used."""
    return Plain(mean=tuple(mean), std=tuple(std))


def views(x: Tensor, augmentation: Augmentation, count: int, generator: torch.Generator) -> Tensor:
    """`count` independent views of every image, view-major: (count * N, C, H', W').

    Row v * N + n is view v of image n: all of the first view, then all of the second.
    """
    if count < 1:
        raise ValueError(f"count is {count}; at least one view is needed")
    return augmentation(x.repeat(count, 1, 1, 1) if count > 1 else x, generator)


@dataclass(frozen=True)
class ContrastiveParameters:
    """What was drawn for each of N images; all tensors on the CPU."""

    box: Tensor
    """(N, 4): top, left, height and width of the crop in pixels, whole numbers as float32."""
    flip: Tensor
    """(N,) bool."""
    brightness: Tensor
    """(N,) factor, 1 leaves the image as it is; so do contrast and saturation."""
    contrast: Tensor
    saturation: Tensor
    hue: Tensor
    """(N,) shift in turns of the color circle, 0 leaves the image as it is."""
    gray: Tensor
    """(N,) bool."""
    sigma: Tensor
    """(N,) standard deviation of the blur in pixels of the result, 0 for no blur."""

    def part(self, start: int, stop: int) -> ContrastiveParameters:
        """The parameters of the images start..stop-1."""
        return ContrastiveParameters(*(getattr(self, name)[start:stop] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Contrastive:
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
        _check_normalization(self.mean, self.std)
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
            _check_probability(name, getattr(self, name))
        if self.blur_probability and self.blur_radius >= self.image_size:
            raise ValueError(f"images of {self.image_size} px are too small to blur; set blur=False")

    @property
    def blur_radius(self) -> int:
        """Half the blur's kernel: the kernel has image_size // 20 * 2 + 1 taps, as in Co2L."""
        return self.image_size // 20

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Augment uint8 images (N, C, H, W), C 1 or 3 -> float32 (N, C, image_size, image_size)."""
        _check_images(x, self.mean)
        return self.apply(x, self.draw(len(x), x.shape[2], x.shape[3], generator))

    def draw(self, n: int, height: int, width: int, generator: torch.Generator) -> ContrastiveParameters:
        """Draw the parameters of n images of height x width pixels."""
        box = draw_crop(n, height, width, self.scale, self.ratio, generator)
        chance = torch.rand(4, n, generator=generator)
        jittered = chance[1] < self.jitter_probability

        def factor(strength: float) -> Tensor:
            value = _uniform(n, (max(0.0, 1 - strength), 1 + strength), generator)
            return torch.where(jittered, value, 1.0)

        brightness, contrast, saturation = (factor(strength) for strength in self.jitter[:3])
        hue = _uniform(n, (-self.jitter[3], self.jitter[3]), generator)
        sigma = _uniform(n, self.blur_sigma, generator)
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
        _check_images(x, self.mean)
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
            box = parameters.box.to(device)
            vertical = _tents(box[:, 0], box[:, 2], height, size)
            horizontal = _tents(box[:, 1], box[:, 3], width, size, parameters.flip.to(device))
            matrix, toward_mean = (m.to(device) for m in self._color(parameters))
            mean, std = torch.tensor((self.mean, self.std), device=device)
            black = -mean / std
            bounds = black.repeat(size), ((1 - mean) / std).repeat(size)
            blurs = self._blurs(parameters.sigma, piece, device)
            for number, start in enumerate(range(0, n, piece)):
                part = slice(start, min(start + piece, n))
                source = _shaped(first, *x[part].shape).copy_(x[part])
                # The matrices of rows and columns side by side: (N, size, H + W).
                matrices = _resize_matrices((vertical, horizontal), part, weights)
                # Contrast is relative to the mean of the crop before the blur.
                means = _weighted_means(source, *matrices.mean(1).split((height, width), dim=1))
                shift = torch.baddbmm(black[:, None], toward_mean[part], means)
                _blur(matrices, *blurs[number])
                rows, columns = matrices.split((height, width), dim=2)
                half = _resize_rows(source, columns, second)
                colored = _recolor(half, matrix[part], shift, first, second)
                # The result's rows, every pixel with its channels: (N, size, H) @ (N, H, size * C).
                result = out[part].view(-1, size, size * channels)
                torch.bmm(rows, colored, out=result).clamp_(*bounds)
        return out.permute(0, 3, 1, 2)

    def _blurs(self, sigma: Tensor, piece: int, device: torch.device) -> list[tuple[Tensor, Tensor]]:
        """For each piece of the batch: which of its images are blurred (M,), and their kernels (M, taps)."""
        # sigma is on the CPU: to look for those that are not 0 makes nobody wait for a GPU.
        which = sigma.nonzero()[:, 0]
        kernels = _half_kernels(sigma[which], self.blur_radius).to(device)
        counts = [int(part.count_nonzero()) for part in sigma.split(piece)]
        places = (which % piece).to(device).split(counts)
        return list(zip(places, kernels.split(counts), strict=True))

    def _color(self, p: ContrastiveParameters) -> tuple[Tensor, Tensor]:
        """Color change and normalization of each image: two matrices (N, C, C), matrix and toward_mean.

        With the channels' means m (C,) of the crop, all on the scale 0 to 255, a pixel v (C,) becomes
        matrix @ v + toward_mean @ m - mean / std.
        """
        if len(self.std) == 1:
            matrix, luma = (p.brightness * p.contrast)[:, None, None], torch.ones(1, 1)
        else:
            matrix, luma = color_matrix(p), torch.tensor(_LUMA).expand(3, 3)
        toward_mean = (p.brightness * (1 - p.contrast))[:, None, None] * luma
        scale = 1 / (255 * torch.tensor(self.std)[:, None])
        return matrix * scale, toward_mean * scale


@dataclass(frozen=True)
class ReplayParameters:
    """What was drawn for each of N images; all tensors on the CPU."""

    top: Tensor
    """(N,) first row of the crop in the padded image."""
    left: Tensor
    """(N,) first column of the crop in the padded image."""
    flip: Tensor
    """(N,) bool."""


@dataclass(frozen=True)
class Replay:
    """Black border, random crop, flip, normalization; made by `replay`."""

    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    padding: int
    flip: float

    def __post_init__(self) -> None:
        _check_normalization(self.mean, self.std)
        _check_probability("flip", self.flip)
        if self.image_size < 1 or self.padding < 0:
            raise ValueError(
                f"image_size is {self.image_size} and padding is {self.padding}; "
                "the size must be positive and the padding must not be negative"
            )

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Augment uint8 images (N, C, H, W) -> float32 (N, C, image_size, image_size)."""
        _check_images(x, self.mean)
        return self.apply(x, self.draw(len(x), x.shape[2], x.shape[3], generator))

    def draw(self, n: int, height: int, width: int, generator: torch.Generator) -> ReplayParameters:
        """Draw the parameters of n images of height x width pixels."""
        room = (height + 2 * self.padding - self.image_size, width + 2 * self.padding - self.image_size)
        if min(room) < 0:
            raise ValueError(
                f"images of {height} x {width} px with a border of {self.padding} are smaller than the crop "
                f"of {self.image_size} px; use a larger padding or a smaller image_size"
            )
        return ReplayParameters(
            top=torch.randint(room[0] + 1, (n,), generator=generator),
            left=torch.randint(room[1] + 1, (n,), generator=generator),
            flip=torch.rand(n, generator=generator) < self.flip,
        )

    def apply(self, x: Tensor, parameters: ReplayParameters) -> Tensor:
        """The images that belong to these parameters: uint8 (N, C, H, W) -> float32, channels last."""
        _check_images(x, self.mean)
        n, channels, size, device = len(x), x.shape[1], self.image_size, x.device
        padded = F.pad(x.contiguous(), [self.padding] * 4)
        height, width = padded.shape[2:]
        # The flip comes first, so the crop is counted from the other side.
        left = torch.where(parameters.flip, width - size - parameters.left, parameters.left).to(device)
        flipped = parameters.flip.nonzero()[:, 0].to(device)
        padded.index_copy_(0, flipped, padded.index_select(0, flipped).flip(3))
        # Each row of a crop is `size` neighbors in memory, and is copied as one piece.
        image = torch.arange(n, device=device)[:, None, None] * channels
        channel = torch.arange(channels, device=device)[:, None]
        row = torch.arange(size, device=device) + parameters.top.to(device)[:, None, None]
        start = ((image + channel) * height + row) * width + left[:, None, None]
        crops = padded.view(-1).unfold(0, size, 1).index_select(0, start.view(-1)) if n else padded
        return _normalize(crops.view(n, channels, size, size), self.mean, self.std)


@dataclass(frozen=True)
class Plain:
    """Normalization alone; made by `plain`."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_normalization(self.mean, self.std)

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Normalize uint8 images (N, C, H, W) -> float32 of the same shape; nothing is drawn."""
        _check_images(x, self.mean)
        return _normalize(x, self.mean, self.std)


def draw_crop(
    n: int,
    height: int,
    width: int,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    generator: torch.Generator,
) -> Tensor:
    """Boxes (N, 4) of random resized crops: top, left, height, width.

    As in torchvision: area uniform, logarithm of the aspect ratio uniform, ten attempts at a box that fits
    into the image, then uniformly placed; after ten failures the largest central box of an allowed ratio.
    """
    attempts = 10
    area = height * width * _uniform((n, attempts), scale, generator)
    aspect = _uniform((n, attempts), (math.log(ratio[0]), math.log(ratio[1])), generator).exp()
    w = (area * aspect).sqrt().round()
    h = (area / aspect).sqrt().round()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.to(torch.uint8).argmax(1, keepdim=True)
    w, h, found = w.gather(1, first)[:, 0], h.gather(1, first)[:, 0], fits.any(1)
    place = torch.rand(2, n, generator=generator)
    top = (place[0] * (height - h + 1)).floor().clamp(max=height - h)
    left = (place[1] * (width - w + 1)).floor().clamp(max=width - w)

    whole = min(max(width / height, ratio[0]), ratio[1])
    central_w = float(min(width, round(height * whole)))
    central_h = float(min(height, round(width / whole)))
    return torch.stack(
        [
            torch.where(found, top, (height - central_h) // 2),
            torch.where(found, left, (width - central_w) // 2),
            torch.where(found, h, central_h),
            torch.where(found, w, central_w),
        ],
        dim=1,
    )


def resize_matrix(
    start: Tensor, length: Tensor, source: int, size: int, flip: Tensor | None = None
) -> Tensor:
    """Matrices (N, size, source) that cut `length` pixels from `start` and resize them to `size` pixels.

    start, length: (N,) whole numbers as float32; flip: (N,) bool turns the result round. Bilinear; where the
    crop is larger than the result the kernel is widened, as PIL and antialias=True of torch do.
    """
    buffer = torch.empty(len(start) * size * source, device=start.device)
    return _resize_matrices((_tents(start, length, source, size, flip),), slice(None), buffer)


@dataclass(frozen=True)
class _Tents:
    """Resizing of N lines: output pixel i weighs input pixel j by max(0, 1 - |center_i - pixel_j|)."""

    center: Tensor
    """(N, size)."""
    pixel: Tensor
    """(N, source)."""
    normalized: bool
    """Whether the weights of an output pixel sum to 1 as they are."""


def _tents(start: Tensor, length: Tensor, source: int, size: int, flip: Tensor | None = None) -> _Tents:
    step = (length / size)[:, None]
    ramp = torch.arange(size, device=start.device) + 0.5
    if flip is not None:
        ramp = torch.where(flip[:, None], size - ramp, ramp)
    center = ramp * step
    pixel = torch.arange(source, device=start.device) + 0.5 - start[:, None]
    if source <= size:
        # No crop is larger than the result; in its outer half pixels the nearest pixel has all the weight.
        return _Tents(torch.minimum(center.clamp_(min=0.5), length[:, None] - 0.5), pixel, True)
    stretch = 1 / step.clamp(min=1.0)
    # Pixels outside the crop are put infinitely far away.
    inside = (pixel > 0) & (pixel < length[:, None])
    return _Tents(center * stretch, torch.where(inside, pixel * stretch, math.inf), False)


def _resize_matrices(lines: Sequence[_Tents], part: slice, buffer: Tensor) -> Tensor:
    """The matrices of some images side by side, in the buffer: (N, size, sum of the sources)."""
    centers = [line.center[part] for line in lines]
    widths = [line.pixel.shape[1] for line in lines]
    weight = _shaped(buffer, *centers[0].shape, sum(widths))
    for line, center, block in zip(lines, centers, weight.split(widths, dim=2), strict=True):
        torch.sub(center[:, :, None], line.pixel[part, None, :], out=block)
    torch.add(_ONE, weight.abs_(), alpha=-1, out=weight).clamp_(min=0)
    for line, block in zip(lines, weight.split(widths, dim=2), strict=True):
        if not line.normalized:
            block.div_(block.sum(2, keepdim=True))
    return weight


_ONE = torch.tensor(1.0)


def blur_matrix(sigma: Tensor, radius: int, size: int) -> Tensor:
    """Matrices (N, size, size) of a Gaussian blur with 2 * radius + 1 taps; borders are mirrored.

    sigma: (N,) positive.
    """
    kernels = _half_kernels(sigma, radius)
    return (kernels @ _mirrored_taps(radius, size, sigma.device)).view(-1, size, size)


def _half_kernels(sigma: Tensor, radius: int) -> Tensor:
    """(N, radius + 1): weight of the pixel at distance 0, 1, ... in a Gaussian blur."""
    distance = torch.arange(radius + 1, device=sigma.device) / sigma[:, None]
    weight = torch.exp(-0.5 * distance.square())
    return weight / (2 * weight.sum(1, keepdim=True) - weight[:, :1])


def _blur(matrices: Tensor, which: Tensor, kernels: Tensor) -> None:
    """Let some of the matrices (N, size, ...) blur what they give, in place."""
    if len(which):
        size, radius = matrices.shape[1], kernels.shape[1] - 1
        blur = (kernels @ _mirrored_taps(radius, size, matrices.device)).view(-1, size, size)
        matrices.index_copy_(0, which, torch.bmm(blur, matrices.index_select(0, which)))


def color_matrix(parameters: ContrastiveParameters) -> Tensor:
    """Matrices (N, 3, 3) of brightness, contrast, saturation, hue and gray, in this order.

    Contrast's offset, which is gray and which saturation and hue leave alone, is not part of them.
    """
    p = parameters
    angle = 2 * math.pi * p.hue[:, None, None]
    # Rodrigues' formula for a turn about (1, 1, 1) / sqrt 3; a positive angle turns red toward yellow.
    third = torch.full((3, 3), 1 / 3)
    cross = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]) / math.sqrt(3)
    hue = third + angle.cos() * (torch.eye(3) - third) + angle.sin() * cross
    luma = torch.tensor(_LUMA).expand(3, 3)
    saturation = p.saturation[:, None, None]
    matrix = saturation * hue + (1 - saturation) * luma
    matrix = torch.where(p.gray[:, None, None], luma @ matrix, matrix)
    return matrix * (p.brightness * p.contrast)[:, None, None]


_LUMA = (0.299, 0.587, 0.114)  # how bright red, green and blue look (ITU-R BT.601), as in PIL


@lru_cache(maxsize=8)
def _mirrored_taps(radius: int, size: int, device: torch.device) -> Tensor:
    """(radius + 1, size * size): entry d counts how often output i takes pixel j at distance d."""
    counts = torch.zeros(radius + 1, size, size)
    for shift in range(-radius, radius + 1):
        for i in range(size):
            j = abs(i + shift)
            j = min(j, 2 * (size - 1) - j)
            counts[abs(shift), i, j] += 1
    return counts.view(radius + 1, size * size).to(device)


def _shaped(buffer: Tensor, *shape: int) -> Tensor:
    """The start of a flat buffer as a contiguous tensor of this shape."""
    return buffer[: math.prod(shape)].view(shape)


def _resize_rows(x: Tensor, columns: Tensor, buffer: Tensor) -> Tensor:
    """x @ columns.T for every channel, in the buffer: (N, C, H, W), (N, s, W) -> (N, C, H, s)."""
    n, channels, height, width = x.shape
    out = _shaped(buffer, n, channels * height, columns.shape[1])
    torch.bmm(x.view(n, channels * height, width), columns.transpose(1, 2), out=out)
    return out.view(n, channels, height, -1)


def _recolor(x: Tensor, matrix: Tensor, shift: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """matrix @ x + shift for every pixel: (N, C, H, W), (N, C, C), (N, C, 1) -> (N, H, W * C).

    The result has the channels of a pixel side by side. first, second: flat buffers; the result and x live
    in the second.
    """
    n, channels, height, width = x.shape
    flat = _shaped(first, n, channels, height * width)
    planes = torch.bmm(matrix, x.view(flat.shape), out=flat).view(x.shape)
    out = _shaped(second, n, height, width, channels)
    for channel in range(channels):
        torch.add(planes[:, channel], shift[:, channel, :, None], out=out[..., channel])
    return out.view(n, height, width * channels)


def _weighted_means(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Means (N, C, 1) of x (N, C, H, W) with weights for its rows (N, H) and columns (N, W)."""
    n, channels, height, width = x.shape
    half = torch.bmm(x.view(n, channels * height, width), columns[:, :, None])
    return torch.bmm(half.view(n, channels, height), rows[:, :, None])


def _normalize(x: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """uint8 (N, C, H, W) -> float32, (x / 255 - mean) / std, channels last."""
    out = torch.empty(x.shape, device=x.device, memory_format=torch.channels_last)
    for channel, (m, s) in enumerate(zip(mean, std, strict=True)):
        # shift + x / (255 s) in one step
        torch.add(torch.tensor(-m / s), x[:, channel], alpha=1 / (255 * s), out=out[:, channel])
    return out


def _uniform(shape: int | tuple[int, ...], limits: tuple[float, float], generator: torch.Generator) -> Tensor:
    size = (shape,) if isinstance(shape, int) else shape
    return limits[0] + (limits[1] - limits[0]) * torch.rand(size, generator=generator)


def _check_images(x: Tensor, mean: tuple[float, ...]) -> None:
    if x.ndim != 4 or x.dtype != torch.uint8:
        raise ValueError(
            f"augmentation was given a {x.dtype} tensor of shape {tuple(x.shape)}; it takes uint8 images "
            "(N, C, H, W) with values 0 to 255"
        )
    if x.shape[1] != len(mean):
        raise ValueError(
            f"the images have {x.shape[1]} channels and mean and std have {len(mean)}; give one per channel"
        )


def _check_normalization(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    if len(mean) != len(std) or len(mean) not in (1, 3) or min(std) <= 0:
        raise ValueError(
            f"mean is {mean} and std is {std}; both need one number per channel, for 1 or 3 channels, "
            "and std must be positive"
        )


def _check_probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; a probability lies between 0 and 1")
