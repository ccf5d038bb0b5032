"""A picture of a stream: sample images of each task, as they are and as the contrastive methods see them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from gplasc._io.files import atomic_path
from gplasc.errors import UserError
from gplasc.streams.augment import Contrastive, Replay
from gplasc.streams.stream import Stream, Task

_GAP = 3
_LABEL = 15  # pixels for a line of text
_MARGIN = 150
_ROWS = ("original", "two views, contrastive", "", "crop and flip, replay")


def draw_preview(stream: Stream, path: Path, *, tasks: int = 5, images: int = 3) -> Path:
    """Draw images of the first tasks into a PNG file: the original, two views, and crop and flip, one below the other.

    Small images are enlarged without smoothing.

    Args:
        stream: The stream.
        path: The file to write.
        tasks: The number of tasks.
        images: The number of images of each task.

    Returns:
        The path.

    Raises:
        UserError: If the file cannot be written.
    """
    from PIL import Image, ImageDraw

    if path.suffix.lower() != ".png":
        raise UserError(f"{path} does not end in .png; the picture is a PNG file")
    generator = torch.Generator().manual_seed(0)
    shown = stream[:tasks]
    side = max(stream.image_shape[1:])
    zoom, reduce = max(1, round(72 / side)), max(1, side // 96)
    cell = side * zoom // reduce
    step = cell + _GAP
    block = images * step + 3 * _GAP
    below = _LABEL + len(_ROWS) * step
    canvas = Image.new("RGB", (_MARGIN + len(shown) * block, below + _LABEL + 2 * _GAP), "white")
    draw = ImageDraw.Draw(canvas)
    for row, text in enumerate(_ROWS):
        draw.text((4, _LABEL + row * step + cell // 2 - 5), text, fill="black")
    for number, task in enumerate(shown):
        left = _MARGIN + number * block
        draw.text((left, 1), f"task {number + 1}: {len(task.classes)} classes", fill="black")
        samples = task.train.take(_choose(task, images))
        for row, batch in enumerate(_rows(stream, samples.x, generator)):
            scaled = F.avg_pool2d(F.interpolate(batch, scale_factor=zoom), reduce).expand(-1, 3, -1, -1)
            pixels = (scaled * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
            for column, image in enumerate(pixels):
                canvas.paste(Image.fromarray(image), (left + column * step, _LABEL + row * step))
        for column, label in enumerate(samples.y.tolist()):
            name = stream.class_names[label][: max(3, cell // 7)]
            draw.text((left + column * step, below), name, fill="black")
    with atomic_path(path) as temporary:
        canvas.save(temporary, optimize=True)
    return path


def _choose(task: Task, count: int) -> Tensor:
    """Return the rows of one image of each class, then of one more image of the first ones."""
    rows = [(task.train.y == label).nonzero().flatten() for label in task.classes]
    return torch.stack([rows[i % len(rows)][i // len(rows)] for i in range(count)])


def _rows(stream: Stream, x: Tensor, generator: torch.Generator) -> list[Tensor]:
    """uint8 (N, C, H, W) -> four float batches in 0..1: original, first view, second view, crop and flip."""
    size = stream.image_shape[1]
    augmented = Contrastive(size, stream.mean, stream.std)(x, generator, views=2)
    cropped = Replay(size, stream.mean, stream.std, padding=size // 8)(x, generator)
    mean, std = torch.tensor((stream.mean, stream.std))[:, None, :, None, None]
    seen = [(batch * std + mean).clamp(0, 1) for batch in (*augmented.chunk(2), cropped)]
    return [x.float() / 255, *seen]
