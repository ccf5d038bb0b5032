"""A picture of a stream: sample images of each task, as they are and as the contrastive methods see them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from gplasc._io.files import atomic_path
from gplasc.errors import UserError
from gplasc.streams.augment import Contrastive, Replay
from gplasc.streams.stream import Stream

_GAP = 3
_LABEL = 15  # pixels for a line of text
_ROWS = ("original", "two views, contrastive", "", "crop and flip, replay")


def draw_preview(stream: Stream, path: Path, *, tasks: int = 5, images: int = 3, seed: int = 0) -> Path:
    """Draw `images` columns for each of the first `tasks` tasks and four rows: original, two views, crop and
    flip.

    The images of a column are the same image. Small ones are enlarged without smoothing.
    """
    from PIL import Image, ImageDraw

    generator = torch.Generator().manual_seed(seed)
    shown = stream[:tasks]
    _, height, width = stream.image_shape
    side = max(height, width)
    zoom = max(1, round(72 / side))
    reduce = max(1, side // 96)
    cell = side * zoom // reduce
    block = images * (cell + _GAP)
    margin = 150
    canvas = Image.new(
        "RGB",
        (margin + len(shown) * (block + 3 * _GAP), _LABEL + len(_ROWS) * (cell + _GAP) + _LABEL + 2 * _GAP),
        "white",
    )
    draw = ImageDraw.Draw(canvas)
    for row, text in enumerate(_ROWS):
        draw.text((4, _LABEL + row * (cell + _GAP) + cell // 2 - 5), text, fill="black")
    for number, task in enumerate(shown):
        left = margin + number * (block + 3 * _GAP)
        draw.text((left, 1), f"task {number + 1}: {len(task.classes)} classes", fill="black")
        # As many classes as there are columns, then one more image of the first ones.
        chosen = torch.cat(
            [
                (task.train.y == task.classes[column % len(task.classes)]).nonzero()[
                    column // len(task.classes)
                ]
                for column in range(images)
            ]
        )
        taken = task.train.take(chosen)
        rows = _rows(stream, taken.x, generator)
        for row, batch in enumerate(rows):
            for column, image in enumerate(batch):
                square = F.interpolate(image[None], scale_factor=zoom) if zoom > 1 else image[None]
                square = F.avg_pool2d(square, reduce)[0]
                pixels = (square.expand(3, -1, -1) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
                canvas.paste(
                    Image.fromarray(pixels), (left + column * (cell + _GAP), _LABEL + row * (cell + _GAP))
                )
        for column, label in enumerate(taken.y.tolist()):
            name = stream.class_names[label]
            fits = max(3, cell // 7)
            draw.text(
                (left + column * (cell + _GAP), _LABEL + len(rows) * (cell + _GAP)), name[:fits], fill="black"
            )
    if path.suffix.lower() != ".png":
        raise UserError(f"{path} does not end in .png; the picture is a PNG file")
    with atomic_path(path) as temporary:
        canvas.save(temporary, optimize=True)
    return path


def _rows(stream: Stream, x: Tensor, generator: torch.Generator) -> list[Tensor]:
    """uint8 (N, C, H, W) -> four float batches in 0..1: original, first view, second view, crop and flip."""
    size = stream.image_shape[1]
    augmented = Contrastive(size, stream.mean, stream.std)(x, generator, views=2)
    cropped = Replay(size, stream.mean, stream.std, padding=size // 8)(x, generator)
    mean = torch.tensor(stream.mean).view(1, -1, 1, 1)
    std = torch.tensor(stream.std).view(1, -1, 1, 1)
    seen = [(batch * std + mean).clamp(0, 1) for batch in (*augmented.chunk(2), cropped)]
    return [x.float() / 255, *seen]
