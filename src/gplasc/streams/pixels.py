"""From images of any kind that Python programs exchange to uint8 arrays of one shape."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gplasc.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
# What an image may announce before it is decoded. Images above the second bound are decoded one at a time, so
# that threads together need less than 1.5 GB.
_MOST_PIXELS = 64 * 10**6
_LARGE_PIXELS = 4 * 10**6
_large = threading.Lock()


class Undecodable(Exception):
    """An image cannot be decoded; the text says why."""


def decode_stream(
    file: IO[bytes], size: int | None, *, upright: bool = False, gray: bool = False
) -> NDArray[np.uint8]:
    """Decode the content of an image file.

    Args:
        file: A JPEG, PNG, BMP, GIF, WebP, TIFF or PPM file, open for reading.
        size: Width and height to resize to; None: those of the image.
        upright: Turn the image the way the camera was held.
        gray: Keep the single channel of gray images.

    Returns:
        (3, H, W) pixels, or (1, H, W) for gray images if `gray` is set.

    Raises:
        Undecodable: If it cannot be decoded or is too large.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(file, formats=_FORMATS) as image:
            pixels = image.width * image.height
            if pixels > _MOST_PIXELS:
                raise Undecodable(
                    f"it has {image.width} x {image.height} pixels, "
                    f"at most {_MOST_PIXELS // 10**6} million are allowed"
                )
            with _large if pixels > _LARGE_PIXELS else nullcontext():
                if upright:
                    ImageOps.exif_transpose(image, in_place=True)
                return _to_array(image, size, gray)
    except Exception as error:  # Pillow's decoders raise almost anything on damaged files
        raise Undecodable(str(error).split("\n")[0][:120] or type(error).__name__) from error


def decode_bytes(content: bytes, size: int | None, name: str) -> NDArray[np.uint8]:
    """Decode the content of an image file.

    Args:
        content: The bytes of a JPEG, PNG, BMP, GIF, WebP, TIFF or PPM file.
        size: Width and height to resize to; None: those of the image.
        name: What is decoded, for messages.

    Returns:
        (C, H, W) pixels; one channel for gray images, else three.

    Raises:
        UserError: If it cannot be decoded or is too large.
    """
    try:
        return decode_stream(io.BytesIO(content), size, gray=True)
    except Undecodable as error:
        raise UserError(f"{name} cannot be decoded ({error}); replace it or leave it out") from error


def to_pixels(image: Any, size: int | None, name: str) -> NDArray[np.uint8]:
    """Convert an image.

    Args:
        image: A PIL image, or a uint8 array or tensor of shape (H, W), (H, W, C) or (C, H, W) with 1 or 3 channels.
        size: Width and height to resize to; None: those of the image.
        name: What is converted, for messages.

    Returns:
        (C, H, W) pixels; one channel for gray images, else three.

    Raises:
        UserError: If the image is of no such kind.
    """
    from PIL import Image

    if not isinstance(image, Image.Image):
        array = np.asarray(image)
        if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
            array = array.transpose(1, 2, 0)
        if array.ndim == 3 and array.shape[2] == 1:
            array = array[:, :, 0]
        if array.dtype != np.uint8 or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
            raise UserError(
                f"{name} is a {type(image).__name__} of type {array.dtype} and shape {array.shape}; a PIL image or "
                "uint8 pixels with 1 or 3 channels are allowed: leave out transforms that normalize"
            )
        image = Image.fromarray(np.ascontiguousarray(array))
    return _to_array(image, size, gray=True)


def _to_array(image: Image.Image, size: int | None, gray: bool) -> NDArray[np.uint8]:
    from PIL.Image import Resampling

    if image.mode.startswith("I;16"):
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    elif image.mode in ("P", "LA", "PA", "La", "RGBa"):
        image = image.convert("RGBA")
    mode = "L" if gray and image.mode in ("1", "L") else "RGB"
    if image.mode != mode:
        image = image.convert(mode)
    if size is not None and image.size != (size, size):
        image = image.resize((size, size), Resampling.BILINEAR)
    pixels = np.asarray(image)
    return np.array(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1), order="C")


def stack(images: Sequence[NDArray[np.uint8]], channels: int, name: str) -> NDArray[np.uint8]:
    """Stack images of one size.

    Args:
        images: (1 or 3, H, W) each.
        channels: The channels of the result; gray images are repeated in three.
        name: What they come from, for messages.

    Returns:
        (N, channels, H, W).

    Raises:
        UserError: If there are none, or their sizes differ.
    """
    sizes = sorted({image.shape[1:] for image in images})
    if len(sizes) != 1:
        found = f"{len(sizes)} sizes, for example {sizes[0]} and {sizes[-1]}" if sizes else "no images"
        raise UserError(f"{name} has {found}; give images of one size, or set image_size to resize them")
    result = np.empty((len(images), channels, *sizes[0]), np.uint8)
    for row, image in zip(result, images, strict=True):
        row[:] = image
    return result
