"""Single images: files that Pillow decodes, Pillow's images, and arrays."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gplasc._io.reading import open_regular
from gplasc._io.text import printable
from gplasc.errors import UserError
from gplasc.streams.arrays import as_images

if TYPE_CHECKING:
    from PIL import Image

_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_MOST_BYTES = 256 * 2**20
# What an image may announce before it is decoded. Images above the second bound are decoded one at a time, so
# that threads together need less than 1.5 GB.
_MOST_PIXELS = 64 * 10**6
_LARGE_PIXELS = 4 * 10**6
_ORIENTATION = 0x0112  # of EXIF
_large = threading.Lock()


class Undecodable(UserError):
    """An image cannot be decoded."""

    def __init__(self, name: object, reason: str) -> None:
        super().__init__(
            f"{printable(str(name), lines=False)} cannot be decoded ({reason}); "
            "replace it or leave it out, for image files with --skip-corrupt (skip_corrupt=True in Python)"
        )


def read_image(path: Path, size: int | None = None, *, upright: bool = True) -> Tensor:
    """Decode one file to RGB of its own size or of `size` x `size` pixels: (3, H, W)."""
    try:
        file = open_regular(path)
    except UserError as error:
        raise Undecodable(path, str(error).partition(" cannot be read: ")[2]) from error
    with file:
        return decode_image(file, size, path, upright=upright)


def decode_image(
    file: IO[bytes],
    size: int | None,
    name: object,
    *,
    upright: bool = False,
    gray: bool = False,
    spend: Callable[[int], None] = lambda pixels: None,
) -> Tensor:
    """Decode an open image file: (3, H, W) uint8, or (1, H, W) for gray images if `gray` is set.

    It is resized to `size` x `size` pixels if that is given; `upright` turns it the way the camera was held. `spend` is
    told the number of pixels before they are decoded, and may raise UserError.
    """
    from PIL import Image
    from PIL.JpegImagePlugin import JpegImageFile

    with _named(name):
        if file.seek(0, os.SEEK_END) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES >> 20} MB")
        file.seek(0)
        is_jpeg = file.read(2) == b"\xff\xd8"
        file.seek(0)
        # Image.open has a bound of its own, which does not know of images that are shrunk while they are read.
        with JpegImageFile(file) if is_jpeg else Image.open(file, formats=_FORMATS) as image:
            spend(image.width * image.height)
            return _decode(image, size, upright, gray)


def as_image(image: Any, name: str, size: int | None = None) -> Tensor:
    """Return a Pillow image, or uint8 pixels (H, W), (H, W, C) or (C, H, W), as a tensor (C, H, W), C being 1 or 3.

    It is resized to `size` x `size` pixels if that is given; `name` says what it is, for messages.
    """
    from PIL import Image

    if not isinstance(image, Image.Image):
        x = as_images((image if isinstance(image, Tensor) else np.asarray(image))[None], name)[0]
        if size is None or x.shape[1:] == (size, size):
            return x
        image = Image.fromarray(x.permute(1, 2, 0).squeeze(2).contiguous().numpy())
    with _named(name):
        return _decode(image, size, upright=True, gray=True)


@contextmanager
def _named(name: object) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # Pillow's decoders raise almost anything on damaged files
        reason = re.sub(" <_io.*?>", "", str(error).split("\n")[0])[:120]
        raise Undecodable(name, reason or type(error).__name__) from error


def _decode(image: Image.Image, size: int | None, upright: bool, gray: bool) -> Tensor:
    """Decode an image that may not be in memory yet; a JPEG image with too many pixels is shrunk while it is read."""
    from PIL import ImageOps
    from PIL.Image import Resampling

    width, height = image.size
    shrink = 2 if width * height <= 4 * _MOST_PIXELS else 4
    if width * height > _MOST_PIXELS and not image.info.get("progressive"):
        image.draft(None, (width // shrink, height // shrink))
    pixels = image.width * image.height
    if not 0 < pixels <= _MOST_PIXELS:
        raise ValueError(
            f"it has {width} x {height} pixels, at least one and at most {_MOST_PIXELS // 10**6} million are allowed, "
            f"in JPEG files that are not progressive {16 * _MOST_PIXELS // 10**6:,} million"
        )
    with _large if pixels > _LARGE_PIXELS else nullcontext():
        if upright and image.getexif().get(_ORIENTATION, 1) != 1:
            image = ImageOps.exif_transpose(image)
        if image.mode.startswith("I;16"):
            image = image.convert("I").point(lambda value: value / 256).convert("L")
        elif image.mode in ("P", "LA", "PA", "La", "RGBa"):
            image = image.convert("RGBA")
        mode = "L" if gray and image.mode in ("1", "L") else "RGB"
        image = image if image.mode == mode else image.convert(mode)
        if size is not None and image.size != (size, size):
            image = image.resize((size, size), Resampling.BILINEAR)
        planes = np.atleast_3d(np.asarray(image)).transpose(2, 0, 1)
        return torch.from_numpy(np.array(planes, order="C"))
