"""Every stream from an imitation of its official layout, pixel for pixel."""

import gzip
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gplasc.errors import UserError
from gplasc.streams import open_stream
from gplasc.streams._cache import decode
from gplasc.streams.files import ImageFiles
from gplasc.streams.locate import cache_folder

LAYOUTS = ("cifar10_python", "cifar10_binary", "cifar100_python", "cifar100_binary")
ARCHIVES = {
    "cifar10_python": "cifar-10-python.tar.gz",
    "cifar10_binary": "cifar-10-binary.tar.gz",
    "cifar100_python": "cifar-100-python.tar.gz",
    "cifar100_binary": "cifar-100-binary.tar.gz",
}


def walk(stream):
    """Iterate a stream, checking what every stream promises; return all training pixels."""
    seen = []
    for index, task in enumerate(stream):
        assert task.index == index
        assert task.class_names == stream.class_names[task.classes.start : task.classes.stop]
        for samples in (task.train, task.test):
            assert samples.x.shape == (len(samples), *stream.image_shape)
            assert samples.x.dtype == torch.uint8
            assert set(samples.y.tolist()) == set(task.classes)
        seen.append(task.train.take(torch.arange(len(task.train))).x)
    assert len(set(stream.class_names)) == stream.num_classes
    assert len(stream.mean) == len(stream.std) == stream.image_shape[0]
    return torch.cat(seen)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("packed", [False, True])
def test_cifar(imitate, layout, packed):
    folder = getattr(imitate, layout)()
    if packed:
        imitate.tar(folder, ARCHIVES[layout])
    name = "seq-cifar10" if "cifar10_" in layout else "seq-cifar100"
    stream = open_stream(name, data_dir=imitate.root)
    pixels = walk(stream)
    assert stream.image_shape == (3, 32, 32)
    assert stream.classes_per_task == ((2,) * 5 if name == "seq-cifar10" else (20,) * 5)
    assert stream.class_names[1] == ("automobile" if name == "seq-cifar10" else "thing1")
    assert len(pixels) == (100 if name == "seq-cifar10" else 200)
    if name == "seq-cifar10":
        # The first image of class 0 in the first batch; channel planes, as published.
        first = np.random.default_rng(0).integers(0, 256, (20, 3072), dtype=np.uint8)[0].reshape(3, 32, 32)
        assert torch.equal(pixels[0], torch.from_numpy(first))


def test_both_cifar_layouts_give_the_same(imitate, tmp_path):
    imitate.cifar10_python()
    imitate.root = tmp_path / "binary"
    imitate.cifar10_binary()
    python, binary = (
        walk(open_stream("seq-cifar10", data_dir=tmp_path / place)) for place in ("data", "binary")
    )
    assert torch.equal(python, binary)


@pytest.mark.parametrize("as_given", ["folder", "archive", "parent"])
def test_data_dir_may_name_parent_folder_or_archive(imitate, as_given):
    folder = imitate.cifar10_binary()
    place = {"folder": folder, "parent": folder.parent}.get(as_given) or imitate.tar(folder, "renamed.tgz")
    assert len(open_stream("seq-cifar10", data_dir=place)) == 5


def test_where_data_is_looked_for(imitate, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"put cifar-10-python.tar.gz .*gplasc data get seq-cifar10"):
        open_stream("seq-cifar10")
    with pytest.raises(UserError, match="does not exist"):
        open_stream("seq-cifar10", data_dir=tmp_path / "nowhere")
    folder = imitate.cifar10_binary()
    monkeypatch.setenv("GPLASC_DATA", str(imitate.root))
    assert len(open_stream("seq-cifar10")) == 5
    monkeypatch.delenv("GPLASC_DATA")
    shutil.copytree(folder, cache_folder() / "data" / folder.name)
    assert len(open_stream("seq-cifar10")) == 5
    assert len(open_stream("seq-cifar10", data_dir=tmp_path)) == 5, "a place without the data is passed over"


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", ["seq-mnist", "seq-fashion"])
def test_idx_files(imitate, name, zipped):
    folder = {"seq-mnist": "mnist", "seq-fashion": "fashion-mnist"}[name]
    imitate.idx(folder, zipped=zipped)
    stream = open_stream(name, data_dir=imitate.root)
    assert len(walk(stream)) == 40
    assert stream.image_shape == (1, 28, 28)
    assert stream.class_names[1] == {"seq-mnist": "1", "seq-fashion": "Trouser"}[name]


def test_torchvision_places_idx_files_one_folder_deeper(imitate):
    imitate.idx("MNIST/raw", zipped=False)
    assert len(walk(open_stream("seq-mnist", data_dir=imitate.root))) == 40


