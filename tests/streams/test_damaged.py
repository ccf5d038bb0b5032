"""Damaged, wrong and hostile files: each is refused with one sentence that names the file, and nothing of it runs."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gplasc.errors import UserError
from gplasc.streams import open_stream
from gplasc.streams._archive import extract

from .conftest import Imitations, loads

# A case damages an imitation and returns the stream to open and the name that the sentence must hold.
Case = Callable[..., tuple[str, str]]
Change = Callable[[Path], object] | bytes  # what is done to a file, or its new content
CASES: dict[str, Case] = {}
SETTINGS = {"classes_per_task": 2, "image_size": 16}
STREAMS = {
    "cifar10_python": "seq-cifar10",
    "cifar10_binary": "seq-cifar10",
    "cifar100_python": "seq-cifar100",
    "cifar100_binary": "seq-cifar100",
    "idx": "seq-mnist",
    "idx_plain": "seq-mnist",
    "tiny": "seq-tinyimagenet",
    "cub": "cub200",
    "imagenet": "imagenet-r",
}


def add(make: Callable[[Imitations], tuple[str, Path]], **changes: Change) -> None:
    """Add a case by each name; `make` writes a good input and returns the stream and what is to be changed."""

    def spoil(imitate: Imitations, change: Change) -> tuple[str, str]:
        stream, path = make(imitate)
        path.write_bytes(change) if isinstance(change, bytes) else change(path)
        return stream, path.name

    CASES.update({name: partial(spoil, change=change) for name, change in changes.items()})


def damage(layout: str, file: str, **changes: Change) -> None:
    """Add cases that change one file (or folder) of a layout."""

    def make(imitate: Imitations) -> tuple[str, Path]:
        plain = layout == "idx_plain"
        folder = imitate.idx(zipped=False) if plain else getattr(imitate, layout)()
        return STREAMS.get(layout, f"folder:{folder}"), folder / file

    add(make, **changes)


def cut(path: Path, keep: float = 0.6) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    return path


def flip(path: Path, at: int, bit: int = 0x40) -> Path:
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)
    return path


def edit(change: Callable[[bytes], bytes]) -> Change:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def replace(old: str, new: str) -> Change:
    return edit(lambda content: content.replace(old.encode(), new.encode(), 1))


class Hostile:
    """Pickled, it asks for a call that would leave a trace in the current folder."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.what = (function, arguments)

    def __reduce__(self):
        return self.what


# ------------------------------------------------------------------------------- CIFAR, python batches

CALL = Hostile(os.system, "touch witness")
CODE = "open('witness', 'w').close()"
GOOD = pickle.dumps({b"labels": [0], b"data": np.zeros((1, 3072), np.uint8)}, protocol=2)


def repickle(change: Callable[[dict], object], protocol: int = 2) -> Change:
    return edit(lambda content: pickle.dumps(change(pickle.loads(content)), protocol=protocol))


def relabel(label: object) -> Change:
    return repickle(lambda b: {**b, b"labels": [label] * len(b[b"labels"])})


