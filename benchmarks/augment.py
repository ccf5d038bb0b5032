"""Images per second of the batched contrastive augmentation against a per-image PIL pipeline.

    python benchmarks/augment.py [--seconds 0.2] [--rounds 15] [--sizes 32 64 224]

Both do the same work on the same images with one thread each: random resized crop, flip, color jitter (0.4,
0.4, 0.4, 0.1; p 0.8), gray (p 0.2), blur (p 0.5, above 32 px), float tensor, normalization; the per-image side
draws and blurs as torchvision's transforms do on PIL images, which the published code uses. They take turns
in one process, many short turns each; time is the processor time of the process, and the fastest turn of each
counts, so that other work on the machine disturbs neither. The median of the turns' ratios stands beside it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, ImageEnhance

from gplasc.streams.augment import contrastive, plain, replay

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


class Draws:
    """Random numbers of the per-image pipeline, one at a time from torch, as torchvision's transforms draw them."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def random(self) -> float:
        """A number from 0 to 1."""
        return self.uniform(0.0, 1.0)

    def uniform(self, low: float, high: float) -> float:
        """A number between two bounds."""
        return float(torch.empty(1).uniform_(low, high, generator=self._generator).item())

    def randint(self, low: int, high: int) -> int:
        """A whole number, both bounds included."""
        return int(torch.randint(low, high + 1, (1,), generator=self._generator).item())

    def order(self, count: int) -> list[int]:
        """A random order of 0..count-1."""
        return torch.randperm(count, generator=self._generator).tolist()


def pil_crop(image: Image.Image, size: int, rng: Draws) -> Image.Image:
    """Random resized crop: area 0.2 to 1, aspect ratio 3/4 to 4/3, bilinear."""
    width, height = image.size
    for _ in range(10):
        area = width * height * rng.uniform(0.2, 1.0)
        aspect = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            top, left = rng.randint(0, height - h), rng.randint(0, width - w)
            box = (left, top, left + w, top + h)
            return image.crop(box).resize((size, size), Image.Resampling.BILINEAR)
    return image.resize((size, size), Image.Resampling.BILINEAR)


def pil_hue(image: Image.Image, shift: float) -> Image.Image:
    """Turn the hue by `shift` of a full circle."""
    h, s, v = image.convert("HSV").split()
    turned = (np.array(h, dtype=np.int16) + round(shift * 255)).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), s, v)).convert("RGB")


def pil_jitter(image: Image.Image, rng: Draws) -> Image.Image:
    """Brightness, contrast, saturation and hue in random order."""
    for step in rng.order(4):
        if step == 3:
            image = pil_hue(image, rng.uniform(-0.1, 0.1))
        else:
            enhance = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[step]
            image = enhance(image).enhance(rng.uniform(0.6, 1.4))
    return image


def pil_blur(image: Image.Image, size: int, sigma: float) -> Image.Image:
    """Gaussian blur with size // 20 * 2 + 1 taps; PIL's own is an approximation by boxes without a fixed kernel."""
    radius = size // 20
    kernel = torch.exp(-0.5 * (torch.arange(-radius, radius + 1) / sigma) ** 2)
    kernel = kernel / kernel.sum()
    taps = torch.outer(kernel, kernel).expand(3, 1, -1, -1)
    x = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()
    x = torch.nn.functional.conv2d(torch.nn.functional.pad(x, [radius] * 4, mode="reflect"), taps, groups=3)
    return Image.fromarray(x[0].round().to(torch.uint8).permute(1, 2, 0).numpy())


def pil_augment(array: np.ndarray, size: int, rng: Draws) -> torch.Tensor:
    """One image (H, W, 3) uint8 -> (3, size, size) float32, normalized."""
    image = pil_crop(Image.fromarray(array), size, rng)
    if rng.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if rng.random() < 0.8:
        image = pil_jitter(image, rng)
    if rng.random() < 0.2:
        image = image.convert("L").convert("RGB")
    if size > 32 and rng.random() < 0.5:
        image = pil_blur(image, size, rng.uniform(0.1, 2.0))
    tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div_(255)
    return tensor.sub_(torch.tensor(MEAN)[:, None, None]).div_(torch.tensor(STD)[:, None, None])


def rate(work: Callable[[], int], seconds: float) -> float:
    """Images per second of processor time; `work` does some and says how many."""
    done, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        done += work()
    return done / spent


def smooth_pictures(n: int, size: int) -> torch.Tensor:
    """uint8 (n, 3, size, size), smooth like photographs."""
    coarse = torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    smooth = torch.nn.functional.interpolate(coarse, (size, size), mode="bicubic").clamp(0, 1)
    return (smooth * 255).round().to(torch.uint8)


def contenders(size: int) -> dict[str, Callable[[], int]]:
    """What takes turns; each call augments some images and says how many."""
    x = smooth_pictures(256 if size <= 64 else 32, size)
    arrays = list(x.permute(0, 2, 3, 1).contiguous().numpy())
    rng, generator = Draws(0), torch.Generator().manual_seed(0)

    def one_by_one() -> int:
        some = [arrays[rng.randint(0, len(arrays) - 1)] for _ in range(16)]
        return len(torch.stack([pil_augment(array, size, rng) for array in some]))

    augment, crop, normalize = contrastive(size, MEAN, STD), replay(size, MEAN, STD), plain(MEAN, STD)
    return {
        "PIL": one_by_one,
        "batched": lambda: len(augment(x, generator)),
        "replay": lambda: len(crop(x, generator)),
        "plain": lambda: len(normalize(x, generator)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.2, help="processor time of one turn")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64, 224])
    settings = parser.parse_args()
    torch.set_num_threads(1)
    print(f"images per second, one thread, fastest of {settings.rounds} turns")
    print("size  PIL, one by one  batched  ratio (median of turns)  batched replay  normalization alone")
    for size in settings.sizes:
        works = contenders(size)
        for work in works.values():
            work()
        turns = [
            {name: rate(work, settings.seconds) for name, work in works.items()}
            for _ in range(settings.rounds)
        ]
        best = {name: max(turn[name] for turn in turns) for name in works}
        median = statistics.median(turn["batched"] / turn["PIL"] for turn in turns)
        print(
            f"{size:4d}  {best['PIL']:15,.0f}  {best['batched']:7,.0f}  {best['batched'] / best['PIL']:5.1f}"
            f" ({median:.1f}){best['replay']:29,.0f}  {best['plain']:19,.0f}"
        )


if __name__ == "__main__":
    main()
