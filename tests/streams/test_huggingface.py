"""Data sets of Hugging Face's own package, as objects and as the parquet files that it writes."""

import numpy as np
import pytest

from gplasc.streams import from_dataset, open_stream

datasets = pytest.importorskip(
    "datasets", reason="Hugging Face datasets is not installed: pip install datasets"
)


@pytest.fixture(params=["image", "img"])
def data(request):
    labels = [3, 2, 1, 0] * 3
    images = [np.full((6, 6, 3), 20 * label + number, np.uint8) for number, label in enumerate(labels)]
    names = datasets.ClassLabel(names=["ant", "bee", "cat", "dog"])
    features = datasets.Features({request.param: datasets.Image(), "label": names})
    return datasets.Dataset.from_dict({request.param: images, "label": labels}, features=features)


def expected(task):
    """What the fixture holds of the two classes of a task: the label and the pixel of each image."""
    labels = [3, 2, 1, 0] * 3
    pairs = [(label, 20 * label + number) for number, label in enumerate(labels)]
    return sorted(pair for pair in pairs if pair[0] in (2 * task, 2 * task + 1))


def found(samples):
    return sorted(zip(samples.y.tolist(), samples.x[:, 0, 0, 0].tolist(), strict=True))


def test_an_object_becomes_a_stream(data):
    stream = from_dataset(data, data, classes_per_task=2)
    assert stream.class_names == ("ant", "bee", "cat", "dog")
    assert [found(task.train) for task in stream] == [expected(0), expected(1)]


def test_names_belong_to_the_labels_that_occur(data):
    part = data.filter(lambda row: row["label"] != 1)
    assert from_dataset(part, part, classes_per_task=3).class_names == ("ant", "cat", "dog")


def test_its_parquet_files_are_a_stream(data, tmp_path):
    data.to_parquet(str(tmp_path / "train-00000-of-00001.parquet"))
    data.to_parquet(str(tmp_path / "test-00000-of-00001.parquet"))
    stream = open_stream(f"parquet:{tmp_path}")
    assert stream.class_names == ("ant", "bee", "cat", "dog")
    assert [found(task.test) for task in stream] == [expected(0), expected(1)]