damage(
    "cifar10_python",
    "data_batch_3",
    pickle_cut=cut,
    pickle_cut_by_one_byte=edit(lambda content: content[:-1]),
    pickle_empty=b"",
    pickle_flipped_in_its_first_instruction=lambda path: flip(path, 2),
    pickle_is_a_web_page=b"<!DOCTYPE html><html><body>404 not found</body></html>",
    pickle_is_json=b'{"data": [], "labels": []}',
    pickle_calls_os_system=pickle.dumps(CALL, protocol=2),
    pickle_calls_os_system_protocol_0=pickle.dumps(CALL, protocol=0),
    pickle_calls_os_system_protocol_5=pickle.dumps(CALL, protocol=5),
    pickle_calls_eval_inside_labels=repickle(lambda b: {**b, b"labels": [Hostile(eval, CODE)]}, protocol=4),
    pickle_calls_exec_before_a_good_batch=pickle.dumps(Hostile(exec, CODE), protocol=2)[:-1]
    + b"0"
    + GOOD[2:],
    pickle_uses_the_old_instance_instruction=b"(S'touch witness'\nios\nsystem\n.",
    pickle_uses_the_old_object_instruction=b"(cos\nsystem\nS'touch witness'\no.",
    pickle_uses_newobj=b"\x80\x02csubprocess\nPopen\n(S'touch witness'\nt\x81.",
    pickle_uses_newobj_on_an_allowed_name=b"\x80\x02cnumpy\nndarray\n(I8\nt\x81.",
    pickle_uses_an_extension_code=b"\x80\x02\x82\x01.",
    pickle_uses_a_persistent_id=b"Pwitness\n.",
    pickle_reaches_through_a_dotted_name=b"\x80\x04\x8c\x05numpy\x8c\x12ndarray.__class__\x93.",
    pickle_calls_something_else_of_numpy=b"\x80\x02cnumpy\nsave\nX\x07\x00\x00\x00witnessI1\n\x86R.",
    pickle_calls_a_value=b"\x80\x02I1\nI2\n\x85R.",
    pickle_rebuilds_another_type=b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\n\x85R.",
    pickle_sets_state_of_a_list=b"\x80\x02]}b.",
    pickle_holds_an_array_of_objects=repickle(lambda b: {**b, b"data": np.array([CALL])}),
    pickle_holds_a_set=repickle(lambda b: {**b, b"labels": {1, 2}}, protocol=4),
    pickle_remembers_at_a_giant_place=b"\x80\x02]r\xff\xff\xff\x7f.",
    pickle_announces_a_giant_string=b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.",
    pickle_is_nested_very_deep=b"\x80\x02}" + b")" + b"\x85" * 200_000 + b"I1\ns.",
    pickle_pops_an_empty_stack=b"\x80\x020.",
    pickle_array_shorter_than_its_shape=pickle.dumps(np.zeros((2, 3072), np.uint8), protocol=2).replace(
        b"K\x02M\x00\x0c", b"K\x03M\x00\x0c"
    ),
    pickle_holds_a_list=repickle(lambda _: [1, 2]),
    pickle_without_images=repickle(lambda b: {b"labels": b[b"labels"]}),
    pickle_with_images_of_another_size=repickle(lambda b: {**b, b"data": b[b"data"][:, :3000]}),
    pickle_with_float_images=repickle(lambda b: {**b, b"data": b[b"data"].astype(np.float32)}),
    pickle_with_too_few_labels=repickle(lambda b: {**b, b"labels": b[b"labels"][:-1]}),
    pickle_with_text_labels=relabel(b"cat"),
    pickle_with_a_label_too_large=relabel(10),
    pickle_with_a_giant_label=relabel(10**40),
    pickle_with_a_negative_label=relabel(-1),
    pickle_batch_missing=Path.unlink,
)
damage(
    "cifar10_python",
    "batches.meta",
    pickle_meta_with_nine_names=pickle.dumps({b"label_names": [b"x%d" % i for i in range(9)]}),
    pickle_meta_missing=Path.unlink,
)
damage("cifar100_python", "meta", pickle_meta_hostile=pickle.dumps({"fine_label_names": CALL}))
damage(
    "cifar100_python",
    "train",
    pickle_of_the_other_cifar=lambda path: shutil.copy(
        Imitations(path.parents[1]).cifar10_python() / "data_batch_1", path
    ),
)


# ------------------------------------------------------------------------------- CIFAR, binary


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


damage(
    "cifar10_binary",
    "data_batch_2.bin",
    binary_cut=lambda path: cut(path, 0.53),
    binary_one_byte_longer=edit(lambda content: content + b"\0"),
)
damage(
    "cifar10_binary", "test_batch.bin", binary_empty=b"", binary_label_flipped=lambda path: flip(path, 3073)
)
damage("cifar10_binary", "data_batch_5.bin", binary_missing=Path.unlink, binary_is_a_folder=make_folder)
damage(
    "cifar10_binary", "batches.meta.txt", binary_names_missing=Path.unlink, binary_names_doubled=b"cat\n" * 10
)
damage("cifar100_binary", "train.bin", binary_fine_label_flipped=lambda path: flip(path, 1, 0x80))


# ------------------------------------------------------------------------------- archives

INNER = "cifar-10-batches-bin/data_batch_1.bin"


