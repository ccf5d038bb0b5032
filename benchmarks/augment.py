"""Images per second of the batched contrastive augmentation against a per-image PIL pipeline.

    python benchmarks/augment.py [--seconds 2] [--rounds 5] [--sizes 32 64 224]

Both do the same work on the same images with one thread each: random resized crop, flip, colour jitter (0.4,
0.4, 0.4, 0.1; p 0.8), grey (p 0.2), blur (p 0.5, above 32 px), float tensor, normalisation. They take turns
in one process, and time is the processor time of the process, so that other work on the machine disturbs both
alike. The figure is the median over the rounds; the ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter

from gplasc.streams.augment import contrastive, plain, replay

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def pil_crop(image: Image.Image, size: int, rng: random.Random) -> Image.Image:
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


def pil_jitter(image: Image.Image, rng: random.Random) -> Image.Image:
    """Brightness, contrast, saturation and hue in random order."""
    for step in rng.sample(range(4), 4):
        if step == 3:
            image = pil_hue(image, rng.uniform(-0.1, 0.1))
        else:
            enhance = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[step]
            image = enhance(image).enhance(rng.uniform(0.6, 1.4))
    return image


def pil_augment(array: np.ndarray, size: int, rng: random.Random) -> torch.Tensor:
    """One image (H, W, 3) uint8 -> (3, size, size) float32, normalised."""
    image = pil_crop(Image.fromarray(array), size, rng)
    if rng.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if rng.random() < 0.8:
        image = pil_jitter(image, rng)
    if rng.random() < 0.2:
        image = image.convert("L").convert("RGB")
    if size > 32 and rng.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.1, 2.0)))
    tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div_(255)
    return tensor.sub_(torch.tensor(MEAN)[:, None, None]).div_(torch.tensor(STD)[:, None, None])


def rate(work: Callable[[], int], seconds: float) -> float:
    """Images per second of processor time; `work` does some and says how many."""
    done, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        done += work()
    return done / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="processor time per measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64, 224])
    settings = parser.parse_args()
    torch.set_num_threads(1)
    print(f"one thread, {settings.rounds} rounds; images per second")
    print("size  PIL, one by one  batched  ratio (least of the rounds)  batched replay  normalisation alone")
    for size in settings.sizes:
        n = 512 if size <= 64 else 64
        pixels = torch.Generator().manual_seed(0)
        # Smooth images, so that no step meets a special case of noise.
        coarse = torch.rand(n, 3, 8, 8, generator=pixels)
        smooth = torch.nn.functional.interpolate(coarse, (size, size), mode="bicubic").clamp(0, 1)
        x = (smooth * 255).round().to(torch.uint8)
        arrays = list(x.permute(0, 2, 3, 1).contiguous().numpy())
        rng, generator = random.Random(0), torch.Generator().manual_seed(0)
        augmentations = (contrastive(size, MEAN, STD), replay(size, MEAN, STD), plain(MEAN, STD))

        def one_by_one(arrays: list[np.ndarray] = arrays, size: int = size) -> int:
            some = rng.sample(arrays, 32)
            torch.stack([pil_augment(array, size, rng) for array in some])
            return len(some)

        def batched(index: int) -> Callable[[], int]:
            def work() -> int:
                return len(augmentations[index](x, generator))  # noqa: B023

            return work

        one_by_one(), batched(0)()
        rates: list[tuple[float, ...]] = []
        for _ in range(settings.rounds):
            slow = rate(one_by_one, settings.seconds)
            rates.append(
                (slow, *(rate(batched(index), settings.seconds / (1 + index)) for index in range(3)))
            )
        ratios = [r[1] / r[0] for r in rates]
        slow, fast, crop, normal = (statistics.median(column) for column in zip(*rates, strict=True))
        print(
            f"{size:4d}  {slow:15,.0f}  {fast:7,.0f}  {statistics.median(ratios):5.1f} ({min(ratios):4.1f})"
            f"{crop:31,.0f}  {normal:19,.0f}"
        )


if __name__ == "__main__":
    main()
