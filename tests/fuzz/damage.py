"""Generated damage: what disks, transfers and mistakes do to bytes and to JSON values."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

_NUMBERS = (0, 1, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)


def _cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content))]


def _cut_front(content: bytes, random: Random) -> bytes:
    return content[random.randrange(len(content)) :]


def _empty(content: bytes, random: Random) -> bytes:
    return b""


def _flip(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 8, 64))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _flip_early(content: bytes, random: Random) -> bytes:
    """Most of what decides how a file is read stands in front."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        changed[random.randrange(min(len(changed), 128))] = random.randrange(256)
    return bytes(changed)


def _flip_late(content: bytes, random: Random) -> bytes:
    """The directory of a zip file stands at its end."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        changed[-1 - random.randrange(min(len(changed), 256))] = random.randrange(256)
    return bytes(changed)


def _overwrite(content: bytes, random: Random) -> bytes:
    start = random.randrange(len(content))
    length = min(random.choice((1, 16, 512, 4096)), len(content) - start)
    block = random.choice((bytes(length), b"\xff" * length, random.randbytes(length)))
    return content[:start] + block + content[start + length :]


def _insert(content: bytes, random: Random) -> bytes:
    start = random.randrange(len(content))
    return content[:start] + random.randbytes(random.choice((1, 4, 100))) + content[start:]


def _remove(content: bytes, random: Random) -> bytes:
    start = random.randrange(len(content))
    return content[:start] + content[start + random.choice((1, 4, 512)) :]


def _repeat(content: bytes, random: Random) -> bytes:
    start = random.randrange(len(content))
    end = start + random.choice((1, 64, 512))
    return content[:end] + content[start:]


def _append(content: bytes, random: Random) -> bytes:
    return content + random.choice((random.randbytes(64), content, bytes(512)))


def _number(content: bytes, random: Random) -> bytes:
    """Write a length or a count that is at the edge of what fits."""
    size = random.choice((1, 2, 4, 8))
    place = random.randrange(max(min(len(content), 2048) - size, 1))
    value = random.choice(_NUMBERS) % 2 ** (8 * size)
    return content[:place] + value.to_bytes(size, random.choice(("little", "big"))) + content[place + size :]


_HEADS = (
    b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"\x1f\x8b\x08\x00" + bytes(6), b"\x93NUMPY\x01\x00v\x00",
    b"\x80\x04\x95", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0\x00\x10JFIF", b"GIF89a\xff\xff\xff\xff",
    b"%!PS-Adobe-3.0 EPSF-3.0\n", b"RIFF\xff\xff\xff\x7fWEBPVP8 ", b"BZh9", b"\xfd7zXZ\x00",
    b"<?xml version='1.0'?>", b"\x7fELF", b"#!/bin/sh\n", b"version https://git-lfs.github.com/spec/v1\n",
    b"\xef\xbb\xbf", b"\xff\xfe",
)  # fmt: skip


def _swap_head(content: bytes, random: Random) -> bytes:
    head = random.choice(_HEADS)
    return head + content[random.choice((0, len(head))) :]


_KINDS: tuple[Callable[[bytes, Random], bytes], ...] = (
    _cut, _cut, _cut_front, _empty, _flip, _flip, _flip, _flip_early, _flip_late, _overwrite, _insert, _remove,
    _repeat, _append, _number, _number, _swap_head,
)  # fmt: skip


def damage_bytes(content: bytes, random: Random) -> tuple[str, bytes]:
    """Return what was done, and the damaged content."""
    kind = random.choice(_KINDS)
    return kind.__name__.strip("_"), kind(content, random) if content else random.randbytes(8)


def replace_file(path: Path, random: Random) -> str:
    """Put something into the place of a file that cannot be read, or that never ends."""
    special: dict[str, Callable[[], None]] = {
        "a pipe": lambda: os.mkfifo(path),
        "a folder": lambda: path.mkdir(),
        "endless": lambda: path.symlink_to("/dev/zero"),
        "a link to itself": lambda: path.symlink_to(path.name),
        "a terminal": lambda: path.symlink_to("/dev/tty"),
    }
    kind = random.choice(list(special))
    path.unlink()
    special[kind]()
    return f"{kind} as {path.name}"


def damage_file(path: Path, random: Random) -> str:
    """Damage a file in place and return what was done."""
    if random.random() < 0.08:
        return replace_file(path, random)
    kind, content = damage_bytes(path.read_bytes(), random)
    path.write_bytes(content)
    return f"{kind} of {path.name}"


def damage_one(folder: Path, random: Random, patterns: Sequence[str] = ("*",)) -> str:
    """Damage one of the files below a folder."""
    found = sorted({path for pattern in patterns for path in folder.rglob(pattern) if path.is_file()})
    return damage_file(random.choice(found), random)


def damaged(folder: str, *patterns: str) -> Callable[[Path, Random, Path], str]:
    """Return a function that damages one of the files below a folder of a case."""
    return lambda place, random, outside: damage_one(place / folder, random, patterns or ("*",))


VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 3, 10**30, 1e308, float("nan"), float("inf"), "", "x", "[/b]", "<script>", "\x1b[31m",
    "\udce9", "../..", "a" * 100_000, [], [[]], [None], ["x", 1], {}, {"": None}, {"x": {"y": []}},
)  # fmt: skip


def change_value(tree: Any, random: Random) -> str:
    """Replace, delete or add something at a random place of a JSON value, in place."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
            places.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    walk(tree)
    node, key = random.choice(places)
    what = random.choice(("replace", "replace", "replace", "delete", "add"))
    value = random.choice(VALUES)
    if what == "replace":
        node[key] = value
    elif what == "delete":
        del node[key]
    elif isinstance(node, dict):
        node["added"] = value
    else:
        node.insert(key, value)
    return f"{what} {key!r} {repr(value)[:30]}"


def change_json(path: Path, random: Random) -> str:
    """Change one to three values of a JSON file."""
    tree = json.loads(path.read_text())
    done = [change_value(tree, random) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    path.write_text(json.dumps(tree), encoding="utf-8", errors="surrogatepass")
    return ", ".join(done)
