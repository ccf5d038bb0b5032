"""seq-digits: the 1,797 handwritten digits that scikit-learn carries with it, 8 x 8 pixels, one channel."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from gplasc.streams.files import ArrayFiles, Dataset, Split
from gplasc.streams.info import StreamInfo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MEAN, _STD = (0.3051,), (0.3758,)
_TEST_IMAGES_PER_CLASS = 50
_SPLIT_SEED = 0  # the split belongs to the data set, not to a run


def _load() -> Dataset:
    """Return the digits with a fixed split: 50 test images of each class, the other 1,297 for training."""
    import torch

    from gplasc.streams.dataset import sample_rows

    table = torch.from_numpy(_read_table())
    # Published values are 0..16.
    x = (table[:, :-1] * (255 / 16)).round().to(torch.uint8).reshape(-1, 1, 8, 8)
    y = table[:, -1].to(torch.int64)
    is_test = sample_rows(y, lambda _: _TEST_IMAGES_PER_CLASS, _SPLIT_SEED, "digits")
    train, test = (Split(x[rows], y[rows]) for rows in (~is_test, is_test))
    return Dataset(train, test, tuple(map(str, range(10))), _MEAN, _STD)


def _read_table() -> NDArray[np.float64]:
    """Return (N, 65): 64 pixels and the digit. To import scikit-learn for a file of its own would take seconds."""
    import numpy as np

    folder = Path(str(importlib.util.find_spec("sklearn").origin)).parent  # type: ignore[union-attr]
    return np.loadtxt(folder / "datasets" / "data" / "digits.csv.gz", delimiter=",")


STREAMS = (
    StreamInfo(
        name="seq-digits",
        description="handwritten digits of scikit-learn, embedded",
        tasks=5,
        image_size=8,
        channels=1,
        read=lambda request: ArrayFiles(_load),
        train_images=1297,
        test_images=500,
        mean=_MEAN,
        std=_STD,
    ),
)
