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
from pathlib import Path

import numpy as np
import pytest

from gplasc.errors import UserError
from gplasc.streams import open_stream
from gplasc.streams.archive import extract
from gplasc.streams.unpickle import DamagedError, RefusedError, loads

# A case damages an imitation and returns the stream to open and the name that the sentence must hold.
Case = Callable[..., tuple[str, str]]
CASES: dict[str, Case] = {}
SETTINGS = {"classes_per_task": 2, "image_size": 16}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def cut(path: Path, keep: float = 0.6) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    return path


def flip(path: Path, at: int, bit: int = 0x40) -> Path:
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)
    return path


class Hostile:
    """Pickled, it asks for a call that would leave a trace in the current folder."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.what = (function, arguments)

    def __reduce__(self):
        return self.what


# ------------------------------------------------------------------------------- CIFAR, python batches


def batch(imitate, change: Callable[[dict], object], protocol: int = 2) -> tuple[str, str]:
    path = imitate.cifar10_python() / "data_batch_3"
    content = pickle.loads(path.read_bytes())
    path.write_bytes(pickle.dumps(change(content), protocol=protocol))
    return "seq-cifar10", "data_batch_3"


def raw_batch(imitate, content: bytes) -> tuple[str, str]:
    (imitate.cifar10_python() / "data_batch_3").write_bytes(content)
    return "seq-cifar10", "data_batch_3"


@case
def pickle_cut(imitate):
    cut(imitate.cifar10_python() / "data_batch_3")
    return "seq-cifar10", "data_batch_3"


@case
def pickle_cut_by_one_byte(imitate):
    path = imitate.cifar10_python() / "data_batch_3"
    path.write_bytes(path.read_bytes()[:-1])
    return "seq-cifar10", "data_batch_3"


@case
def pickle_empty(imitate):
    return raw_batch(imitate, b"")


@case
def pickle_flipped_in_its_first_instruction(imitate):
    flip(imitate.cifar10_python() / "data_batch_3", 2)
    return "seq-cifar10", "data_batch_3"


@case
def pickle_is_a_web_page(imitate):
    return raw_batch(imitate, b"<!DOCTYPE html><html><body>404 not found</body></html>")


@case
def pickle_is_json(imitate):
    return raw_batch(imitate, b'{"data": [], "labels": []}')


@case
def pickle_calls_os_system(imitate):
    return raw_batch(imitate, pickle.dumps(Hostile(os.system, "touch witness"), protocol=2))


@case
def pickle_calls_os_system_protocol_0(imitate):
    return raw_batch(imitate, pickle.dumps(Hostile(os.system, "touch witness"), protocol=0))


@case
def pickle_calls_os_system_protocol_5(imitate):
    return raw_batch(imitate, pickle.dumps(Hostile(os.system, "touch witness"), protocol=5))


@case
def pickle_calls_eval_inside_labels(imitate):
    code = "open('witness', 'w').close()"
    return batch(imitate, lambda b: {**b, b"labels": [Hostile(eval, code)]}, protocol=4)


@case
def pickle_calls_exec_before_a_good_batch(imitate):
    good = pickle.dumps({b"labels": [0], b"data": np.zeros((1, 3072), np.uint8)}, protocol=2)
    code = "open('witness', 'w').close()"
    bad = pickle.dumps(Hostile(exec, code), protocol=2)
    return raw_batch(imitate, bad[:-1] + b"0" + good[2:])  # POP, then the good one


@case
def pickle_uses_the_old_instance_instruction(imitate):
    return raw_batch(imitate, b"(S'touch witness'\nios\nsystem\n.")


@case
def pickle_uses_the_old_object_instruction(imitate):
    return raw_batch(imitate, b"(cos\nsystem\nS'touch witness'\no.")


@case
def pickle_uses_newobj(imitate):
    return raw_batch(imitate, b"\x80\x02csubprocess\nPopen\n(S'touch witness'\nt\x81.")


@case
def pickle_uses_newobj_on_an_allowed_name(imitate):
    return raw_batch(imitate, b"\x80\x02cnumpy\nndarray\n(I8\nt\x81.")


@case
def pickle_uses_an_extension_code(imitate):
    return raw_batch(imitate, b"\x80\x02\x82\x01.")


@case
def pickle_uses_a_persistent_id(imitate):
    return raw_batch(imitate, b"Pwitness\n.")


@case
def pickle_reaches_through_a_dotted_name(imitate):
    return raw_batch(imitate, b"\x80\x04\x8c\x05numpy\x8c\x12ndarray.__class__\x93.")


@case
def pickle_calls_something_else_of_numpy(imitate):
    return raw_batch(imitate, b"\x80\x02cnumpy\nsave\nX\x07\x00\x00\x00witnessI1\n\x86R.")


@case
def pickle_calls_a_value(imitate):
    return raw_batch(imitate, b"\x80\x02I1\nI2\n\x85R.")


@case
def pickle_rebuilds_another_type(imitate):
    return raw_batch(imitate, b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\n\x85R.")


@case
def pickle_sets_state_of_a_list(imitate):
    return raw_batch(imitate, b"\x80\x02]}b.")


@case
def pickle_holds_an_array_of_objects(imitate):
    return batch(imitate, lambda b: {**b, b"data": np.array([Hostile(os.system, "touch witness")])})


@case
def pickle_holds_a_set(imitate):
    return batch(imitate, lambda b: {**b, b"labels": {1, 2}}, protocol=4)


@case
def pickle_remembers_at_a_giant_place(imitate):
    return raw_batch(imitate, b"\x80\x02]r\xff\xff\xff\x7f.")


@case
def pickle_announces_a_giant_string(imitate):
    return raw_batch(imitate, b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.")


@case
def pickle_is_nested_very_deep(imitate):
    return raw_batch(imitate, b"\x80\x02}" + b")" + b"\x85" * 200_000 + b"I1\ns.")


@case
def pickle_pops_an_empty_stack(imitate):
    return raw_batch(imitate, b"\x80\x020.")


@case
def pickle_array_shorter_than_its_shape(imitate):
    content = pickle.dumps(np.zeros((2, 3072), np.uint8), protocol=2)
    return raw_batch(imitate, content.replace(b"K\x02M\x00\x0c", b"K\x03M\x00\x0c"))


@case
def pickle_holds_a_list(imitate):
    return batch(imitate, lambda _: [1, 2])


@case
def pickle_without_images(imitate):
    return batch(imitate, lambda b: {b"labels": b[b"labels"]})


@case
def pickle_with_images_of_another_size(imitate):
    return batch(imitate, lambda b: {**b, b"data": b[b"data"][:, :3000]})


@case
def pickle_with_float_images(imitate):
    return batch(imitate, lambda b: {**b, b"data": b[b"data"].astype(np.float32)})


@case
def pickle_with_too_few_labels(imitate):
    return batch(imitate, lambda b: {**b, b"labels": b[b"labels"][:-1]})


@case
def pickle_with_text_labels(imitate):
    return batch(imitate, lambda b: {**b, b"labels": [b"cat"] * len(b[b"labels"])})


@case
def pickle_with_a_label_too_large(imitate):
    return batch(imitate, lambda b: {**b, b"labels": [10] * len(b[b"labels"])})


@case
def pickle_with_a_giant_label(imitate):
    return batch(imitate, lambda b: {**b, b"labels": [10**40] * len(b[b"labels"])})


@case
def pickle_with_a_negative_label(imitate):
    return batch(imitate, lambda b: {**b, b"labels": [-1] * len(b[b"labels"])})


@case
def pickle_batch_missing(imitate):
    (imitate.cifar10_python() / "data_batch_3").unlink()
    return "seq-cifar10", "data_batch_3"


@case
def pickle_meta_with_nine_names(imitate):
    path = imitate.cifar10_python() / "batches.meta"
    path.write_bytes(pickle.dumps({b"label_names": [b"x%d" % i for i in range(9)]}))
    return "seq-cifar10", "batches.meta"


@case
def pickle_meta_missing(imitate):
    (imitate.cifar10_python() / "batches.meta").unlink()
    return "seq-cifar10", "batches.meta"


@case
def pickle_meta_hostile(imitate):
    path = imitate.cifar100_python() / "meta"
    path.write_bytes(pickle.dumps({"fine_label_names": Hostile(os.system, "touch witness")}))
    return "seq-cifar100", "meta"


@case
def pickle_of_the_other_cifar(imitate):
    folder = imitate.cifar100_python()
    shutil.copy(imitate.cifar10_python() / "data_batch_1", folder / "train")
    return "seq-cifar100", "train"


# ------------------------------------------------------------------------------- CIFAR, binary


@case
def binary_cut(imitate):
    cut(imitate.cifar10_binary() / "data_batch_2.bin", 0.53)
    return "seq-cifar10", "data_batch_2.bin"


@case
def binary_one_byte_longer(imitate):
    path = imitate.cifar10_binary() / "data_batch_2.bin"
    path.write_bytes(path.read_bytes() + b"\0")
    return "seq-cifar10", "data_batch_2.bin"


@case
def binary_empty(imitate):
    (imitate.cifar10_binary() / "test_batch.bin").write_bytes(b"")
    return "seq-cifar10", "test_batch.bin"


@case
def binary_label_flipped(imitate):
    flip(imitate.cifar10_binary() / "test_batch.bin", 3073)
    return "seq-cifar10", "test_batch.bin"


@case
def binary_missing(imitate):
    (imitate.cifar10_binary() / "data_batch_5.bin").unlink()
    return "seq-cifar10", "data_batch_5.bin"


@case
def binary_is_a_folder(imitate):
    path = imitate.cifar10_binary() / "data_batch_5.bin"
    path.unlink()
    path.mkdir()
    return "seq-cifar10", "data_batch_5.bin"


@case
def binary_names_missing(imitate):
    (imitate.cifar10_binary() / "batches.meta.txt").unlink()
    return "seq-cifar10", "batches.meta.txt"


@case
def binary_names_doubled(imitate):
    (imitate.cifar10_binary() / "batches.meta.txt").write_text("cat\n" * 10)
    return "seq-cifar10", "batches.meta.txt"


@case
def binary_fine_label_flipped(imitate):
    flip(imitate.cifar100_binary() / "train.bin", 1, 0x80)
    return "seq-cifar100", "train.bin"


# ------------------------------------------------------------------------------- archives


def cifar_archive(imitate) -> Path:
    return imitate.tar(imitate.cifar10_binary(), "cifar-10-binary.tar.gz")


def tar_with(imitate, member: tarfile.TarInfo, content: bytes = b"") -> tuple[str, str]:
    member.size = len(content)
    with tarfile.open(imitate.root / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.addfile(member, io.BytesIO(content))
    return "seq-cifar10", "cifar-10-binary.tar.gz"


def zip_with(imitate, member: str | zipfile.ZipInfo, content: bytes = b"x") -> tuple[str, str]:
    with zipfile.ZipFile(imitate.root / "tiny-imagenet-200.zip", "w") as archive:
        archive.writestr(member, content)
    return "seq-tinyimagenet", "tiny-imagenet-200.zip"


@case
def archive_cut(imitate):
    cut(cifar_archive(imitate))
    return "seq-cifar10", "cifar-10-binary.tar.gz"


@case
def archive_cut_at_its_very_end(imitate):
    path = cifar_archive(imitate)
    path.write_bytes(path.read_bytes()[:-4])
    return "seq-cifar10", "cifar-10-binary.tar.gz"


@case
def archive_empty(imitate):
    cifar_archive(imitate).write_bytes(b"")
    return "seq-cifar10", "cifar-10-binary.tar.gz"


@case
def archive_flipped_in_the_middle(imitate):
    path = cifar_archive(imitate)
    flip(path, path.stat().st_size // 2)
    return "seq-cifar10", "cifar-10-binary.tar.gz"


@case
def archive_checksum_flipped(imitate):
    flip(cifar_archive(imitate), -6)
    return "seq-cifar10", "cifar-10-binary.tar.gz"


@case
def archive_is_a_web_page(imitate):
    cifar_archive(imitate).write_bytes(b"<html>Please log in</html>" * 50)
    return "seq-cifar10", "cifar-10-binary.tar.gz"


@case
def archive_of_nothing(imitate):
    with tarfile.open(imitate.root / "cifar-10-binary.tar.gz", "w:gz"):
        pass
    return "seq-cifar10", "cifar-10-binary.tar.gz"


@case
def archive_of_something_else(imitate):
    return tar_with(imitate, tarfile.TarInfo("holiday/beach.txt"), b"sun")


@case
def tar_climbs_out(imitate):
    return tar_with(imitate, tarfile.TarInfo("../../witness"), b"x")


@case
def tar_climbs_out_in_the_middle(imitate):
    return tar_with(imitate, tarfile.TarInfo("cifar-10-batches-bin/../../../witness"), b"x")


@case
def tar_with_an_absolute_name(imitate):
    return tar_with(imitate, tarfile.TarInfo(str(Path.cwd() / "witness")), b"x")


@case
def tar_with_backslashes(imitate):
    return tar_with(imitate, tarfile.TarInfo("..\\..\\witness"), b"x")


@case
def tar_with_a_drive(imitate):
    return tar_with(imitate, tarfile.TarInfo("C:/witness"), b"x")


@case
def tar_with_a_symbolic_link_out(imitate):
    member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return tar_with(imitate, member)


@case
def tar_with_a_hard_link_out(imitate):
    member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    member.type, member.linkname = tarfile.LNKTYPE, "../../../etc/passwd"
    return tar_with(imitate, member)


@case
def tar_with_a_device(imitate):
    member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    member.type, member.devmajor, member.devminor = tarfile.CHRTYPE, 1, 5
    return tar_with(imitate, member)


@case
def tar_with_a_pipe(imitate):
    member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    member.type = tarfile.FIFOTYPE
    return tar_with(imitate, member)


@case
def tar_with_a_link_and_then_a_file_through_it(imitate):
    with tarfile.open(imitate.root / "cifar-10-binary.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("cifar-10-batches-bin")
        link.type, link.linkname = tarfile.SYMTYPE, str(Path.cwd())
        archive.addfile(link)
        member = tarfile.TarInfo("cifar-10-batches-bin/witness")
        archive.addfile(member, io.BytesIO(b""))
    return "seq-cifar10", "cifar-10-binary.tar.gz"


@case
def tar_holds_a_file_twice(imitate):
    with tarfile.open(imitate.root / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("cifar-10-batches-bin/x"), io.BytesIO(b""))
    return "seq-cifar10", "cifar-10-binary.tar.gz"


@case
def tar_announces_more_than_the_disk_holds(imitate):
    member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    member.size = 2**50
    (imitate.root / "cifar-10-binary.tar.gz").write_bytes(gzip.compress(member.tobuf() + bytes(2048)))
    return "seq-cifar10", "cifar-10-binary.tar.gz"


@case
def zip_climbs_out(imitate):
    return zip_with(imitate, "../../witness")


@case
def zip_with_an_absolute_name(imitate):
    return zip_with(imitate, str(Path.cwd() / "witness"))


@case
def zip_with_a_symbolic_link(imitate):
    member = zipfile.ZipInfo("tiny-imagenet-200/wnids.txt")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    return zip_with(imitate, member, b"/etc/passwd")


@case
def zip_cut(imitate):
    cut(imitate.zip(imitate.tiny(), "tiny-imagenet-200.zip"))
    return "seq-tinyimagenet", "tiny-imagenet-200.zip"


@case
def zip_content_flipped(imitate):
    path = imitate.zip(imitate.tiny(), "tiny-imagenet-200.zip")
    flip(path, path.read_bytes().index(b"\xff\xd9PK") - 20)
    return "seq-tinyimagenet", "tiny-imagenet-200.zip"


@case
def zip_empty(imitate):
    with zipfile.ZipFile(imitate.root / "tiny-imagenet-200.zip", "w"):
        pass
    return "seq-tinyimagenet", "tiny-imagenet-200.zip"


@case
def zip_with_a_password(imitate):
    zip_with(imitate, "tiny-imagenet-200/wnids.txt")
    path = imitate.root / "tiny-imagenet-200.zip"
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    return "seq-tinyimagenet", "tiny-imagenet-200.zip"


# ------------------------------------------------------------------------------- IDX


def idx(imitate, name: str, change: Callable[[bytes], bytes], zipped: bool = False) -> tuple[str, str]:
    path = imitate.idx(zipped=zipped) / (name + (".gz" if zipped else ""))
    path.write_bytes(change(path.read_bytes()))
    return "seq-mnist", path.name


IMAGES, LABELS = "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


@case
def idx_cut(imitate):
    return idx(imitate, IMAGES, lambda content: content[:-1])


@case
def idx_longer(imitate):
    return idx(imitate, IMAGES, lambda content: content + b"\0")


@case
def idx_empty(imitate):
    return idx(imitate, IMAGES, lambda _: b"")


@case
def idx_cut_in_the_header(imitate):
    return idx(imitate, IMAGES, lambda content: content[:9])


@case
def idx_of_another_type(imitate):
    return idx(imitate, IMAGES, lambda content: content[:2] + b"\x0d" + content[3:])


@case
def idx_with_a_flipped_length(imitate):
    return idx(imitate, IMAGES, lambda content: content[:4] + b"\x7f" + content[5:])


@case
def idx_is_text(imitate):
    return idx(imitate, LABELS, lambda _: b"0 1 2 3")


@case
def idx_label_too_large(imitate):
    return idx(imitate, LABELS, lambda content: content[:-1] + b"\x0a")


@case
def idx_fewer_labels_than_images(imitate):
    return idx(imitate, LABELS, lambda content: content[:7] + b"\x13" + content[8:-1])


@case
def idx_labels_in_the_place_of_images(imitate):
    folder = imitate.idx(zipped=False)
    shutil.copy(folder / "train-labels-idx1-ubyte", folder / IMAGES)
    return "seq-mnist", IMAGES


@case
def idx_of_smaller_images(imitate):
    return idx(
        imitate, IMAGES, lambda _: b"\0\0\x08\x03" + struct.pack(">3I", 40, 27, 27) + bytes(40 * 27 * 27)
    )


@case
def idx_missing(imitate):
    (imitate.idx() / f"{LABELS}.gz").unlink()
    return "seq-mnist", LABELS


@case
def idx_gzip_cut(imitate):
    return idx(imitate, IMAGES, lambda content: content[: len(content) // 2], zipped=True)


@case
def idx_gzip_flipped(imitate):
    return idx(
        imitate,
        IMAGES,
        lambda c: c[: len(c) // 2] + bytes([c[len(c) // 2] ^ 4]) + c[len(c) // 2 + 1 :],
        zipped=True,
    )


@case
def idx_gzip_checksum_flipped(imitate):
    return idx(imitate, IMAGES, lambda c: c[:-6] + bytes([c[-6] ^ 1]) + c[-5:], zipped=True)


# ------------------------------------------------------------------------------- folders of images


@case
def tiny_image_empty(imitate):
    next((imitate.tiny() / "train").rglob("*_1.JPEG")).write_bytes(b"")
    return "seq-tinyimagenet", "_1.JPEG"


@case
def tiny_image_cut(imitate):
    cut(imitate.tiny() / "val" / "images" / "val_3.JPEG", 0.5)
    return "seq-tinyimagenet", "val_3.JPEG"


@case
def tiny_image_is_text(imitate):
    (imitate.tiny() / "val" / "images" / "val_3.JPEG").write_text("hello")
    return "seq-tinyimagenet", "val_3.JPEG"


@case
def tiny_image_missing(imitate):
    (imitate.tiny() / "val" / "images" / "val_3.JPEG").unlink()
    return "seq-tinyimagenet", "val_3.JPEG"


@case
def tiny_without_a_class(imitate):
    shutil.rmtree(imitate.tiny() / "train" / "n89999999")
    return "seq-tinyimagenet", "n89999999"


@case
def tiny_class_list_empty(imitate):
    (imitate.tiny() / "wnids.txt").write_text("\n")
    return "seq-tinyimagenet", "wnids.txt"


@case
def tiny_class_list_doubled(imitate):
    (imitate.tiny() / "wnids.txt").write_text("n90000000\nn90000000\n")
    return "seq-tinyimagenet", "wnids.txt"


@case
def tiny_class_list_leads_out(imitate):
    (imitate.tiny() / "wnids.txt").write_text("../../secret\n")
    return "seq-tinyimagenet", "wnids.txt"


@case
def tiny_annotations_missing(imitate):
    (imitate.tiny() / "val" / "val_annotations.txt").unlink()
    return "seq-tinyimagenet", "val_annotations.txt"


@case
def tiny_annotations_of_an_unknown_class(imitate):
    (imitate.tiny() / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn00000001\t0\t0\t1\t1\n")
    return "seq-tinyimagenet", "val_annotations.txt"


@case
def tiny_annotations_lead_out(imitate):
    (imitate.tiny() / "val" / "val_annotations.txt").write_text("../../../x.JPEG\tn90000000\t0\n")
    return "seq-tinyimagenet", "val_annotations.txt"


@case
def cub_image_flipped_to_nonsense(imitate):
    path = imitate.cub() / "images" / "001.Bird_0" / "001.Bird_0_1.jpg"
    path.write_bytes(bytes(byte ^ 0xFF for byte in path.read_bytes()))
    return "cub200", "001.Bird_0_1.jpg"


@case
def cub_list_missing(imitate):
    (imitate.cub() / "train_test_split.txt").unlink()
    return "cub200", "train_test_split.txt"


@case
def cub_list_cut(imitate):
    cut(imitate.cub() / "train_test_split.txt", 0.5)
    return "cub200", "train_test_split.txt"


@case
def cub_list_is_binary(imitate):
    (imitate.cub() / "images.txt").write_bytes(b"\xff\xfe\x00\x81")
    return "cub200", "images.txt"


@case
def cub_list_leads_out(imitate):
    path = imitate.cub() / "images.txt"
    path.write_text(path.read_text().replace("1 001.Bird_0/", "1 ../../", 1))
    return "cub200", "images.txt"


@case
def cub_list_names_an_image_twice(imitate):
    path = imitate.cub() / "images.txt"
    path.write_text(path.read_text() + path.read_text())
    return "cub200", "images.txt"


@case
def cub_unknown_class(imitate):
    path = imitate.cub() / "image_class_labels.txt"
    path.write_text(path.read_text().replace("1 1\n", "1 77\n", 1))
    return "cub200", "image_class_labels.txt"


@case
def cub_split_neither_train_nor_test(imitate):
    path = imitate.cub() / "train_test_split.txt"
    path.write_text(path.read_text().replace("1 0\n", "1 2\n", 1))
    return "cub200", "train_test_split.txt"


@case
def imagenet_class_without_images(imitate):
    root = imitate.imagenet()
    shutil.rmtree(root / "n01443532")
    (root / "n01443532").mkdir()
    return "imagenet-r", "n01443532"


@case
def imagenet_without_classes(imitate):
    (imitate.root / "imagenet-a").mkdir()
    return "imagenet-a", "imagenet-a"


@case
def imagenet_image_cut(imitate):
    cut(imitate.imagenet() / "n01443532" / "art_3.jpg", 0.4)
    return "imagenet-r", "art_3.jpg"


@case
def folder_missing(imitate):
    return f"folder:{imitate.root / 'nowhere'}", "nowhere"


@case
def folder_is_a_file(imitate):
    (imitate.root / "file").write_text("")
    return f"folder:{imitate.root / 'file'}", "file"


@case
def folder_with_one_class(imitate):
    return f"folder:{imitate.folder(classes=1)}", "mine"


@case
def folder_with_a_class_of_one_image(imitate):
    root = imitate.folder()
    for path in list((root / "class1").iterdir())[1:]:
        path.unlink()
    return f"folder:{root}", "class1"


@case
def folder_with_a_png_flipped(imitate):
    path = imitate.folder() / "class1" / "2.png"
    flip(path, path.stat().st_size // 2)
    return f"folder:{imitate.root / 'mine'}", "2.png"


@case
def folder_with_a_link_to_nothing(imitate):
    root = imitate.folder()
    (root / "class1" / "2.png").unlink()
    (root / "class1" / "2.png").symlink_to(root / "nothing.png")
    return f"folder:{root}", "2.png"


@case
def folder_with_an_unknown_test_class(imitate):
    imitate.folder("mine/train")
    imitate.folder("mine/test", classes=4)
    return f"folder:{imitate.root / 'mine'}", "class3"


@case
def folder_with_an_image_bomb(imitate):
    """A few bytes that announce a picture of 3.6 gigapixels."""
    root = imitate.folder()
    header = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    (root / "class0" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk)
    return f"folder:{root}", "0.png"


# ------------------------------------------------------------------------------- npz


def npz(imitate, **changes: object) -> tuple[str, str]:
    return f"npz:{imitate.npz(**changes)}", "mine.npz"


@case
def npz_missing(imitate):
    return f"npz:{imitate.root / 'nothing.npz'}", "nothing.npz"


@case
def npz_empty(imitate):
    imitate.npz().write_bytes(b"")
    return f"npz:{imitate.root / 'mine.npz'}", "mine.npz"


@case
def npz_is_text(imitate):
    imitate.npz().write_text("x, y")
    return f"npz:{imitate.root / 'mine.npz'}", "mine.npz"


@case
def npz_cut(imitate):
    cut(imitate.npz())
    return f"npz:{imitate.root / 'mine.npz'}", "mine.npz"


@case
def npz_flipped(imitate):
    flip(imitate.npz(), 400)
    return f"npz:{imitate.root / 'mine.npz'}", "mine.npz"


@case
def npz_is_a_single_array(imitate):
    np.save(imitate.root / "one.npy", np.zeros(3))
    (imitate.root / "one.npy").rename(imitate.root / "one.npz")
    return f"npz:{imitate.root / 'one.npz'}", "one.npz"


@case
def npz_is_a_pickle(imitate):
    (imitate.root / "p.npz").write_bytes(pickle.dumps(Hostile(os.system, "touch witness")))
    return f"npz:{imitate.root / 'p.npz'}", "p.npz"


@case
def npz_with_hostile_objects(imitate):
    return npz(imitate, x_train=np.array([Hostile(os.system, "touch witness")] * 12, dtype=object))


@case
def npz_without_labels(imitate):
    return npz(imitate, y_train=None)


@case
def npz_with_other_names(imitate):
    return npz(imitate, x_train=None, y_train=None, x_test=None, y_test=None, a=np.zeros(3))


@case
def npz_with_flat_images(imitate):
    return npz(imitate, x_train=np.zeros((12, 64), np.uint8))


@case
def npz_with_seven_channels(imitate):
    return npz(imitate, x_train=np.zeros((12, 7, 8, 9), np.uint8))


@case
def npz_with_floats_up_to_255(imitate):
    return npz(imitate, x_train=np.full((12, 8, 8), 255.0))


@case
def npz_with_nan(imitate):
    return npz(imitate, x_train=np.full((12, 8, 8), np.nan))


@case
def npz_with_complex_numbers(imitate):
    return npz(imitate, x_train=np.zeros((12, 8, 8), np.complex64))


@case
def npz_with_negative_pixels(imitate):
    return npz(imitate, x_train=np.full((12, 8, 8), -3))


@case
def npz_with_too_few_labels(imitate):
    return npz(imitate, y_train=np.arange(11) % 4)


@case
def npz_with_float_labels(imitate):
    return npz(imitate, y_train=np.linspace(0, 3, 12))


@case
def npz_with_one_class(imitate):
    return npz(imitate, y_train=np.zeros(12, int), y_test=np.zeros(8, int))


@case
def npz_with_an_unknown_test_class(imitate):
    return npz(imitate, y_test=np.full(8, 9))


@case
def npz_with_test_images_of_another_size(imitate):
    return npz(imitate, x_test=np.zeros((8, 9, 9), np.uint8))


@case
def npz_with_too_few_names(imitate):
    return npz(imitate, class_names=np.array(["a", "b"]))


@case
def npz_without_images(imitate):
    return npz(imitate, x_train=np.zeros((0, 8, 8), np.uint8), y_train=np.zeros(0, int))


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
        "nested": {"a": (1, (2, b"three", "vier")), b"k": []},
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


def test_pickles_of_numpy_1():
    content = pickle.dumps(np.arange(5, dtype=np.int32), protocol=2)
    old = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    new = old.replace(b"numpy.core.multiarray", b"numpy._core.multiarray")
    assert np.array_equal(loads(old), np.arange(5))
    assert np.array_equal(loads(new), np.arange(5))


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
    assert read[b"data"].tolist() == [[250, 251, 252, 253], [254, 255, 0, 128]]
    assert read[b"labels"] == [3, 9]


def test_pickles_with_any_byte_changed_never_escape():
    """Whatever a flipped bit or a cut makes of a pickle, it is read, refused or called damaged: nothing else."""
    content = pickle.dumps({b"labels": [1, 2], b"data": np.arange(4, dtype=np.uint8)}, protocol=2)
    outcomes = {"read": 0, "refused": 0, "damaged": 0}
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
        except RefusedError:
            outcomes["refused"] += 1
        except DamagedError:
            outcomes["damaged"] += 1
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
    archive = cifar_archive(imitate)
    into = tmp_path / "unpacked"
    first = extract(archive, into)
    (first / "mark").write_text("")
    assert (extract(archive, into) / "mark").exists()
    os.utime(archive, (1, 1))
    assert not (extract(archive, into) / "mark").exists()
