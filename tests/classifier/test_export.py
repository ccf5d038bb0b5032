"""Exported files predict what the classifier predicts, in a process that has neither gplasc nor torch."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from tests.calling import call
from torch import nn

from gplasc import ContinualClassifier, ForeignEncoder
from gplasc.classifier.export import export_classifier
from gplasc.errors import UserError

from .conftest import arrays, pattern

SERVE = """
import json, sys
import numpy as np
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
for name in sys.argv[2:]:
    found, likeness = session.run(["probabilities", "likeness"], {"images": np.load(name)})
    np.save(name, np.concatenate([found, likeness[:, None]], 1))
print(json.dumps(classes))
assert "torch" not in sys.modules and "gplasc" not in sys.modules
"""


class Backbone(nn.Module):
    """Feature maps of color images."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 12, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def classifiers(new):
    color = arrays(0, 1, channels=3, size=16)
    frozen = ForeignEncoder(Backbone().requires_grad_(False), image_size=24)
    return {
        "co2l": new("co2l", ("gplasc",)).learn(*color).learn(*arrays(2, channels=3, size=16)),
        "er": new("er").learn(*color),
        "icarl": new("icarl").learn(*color),
        "frozen slda": new("slda", encoder=frozen).learn(color[0], ["Löwe", "x'\"y"][0:1] * 10 + ["b"] * 10),
    }


def test_onnx_predicts_the_same_without_torch(new, tmp_path):
    for name, classifier in classifiers(new).items():
        path = export_classifier(classifier, "onnx", tmp_path / "model.onnx")
        size = classifier.pipeline.size
        inputs = (pattern(1, 3, size, 3), pattern(0, 1, 50, 3)[:, :31], pattern(2, 2, 9, 3))
        files = [tmp_path / f"{number}.npy" for number in range(3)]
        for file, images in zip(files, inputs, strict=True):
            np.save(file, images)
        words = [sys.executable, "-c", SERVE, str(path), *map(str, files)]
        served = subprocess.run(words, capture_output=True, text=True, check=True)
        assert json.loads(served.stdout) == classifier.classes_.tolist(), name
        for images, file in zip(inputs, files, strict=True):
            found = np.load(file)
            assert np.abs(found[:, :-1] - classifier.predict_proba(images)).max() < 1e-4, name
            assert ((found[:, -1] < 0) == classifier.is_unknown(images)).all(), name


def test_pt2_predicts_the_same(new, tmp_path):
    classifier = new("er").learn(*arrays(0, 1, channels=3))
    path = export_classifier(classifier, "pt2", tmp_path / "model.pt2")
    extra = {"classes.json": ""}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        program = torch.export.load(path, extra_files=extra)
    images = pattern(1, 5, size=20, channels=3)
    found, _ = program.module()(torch.from_numpy(images))
    assert np.abs(found.detach().numpy() - classifier.predict_proba(images)).max() < 1e-4
    assert json.loads(extra["classes.json"]) == [0, 1]


def test_safetensors_hold_weights_and_names(new, tmp_path):
    from safetensors import safe_open

    classifier = new("er").learn(*arrays(0, 1))
    path = export_classifier(classifier, "safetensors", tmp_path / "model.safetensors")
    with safe_open(path, "pt") as file:
        assert json.loads(file.metadata()["classes"]) == [0, 1]
        for name, value in classifier.pipeline.state_dict().items():
            assert torch.equal(file.get_tensor(name), value), name


def test_an_encoder_that_cannot_be_exported_is_named(new, tmp_path):
    class Branching(Backbone):
        def forward(self, x):
            return super().forward(x if float(x.sum()) > 0 else -x)

    classifier = new("ncm", encoder=ForeignEncoder(Branching(), image_size=16)).learn(
        *arrays(0, 1, channels=3)
    )
    with pytest.raises(UserError, match="the encoder cannot be exported"):
        export_classifier(classifier, "onnx", tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="allowed: onnx, pt2, safetensors"):
        export_classifier(classifier, "tflite", tmp_path / "model")


def test_the_command_exports_a_state(new, tmp_path, capsys):
    new("er").learn(*arrays(0, 1)).save(tmp_path / "state")
    out = tmp_path / "a.safetensors"
    assert call("export", tmp_path / "state", "--to", "safetensors", "--out", out) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert isinstance(ContinualClassifier.load(tmp_path / "state").predict(pattern(0, 1)), np.ndarray)
