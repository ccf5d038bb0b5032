"""A digest of the content of a stream: equal data gives an equal digest, wherever it lies."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path

import torch

from gplasc._io.files import write_atomic
from gplasc._io.reading import open_regular, read_text, readable
from gplasc.errors import UserError
from gplasc.streams._cache import file_state
from gplasc.streams.catalog import new_request
from gplasc.streams.files import ImageFiles
from gplasc.streams.locate import cache_folder
from gplasc.streams.stream import Stream

_VERSION = "gplasc stream 1"
_ROWS = 1024


def fingerprint(source: str | Path | Stream, *, data_dir: str | Path | None = None) -> str:
    """Return a digest of the data that a stream is made of: 64 hexadecimal digits.

    It covers the content of every file that is read, with its path below the data set's folder, its class and its
    split, but neither the place and times of files nor settings (image size, order of the classes, seed, budgets).
    Archives count by what they hold. Two formats of one data set (python and binary CIFAR, gzipped and plain MNIST)
    have different digests. Streams without files are identified by their name.

    The digest of files is kept in the user's cache folder under their paths, sizes and times, so that they are read
    once. That of a `Stream` object covers images, labels, class names and normalization, and is computed at each call.

    Args:
        source: What `gplasc.streams.open_stream` takes, or an open stream.
        data_dir: As for `open_stream`.

    Raises:
        UserError: If there is no such stream, or its files are missing or cannot be read.
    """
    if isinstance(source, Stream):
        return _of_stream(source)
    request = new_request(source, data_dir)
    with readable(source):
        files = request.info.read(request)
        if isinstance(files, ImageFiles):
            classes = files.class_names
            facts = [f"{file}\0{classes[y]}\0{'test' if test else 'train'}" for file, y, test in files.images]
            return _of_files(files.root, files.names, [*facts, *files.class_names])
        if files.paths:
            # Several files are told apart by their names; that of a single one is the user's choice.
            names = [path.name for path in files.paths]
            return _of_files(files.paths[0].parent, names, names if len(names) > 1 else [])
    return _start([request.info.kind, request.argument]).hexdigest()


def _of_files(root: Path, names: list[str], facts: list[str]) -> str:
    """Hash facts and the content of files, or return what was kept from the last time."""
    digest = _start(facts)
    key = file_state(root, names, str(root.resolve()), digest.hexdigest())
    kept = cache_folder() / "fingerprints" / key
    with suppress(UserError):
        text = read_text(kept)
        if re.fullmatch("[0-9a-f]{64}", text):
            return text
    for name in names:
        with open_regular(root / name) as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    # A digest of files that changed while they were read is not kept; it can be computed again.
    if file_state(root, names, str(root.resolve()), _start(facts).hexdigest()) == key:
        with suppress(UserError):
            write_atomic(kept, digest.hexdigest())
    return digest.hexdigest()


def _of_stream(stream: Stream) -> str:
    digest = _start([repr((stream.image_shape, stream.mean, stream.std)), *stream.class_names])
    for task in stream:
        for part, samples in (("train", task.train), ("test", task.test), ("validation", task.validation)):
            digest.update(f"{task.index}/{part}/{0 if samples is None else len(samples)}\n".encode())
            if samples is None:
                continue
            for rows in torch.arange(len(samples)).split(_ROWS):
                taken = samples.take(rows)
                digest.update(taken.x.contiguous().numpy().data)
                digest.update(taken.y.contiguous().numpy().data)
    return digest.hexdigest()


def _start(texts: list[str]) -> hashlib._Hash:
    lines = "\n".join((_VERSION, *texts, ""))
    return hashlib.sha256(lines.encode("utf-8", "surrogatepass"))