def tar(imitate: Imitations) -> tuple[str, Path]:
    return "seq-cifar10", imitate.tar(imitate.cifar10_binary(), "cifar-10-binary.tar.gz")


def zip_(imitate: Imitations) -> tuple[str, Path]:
    return "seq-tinyimagenet", imitate.zip(imitate.tiny(), "tiny-imagenet-200.zip")


def tar_of(*members: tarfile.TarInfo | str | Callable[[], str], content: bytes = b"") -> Change:
    """Return a change that writes a tar of these members; a name may depend on the current folder."""

    def write(path: Path) -> None:
        with tarfile.open(path, "w:gz") as archive:
            for member in members:
                name = member() if callable(member) else member
                info = tarfile.TarInfo(name) if isinstance(name, str) else name
                info.size = len(content) if info.isreg() else 0
                archive.addfile(info, io.BytesIO(content))

    return write


def special(kind: bytes, link: str = "", name: str = INNER, **more: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    for key, value in more.items():
        setattr(member, key, value)
    return member


def zip_of(member: str | zipfile.ZipInfo | Callable[[], str], content: bytes = b"x") -> Change:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member() if callable(member) else member, content)

    return write


def giant() -> bytes:
    member = tarfile.TarInfo(INNER)
    member.size = 2**50
    return gzip.compress(member.tobuf() + bytes(2048))


def zip_link() -> zipfile.ZipInfo:
    member = zipfile.ZipInfo("tiny-imagenet-200/wnids.txt")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    return member


def lock_zip(path: Path) -> None:
    zip_of("tiny-imagenet-200/wnids.txt")(path)
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)


def here() -> str:
    return str(Path.cwd() / "witness")


