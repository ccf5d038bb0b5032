"""What stands behind `gplasc data list | path | get | check | show`."""

from __future__ import annotations

import importlib
from pathlib import Path

from gplasc.errors import UserError
from gplasc.streams.catalog import StreamInfo, find_stream, list_streams
from gplasc.streams.locate import Layout, find, not_found, search_places
from gplasc.streams.published import known_checksums, md5_of

OK, DIFFERS, NOTE = "ok", "DIFFERS", "note"


def list_data(data_dir: str | Path | None = None) -> None:
    """Print every stream, its shape, and where its files were found."""
    for info in list_streams():
        print(f"{info.name:<17} {info.shape:<16} {_where(info, _as_path(data_dir))}")
    print("searched: " + ", ".join(map(str, search_places(_as_path(data_dir)))))


def data_path(name: str, data_dir: str | Path | None = None) -> Path:
    """Print and return the folder or archive a stream is read from."""
    path = _found(name, _as_path(data_dir))
    print(path)
    return path


def get_data(name: str, data_dir: str | Path | None = None) -> list[Path]:
    """Download a data set from its publisher, print where it lies, and return the paths."""
    from gplasc.streams.download import download

    paths = download(name, _as_path(data_dir))
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
        found = _found(name, _as_path(data_dir))
        print(f"{name}: {found}")
        lines += _checksum_lines(name, found)
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
        # A split made per class rounds in each class: the total may differ by one for each of them.
        slack = stream.num_classes if info.reader == "imagenet_variants" and what != "classes" else 0
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


def _checksum_lines(name: str, found: Path) -> list[tuple[str, str]]:
    known = known_checksums(name)
    files = [found] if found.is_file() else sorted(found / own for own in known if (found / own).is_file())
    lines = []
    for file in files:
        if file.name not in known:
            continue
        if md5_of(file) == known[file.name]:
            lines.append((OK, f"checksum of {file.name}"))
        elif file.name.endswith("ubyte.gz"):
            # Distributions compress these files anew; what they hold is counted below.
            lines.append(
                (NOTE, f"{file.name} is not compressed as published; its content is checked by counting")
            )
        else:
            lines.append((DIFFERS, f"checksum of {file.name}"))
    return lines


def _layout(info: StreamInfo) -> Layout | None:
    layouts: dict[str, Layout] = getattr(
        importlib.import_module(f"gplasc.streams.{info.reader}"), "LAYOUTS", {}
    )
    return layouts.get(info.name)


def _found(name: str, data_dir: Path | None) -> Path:
    info, argument = find_stream(name)
    if argument and info.name.endswith(":PATH"):
        path = Path(argument).expanduser()
        if not path.exists():
            raise UserError(f"{path} does not exist; write {info.name} with a path that does")
        return path
    layout = _layout(info)
    if layout is None:
        raise UserError(f"{name} has no files: it comes with the library")
    found = find(layout, data_dir)
    if found is None:
        raise UserError(not_found(name, layout, data_dir))
    return found


def _where(info: StreamInfo, data_dir: Path | None) -> str:
    if not info.needs_download:
        return "yours" if info.name.endswith(":PATH") else "built in"
    layout = _layout(info)
    found = find(layout, data_dir) if layout is not None else None
    return str(found) if found is not None else f"not found: gplasc data get {info.name}"


def _as_path(data_dir: str | Path | None) -> Path | None:
    return None if data_dir is None else Path(data_dir).expanduser()
