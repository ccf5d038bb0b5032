"""Files that somebody made on purpose: pickles that run code, archives that climb out, images that are something else.

Whatever they try to write goes into the folder ``outside``, so that the driver finds it.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from PIL import Image
from tests.fuzz.damage import replace_file

RAN = "ran"


class _Runs:
    """Calls a function when it is unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def pickles(outside: Path) -> list[bytes]:
    """Return pickles that would create ``outside/ran``, or take all time or memory."""
    mark = str(outside / RAN)
    touch = f"open({mark!r}, 'w').close()"
    runs = [
        _Runs(os.system, f"touch '{mark}'"),
        _Runs(exec, touch),
        _Runs(eval, touch),
        _Runs(os.mkdir, mark),
        _Runs(getattr(__import__("shutil"), "copyfile"), "/etc/hostname", mark),  # noqa: B009
        _Runs(__import__("subprocess").call, ["touch", mark]),
    ]
    found = [pickle.dumps(content, protocol=protocol) for content in runs for protocol in (0, 2, 4)]
    found += [pickle.dumps({b"data": content, b"labels": [1]}, protocol=2) for content in runs]
    # Ten nested lists of ten references each are ten billion entries when they are compared or printed.
    nested = b"(lp0\n" + b"".join(b"(lp%d\n" % n + b"g%d\na" % (n - 1) * 10 for n in range(1, 30)) + b"."
    memo = b"\x80\x02]r\xff\xff\xff\x7f."
    long = b"\x80\x02\x8b\xff\xff\xff\x7f."
    text = b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f."
    frame = b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f."
    deep = b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."
    return [*found, nested, memo, long, text, frame, deep]


def tar_member(random: Random, outside: Path) -> tarfile.TarInfo:
    """Return a member that no data set has."""
    name = random.choice((
        f"../../outside/{RAN}", f"../outside/{RAN}", str(outside / RAN), "cifar-10-batches-py/../../../outside/ran",
        "x" * 300, "a/" * 100 + "b", "nul\0byte", "\udce9", "", ".", "..", "cifar-10-batches-py", "C:\\x",
    ))  # fmt: skip
    member = tarfile.TarInfo(name)
    member.type = random.choice(
        tuple(getattr(tarfile, f"{kind}TYPE") for kind in ("REG", "SYM", "LNK", "CHR", "FIFO", "DIR"))
    )
    links = (str(outside), "../../outside", "cifar-10-batches-py/data_batch_1", "/etc/passwd")
    member.linkname = random.choice(links)
    member.mode = 0o7777
    return member


def add_to_tar(path: Path, random: Random, outside: Path) -> str:
    """Put a hostile member before or after those of a tar.gz."""
    with tarfile.open(path) as archive:
        members = [(member, archive.extractfile(member)) for member in archive.getmembers()]
        contents = [(member, file.read() if file else b"") for member, file in members]
    evil = (tar_member(random, outside), b"evil")
    contents.insert(random.choice((0, len(contents))), evil)
    if evil[0].issym():  # and then write through the link
        through = tarfile.TarInfo(f"{evil[0].name}/{RAN}")
        contents.append((through, b"evil"))
    with tarfile.open(path, "w:gz") as archive:
        for member, content in contents:
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content))
    return f"tar member {evil[0].name[:40]!r} of type {evil[0].type!r}"


def add_to_zip(path: Path, random: Random, outside: Path) -> str:
    """Put a hostile member into a zip file."""
    name = random.choice(
        (f"../../outside/{RAN}", str(outside / RAN), "..\\x", "x" * 300, "a/" * 100 + "b", "/", "tiny")
    )
    kind = random.choice(("plain", "link", "bomb", "twice"))
    if kind in ("bomb", "twice"):
        name = f"tiny-imagenet-200/{'words.txt' if kind == 'twice' else 'zeros'}"
    content = {"link": str(outside).encode(), "bomb": bytes(64 * 2**20)}.get(kind, b"evil")
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o120777 << 16 if kind == "link" else 0
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(info, content)
    if kind == "bomb":  # and say that it is small
        path.write_bytes(path.read_bytes().replace(struct.pack("<I", len(content)), struct.pack("<I", 100)))
    return f"zip member {name[:40]!r}, {kind}"


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _png(width: int, height: int, data: bytes = b"", kind: int = 2, comment: bytes = b"") -> bytes:
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
    body = _chunk(b"IDAT", zlib.compress(data)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + head + comment + body


def _jpeg(width: int, height: int, *, progressive: bool = False) -> bytes:
    """Return a small JPEG file whose header announces another size."""
    file = io.BytesIO()
    Image.new("RGB", (64, 64)).save(file, "JPEG", progressive=progressive)
    content = file.getvalue()
    start = content.index(b"\xff\xc2" if progressive else b"\xff\xc0") + 5
    return content[:start] + struct.pack(">HH", height, width) + content[start + 4 :]


def _text_png(size: int) -> bytes:
    """Return a PNG whose compressed comment is a bomb."""
    return _png(2, 2, bytes(14), comment=_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(size))))


