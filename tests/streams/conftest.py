"""Small imitations of the official layouts; nothing here touches the user's own cache or data."""

from __future__ import annotations

import gzip
import pickle
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gplasc.streams._pickles import read_pickle

CIFAR10_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Every test has a cache folder of its own and no data folder."""
    monkeypatch.setenv("GPLASC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GPLASC_DATA", raising=False)


def pixels(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


class Imitations:
    """Writes official layouts below `root`, a few images of each class, and returns the folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def cifar10_python(self, per_batch: int = 20) -> Path:
        folder = self._folder("cifar-10-batches-py")
        names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
        for number, name in enumerate(names):
            batch = {
                b"batch_label": name.encode(),
                b"labels": [i % 10 for i in range(per_batch)],
                b"data": pixels(per_batch, 3072, seed=number),
                b"filenames": [b"x.png"] * per_batch,
            }
            (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
        meta = {b"num_cases_per_batch": per_batch, b"label_names": [n.encode() for n in CIFAR10_NAMES]}
        (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))
        return folder

    def cifar10_binary(self, per_batch: int = 20) -> Path:
        folder = self._folder("cifar-10-batches-bin")
        for number, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
            labels = (np.arange(per_batch) % 10).astype(np.uint8)[:, None]
            records = np.concatenate([labels, pixels(per_batch, 3072, seed=number)], axis=1)
            (folder / f"{name}.bin").write_bytes(records.tobytes())
        (folder / "batches.meta.txt").write_text("\n".join(CIFAR10_NAMES) + "\n\n")
        return folder

    def cifar100_python(self) -> Path:
        folder = self._folder("cifar-100-python")
        for number, (name, count) in enumerate((("train", 200), ("test", 100))):
            batch = {
                "fine_labels": [i % 100 for i in range(count)],
                "coarse_labels": [i % 20 for i in range(count)],
                "data": pixels(count, 3072, seed=number),
            }
            (folder / name).write_bytes(pickle.dumps(batch, protocol=4))
        names = [f"thing{i}" for i in range(100)]
        (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names}, protocol=4))
        return folder

    def cifar100_binary(self) -> Path:
        folder = self._folder("cifar-100-binary")
        for number, (name, count) in enumerate((("train", 200), ("test", 100))):
            fine = (np.arange(count) % 100).astype(np.uint8)[:, None]
            records = np.concatenate([fine // 5, fine, pixels(count, 3072, seed=number)], axis=1)
            (folder / f"{name}.bin").write_bytes(records.tobytes())
        (folder / "fine_label_names.txt").write_text("".join(f"thing{i}\n" for i in range(100)))
        return folder

    def idx(self, folder: str = "mnist", *, zipped: bool = True, first: int = 1) -> Path:
        target = self._folder(folder)
        for part, count in (("train", 40), ("t10k", 20)):
            labels = ((np.arange(count) + first) % 10).astype(np.uint8)
            for kind, array in (("images-idx3", pixels(count, 28, 28)), ("labels-idx1", labels)):
                content = idx_bytes(array)
                name = f"{part}-{kind}-ubyte" + (".gz" if zipped else "")
                (target / name).write_bytes(gzip.compress(content) if zipped else content)
        return target

    def tiny(self, classes: int = 4, train: int = 3, test: int = 2) -> Path:
        root = self._folder("tiny-imagenet-200")
        wnids = [f"n{90000000 - i}" for i in range(classes)]
        (root / "wnids.txt").write_text("".join(f"{wnid}\n" for wnid in wnids))
        (root / "words.txt").write_text("".join(f"{wnid}\tword{wnid[-2:]}, other\n" for wnid in wnids))
        (root / "val" / "images").mkdir(parents=True)
        lines = []
        for number, wnid in enumerate(wnids):
            (root / "train" / wnid / "images").mkdir(parents=True)
            (root / "train" / wnid / f"{wnid}_boxes.txt").write_text("0 0 1 1\n")
            for i in range(train):
                path = root / "train" / wnid / "images" / f"{wnid}_{i}.JPEG"
                picture(path, 64, 64, seed=number * 10 + i, mode="L" if i == 0 else "RGB")
            for i in range(test):
                name = f"val_{i * classes + number}.JPEG"
                picture(root / "val" / "images" / name, 64, 64, seed=99 + number * 10 + i)
                lines.append(f"{name}\t{wnid}\t0\t0\t62\t62\n")
        (root / "val" / "val_annotations.txt").write_text("".join(sorted(lines)))
        return root

    def cub(self, classes: int = 4, per_class: int = 4) -> Path:
        root = self._folder("CUB_200_2011")
        lines: dict[str, list[str]] = {"images": [], "image_class_labels": [], "train_test_split": []}
        names = [f"{number + 1:03d}.Bird_{number}" for number in range(classes)]
        # As in the official file, the last line ends with a blank.
        (root / "classes.txt").write_text(
            "".join(f"{i + 1} {name}\n" for i, name in enumerate(names))[:-1] + " \n"
        )
        identity = 0
        for number, name in enumerate(names):
            for i in range(per_class):
                identity += 1
                picture(root / "images" / name / f"{name}_{i}.jpg", 30 + i, 20 + number, seed=identity)
                lines["images"].append(f"{identity} {name}/{name}_{i}.jpg\n")
                lines["image_class_labels"].append(f"{identity} {number + 1}\n")
                lines["train_test_split"].append(f"{identity} {i % 2}\n")
        for name, content in lines.items():
            (root / f"{name}.txt").write_text("".join(content))
        return root

    def imagenet(self, name: str = "imagenet-r", classes: int = 4, per_class: int = 5) -> Path:
        root = self._folder(name)
        wnids = [f"n0144353{i}" for i in range(classes)]
        for number, wnid in enumerate(wnids):
            for i in range(per_class):
                picture(root / wnid / f"art_{i}.jpg", 40, 30, seed=number * 10 + i)
        (root / "README.txt").write_text("Classes:\n\n" + "".join(f"{w} thing {w[-1]}\n" for w in wnids))
        return root

    def folder(self, name: str = "mine", classes: int = 3, per_class: int = 5) -> Path:
        root = self._folder(name)
        for number in range(classes):
            for i in range(per_class):
                picture(root / f"class{number}" / f"{i}.png", 12, 10, seed=number * 10 + i)
        return root

    def npz(self, **changes: object) -> Path:
        arrays: dict[str, object] = {
            "x_train": pixels(12, 8, 8),
            "y_train": np.arange(12) % 4,
            "x_test": pixels(8, 8, 8, seed=1),
            "y_test": np.arange(8) % 4,
        }
        arrays.update(changes)
        path = self.root / "mine.npz"
        np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
        return path

    def tar(self, folder: Path, name: str, mode: str = "w:gz") -> Path:
        """Pack a folder and remove it, so that only the archive is left."""
        path = self.root / name
        with tarfile.open(path, mode) as archive:
            archive.add(folder, folder.name)
        self._remove(folder)
        return path

    def zip(self, folder: Path, name: str) -> Path:
        path = self.root / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(folder.rglob("*")):
                archive.write(file, file.relative_to(folder.parent))
        self._remove(folder)
        return path

    def _remove(self, folder: Path) -> None:
        import shutil

        shutil.rmtree(folder)

    def _folder(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(parents=True)
        return path


def idx_bytes(array: np.ndarray) -> bytes:
    return (
        struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    )


def picture(path: Path, width: int, height: int, *, seed: int, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)).save(path)


def loads(content: bytes) -> dict:
    """Return the value of a pickle that was written to a file."""
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        Path(file.name).write_bytes(content)
        return read_pickle(Path(file.name))


def peak_megabytes(code: str, *arguments: object) -> tuple[str, int]:
    """Run code in a process of its own; return what it printed and the most memory it had."""
    lines = "print(next(line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line))"
    words = [sys.executable, "-c", f"{code}\n{lines}", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    *printed, peak = done.stdout.splitlines()
    return "\n".join(printed), int(peak) // 1024


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured by /proc")


@pytest.fixture
def imitate(tmp_path) -> Imitations:
    root = tmp_path / "data"
    root.mkdir()
    return Imitations(root)
