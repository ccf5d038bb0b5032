"""Streams from data sets in the style of torchvision and of Hugging Face's datasets."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from gplasc.errors import UserError
from gplasc.streams import arrays, decode, from_dataset
from gplasc.streams.decode import as_image, decode_image, read_image

from .conftest import picture


class Pairs:
    """Four classes, labels 10 to 13; every pixel of an image has the value 20 * class + number."""

    classes = ("ant", "bee", "cat", "dog")

    def __init__(self, count: int, kind: str = "pil", channels: int = 3, size: int = 6) -> None:
        self.count, self.kind, self.channels, self.size = count, kind, channels, size

    def __len__(self) -> int:
        return 4 * self.count

    def __getitem__(self, index: int):
        number, label = divmod(index, 4)
        pixels = np.full((self.size, self.size, self.channels), 20 * label + number, np.uint8)
        if self.kind == "tensor":
            return torch.from_numpy(pixels).permute(2, 0, 1), 10 + label
        image = Image.fromarray(pixels.squeeze())
        return {"image": image, "label": 10 + label} if self.kind == "dict" else (image, 10 + label)


@pytest.mark.parametrize("kind", ["pil", "tensor", "dict"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_image_and_label_arrives(kind, channels):
    stream = from_dataset(Pairs(3, kind, channels), Pairs(2, kind, channels), classes_per_task=2)
    assert (stream.classes_per_task, stream.image_shape) == ((2, 2), (channels, 6, 6))
    assert stream.class_names == Pairs.classes
    for task in stream:
        for split, count in ((task.train, 3), (task.test, 2)):
            values = sorted(zip(split.y.tolist(), split.x[:, -1, 0, 5].tolist(), strict=True))
            assert values == [
                (label, 20 * label + number) for label in task.classes for number in range(count)
            ]
    every = torch.cat([task.train.x for task in stream]).double() / 255
    assert stream.mean == pytest.approx([round(float(every.mean()), 4)] * channels)


def test_images_are_resized_where_asked():
    assert from_dataset(Pairs(2), Pairs(2, size=9), image_size=5).image_shape == (3, 5, 5)


@pytest.mark.parametrize(
    ("train", "more", "sentence"),
    [
        (Pairs(2, size=9), {}, "set image_size"),
        ([(np.zeros((4, 4)), 0)], {}, "give images as uint8"),
        ([1, 2], {}, "an image and a label"),
        ([(np.zeros((4, 4), np.uint8), 10**400)], {}, "a label of 64 bits"),
        ([(np.zeros((4, 4), np.uint8), float("inf"))], {}, "a label of 64 bits"),
        ([(torch.zeros(4, 4, dtype=torch.uint8, device="meta"), 0)], {}, "a dense one with content"),
        ([(torch.zeros(4, 4, dtype=torch.uint8).to_sparse(), 0)], {}, "a dense one with content"),
        (None, {}, "without len"),
        (iter([]), {}, "without len"),
        (Pairs(2), {"image_size": "8"}, "image_size is '8'"),
        (Pairs(2), {"image_size": 10**6}, "image_size is 1000000"),
        (
            [(np.zeros((8000, 8000), np.uint8), 0)] * 2,
            {},
            "more than 0 GB; make them smaller with image_size",
        ),
        ([], {}, "no images"),
        (Pairs(2), {"class_names": ["a"]}, "1 class names were given for 4"),
        ([Pairs(2)[0], Pairs(2)[4]], {}, "at least two classes"),
    ],
)
def test_mistakes_get_one_sentence(train, more, sentence, monkeypatch):
    monkeypatch.setattr(arrays, "MOST_BYTES", 10**8)
    with pytest.raises(UserError, match=sentence):
        from_dataset(train, Pairs(2), **more)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", ["file", "opened", "object"])
def test_sixteen_bit_gray_and_turned_images_are_the_same_from_everywhere(kind, turned):
    """What is given as a Pillow image is decoded as its file is."""
    image = Image.fromarray(np.array([[0, 0x4000], [0x8000, 0xFF00]], dtype=np.uint16))
    image.getexif()[0x0112] = 6 if turned else 1  # held by 90 degrees
    content = io.BytesIO()
    image.save(content, "PNG", exif=image.getexif())
    if kind == "file":
        pixels = decode_image(content, None, "image", gray=True, upright=True)
    else:
        pixels = as_image(Image.open(content) if kind == "opened" else image, "image")
    assert pixels.tolist() == ([[[0x80, 0], [0xFF, 0x40]]] if turned else [[[0, 0x40], [0x80, 0xFF]]])
    assert image.getexif()[0x0112] == (6 if turned else 1), "the image of the caller stays as it is"


@pytest.mark.parametrize(
    ("width", "progressive", "shape"),
    [
        (40, False, (30, 40)),
        (80, False, (15, 40)),
        (200, False, (8, 50)),
        (800, False, None),
        (80, True, None),
    ],
)
def test_large_jpeg_images_are_shrunk_while_they_are_read(tmp_path, monkeypatch, width, progressive, shape):
    """The pixels never exist in full; what cannot be shrunk on the way is refused."""
    monkeypatch.setattr(decode, "_MOST_PIXELS", 1200)
    picture = np.repeat(np.linspace(0, 255, 30, dtype=np.uint8)[:, None], width, axis=1)
    Image.fromarray(picture).save(tmp_path / "a.jpg", progressive=progressive, quality=95)
    if shape is None:
        with pytest.raises(UserError, match=f"it has {width} x 30 pixels"):
            read_image(tmp_path / "a.jpg")
    else:
        x = read_image(tmp_path / "a.jpg")
        assert x.shape == (3, *shape)
        assert (x[0, :, 5].diff() > 0).all(), "dark above, light below"


def test_damaged_pillow_images_are_one_sentence(tmp_path):
    picture(tmp_path / "a.png", 40, 40, seed=0)
    content = io.BytesIO((tmp_path / "a.png").read_bytes()[:500])
    with pytest.raises(UserError, match="image 3 cannot be decoded"):
        as_image(Image.open(content), "image 3")
