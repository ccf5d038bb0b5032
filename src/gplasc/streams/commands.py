"""What stands behind `gplasc data list | path | get | check | show`."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

from gplasc._io.text import printable
from gplasc.errors import UserError
from gplasc.streams.catalog import find_stream, list_streams
from gplasc.streams.files import open_regular
from gplasc.streams.info import StreamInfo
from gplasc.streams.locate import data_folder, find, find_or_explain, search_places

OK, DIFFERS, NOTE = "ok", "DIFFERS", "note"


def list_data(data_dir: str | Path | None = None) -> None:
    """Print every stream, its shape, and where its files were found."""
    for info in list_streams():
        print(f"{info.name:<17} {info.shape:<16} {_where(info, data_folder(data_dir))}")
    print("searched: " + ", ".join(map(str, search_places(data_folder(data_dir)))))


def data_path(name: str, data_dir: str | Path | None = None) -> Path:
    """Print and return the folder or archive a stream is read from."""
    path = _found(name, data_folder(data_dir))
    print(printable(str(path), lines=False))
    return path


def get_data(name: str, data_dir: str | Path | None = None) -> list[Path]:
    """Download a data set from its publisher, print where it lies, and return the paths."""
    from gplasc.streams.download import download

    paths = download(name, data_folder(data_dir))
    for path in paths:
        print(path)
    return paths


def check_data(name: str, data_dir: str | Path | None = None, *, skip_corrupt: bool = False) -> bool:
    """Read a whole data set and compare it with what was published; True when nothing differs.

    Prints one line for each thing that is checked: checksums where they are known, counts and classes.
    """
    from gplasc.streams.opening import open_stream

    info, argument = find_stream(name)
    lines: list[tuple[str, str]] = []
    if info.needs_download:
        found = _found(name, data_folder(data_dir))
        print(f"{name}: {printable(str(found), lines=False)}")
        lines += _checksum_lines(info, found)
    stream = open_stream(name, data_dir=data_dir, skip_corrupt=skip_corrupt)
    train = test = 0
    for task in stream:
        train += len(task.train)
        test += len(task.test)
        missing = sorted(set(task.classes) - set(task.test.y.tolist()))
        if missing:
            lines.append((DIFFERS, f"class {stream.class_names[missing[0]]!r} has no test image"))
    published = not argument
    for what, count, expected in (
        ("training images", train, info.train_images if published else None),
        ("test images", test, info.test_images if published else None),
        (
            "classes",
            stream.num_classes,
            info.tasks * info.classes_per_task if info.tasks and published else None,
        ),
    ):
        # A split made for each class rounds in each class: the total may differ by one for each of them.
        slack = stream.num_classes if info.counts_rounded and what != "classes" else 0
        good = expected is None or abs(count - expected) <= slack
        text = f"{count:,} {what}"
        lines.append((OK, text) if good else (DIFFERS, f"{text}, {expected:,} were published"))
    lines += [(NOTE, note) for note in stream.notes]
    for state, line in lines:
        print(f"{state:<8}{line}")
    return all(state != DIFFERS for state, _ in lines)


def show_data(
    name: str, path: str | Path, data_dir: str | Path | None = None, *, image_size: int | None = None
) -> Path:
    """Draw sample images of a stream, as they are and augmented, into a PNG file; return its path."""
    from gplasc.streams.opening import open_stream
    from gplasc.streams.preview import draw_preview

    written = draw_preview(open_stream(name, data_dir=data_dir, image_size=image_size), Path(path))
    print(written)
    return written


def _checksum_lines(info: StreamInfo, found: Path) -> list[tuple[str, str]]:
    known = info.known_checksums()
    files = [found] if found.is_file() else sorted(found / own for own in known if (found / own).is_file())
    lines = []
    for path in files:
        if path.name not in known:
            continue
        algorithm, _, expected = known[path.name].partition(":")
        with open_regular(path) as file:
            digest = hashlib.file_digest(file, partial(hashlib.new, algorithm, usedforsecurity=False))
        if digest.hexdigest() == expected:
            lines.append((OK, f"checksum of {path.name}"))
        elif path.name.endswith("ubyte.gz"):
            # Distributions compress these files anew; what they hold is counted below.
            lines.append(
                (NOTE, f"{path.name} is not compressed as published; its content is checked by counting")
            )
        else:
            lines.append((DIFFERS, f"checksum of {path.name}"))
    return lines


def _found(name: str, data_dir: Path | None) -> Path:
    info, argument = find_stream(name)
    if info.name == info.kind:
        return find_or_explain(info, data_dir)
    path = Path(argument).expanduser()
    if not path.exists():
        raise UserError(f"{path} does not exist; write {info.name} with a path that does")
    return path


def _where(info: StreamInfo, data_dir: Path | None) -> str:
    if info.layout is None:
        return "built in" if info.name == info.kind else "yours"
    found = find(info.layout, data_dir)
    return (
        printable(str(found), lines=False) if found is not None else f"not found: gplasc data get {info.name}"
    )