def test_fashion_files_are_not_taken_for_mnist(imitate):
    folder = imitate.idx("mnist", zipped=False)
    path = folder / "train-labels-idx1-ubyte"
    content = bytearray(path.read_bytes())
    content[8:18] = bytes([9, 0, 0, 3, 0, 2, 7, 2, 5, 5])
    path.write_bytes(content)
    with pytest.raises(UserError, match="holds the files of seq-fashion, not of seq-mnist"):
        open_stream("seq-mnist", data_dir=imitate.root)


@pytest.mark.parametrize("packed", [False, True])
def test_tinyimagenet(imitate, packed):
    root = imitate.tiny()
    expected = np.array(Image.open(root / "train" / "n90000000" / "images" / "n90000000_1.JPEG"))
    if packed:
        imitate.zip(root, "tiny-imagenet-200.zip")
    stream = open_stream("seq-tinyimagenet", data_dir=imitate.root, classes_per_task=2)
    pixels = walk(stream)
    assert stream.image_shape == (3, 64, 64)
    # The order of wnids.txt, which is not sorted.
    assert stream.class_names == ("word00", "word99", "word98", "word97")
    assert [(len(task.train), len(task.test)) for task in stream] == [(6, 4), (6, 4)]
    assert torch.equal(pixels[1], torch.from_numpy(expected.transpose(2, 0, 1)))
    gray = pixels[0]
    assert torch.equal(gray[0], gray[1]), "a gray image has three equal channels"
    assert torch.equal(gray[0], gray[2])


