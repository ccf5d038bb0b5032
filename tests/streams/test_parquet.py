"""parquet:PATH, with files written by pyarrow in the layouts of Hugging Face."""

import io
import json
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from gplasc.errors import UserError
from gplasc.streams import decode, fingerprint, open_stream
from gplasc.streams.sources import parquet as source

from .conftest import needs_proc, peak_megabytes

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'gplasc[parquet]'")
pq = pytest.importorskip("pyarrow.parquet")


def image_bytes(value: int, size: int = 8, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (size, size), value if mode == "L" else (value, 0, 0)).save(file, "PNG")
    return file.getvalue()


def write(path, labels, *, nested=True, names=None, column="image", label="label", **image):
    contents = [image_bytes(10 * number, **image) for number in range(len(labels))]
    images = [{"bytes": content, "path": None} for content in contents] if nested else contents
    table = pa.table({column: images, label: labels})
    if names:
        about = {"info": {"features": {label: {"names": names, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(about)})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def test_train_and_test_files_in_a_folder(tmp_path):
    names = ["ant", "bee", "cat", "dog"]
    write(tmp_path / "data" / "train-00000-of-00002.parquet", [3, 2, 1, 0], names=names)
    write(tmp_path / "data" / "train-00001-of-00002.parquet", [0, 1, 2, 3], names=names)
    write(tmp_path / "data" / "test-00000-of-00001.parquet", [0, 1, 2, 3], names=names)
    stream = open_stream(f"parquet:{tmp_path}")
    assert (stream.class_names, stream.classes_per_task) == (tuple(names), (2, 2))
    assert stream[0].train.x[:, 0, 0, 0].tolist() == [30, 0, 20, 10]  # class 0 of both files, then class 1
    assert stream[1].test.y.tolist() == [2, 3]


@pytest.mark.parametrize("nested", [True, False])
def test_one_file_is_split_by_the_seed(tmp_path, nested):
    path = write(tmp_path / "all.parquet", ["b", "a"] * 5, nested=nested, column="img", mode="L")
    stream = open_stream(f"parquet:{path}", image_size=4)
    assert (stream.class_names, stream.image_shape) == (("a", "b"), (1, 4, 4))
    (task,) = stream
    assert (len(task.train), len(task.test)) == (8, 2)
    every = np.concatenate([task.train.x[:, 0, 0, 0].numpy(), task.test.x[:, 0, 0, 0].numpy()])
    assert sorted(every.tolist()) == [10 * number for number in range(10)]
    others = [open_stream(f"parquet:{path}", image_size=4, seed=seed)[0].test.x for seed in range(5)]
    assert any(not other.equal(task.test.x) for other in others)


def test_fingerprint_follows_the_content(tmp_path):
    first = fingerprint(f"parquet:{write(tmp_path / 'a.parquet', [0, 1] * 2)}")
    assert fingerprint(f"parquet:{write(tmp_path / 'b.parquet', [0, 1] * 2)}") == first
    assert fingerprint(f"parquet:{write(tmp_path / 'a.parquet', [1, 0] * 2)}") != first


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda folder: folder / "absent", "is no parquet file"),
        (lambda folder: write(folder / "a.parquet", [0, 1] * 2, label="kind"), "has the columns image, kind"),
        (lambda folder: write(folder / "a.parquet", [0.5, 1.5] * 2), "labels of type float64"),
        (lambda folder: write(folder / "a.parquet", [0, 0, 1]), "class 1 has one image"),
        (lambda folder: write(folder / "test.parquet", [0, 1]).parent, "no training files"),
        (lambda folder: damaged(folder / "a.parquet"), "cannot be read"),
        (lambda folder: no_image(folder / "a.parquet"), "image 0 cannot be decoded"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path, make, sentence):
    with pytest.raises(UserError, match=sentence):
        open_stream(f"parquet:{make(tmp_path)}")


def damaged(path):
    path.write_bytes(b"PAR1 and nothing else")
    return path


def no_image(path):
    pq.write_table(pa.table({"image": [b"no image"] * 2, "label": [0, 1]}), path)
    return path


def test_images_are_counted_one_by_one(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", [0, 1] * 5)
    monkeypatch.setattr(source, "_MOST_BYTES", 9 * 8 * 8 * 3)
    decoded = []
    original = decode.decode_image
    monkeypatch.setattr(
        decode, "decode_image", lambda *a, **named: decoded.append(1) or original(*a, **named)
    )
    with pytest.raises(UserError, match="decodes to more than"):
        open_stream(f"parquet:{path}")
    assert len(decoded) == 10


def test_a_file_that_unpacks_to_far_more_than_it_holds_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", [0, 1] * 5)
    monkeypatch.setattr(source, "_SMALL_BYTES", 10)
    monkeypatch.setattr(source, "_MOST_RATIO", 0)
    with pytest.raises(UserError, match="unpacks to more than"):
        open_stream(f"parquet:{path}")


OPEN_MANY = """
import sys
from gplasc.errors import UserError
from gplasc.streams import open_stream
for name in sys.argv[1:]:
    try:
        open_stream(f"parquet:{name}")
    except UserError:
        pass
print("still here")
"""


def test_no_damaged_statistics_end_the_process(tmp_path):
    """pyarrow ends the process when it is asked for a column whose statistics are damaged."""
    path = write(tmp_path / "a.parquet", [0, 1] * 2)
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    names = []
    for place in range(start, min(start + 700, len(content) - 8)):
        names.append(tmp_path / f"{place}.parquet")
        names[-1].write_bytes(content[:place] + bytes([content[place] ^ 1 << 2]) + content[place + 1 :])
    done = subprocess.run(
        [sys.executable, "-c", OPEN_MANY, *map(str, names)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "still here\n", done.stderr


BOMB = """
import sys
from gplasc.errors import UserError
from gplasc.streams import open_stream
for path in sys.argv[1:]:
    try:
        open_stream(f"parquet:{path}", image_size=8)
    except UserError as error:
        print(error)
"""


def black(size: int, mode: str) -> bytes:
    """A picture of `size` x `size` black pixels, whose file is a thousand times smaller."""
    file = io.BytesIO()
    Image.new(mode, (size, size)).save(file, "PNG")
    return file.getvalue()


BOMBS = {  # images and labels: a dictionary stores each value once
    "giant value": lambda: ([bytes(100 * 2**20)] * 40, [0, 1] * 20),
    "giant label": lambda: ([image_bytes(0)] * 40, ["a" * 60 * 2**20, "b" * 60 * 2**20] * 20),
    "many pixels": lambda: ([black(7900, "1")] * 100, [0, 1] * 50),
    "many rows": lambda: ([image_bytes(0)] * 1_000_000, [0, 1] * 500_000),
}


def write_bomb(path, images, labels):
    columns = {}
    for name, rows in (("image", images), ("label", labels)):
        numbers = {value: number for number, value in enumerate(dict.fromkeys(rows))}
        columns[name] = pa.DictionaryArray.from_arrays([numbers[value] for value in rows], list(numbers))
    pq.write_table(pa.table(columns), path, compression="zstd", use_dictionary=True, store_schema=False)
    return path


@needs_proc
def test_small_files_take_neither_time_nor_memory(tmp_path):
    """One process opens them all."""
    paths = [write_bomb(tmp_path / f"{name}.parquet", *make()) for name, make in BOMBS.items()]
    assert all(path.stat().st_size < 100_000 for path in paths)
    start = time.monotonic()
    printed, peak = peak_megabytes(BOMB, *paths)
    assert all(path.name in line for path, line in zip(paths, printed.splitlines(), strict=True))
    assert peak < 1500
    assert time.monotonic() - start < 60