add(
    tar,
    archive_cut=cut,
    archive_cut_at_its_very_end=edit(lambda content: content[:-4]),
    archive_empty=b"",
    archive_flipped_in_the_middle=lambda path: flip(path, path.stat().st_size // 2),
    archive_checksum_flipped=lambda path: flip(path, -6),
    archive_is_a_web_page=b"<html>Please log in</html>" * 50,
    archive_of_nothing=tar_of(),
    archive_of_something_else=tar_of("holiday/beach.txt", content=b"sun"),
    tar_climbs_out=tar_of("../../witness", content=b"x"),
    tar_climbs_out_in_the_middle=tar_of("cifar-10-batches-bin/../../../witness", content=b"x"),
    tar_with_an_absolute_name=tar_of(here, content=b"x"),
    tar_with_backslashes=tar_of("..\\..\\witness", content=b"x"),
    tar_with_a_drive=tar_of("C:/witness", content=b"x"),
    tar_with_a_symbolic_link_out=tar_of(special(tarfile.SYMTYPE, "/etc/passwd")),
    tar_with_a_hard_link_out=tar_of(special(tarfile.LNKTYPE, "../../../etc/passwd")),
    tar_with_a_device=tar_of(special(tarfile.CHRTYPE, devmajor=1, devminor=5)),
    tar_with_a_pipe=tar_of(special(tarfile.FIFOTYPE)),
    tar_with_a_link_and_then_a_file_through_it=lambda path: tar_of(
        special(tarfile.SYMTYPE, str(Path.cwd()), "cifar-10-batches-bin"), "cifar-10-batches-bin/witness"
    )(path),
    tar_announces_more_than_the_disk_holds=giant(),
)
add(
    zip_,
    zip_climbs_out=zip_of("../../witness"),
    zip_with_an_absolute_name=zip_of(here),
    zip_with_a_symbolic_link=zip_of(zip_link(), b"/etc/passwd"),
    zip_cut=cut,
    zip_content_flipped=lambda path: flip(path, path.read_bytes().index(b"\xff\xd9PK") - 20),
    zip_empty=lambda path: zipfile.ZipFile(path, "w").close(),
    zip_with_a_password=lock_zip,
)


# ------------------------------------------------------------------------------- IDX

IMAGES, LABELS = "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
damage(
    "idx_plain",
    IMAGES,
    idx_cut=edit(lambda content: content[:-1]),
    idx_longer=edit(lambda content: content + b"\0"),
    idx_empty=b"",
    idx_cut_in_the_header=edit(lambda content: content[:9]),
    idx_of_another_type=edit(lambda content: content[:2] + b"\x0d" + content[3:]),
    idx_with_a_flipped_length=edit(lambda content: content[:4] + b"\x7f" + content[5:]),
    idx_labels_in_the_place_of_images=lambda path: shutil.copy(path.parent / "train-labels-idx1-ubyte", path),
    idx_of_smaller_images=b"\0\0\x08\x03" + struct.pack(">3I", 40, 27, 27) + bytes(40 * 27 * 27),
)
damage(
    "idx_plain",
    LABELS,
    idx_is_text=b"0 1 2 3",
    idx_label_too_large=edit(lambda content: content[:-1] + b"\x0a"),
    idx_fewer_labels_than_images=edit(lambda content: content[:7] + b"\x13" + content[8:-1]),
    idx_missing=Path.unlink,
)
damage(
    "idx",
    f"{IMAGES}.gz",
    idx_gzip_cut=lambda path: cut(path, 0.5),
    idx_gzip_flipped=lambda path: flip(path, path.stat().st_size // 2, 4),
    idx_gzip_checksum_flipped=lambda path: flip(path, -6, 1),
)


# ------------------------------------------------------------------------------- folders of images

damage("tiny", "train/n90000000/images/n90000000_1.JPEG", tiny_image_empty=b"")
damage(
    "tiny",
    "val/images/val_3.JPEG",
    tiny_image_cut=lambda path: cut(path, 0.5),
    tiny_image_is_text=b"hello",
    tiny_image_missing=Path.unlink,
)
damage("tiny", "train/n89999999", tiny_without_a_class=shutil.rmtree)
damage(
    "tiny",
    "wnids.txt",
    tiny_class_list_empty=b"\n",
    tiny_class_list_doubled=b"n90000000\nn90000000\n",
    tiny_class_list_leads_out=b"../../secret\n",
)
damage(
    "tiny",
    "val/val_annotations.txt",
    tiny_annotations_missing=Path.unlink,
    tiny_annotations_of_an_unknown_class=b"val_0.JPEG\tn00000001\t0\t0\t1\t1\n",
    tiny_annotations_lead_out=b"../../../x.JPEG\tn90000000\t0\n",
)
damage(
    "cub",
    "images/001.Bird_0/001.Bird_0_1.jpg",
    cub_image_flipped_to_nonsense=edit(lambda content: bytes(byte ^ 0xFF for byte in content)),
)
damage(
    "cub",
    "train_test_split.txt",
    cub_list_missing=Path.unlink,
    cub_list_cut=lambda path: cut(path, 0.5),
    cub_split_neither_train_nor_test=replace("1 0\n", "1 2\n"),
)
damage(
    "cub",
    "images.txt",
    cub_list_is_binary=b"\xff\xfe\x00\x81",
    cub_list_leads_out=replace("1 001.Bird_0/", "1 ../../"),
    cub_list_names_an_image_twice=edit(lambda content: content * 2),
)
damage("cub", "image_class_labels.txt", cub_unknown_class=replace("1 1\n", "1 77\n"))
damage(
    "imagenet",
    "n01443532",
    imagenet_class_without_images=lambda path: [file.unlink() for file in path.iterdir()],
)
damage("imagenet", "n01443532/art_3.jpg", imagenet_image_cut=lambda path: cut(path, 0.4))
HEADER = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)  # of a picture of 3.6 gigapixels
BOMB = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + HEADER + struct.pack(">I", zlib.crc32(HEADER))
damage(
    "folder",
    "class1/2.png",
    folder_with_a_png_flipped=lambda path: flip(path, path.stat().st_size // 2),
    folder_with_a_link_to_nothing=lambda path: (path.unlink(), path.symlink_to(path.parent / "nothing.png")),
    folder_with_an_image_bomb=BOMB,
)
damage(
    "folder",
    "class1",
    folder_with_a_class_of_one_image=lambda path: [file.unlink() for file in list(path.iterdir())[1:]],
)


def place(stream: str, file: str) -> Callable[[Imitations], tuple[str, Path]]:
    """Nothing is written yet; ROOT in the name of the stream is the folder of the imitations."""
    return lambda imitate: (stream.replace("ROOT", str(imitate.root)), imitate.root / file)


def train_and_test(path: Path) -> None:
    for number, part in enumerate(("train", "test")):
        Imitations(path.parents[2]).folder(f"mine/{part}", classes=3 + number)


add(place("imagenet-a", "imagenet-a"), imagenet_without_classes=Path.mkdir)
add(place("folder:ROOT/nowhere", "nowhere"), folder_missing=lambda path: None, folder_is_a_file=b"")
add(
    place("folder:ROOT/mine", "mine"),
    folder_with_one_class=lambda path: Imitations(path.parent).folder(classes=1),
)
add(place("folder:ROOT/mine", "mine/test/class3"), folder_with_an_unknown_test_class=train_and_test)


# ------------------------------------------------------------------------------- npz


def npz(imitate: Imitations) -> tuple[str, Path]:
    path = imitate.npz()
    return f"npz:{path}", path


def arrays(**changed: object) -> Change:
    return lambda path: Imitations(path.parent).npz(**changed)


def single(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


NO_ARRAYS = dict.fromkeys(("x_train", "y_train", "x_test", "y_test"))
add(
    npz,
    npz_missing=Path.unlink,
    npz_empty=b"",
    npz_is_text=b"x, y",
    npz_cut=cut,
    npz_flipped=lambda path: flip(path, 400),
    npz_is_a_single_array=single,
    npz_is_a_pickle=pickle.dumps(CALL),
    npz_with_hostile_objects=arrays(x_train=np.array([CALL] * 12, dtype=object)),
    npz_without_labels=arrays(y_train=None),
    npz_with_other_names=arrays(**NO_ARRAYS, a=np.zeros(3)),
    npz_with_flat_images=arrays(x_train=np.zeros((12, 64), np.uint8)),
    npz_with_seven_channels=arrays(x_train=np.zeros((12, 7, 8, 9), np.uint8)),
    npz_with_floats_up_to_255=arrays(x_train=np.full((12, 8, 8), 255.0)),
    npz_with_nan=arrays(x_train=np.full((12, 8, 8), np.nan)),
    npz_with_complex_numbers=arrays(x_train=np.zeros((12, 8, 8), np.complex64)),
    npz_with_negative_pixels=arrays(x_train=np.full((12, 8, 8), -3)),
    npz_with_too_few_labels=arrays(y_train=np.arange(11) % 4),
    npz_with_float_labels=arrays(y_train=np.linspace(0, 3, 12)),
    npz_with_one_class=arrays(y_train=np.zeros(12, int), y_test=np.zeros(8, int)),
    npz_with_an_unknown_test_class=arrays(y_test=np.full(8, 9)),
    npz_with_test_images_of_another_size=arrays(x_test=np.zeros((8, 9, 9), np.uint8)),
    npz_with_too_few_names=arrays(class_names=np.array(["a", "b"])),
    npz_without_images=arrays(x_train=np.zeros((0, 8, 8), np.uint8), y_train=np.zeros(0, int)),
)


# ------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("name", sorted(CASES))
def test_damage_is_one_clear_sentence(name, imitate, monkeypatch, tmp_path):
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    stream, file = CASES[name](imitate)
    settings = dict(SETTINGS)
    if not stream.startswith(("folder", "cub", "imagenet", "seq-tiny")):
        settings.pop("image_size")
    with pytest.raises(UserError) as caught:
        open_stream(stream, data_dir=None if ":" in stream else imitate.root, **settings)
    sentence = str(caught.value)
    assert file in sentence
    assert "\n" not in sentence
    assert len(sentence) < 400
    written = list(tmp_path.rglob("witness*"))
    assert written == [], "something of the file was run or written"
    assert list(place.iterdir()) == []
    unpacked = tmp_path / "cache" / "unpacked"
    if unpacked.exists() and name != "archive_of_something_else":
        assert [path.name for path in unpacked.iterdir() if not path.name.endswith(".lock")] == []


def test_there_are_at_least_fifty():
    assert len(CASES) >= 50


# ------------------------------------------------------------------------------- pickles that are good


@pytest.mark.parametrize("protocol", range(6))
def test_good_pickles_of_every_protocol(protocol):
    value = {
        "data": np.arange(12, dtype=np.uint8).reshape(3, 4),
        "wide": np.arange(6, dtype=">i4").reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "labels": [1, 2, -3, 10**20, True, None, 0.5],
        "number": np.int64(7),
        "nested": {"a": [1, [2, b"three", "vier"]], b"k": []},
        "tuple": (1, (2, b"three", "vier"), ()),
        "empty": b"",
        "bytes": bytes(range(256)),
    }
    read = loads(pickle.dumps(value, protocol=protocol))
    assert set(read) == set(value)
    for key in ("data", "wide", "fortran"):
        assert np.array_equal(read[key], value[key])
        assert read[key].dtype.newbyteorder("=") == value[key].dtype.newbyteorder("=")
    for key in ("labels", "number", "nested", "empty", "bytes"):
        assert read[key] == value[key]
    assert read["tuple"] == [1, [2, b"three", "vier"], []], "tuples are read as lists, which cannot be hashed"


def test_pickles_of_numpy_1():
    content = pickle.dumps({"a": np.arange(5, dtype=np.int32)}, protocol=2)
    old = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    new = old.replace(b"numpy.core.multiarray", b"numpy._core.multiarray")
    assert np.array_equal(loads(old)["a"], np.arange(5))
    assert np.array_equal(loads(new)["a"], np.arange(5))


def test_pickles_of_python_2():
    """As the official batches were written: text as byte strings, the array's bytes as one of them."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    pixels = bytes(range(250, 256)) + b"\x00\x80"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
        + text(b"b")
        + b"\x87R(K\x01K\x02K\x04\x86cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + struct.pack("<I", len(pixels))
        + pixels
        + b"tb"
    )
    content = b"\x80\x02}(" + text(b"data") + array + text(b"labels") + b"](K\x03K\x09eu."
    assert pickle.loads(content, encoding="bytes")[b"data"].tolist() == [
        [250, 251, 252, 253],
        [254, 255, 0, 128],
    ]
    read = loads(content)
    assert read["data"].tolist() == [[250, 251, 252, 253], [254, 255, 0, 128]]
    assert read["labels"] == [3, 9]


def test_pickles_with_any_byte_changed_never_escape():
    """Whatever a flipped bit or a cut makes of a pickle, it is read or refused: nothing else."""
    content = pickle.dumps({b"labels": [1, 2], b"data": np.arange(4, dtype=np.uint8)}, protocol=2)
    outcomes = {"read": 0, "refused": 0}
    changed = [content[:end] for end in range(len(content))]
    changed += [
        content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
        for at in range(len(content))
        for bit in range(8)
    ]
    for candidate in changed:
        try:
            loads(candidate)
            outcomes["read"] += 1
        except UserError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 10


def test_archives_with_any_byte_changed_never_escape(imitate, tmp_path):
    """A flipped bit in an uncompressed tar may go unseen in the pixels, but nothing is ever written elsewhere."""
    source = imitate.root / "sub" / "folder"
    source.mkdir(parents=True)
    (source / "file").write_bytes(b"content")
    archive = imitate.root / "a.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(imitate.root / "sub", "sub")
    content = archive.read_bytes()
    before = {path for path in tmp_path.rglob("*") if "cache" not in path.parts}
    refused = 0
    for at in range(0, 2048, 7):
        changed = imitate.root / "a.tar"
        changed.write_bytes(content[:at] + bytes([content[at] ^ 0x21]) + content[at + 1 :])
        os.utime(changed, (at + 1, at + 1))
        try:
            extract(changed, tmp_path / "cache" / "unpacked")
        except UserError as error:
            refused += "a.tar" in str(error)
    assert refused > 100
    assert {path for path in tmp_path.rglob("*") if "cache" not in path.parts} == before


def test_an_archive_is_unpacked_once_and_anew_when_it_changed(imitate, tmp_path):
    archive = imitate.tar(imitate.cifar10_binary(), "cifar-10-binary.tar.gz")
    into = tmp_path / "unpacked"
    first = extract(archive, into)
    (first / "mark").write_text("")
    assert (extract(archive, into) / "mark").exists()
    os.utime(archive, (1, 1))
    assert not (extract(archive, into) / "mark").exists()