@pytest.mark.parametrize("packed", [False, True])
def test_cub(imitate, packed):
    root = imitate.cub()
    picture = Image.open(root / "images" / "002.Bird_1" / "002.Bird_1_1.jpg").convert("RGB")
    expected = np.array(picture.resize((48, 48), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    if packed:
        imitate.tar(root, "CUB_200_2011.tgz")
    stream = open_stream("cub200", data_dir=imitate.root, classes_per_task=2, image_size=48)
    pixels = walk(stream)
    assert stream.class_names[-1] == "004.Bird_3", (
        "the blank at the end of classes.txt is not part of the name"
    )
    assert [(len(task.train), len(task.test)) for task in stream] == [(4, 4), (4, 4)]
    assert torch.equal(pixels[2], torch.from_numpy(expected))
    assert open_stream("cub200", data_dir=imitate.root).image_shape == (3, 224, 224)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["imagenet-r", "imagenet-a"])
def test_imagenet_variants(imitate, name, packed):
    root = imitate.imagenet(name)
    if packed:
        imitate.tar(root, f"{name}.tar", "w")
    stream = open_stream(name, data_dir=imitate.root, classes_per_task=2, image_size=32)
    walk(stream)
    assert [(len(task.train), len(task.test)) for task in stream] == [(8, 2), (8, 2)]
    assert stream.class_names[0] == "thing 0"
    # The split is a list that can be read, complete and without overlap, the same whatever the run's seed.
    lists = re.findall(r"\S+\.txt", stream.notes[0])
    train, test = (Path(path).read_text().split() for path in lists)
    assert (len(train), len(test)) == (16, 4)
    assert len({*train, *test}) == 20
    assert test == [
        "n01443530/art_2.jpg",
        "n01443531/art_4.jpg",
        "n01443532/art_2.jpg",
        "n01443533/art_1.jpg",
    ]
    again = open_stream(name, data_dir=imitate.root, classes_per_task=2, image_size=32, seed=9)
    assert torch.equal(again[1].test.x, stream[1].test.x)


def test_own_folder_with_a_seeded_split(imitate):
    root = imitate.folder(per_class=10)
    (root / "class0" / "notes.txt").write_text("not an image")
    (root / ".hidden").mkdir()
    stream = open_stream(f"folder:{root}", image_size=16)
    assert stream.classes_per_task == (2, 1)
    assert stream.class_names == ("class0", "class1", "class2")
    walk(stream)
    assert [(len(task.train), len(task.test)) for task in stream] == [(16, 4), (8, 2)]
    # All pictures are there once, whatever the seed; the seed decides which are for testing.
    other = open_stream(f"folder:{root}", image_size=16, seed=3)
    images = [
        {bytes(image.flatten().tolist()) for task in chosen for image in (*task.train.x, *task.test.x)}
        for chosen in (stream, other)
    ]
    assert images[0] == images[1]
    assert len(images[0]) == 30
    assert not torch.equal(stream[0].test.x, other[0].test.x)
    assert len(list((cache_folder() / "decoded").glob("folder-*px-*-*"))) == 1, "another seed decodes nothing"


def test_own_folder_with_train_and_test(imitate):
    imitate.folder("mine/train", per_class=4)
    imitate.folder("mine/test", per_class=2)
    stream = open_stream(f"folder:{imitate.root / 'mine'}", classes_per_task=3, image_size=16)
    walk(stream)
    assert (len(stream[0].train), len(stream[0].test)) == (12, 6)


def test_photographs_are_turned_upright(imitate):
    root = imitate.folder(classes=2, per_class=2)
    lying = Image.fromarray(np.repeat(np.arange(16, dtype=np.uint8)[:, None] * 16, 16, axis=1))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees to the right
    lying.save(root / "class0" / "0.png", exif=exif)
    lying.save(root / "class0" / "1.png")
    stream = open_stream(f"folder:{root}", image_size=16)
    both = torch.cat([stream[0].train.x[stream[0].train.y == 0], stream[0].test.x[stream[0].test.y == 0]])
    spread = sorted(float(image[0].float().std(0).mean()) for image in both)
    assert spread[0] < 1, "the turned one varies from left to right only"
    assert spread[1] > 50


@pytest.mark.parametrize("mode", ["RGBA", "P", "LA", "I;16", "1", "CMYK", "L"])
def test_all_kinds_of_images_become_rgb(imitate, mode):
    root = imitate.folder(classes=2, per_class=2)
    if mode == "I;16":
        image = Image.fromarray(np.full((8, 8), 128 * 256, dtype=np.uint16))
    else:
        gray = Image.new("RGB", (8, 8), (128, 128, 128))
        image = gray.quantize(2) if mode == "P" else gray.convert(mode)
    path = root / "class0" / ("0.jpg" if mode == "CMYK" else "0.png")
    (root / "class0" / "0.png").unlink()
    if mode == "P":
        image.save(path, transparency=b"\x80\xff")
    else:
        image.save(path)
    stream = open_stream(f"folder:{root}", image_size=8)
    both = torch.cat([stream[0].train.x, stream[0].test.x])
    flat = [image for image in both if mode == "1" or int(image.max()) - int(image.min()) <= 8]
    assert flat
    if mode != "1":
        assert abs(int(flat[0].float().mean()) - 128) <= 4


def test_npz(imitate):
    stream = open_stream(f"npz:{imitate.npz()}")
    assert len(walk(stream)) == 12
    assert stream.classes_per_task == (2, 2)
    assert stream.image_shape == (1, 8, 8)
    first = np.load(imitate.root / "mine.npz")["x_train"]
    assert stream.mean[0] == pytest.approx((first / 255).mean(), abs=1e-3)
    assert stream.std[0] == pytest.approx((first / 255).std(), abs=1e-3)


def test_npz_in_other_shapes_and_types(imitate):
    color = np.random.default_rng(0).random((12, 8, 6, 3))
    names = np.array(["cat", "ant", "bee", "dog"])
    imitate.npz(x_train=None, y_train=None, x_test=None, y_test=None, x=color, y=names[np.arange(12) % 4])
    stream = open_stream(f"npz:{imitate.root / 'mine.npz'}")
    assert stream.class_names == ("ant", "bee", "cat", "dog")
    assert stream.image_shape == (3, 8, 6)
    assert [(len(task.train), len(task.test)) for task in stream] == [(4, 2), (4, 2)]
    every = torch.cat([torch.cat([task.train.x, task.test.x]) for task in stream])
    expected = torch.from_numpy((color * 255).round().astype(np.uint8).transpose(0, 3, 1, 2))
    assert sorted(map(str, every.flatten(1).tolist())) == sorted(map(str, expected.flatten(1).tolist()))
    narrow = np.zeros((12, 1, 9, 3), np.uint8)  # both axes could be the channels: the last one wins
    imitate.npz(x_train=None, y_train=None, x_test=None, y_test=None, x=narrow, y=np.arange(12) % 4)
    assert open_stream(f"npz:{imitate.root / 'mine.npz'}").image_shape == (3, 1, 9)
    imitate.npz(class_names=names)
    assert open_stream(f"npz:{imitate.root / 'mine.npz'}").class_names == ("cat", "ant", "bee", "dog")


# ---------------------------------------------------------------- the cache of decoded images


def test_decoded_images_are_mapped_and_reused(imitate, monkeypatch):
    imitate.cub()
    first = open_stream("cub200", data_dir=imitate.root, classes_per_task=2, image_size=16)
    monkeypatch.setattr("gplasc.streams._cache.read_image", lambda *_: pytest.fail("decoded twice"))
    again = open_stream("cub200", data_dir=imitate.root, classes_per_task=2, image_size=16)
    for a, b in zip(first, again, strict=True):
        assert a.train.mapping is not None
        assert torch.equal(a.train.x, b.train.x)
    # Another order of classes does not lie in one piece: it is gathered, with the same pixels.
    mixed = open_stream(
        "cub200", data_dir=imitate.root, classes_per_task=2, image_size=16, class_order=[3, 0, 2, 1]
    )
    assert mixed[0].train.mapping is None
    assert torch.equal(mixed[0].train.x[2:], first[0].train.x[:2])
    assert torch.equal(mixed[0].train.x[:2], first[1].train.x[2:])
    # Many rows do not go into memory but into a file without a name.
    monkeypatch.setattr("gplasc.streams._storage.GATHERED_BYTES", 1000)
    del mixed
    settings = {
        "data_dir": imitate.root,
        "classes_per_task": 2,
        "image_size": 16,
        "class_order": [3, 0, 2, 1],
    }
    mixed = open_stream("cub200", **settings)
    before = sorted((cache_folder() / "decoded").rglob("*"))
    task = mixed[0]
    assert task.train.mapping is not None
    assert torch.equal(task.train.x[2:], first[0].train.x[:2])
    assert torch.equal(task.train.take(torch.arange(2)).x, first[1].train.x[2:])
    assert sorted((cache_folder() / "decoded").rglob("*")) == before


def test_writing_into_mapped_images_leaves_the_file_alone(imitate):
    imitate.cub()
    stream = open_stream("cub200", data_dir=imitate.root, classes_per_task=2, image_size=16)
    before = stream[0].train.take(torch.arange(2)).x
    stream[0].train.x.zero_()
    assert torch.equal(stream[0].train.x[:2], before), "a task read anew is unchanged"


def test_pages_are_given_back_and_read_again(imitate, monkeypatch):
    imitate.cub()
    stream = open_stream("cub200", data_dir=imitate.root, classes_per_task=4, image_size=64)
    monkeypatch.setattr("gplasc.streams._storage.RESIDENT_BYTES", 1000)
    train = stream[0].train
    index = torch.tensor([5, 1, 6])
    first = train.take(index)
    for _ in range(3):
        assert torch.equal(train.take(index).x, first.x)
    assert torch.equal(train.x[index], first.x)


def test_a_changed_folder_is_decoded_anew_and_the_old_pixels_go(imitate):
    root = imitate.folder(classes=2)
    stream = open_stream(f"folder:{root}", image_size=16)
    Image.new("RGB", (9, 9), (255, 0, 0)).save(root / "class1" / "0.png")
    (root / "class1" / "more.png").write_bytes((root / "class1" / "1.png").read_bytes())
    changed = open_stream(f"folder:{root}", image_size=16)
    every = torch.cat([changed[0].train.x, changed[0].test.x]).flatten(1).float()
    red = torch.tensor([255.0, 0.0, 0.0]).repeat_interleave(256)
    assert bool((every == red).all(1).any())
    assert not bool((torch.cat([stream[0].train.x, stream[0].test.x]).flatten(1).float() == red).all(1).any())
    kept = list((cache_folder() / "decoded").glob("folder-16px-*-*"))
    assert len(kept) == 2, "an open stream still reads the old pixels"
    long_ago = time.time() - 30 * 24 * 3600
    for folder in kept:
        os.utime(folder, (long_ago, long_ago))
    (root / "class1" / "more.png").unlink()
    open_stream(f"folder:{root}", image_size=16)
    assert len(list((cache_folder() / "decoded").glob("folder-16px-*-*"))) == 1, (
        "after weeks they are deleted"
    )
    open_stream(f"folder:{root}", image_size=8)
    assert len(list((cache_folder() / "decoded").glob("folder-*px-*-*"))) == 2, "another size has its own"


@pytest.mark.parametrize(
    "damage", ["cut", "longer", "no list", "cut list", "wrong list", "deep list", "no images"]
)
def test_a_damaged_cache_is_made_again(imitate, damage):
    root = imitate.folder(classes=2)
    expected = open_stream(f"folder:{root}", image_size=16)[0].train.take(torch.arange(3)).x
    (folder,) = (cache_folder() / "decoded").glob("folder-16px-*-*")
    images, skipped = folder / "images", folder / "skipped.json"
    if damage in ("cut", "longer"):
        images.write_bytes((images.read_bytes() + b"more")[: -9 if damage == "cut" else None])
    elif damage == "no images":
        images.unlink()
    elif damage == "no list":
        skipped.unlink()
    else:
        texts = {"cut list": "[1, 2", "wrong list": '[-1, "a", [2]]', "deep list": "[" * 100_000}
        skipped.write_text(texts[damage])
    assert torch.equal(open_stream(f"folder:{root}", image_size=16)[0].train.x[:3], expected)
    assert skipped.read_text() == "[]"


def test_two_processes_at_once_decode_once(imitate, tmp_path):
    root = imitate.folder(classes=2, per_class=30)
    code = (
        "import sys; import gplasc.streams._cache as c; from gplasc.streams import open_stream\n"
        "old = c._make\n"
        "def make(*a, **k):\n    print('made', flush=True); import time; time.sleep(0.5); return old(*a, **k)\n"
        "c._make = make\n"
        "s = open_stream('folder:' + sys.argv[1], image_size=64)\n"
        "print(int(s[0].train.x.sum()))"
    )
    command = [sys.executable, "-c", code, str(root)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    outputs = [process.communicate()[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("made" in output for output in outputs) == 1
    assert outputs[0][-1] == outputs[1][-1]
    leftovers = [path for path in (cache_folder() / "decoded").iterdir() if path.name.startswith(".")]
    assert leftovers == []


def test_a_failed_decoding_leaves_nothing_behind(imitate):
    root = imitate.folder(classes=2)
    (root / "class1" / "3.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"3\.png cannot be decoded"):
        open_stream(f"folder:{root}", image_size=16)
    names = [path.name for path in (cache_folder() / "decoded").iterdir()]
    assert [name for name in names if not name.endswith(".lock")] == []


def test_a_full_or_closed_cache_folder_is_one_sentence(imitate, tmp_path, monkeypatch):
    root = imitate.folder(classes=2)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPLASC_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="GPLASC_CACHE"):
        open_stream(f"folder:{root}")
    monkeypatch.setenv("GPLASC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 5, 5))
    with pytest.raises(UserError, match="make room"):
        open_stream(f"folder:{root}")


def test_skipped_images_are_reported_and_stay_an_error_without_the_flag(imitate):
    root = imitate.cub()
    bad = root / "images" / "002.Bird_1" / "002.Bird_1_1.jpg"
    bad.write_bytes(bad.read_bytes()[:200])
    settings = {"data_dir": imitate.root, "classes_per_task": 2, "image_size": 16}
    with pytest.raises(UserError, match=r"002\.Bird_1_1\.jpg cannot be decoded .*--skip-corrupt"):
        open_stream("cub200", **settings)
    for _ in range(2):  # the second time from the cache
        stream = open_stream("cub200", skip_corrupt=True, **settings)
        assert stream.notes[0] == "skipped 1 images that cannot be decoded: 002.Bird_1/002.Bird_1_1.jpg"
        assert stream.notes[1] == "the files hold 7 training and 8 test images, 11,788 were published"
        assert [(len(task.train), len(task.test)) for task in stream] == [(3, 4), (4, 4)]
        assert stream[0].train.y.tolist() == [0, 0, 1]
    with pytest.raises(UserError, match=r"002\.Bird_1_1\.jpg cannot be decoded"):
        open_stream("cub200", **settings)


def test_skipping_every_image_is_an_error(imitate):
    root = imitate.folder(classes=2, per_class=2)
    for path in root.rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(UserError, match="none of the 4 images"):
        open_stream(f"folder:{root}", skip_corrupt=True)


def test_decode_keeps_the_order_of_the_list(imitate):
    root = imitate.folder(classes=2, per_class=3)
    files = ["class1/2.png", "class0/0.png", "class1/0.png"]
    images, _, _ = decode("x", ImageFiles(root, [(file, 0, False) for file in files], ("a",)), 12)
    x, _ = images.read(slice(0, 3))
    for number, file in enumerate(files):
        image = Image.open(root / file).convert("RGB").resize((12, 12), Image.Resampling.BILINEAR)
        assert np.array_equal(x[number].numpy(), np.asarray(image).transpose(2, 0, 1))


def test_gzip_of_idx_is_recognized_by_content_not_name(imitate):
    folder = imitate.idx("mnist", zipped=True)
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.decompress(path.read_bytes()))
    assert len(walk(open_stream("seq-mnist", data_dir=imitate.root))) == 40


def test_streams_from_files_survive_pickling(imitate):
    imitate.cub()
    stream = open_stream("cub200", data_dir=imitate.root, classes_per_task=2, image_size=16)
    again = pickle.loads(pickle.dumps(stream))
    assert torch.equal(again[1].train.x, stream[1].train.x)
