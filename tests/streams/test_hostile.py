"""Small files that ask for much: memory, time, other programs. Each is refused with one sentence, or read safely."""

from __future__ import annotations

import errno
import gzip
import io
import os
import pickle
import shutil
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.calling import call

from gplasc.cli.data import _data
from gplasc.errors import UserError
from gplasc.streams import _archive as archive
from gplasc.streams import _pickles, open_stream
from gplasc.streams._archive import extract
from gplasc.streams.locate import cache_folder

from .conftest import loads, needs_proc, peak_megabytes


def refusal(stream: str | Path, **settings: object) -> str:
    with pytest.raises(UserError) as caught:
        open_stream(stream, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


TRY = """
import sys
from pathlib import Path
from gplasc.errors import UserError
try:
    {}
except UserError as error:
    print(error)
"""
OPEN = TRY.format("from gplasc.streams import open_stream; print(len(open_stream(sys.argv[1])[0].train))")
EXTRACT = TRY.format(
    "from gplasc.streams._archive import extract; extract(Path(sys.argv[1]), Path(sys.argv[2]))"
)

# ---------------------------------------------------------------------------------------------- pickles


def doubled_tuple(levels: int) -> bytes:
    """A tuple of twice the tuple before, again and again: a few bytes, 2 ** levels steps to hash."""
    content = b"\x80\x02}N\x85q\x00"
    for level in range(levels):
        content += b"h" + bytes([level]) + b"h" + bytes([level]) + b"\x86q" + bytes([level + 1])
    return content + b"K\x01s."


def doubled_list(levels: int, before: bytes, after: bytes) -> bytes:
    content = b"\x80\x02" + before + b"]q\x00"
    for level in range(levels):
        content += b"](h" + bytes([level]) + b"h" + bytes([level]) + b"eq" + bytes([level + 1])
    return content + after


RECONSTRUCT = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n"
PICKLES = {
    "doubled tuple": doubled_tuple(60),
    "deep tuple": b"\x80\x02}N\x85NN\x86" + b"\x85" * 100_000 + b"K\x01s.",
    "giant memory": b"\x80\x02]r\xff\xff\xff\x7f.",
    "giant bytes": b"\x80\x05\x96\xff\xff\xff\xff\x0f\x00\x00\x00.",
    "giant array": RECONSTRUCT + b"cnumpy\nndarray\nJ\xff\xff\xff\x7f\x85U\x01b\x87RNb.",
    "giant number": b"\x80\x02I" + b"9" * 100_000 + b"\n.",
    "state of a function by slots": b"\x80\x02cnumpy\ndtype\n(N}X\x08\x00\x00\x00functionNs\x86b.",
    "state of a function": RECONSTRUCT + b"}X\x0c\x00\x00\x00__defaults__)sb.",
    "tuple stored twice": b"\x80\x02" + b"N\x85q\x00q\x01h\x01h\x01\x86.",
}


@pytest.mark.parametrize("name", PICKLES)
def test_a_small_pickle_takes_no_time(name):
    start = time.process_time()
    with pytest.raises(UserError):
        loads(PICKLES[name])
    assert time.process_time() - start < 2


def test_names_that_would_take_forever_to_print_are_refused(imitate):
    folder = imitate.cifar10_python()
    names = b"X\x0b\x00\x00\x00label_names("
    content = doubled_list(60, b"}" + names, b"h\x3ch\x3ch\x3ch\x3ch\x3ch\x3ch\x3ch\x3ch\x3cls.")
    assert len(content) < 600
    assert len(loads(content)["label_names"]) == 70
    (folder / "batches.meta").write_bytes(content)
    assert "batches.meta names 0 classes" in refusal("seq-cifar10", data_dir=imitate.root)


def test_large_pickles_are_refused(imitate, monkeypatch):
    folder = imitate.cifar10_python()
    monkeypatch.setattr(_pickles, "_LARGEST", 1000)
    assert "data_batch_1 cannot be read: it has more than 1,000 bytes" in refusal(
        "seq-cifar10", data_dir=folder
    )
    encode = b"c_codecs\nencode\nq\x00X\x64\x00\x00\x00" + b"a" * 100 + b"q\x01\x85R0"
    repeated = b"\x80\x02" + encode + b"h\x00h\x01\x85R0" * 20 + b"}."  # 100 bytes again and again
    with pytest.raises(UserError, match="unusual encoding"):
        loads(repeated)


def test_a_pickle_that_uses_texts_and_types_twice_is_read():
    """What numpy and Python write themselves uses names, texts and types again and again."""
    array = np.arange(4, dtype=np.uint8)
    value = {"a": array, "b": array + 1, "c": ["text"] * 3, "d": (1, "text")}
    for protocol in range(6):
        read = loads(pickle.dumps(value, protocol=protocol))
        assert np.array_equal(read["b"], array + 1)
        assert read["c"] == ["text"] * 3


# ---------------------------------------------------------------------------------------------- archives


def tar_of(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return path


def zip_of(path: Path, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members:
            packed.writestr(name, content)
    return path


@pytest.mark.parametrize("pack", [tar_of, zip_of])
@pytest.mark.parametrize("limit", ["TOTAL_BYTES", "MEMBER_BYTES", "MEMBERS"])
def test_archives_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch, pack, limit):
    path = pack(tmp_path / "a.archive", *((f"folder/{number}", bytes(400_000)) for number in range(5)))
    assert path.stat().st_size < 20_000
    assert len(list(extract(path, tmp_path / "good").rglob("[0-4]"))) == 5
    monkeypatch.setattr(archive, limit, {"TOTAL_BYTES": 10**6, "MEMBER_BYTES": 10**5, "MEMBERS": 3}[limit])
    with pytest.raises(UserError, match=r"a\.archive unpacks to more than is allowed"):
        extract(path, tmp_path / "into")
    assert [entry.name for entry in (tmp_path / "into").iterdir() if entry.is_dir()] == []


@needs_proc
def test_a_tar_header_cannot_fill_the_memory(tmp_path):
    """A name of 400 MB in a file of 2 MB: tarfile would hold it in memory before a member is seen."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 400 * 2**20
    path = tmp_path / "a.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(16):
            file.write(bytes(25 * 2**20))
    printed, peak = peak_megabytes(EXTRACT, path, tmp_path / "into")
    assert "(a header is too large" in printed
    assert peak < 200


def test_a_tar_that_holds_a_file_twice_gives_the_last(tmp_path):
    path = tar_of(tmp_path / "a.tar.gz", ("folder/x", b"first"), ("folder/x", b"last"))
    assert (extract(path, tmp_path / "into") / "folder" / "x").read_bytes() == b"last"


def test_a_comment_in_a_zip_hides_no_member(tmp_path):
    """Two bytes of damage in the directory make the entry of the next member the comment of this one."""
    path = zip_of(tmp_path / "a.zip", ("folder/x", b"x"), ("folder/y", b"y"))
    content = bytearray(path.read_bytes())
    first = content.index(b"PK\x01\x02")
    content[first + 32] = content.index(b"PK\x05\x06") - content.index(b"PK\x01\x02", first + 1)
    path.write_bytes(content)
    with pytest.raises(UserError, match="'folder/x' is a link or has a comment"):
        extract(path, tmp_path / "into")


@pytest.mark.parametrize("method", [99, 9])
def test_unknown_compression_is_named(tmp_path, method):
    path = zip_of(tmp_path / "a.zip", ("folder/x", b"x" * 1000))
    content = bytearray(path.read_bytes())
    content[8] = content[content.index(b"PK\x01\x02") + 10] = method
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"a\.zip is damaged.*compression"):
        extract(path, tmp_path / "into")


def test_what_a_killed_process_left_is_removed(imitate, tmp_path):
    path = tar_of(tmp_path / "a.tar.gz", ("folder/x", b"x"))
    into = tmp_path / "into"
    name = extract(path, into).name
    shutil.rmtree(into / name)
    (into / f".{name}.0a1b2c3d.tmp" / "folder").mkdir(parents=True)
    extract(path, into)
    root = imitate.folder(classes=2)
    open_stream(f"folder:{root}", image_size=16)
    (folder,) = (cache_folder() / "decoded").glob("folder-16px-*-*")
    left = folder.with_name(f".{folder.name[:-16]}{'0' * 16}.0a1b2c3d.tmp")
    left.mkdir()
    (left / "images").write_bytes(b"half")
    (root / "class0" / "0.png").unlink()
    open_stream(f"folder:{root}", image_size=16)
    assert [entry for place in (into, folder.parent) for entry in place.glob(".*")] == []


# ---------------------------------------------------------------------------------------------- images


def test_only_image_formats_that_are_meant_are_opened(imitate):
    """An EPS file would start ghostscript."""
    root = imitate.folder(classes=2)
    Image.new("RGB", (8, 8)).save(root / "class0" / "0.png", format="EPS")
    assert "0.png cannot be decoded (cannot identify image file)" in refusal(f"folder:{root}")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_opened(imitate, kind):
    root = imitate.folder(classes=2)
    path = root / "class0" / "0.png"
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.symlink_to(root / "class1")
    # A link to a folder is no image file; the others are.
    if kind == "folder":
        assert len(open_stream(f"folder:{root}", image_size=8)[0].train) == 7
    else:
        assert "0.png cannot be decoded (it is not a regular file)" in refusal(f"folder:{root}")


def test_pipes_in_the_place_of_other_files_do_not_hang(imitate):
    folder = imitate.cifar10_binary()
    (folder / "data_batch_2.bin").unlink()
    os.mkfifo(folder / "data_batch_2.bin")
    assert "data_batch_2.bin cannot be read: it is not a regular file" in refusal(
        "seq-cifar10", data_dir=folder
    )
    os.mkfifo(imitate.root / "pipe.npz")
    assert "pipe.npz does not exist or is not a file" in refusal(imitate.root / "pipe.npz")
    root = imitate.cub()
    (root / "images.txt").unlink()
    os.mkfifo(root / "images.txt")
    assert "images.txt cannot be read: it is not a regular file" in refusal("cub200", data_dir=root)


def test_images_announce_their_size_before_they_are_decoded(imitate):
    root = imitate.folder(classes=2, per_class=3)
    Image.new("1", (9000, 9000)).save(root / "class0" / "0.png")
    text = refusal(f"folder:{root}")
    assert "0.png cannot be decoded (it has 9000 x 9000 pixels, at least one and at most 64 million" in text
    (root / "class0" / "0.png").write_bytes(b"\x89PNG" + bytes(100))
    with (root / "class0" / "0.png").open("ab") as file:
        file.truncate(2**30)  # a gigabyte that takes no room on the disk
    assert "it has more than 256 MB" in refusal(f"folder:{root}")


@needs_proc
def test_large_images_stay_within_memory(imitate):
    """As large as is allowed, decoded by threads: 62 megapixels are 190 MB as RGB, each with copies."""
    root = imitate.folder(classes=2, per_class=1)
    first = root / "class0" / "0.png"
    Image.new("RGBA", (7900, 7900), (1, 2, 3, 255)).save(first, compress_level=1)
    for number, name in enumerate(["class0", "class1"]):
        shutil.copy(first, root / name / f"more{number}.png")
    printed, peak = peak_megabytes(OPEN, f"folder:{root}")
    assert printed == "2"
    assert peak < 1100


# ---------------------------------------------------------------------------------------------- npz


@needs_proc
def test_an_npz_that_unpacks_to_too_much_is_refused(tmp_path):
    """400 MB of zeros in 2 MB."""
    path = tmp_path / "bomb.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (400, 1000, 1000)}
    )
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
        packed.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(16):
            member.write(bytes(25 * 10**6))
    printed, peak = peak_megabytes(OPEN, f"npz:{path}")
    assert "bomb.npz holds arrays of 2 MB that unpack to 400 MB, which is refused" in printed
    assert peak < 500


@needs_proc
@pytest.mark.parametrize("name", ["x", "x_train.npy"])
def test_a_member_that_is_not_read_does_not_explain_what_an_npz_unpacks_to(tmp_path, name):
    """A hundredth of them cannot be compressed, and makes the whole file look as large as they are allowed to be."""
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        packed.writestr("junk" if name == "x" else "x", np.random.default_rng(0).bytes(6 * 2**20))
        for other in ("x.npy", "y.npy") if name == "x" else (name, "y_train.npy", "x_test.npy", "y_test.npy"):
            header = io.BytesIO()
            shape = {"descr": "|u1", "fortran_order": False, "shape": (280, 1000, 1000)}
            np.lib.format.write_array_header_1_0(header, shape)
            packed.writestr(other, header.getvalue() + bytes(280 * 10**6 if other[0] == "x" else 4))
    printed, peak = peak_megabytes(OPEN, f"npz:{path}")
    assert "MB, which is refused" in printed
    assert peak < 500


def test_names_without_a_width_take_no_memory(imitate):
    """A hundred million texts of no characters have no content that explains them."""
    path = imitate.npz()
    header = io.BytesIO()
    shape = {"descr": "|S0", "fortran_order": False, "shape": (10**8,)}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(path, "a") as packed:
        packed.writestr("class_names.npy", header.getvalue())
    assert "an array has more values than bytes" in refusal(path)


def test_an_array_that_announces_more_than_it_has_is_refused(imitate):
    path = imitate.npz()
    header = io.BytesIO()
    shape = {"descr": "|u1", "fortran_order": False, "shape": (2**36, 8, 8)}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("x.npy", header.getvalue() + bytes(100))
        packed.writestr("y.npy", b"")
    assert "mine.npz cannot be read (" in refusal(path)


@pytest.mark.parametrize("kind", ["f2", "f8", "u1"])
def test_an_array_without_a_dimension_is_one_sentence(imitate, kind):
    path = imitate.npz()
    with np.load(path) as intact:
        np.savez(path, **(dict(intact) | {"x_train": np.array(0, kind)}))
    assert "x_train has the" in refusal(path)


def test_a_text_file_is_not_taken_for_pickled_objects(imitate):
    path = imitate.npz()
    for content in ("x, y\n1, 2\n", "PKxyz"):
        path.write_text(content)
        text = refusal(path)
        assert "pickle" not in text
        assert "mine.npz is not an npz file" in text or "mine.npz cannot be read" in text


def test_npz_with_any_byte_changed_is_read_or_refused(imitate):
    """Headers of zip and of numpy included: whatever is changed, there is a stream or one sentence."""
    path = imitate.npz()
    with zipfile.ZipFile(path) as packed:
        arrays = {name: packed.read(name) for name in packed.namelist()}
    content = path.read_bytes()
    random = np.random.default_rng(0)
    outcomes = {"read": 0, "refused": 0}

    def attempt() -> None:
        try:
            open_stream(path)
            outcomes["read"] += 1
        except UserError as error:
            outcomes["refused"] += "mine.npz" in str(error)

    for _ in range(150):
        changed = bytearray(content)
        changed[random.integers(len(content))] ^= 1 << random.integers(8)
        path.write_bytes(changed)
        attempt()
    for at in range(128):  # the header of numpy, with a checksum that fits
        changed = bytearray(arrays["x_train.npy"])
        changed[at] ^= 1 << random.integers(8)
        with zipfile.ZipFile(path, "w") as packed:
            for name, array in arrays.items():
                packed.writestr(name, bytes(changed) if name == "x_train.npy" else array)
        attempt()
    assert sum(outcomes.values()) == 150 + 128
    assert min(outcomes.values()) > 5


@pytest.mark.parametrize(("at", "value", "words"), [(8, 1, "password"), (10, 99, "compression")])
def test_locked_and_unknown_members_of_an_npz(imitate, at, value, words):
    path = imitate.npz()
    content = bytearray(path.read_bytes())
    start = 0
    while (start := content.find(b"PK\x01\x02", start + 1)) > 0:
        content[start + at] = value
    path.write_bytes(content)
    assert words in refusal(path)


def test_byte_strings_of_an_npz_become_text(imitate):
    names = np.array([b"cat", "Käse".encode(), b"\xff\xfe", b"dog"])
    assert open_stream(imitate.npz(class_names=names)).class_names == ("cat", "Käse", "\\xff\\xfe", "dog")
    stream = open_stream(imitate.npz(y_train=names[np.arange(12) % 4], y_test=names[np.arange(8) % 4]))
    assert stream.class_names == ("Käse", "cat", "dog", "\\xff\\xfe")


# ---------------------------------------------------------------------------------------------- folders


def test_class_folders_that_are_not_utf8(imitate, capsys):
    root = imitate.folder(classes=2)
    os.rename(os.fsencode(root / "class1"), os.fsencode(root) + b"/caf\xe9\n")  # noqa: PTH104
    stream = open_stream(f"folder:{root}", image_size=8)
    assert stream.class_names == ("caf\\xe9\\n", "class0")
    "".join(stream.class_names).encode()
    bad = os.fsencode(root) + b"/caf\xe9\n/0.png"
    Path(os.fsdecode(bad)).write_bytes(b"no image")
    text = refusal(f"folder:{root}", image_size=8)
    assert "caf\\xe9\\n/0.png cannot be decoded" in text
    stream = open_stream(f"folder:{root}", image_size=8, skip_corrupt=True)
    assert "caf\\xe9\\n/0.png" in stream.notes[0]
    outer = Path(os.fsdecode(os.fsencode(root.parent) + b"/\xff"))
    root.rename(outer)
    assert len(open_stream(f"folder:{outer}", image_size=8, skip_corrupt=True)) == 1
    _data("path", f"folder:{outer}")
    assert "\\xff" in capsys.readouterr().out


NAMES = ["\x1b[31mred", "\u202eback", "two\nlines", "K\u00e4se", "\U0001f41f"]


@pytest.mark.parametrize("name", NAMES)
def test_names_neither_change_the_terminal_nor_fail_on_it(imitate, name, monkeypatch):
    """A class has this name; the output is ASCII, once with all images and once with a damaged one."""
    root = imitate.folder(classes=2)
    (root / "class1").rename(root / name)
    for content in (None, b"no image"):
        if content:
            (root / name / "0.png").write_bytes(content)
        printed = io.BytesIO()
        for stream, errors in (("stdout", "strict"), ("stderr", "backslashreplace")):
            monkeypatch.setattr(sys, stream, io.TextIOWrapper(printed, "ascii", errors, write_through=True))
        code = call("data", "check" if content else "path", f"folder:{root}/{'' if content else name}")
        text = printed.getvalue().decode("ascii")
        assert code == (2 if content else 0), text
        assert text.isprintable() or text.count("\n") == 1
        assert "unexpected" not in text


def test_a_home_folder_that_does_not_exist_is_one_sentence(monkeypatch):
    for stream, more in (("folder:~nobody-here/img", {}), ("seq-cifar10", {"data_dir": "~nobody-here"})):
        assert "no home folder in the place of ~" in refusal(stream, **more)
    monkeypatch.setenv("GPLASC_CACHE", "~nobody-here")
    assert "no home folder" in refusal("seq-cifar10")


def test_a_folder_with_train_alone_is_split(imitate):
    imitate.folder("mine/train", classes=3)
    root = imitate.root / "mine"
    stream = open_stream(root, classes_per_task=3, image_size=8)
    assert stream.class_names == ("class0", "class1", "class2")
    assert (len(stream[0].train), len(stream[0].test)) == (12, 3)
    assert "has no test folder" in stream.notes[0]
    assert "held out for testing" in stream.notes[0]
    (root / "notes").mkdir()
    assert open_stream(root, image_size=8).class_names == stream.class_names


def test_classes_may_be_called_train_and_test(imitate):
    root = imitate.folder(classes=2)
    (root / "class0").rename(root / "train")
    (root / "class1").rename(root / "test")
    assert open_stream(root, image_size=8).class_names == ("test", "train")


@pytest.mark.parametrize("stream", ["folder", "seq-cifar10", "seq-tinyimagenet", "imagenet-r"])
def test_folders_without_permission_are_one_sentence(imitate, monkeypatch, stream):
    """The tests may run as root, whom nothing is forbidden: the system's answer is imitated."""
    closed = {
        "folder": lambda: imitate.folder() / "class1",
        "seq-cifar10": lambda: imitate.cifar10_binary() / "data_batch_1.bin",
        "seq-tinyimagenet": lambda: imitate.tiny() / "train" / "n90000000",
        "imagenet-r": lambda: imitate.imagenet(),
    }[stream]()
    for function in ("open", "scandir", "stat"):
        original = getattr(os, function)

        def forbidden(path=".", *arguments, original=original, **named):
            if not isinstance(path, int) and os.fspath(path).startswith(str(closed)):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return original(path, *arguments, **named)

        monkeypatch.setattr(os, function, forbidden)
    name = f"folder:{closed.parent}" if stream == "folder" else stream
    text = refusal(name, data_dir=None if stream == "folder" else imitate.root)
    assert "cannot be read: Permission denied" in text
    assert closed.name in text


# ---------------------------------------------------------------------------------------------- arguments


def test_a_stream_may_be_named_by_a_path(imitate):
    assert open_stream(imitate.npz()).name == f"npz:{imitate.root / 'mine.npz'}"
    stream = open_stream(imitate.folder(), image_size=8)
    assert stream.name == f"folder:{imitate.root / 'mine'}"


@pytest.mark.parametrize("wrong", [None, 3, b"seq-digits", ["seq-digits"], torch.zeros(1)])
def test_other_types_are_one_sentence(wrong):
    assert "a stream is named by text or a pathlib.Path" in refusal(wrong)
    assert "data_dir is a" in refusal("seq-digits", data_dir=3)


@pytest.mark.parametrize(
    "text", ["tasks=999999999,train=99999999", "size=" + "9" * 5000, "channels=2", "seed=x"]
)
def test_synthetic_streams_are_bounded(text):
    assert refusal(f"synthetic:{text}").startswith("synthetic:")


def test_a_zip_whose_headers_disagree_is_refused_in_a_short_sentence(tmp_path):
    """The zipfile module puts the name that it found into its message, and that may be 64 kB long."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("name", b"x" * 70_000)
    content = bytearray(path.read_bytes())
    content[26:28] = b"\xff\xff"  # the length of the name in the local header
    path.write_bytes(content)
    with pytest.raises(UserError, match="damaged, incomplete or refused") as caught:
        extract(path, tmp_path / "into")
    assert len(str(caught.value)) < 1000
