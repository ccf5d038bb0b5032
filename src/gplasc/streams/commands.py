"""What is behind `gplasc data list | path | check`."""

import hashlib
from collections import Counter
from functools import partial
from pathlib import Path

from gplasc._io.reading import open_regular
from gplasc._io.text import printable
from gplasc.errors import UserError
from gplasc.streams.catalog import list_streams, new_request
from gplasc.streams.info import StreamInfo
from gplasc.streams.locate import find, locate, search_places


def list_data(data_dir: Path | None = None) -> None:
    """Print every stream, its shape, and where its files are."""
    for info in list_streams():
        if info.layout is None:
            place = "built in" if info.name == info.kind else "yours"
        else:
            path = find(info.layout, data_dir)
            place = printable(str(path), lines=False) if path else f"not found: gplasc data get {info.name}"
        print(f"{info.name:<17} {info.shape:<16} {place}")
    print("searched: " + ", ".join(map(str, search_places(data_dir))))


def data_path(name: str, data_dir: Path | None = None) -> Path:
    """Return the folder or archive a stream is read from."""
    request = new_request(name, data_dir)
    if request.info.name == request.info.kind:
        return locate(request, unpack=False)
    if not request.path.exists():
        raise UserError(f"{request.path} does not exist; write {request.info.name} with a path that does")
    return request.path


def check_data(name: str, data_dir: Path | None = None, *, skip_corrupt: bool = False) -> bool:
    """Read a whole data set and compare it with what was published; return whether nothing differs.

    Prints one line for each thing that is checked: checksums where they are known, counts and classes.
    """
    from gplasc.streams.opening import open_stream

    request = new_request(name)
    info = request.info
    lines: list[tuple[str, str]] = []
    if info.needs_download:
        path = data_path(name, data_dir)
        print(f"{name}: {printable(str(path), lines=False)}")
        lines += _compare_checksums(info, path)
    stream = open_stream(name, data_dir=data_dir, skip_corrupt=skip_corrupt)
    counts: Counter[str] = Counter(classes=stream.num_classes)
    for task in stream:
        counts["training images"] += len(task.train)
        counts["test images"] += len(task.test)
        missing = sorted(set(task.classes) - set(task.test.y.tolist()))
        if missing:
            lines.append(("DIFFERS", f"class {stream.class_names[missing[0]]!r} has no test image"))
    # A split made for each class rounds in each class: the total may differ by one for each of them.
    slack = stream.num_classes if info.counts_rounded else 0
    for what, expected, allowed in (
        ("training images", info.train_images, slack),
        ("test images", info.test_images, slack),
        ("classes", info.tasks and info.tasks * info.classes_per_task, 0),
    ):
        equal = request.argument or not expected or abs(counts[what] - expected) <= allowed
        text = f"{counts[what]:,} {what}"
        lines.append(("ok", text) if equal else ("DIFFERS", f"{text}, {expected:,} were published"))
    lines += [("note", note) for note in stream.notes]
    for state, line in lines:
        print(f"{state:<8}{line}")
    return all(state != "DIFFERS" for state, _ in lines)


def _compare_checksums(info: StreamInfo, path: Path) -> list[tuple[str, str]]:
    """Return a state and a text for each published file that is there and whose checksum is known."""
    known = info.known_checksums()
    files = [path] if path.is_file() else sorted(path / own for own in known if (path / own).is_file())
    lines = []
    for file in (file for file in files if file.name in known):
        algorithm, _, expected = known[file.name].partition(":")
        with open_regular(file) as content:
            digest = hashlib.file_digest(content, partial(hashlib.new, algorithm, usedforsecurity=False))
        if digest.hexdigest() == expected:
            lines.append(("ok", f"checksum of {file.name}"))
        elif file.name.endswith("ubyte.gz"):  # distributions compress these files anew
            text = f"{file.name} is not compressed as published; its content is checked by counting"
            lines.append(("note", text))
        else:
            lines.append(("DIFFERS", f"checksum of {file.name}"))
    return lines
