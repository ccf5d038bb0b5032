"""Blocks marked `py` are parts of a program: they are executed with the names that the rest of it would have."""

import http.server
import json
import shutil
import sys
import threading
import types
import urllib.request
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.calling import call
from tests.smoke import blocks
from torch import nn

import gplasc

ROOT = Path(__file__).parent.parent


def parts(page: str) -> list[str]:
    """Return the code of the blocks of a page that are marked `py`."""
    return [code for language, _, code in blocks(ROOT / page) if language == "py"]


def execute(code: str, **names: object) -> dict[str, object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes about features and advice of other packages
        exec(compile(code, "block", "exec"), names)
    return names


def test_every_page_with_such_blocks_has_a_test():
    pages = {page.name for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")] if parts(str(page))}
    assert pages == {"README.md", "classifier.md", "data.md", "encoders.md", "integrations.md"}


def test_loop_of_the_readme():
    (code,) = parts("README.md")
    x, y = torch.randn(8, 6), torch.arange(8) % 2
    names = execute(code, encoder=nn.Linear(6, 512), task=0, x=x, y=y, your_loss=torch.zeros(()))
    assert names["loss"].isfinite()
    assert names["gplasc"].tasks_done == 1


def test_data_set(tmp_path):
    (code,) = parts("docs/data.md")
    for place in ("train/robin", "train/wren", "test/robin", "test/wren"):
        (tmp_path / "my-birds" / place).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "my-birds" / place / "0.png")
    (tmp_path / "my-birds" / "birds.txt").touch()
    names = execute(code)
    files = names["read"](names["Request"](names["STREAMS"][0], data_dir=tmp_path))
    assert files.class_names == ("robin", "wren")
    assert len(files.images) == 4


def test_weights_and_biases(monkeypatch):
    code = parts("docs/integrations.md")[-1]
    calls = []
    monkeypatch.setattr(gplasc, "run", lambda *words, **more: calls.append((words, more)))
    execute(code, gplasc=gplasc)
    ((words, more),) = calls
    assert words == ("seq-digits", "co2l", ["gplasc"])
    assert isinstance(more["callbacks"][0], gplasc.Callback)


@pytest.mark.parametrize("number", range(3))
def test_encoders_of_other_libraries(number, monkeypatch):
    """Stand-ins with the one function that the block calls; none of the libraries is required."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3, stride=8), nn.ReLU())
    net.fc = nn.Identity()
    modules = {
        "timm": {"create_model": lambda *_, **__: net},
        "torchvision": {"models": types.SimpleNamespace(resnet50=lambda **_: net)},
        "transformers": {"AutoModel": types.SimpleNamespace(from_pretrained=lambda *_: net)},
    }
    for name, contents in modules.items():
        module = types.ModuleType(name)
        module.__dict__.update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    names = execute(parts("docs/encoders.md")[number])
    encoder = names.get("resnet50", names.get("dino"))()
    assert isinstance(encoder, gplasc.ForeignEncoder)
    assert encoder(torch.rand(2, 3, 16, 16)).shape[:2] == (2, 4)


@pytest.mark.filterwarnings("ignore")
def test_server(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    for kind in ("robin", "wren"):
        (tmp_path / "month1" / kind).mkdir(parents=True)
        for number in range(5):
            pixels = draw.integers(0, 255, (8, 8, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "month1" / kind / f"{number}.png")
    options = "--encoder small --method ncm --image-size 8 --scale smoke --quiet"
    for words in (
        ["learn", "birds", "month1", *options.split()],
        ["export", "birds", "--to", "onnx", "--out", "birds.onnx"],
    ):
        assert call(*words) == 0
    shutil.copy(tmp_path / "month1" / "robin" / "0.png", tmp_path / "photo.jpg")
    started = []
    monkeypatch.setattr(http.server.HTTPServer, "serve_forever", lambda server: started.append(server))
    free = http.server.HTTPServer.__init__
    monkeypatch.setattr(
        http.server.HTTPServer, "__init__", lambda self, _, handler: free(self, ("127.0.0.1", 0), handler)
    )
    (code,) = parts("docs/classifier.md")
    execute(code)
    (server,) = started
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    with urllib.request.urlopen(address, (tmp_path / "photo.jpg").read_bytes(), timeout=20) as answer:
        found = json.loads(answer.read())["predictions"]
    thread.join()
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(address, b"a text file", timeout=20)
    assert caught.value.code == 400
    caught.value.close()
    thread.join()
    server.server_close()
    assert {entry["class"] for entry in found} == {"robin", "wren"}
    assert sum(entry["probability"] for entry in found) == pytest.approx(1, abs=1e-5)


def test_lightning(tmp_path):
    """The next blocks are what tests/integrations/test_avalanche.py and test_mammoth.py train."""
    pl = pytest.importorskip("pytorch_lightning")

    class Base(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = nn.Linear(6, 512), nn.Linear(512, 4)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def task(number):
        y = torch.arange(8) % 2 + 2 * number
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 6), y), batch_size=8)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = partial(
        pl.Trainer, accelerator="cpu", enable_model_summary=False, default_root_dir=tmp_path, **quiet
    )
    names = execute(
        parts("docs/integrations.md")[0],
        LightningModule=Base,
        Trainer=trainer,
        cross_entropy=nn.functional.cross_entropy,
        tasks=[task(0), task(1)],
    )
    assert names["callback"].loop.tasks_done == 2
