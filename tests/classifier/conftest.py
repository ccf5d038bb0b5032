"""Small images of few classes, as arrays and as folders."""

import numpy as np
import pytest
from PIL import Image

from gplasc import ContinualClassifier


def pattern(label: int, count: int, size: int = 8, channels: int = 1, seed: int = 0) -> np.ndarray:
    """Images with a bright block whose place depends on the label, and noise: (count, size, size, channels)."""
    draw = np.random.default_rng([seed, label])
    images = draw.integers(0, 60, (count, size, size, channels))
    row, column = divmod(label, 3)
    step = size // 3
    images[:, row * step : (row + 1) * step, column * step : (column + 1) * step] += 180
    return images.astype(np.uint8)


def arrays(*labels: int, count: int = 10, **how: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of some classes."""
    return np.concatenate([pattern(label, count, **how) for label in labels]), np.repeat(labels, count)


@pytest.fixture
def new():
    """Build a classifier that learns in a second."""

    def build(method: str = "ncm", plugins: tuple[str, ...] = (), **more: object) -> ContinualClassifier:
        given = {"encoder": "small", "buffer": 12, "scale": "smoke", "device": "cpu", "quiet": True}
        return ContinualClassifier(method, plugins, **{**given, **more})

    return build


@pytest.fixture
def folder(tmp_path):
    """Write images of some classes into a folder with one folder for each class, and return it."""

    def write(name: str, *labels: int, count: int = 10, size: int = 16, seed: int = 0):
        for label in labels:
            place = tmp_path / name / f"class {label}"
            place.mkdir(parents=True, exist_ok=True)
            for number, image in enumerate(pattern(label, count, size=size, channels=3, seed=seed)):
                Image.fromarray(image).save(place / f"{number}.png")
        return tmp_path / name

    return write