def images(outside: Path) -> dict[str, Callable[[], bytes]]:
    """Return files that are called images, by what they are."""
    eps = f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(touch '{outside / RAN}') (w) .pipe file\nshowpage\n"
    bmp = (54, 0, 0, 54, 40, 2**30, -(2**30), 1, 24, 0, 0, 0, 0, 0, 0)
    gif = b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0xF7, 0, 0) + bytes(768)
    return {
        "eps": eps.encode,
        "svg": lambda: b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
        "huge": lambda: _png(60_000, 60_000),
        "wide": lambda: _png(2**31 - 1, 1),
        "zero": lambda: _png(0, 0),
        "large": lambda: _png(9_000, 9_000, bytes(9_000 * 27_001)),
        "palette": lambda: _png(4, 4, bytes(20), kind=3),
        "comment": lambda: _text_png(100 * 2**20),
        "bmp": lambda: b"BM" + struct.pack("<IHHIIiiHHIIiiII", *bmp),
        "gif": lambda: gif + b",\0\0\0\0\xff\xff\xff\xff\0\2",
        "ppm": lambda: b"P6 99999 99999 255\n",
        "ppm text": lambda: b"P3 4 4 255\n" + b"9" * 10**6,
        "tiff": lambda: b"II*\0\x08\0\0\0\xff\xff" + bytes(200),
        "jpeg": lambda: _jpeg(30_000, 30_000),
        "progressive jpeg": lambda: _jpeg(9_000, 9_000, progressive=True),
        "text": lambda: b"this is not an image",
        "html": lambda: b"<!doctype html><title>404</title>",
    }


def spoil_image(path: Path, random: Random, outside: Path) -> str:
    """Replace an image by something else."""
    if random.random() < 0.25:
        return replace_file(path, random)
    kind, content = random.choice(list(images(outside).items()))
    path.write_bytes(content())
    return f"{kind} as {path.name}"


NAMES = (
    "\x1b[2J",
    "\u202e\u2066x",
    "two\nlines",
    "\udce9",
    "\u200b",
    "a" * 200,
    "$x^2$",
    "[red]",
    "<b>",
    "-rf",
    "%s",
    " ",
)


def objects(random: Random, *, spoiled: bool) -> list[Any]:
    """Return a data set in memory; some items of a spoiled one are nearly images with labels."""
    pixels = np.frombuffer(random.randbytes(192), np.uint8).reshape(8, 8, 3)
    good = [pixels, Image.fromarray(pixels), torch.from_numpy(pixels.copy()).permute(2, 0, 1)]
    odd = [
        Image.fromarray(pixels[..., 0].astype(np.uint16) * 256), Image.new("I", (8, 8), 70_000), Image.new("F", (8, 8)),
        Image.open(io.BytesIO(_jpeg(64, 99))), Image.open(io.BytesIO(_png(8, 8, bytes(9)))), Image.new("L", (0, 8)),
        torch.zeros(8, 8, dtype=torch.uint8, device="meta"), torch.zeros(8, 8, dtype=torch.uint8).to_sparse(),
        pixels / 255, pixels[:0], [[1, "x"]], None, "image", b"", np.array(None), np.zeros((8, 8), "M8[s]"),
        torch.zeros(8, 8, dtype=torch.complex64), pixels[:7], np.zeros((2, 2, 2, 2), np.uint8),
    ]  # fmt: skip
    labels = [
        10**400,
        -1,
        "1",
        "x",
        None,
        float("nan"),
        float("inf"),
        np.int8(3),
        torch.tensor(1),
        True,
        2**63,
        b"1",
    ]
    items: list[Any] = [(random.choice(good), number % 3) for number in range(9)]
    for _ in range(random.choice((0, 1, 1, 2)) if spoiled else 0):
        image, label = random.choice(good + odd), random.choice([0, *labels])
        items[random.randrange(9)] = random.choice(
            [(image, label), {"image": image, "label": label}, image, label]
        )
    return items


def settings(random: Random) -> dict[str, Any]:
    """Return arguments of `from_dataset`, of which some are not allowed."""
    values = (None, "2", 2, 0, -1, 1.5, 10**9, [1, 2], ["a"], "ab", float("nan"), np.int64(2), {}, True)
    names = (
        "classes_per_task",
        "class_order",
        "images_per_class",
        "validation",
        "image_size",
        "class_order_seed",
    )
    return {random.choice(names): random.choice(values) for _ in range(random.choice((0, 1, 1, 2)))}
