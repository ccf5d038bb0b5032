"""More inputs to damage: a classifier's state, features, parquet files, an encoder's file, the result of a search."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from tests.fuzz.damage import change_json, damage_bytes, damage_file, damage_one, damaged
from tests.fuzz.hostile import pickles, spoil_image
from tests.fuzz.reading import STREAM, Format, command, digest, sentence, stream
from tests.streams.conftest import picture

from gplasc.classifier import ContinualClassifier, learning
from gplasc.classifier._state import PENDING
from gplasc.classifier.learning import Call, learn_folder
from gplasc.runs.spec import RunRequest
from gplasc.study.search import Search, _best

_TINY = ["--scale", "smoke", "--quiet", "--device", "cpu"]
_TINY += ["--set", "train.epochs=1", "--set", "train.batch=4"]
_LEARNER: dict[str, Any] = {"method": "er", "plugins": (), "encoder": "small", "buffer": 4, "scale": "smoke"}
_LEARNER |= {"image_size": 8, "train.epochs": 1}


# ---- classifier ----------------------------------------------------------------------------------------------------


def _photos(place: Path, *classes: str) -> Path:
    for name in classes:
        for number in range(4):
            picture(place / "-".join(classes) / name / f"{number}.png", 8, 8, seed=10 * ord(name) + number)
    return place / "-".join(classes)


def _classifier(place: Path) -> None:
    for folder in (_photos(place, "a", "b"), _photos(place, "c")):
        learn_folder(place / "state", folder, _LEARNER, Call(device="cpu", quiet=True))


def _predict(place: Path) -> str:
    code, out, err = command(["info", str(place / "state"), "--json"])
    sentence(code, err)
    about = json.loads(out)
    classifier = ContinualClassifier.load(place / "state", device="cpu", quiet=True)
    images = np.arange(3 * 8 * 8 * 3, dtype=np.uint8).reshape(3, 8, 8, 3)
    probabilities = classifier.predict_proba(images).round(5).tolist()
    return digest(probabilities, classifier.classes_.tolist(), about["classes"], about["method"])


def _forge_learned(place: Path, random: Random, outside: Path) -> str:
    """Change what was learned and give it, and the index that names it, right checksums."""
    index = json.loads((place / "state" / "state.json").read_text())
    data = place / "state" / "data"
    content = (data / index["files"]["learned"]).read_bytes()
    choice = random.random()
    if choice < 0.5:
        content = random.choice(pickles(outside)) if choice < 0.2 else content
        kind, content = damage_bytes(content, random) if choice > 0.1 else ("hostile pickle", content)
    else:
        state = torch.load(io.BytesIO(content), weights_only=True)
        nodes = [state]
        for node in nodes:
            nodes += [value for value in node.values() if isinstance(value, dict) and value]
        node = random.choice(nodes)
        key = random.choice(sorted(node, key=str))
        if random.random() < 0.5:
            node["other"] = node.pop(key)
        else:
            node[key] = random.choice([None, 3, "x", [], {}, -1.5])
        written = io.BytesIO()
        torch.save(state, written)
        kind, content = f"other {key}", written.getvalue()
    name = f"learned-{hashlib.sha256(content).hexdigest()[:32]}.pt"
    (data / name).write_bytes(content)
    del index["sha256"]
    index["files"]["learned"] = name
    index["sha256"] = hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()
    (place / "state" / "state.json").write_text(json.dumps(index))
    return kind


def _cut_learning(place: Path) -> None:
    """Learn a task, and keep the folder of the next as a kill would leave it."""
    learn_folder(place / "state", _photos(place, "a", "b"), _LEARNER, Call(device="cpu", quiet=True))
    _photos(place, "c")

    def stop(*_: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    write, learning.write_state = learning.write_state, stop
    try:
        with contextlib.suppress(KeyboardInterrupt):
            learn_folder(place / "state", Path("c"), {}, Call(device="cpu", quiet=True, save_every=0))
    finally:
        learning.write_state = write


def _learn_on(place: Path) -> str:
    code, _, err = command(["learn", str(place / "state"), "c", "--device", "cpu", "--json"])
    sentence(code, err)
    return _predict(place)


def _spoil_photos(place: Path, random: Random, outside: Path) -> str:
    path = random.choice(sorted((place / "c").rglob("*.png")))
    return damage_file(path, random) if random.random() < 0.5 else spoil_image(path, random, outside)


def _name(place: Path) -> str:
    code, out, err = command(["predict", str(place / "state"), "c", "--device", "cpu", "--csv"])
    sentence(code, err)
    return digest(out)


# ---- streams -------------------------------------------------------------------------------------------------------


def _parquet(place: Path) -> None:
    from tests.streams.test_parquet import write

    write(place / "all.parquet", [0, 1, 2, 3] * 3, names=["ant", "bee", "cat", "dog"])


def _features(place: Path) -> None:
    words = f"features --stream {STREAM} --encoder small --quiet --device cpu --scale smoke --views 1 --out".split()
    sentence(*command([*words, str(place / "features")])[::2])


def _run(place: Path, *words: str) -> str:
    """Compute a run and return what it learned."""
    code, out, err = command(["run", *words, *_TINY, "--out", str(place / "runs"), "--json"])
    sentence(code, err)
    record = json.loads(out.splitlines()[-1])
    return digest(record["weights_sha256"], record["matrix"])


# ---- a user's files ------------------------------------------------------------------------------------------------

_ENCODER = """from torch import nn


def build():
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU())
"""
_BODIES = (
    "", "return None", "return 3", "return nn.Identity()", "return nn.Conv2d(1, 4, 3)", "return nn.Flatten",
    "return nn.Conv2d(3, 4, 99)", "raise OSError('no network')", "return nn.Conv2d", "import nothing_at_all",
    "return nn.Linear(8, 4)", "return nn.Conv2d(3, 4, 3).double()", "yield nn.Identity()", "1 / 0",
    "return nn.Conv2d(3, 4, 3).requires_grad_(False)", "return nn.LSTM(8, 4)", "raise SystemExit(0)",
    "return nn.Sequential(nn.Flatten(), nn.Linear(64, 4, bias=False).to('meta'))",
    "return nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (2, -1)))", "return nn.Dropout(1.0)", "return {}",
    "return nn.Sequential(nn.Flatten(), nn.LogSigmoid(), nn.Threshold(9.0, float('nan')))", "return super()",
)  # fmt: skip


def _spoil_encoder(place: Path, random: Random, outside: Path) -> str:
    path = place / "mine.py"
    if random.random() < 0.4:
        return damage_file(path, random)
    body = random.choice(_BODIES)
    head = random.choice(
        ["def build():", "def build(x):", "def build(**more):", "class build:", "build = 3\ndef other():"]
    )
    path.write_text(f"from torch import nn\n\n{head}\n    {body or 'pass'}\n")
    return f"{head} {body}"


def _use_encoder(place: Path) -> str:
    encoder = ["--encoder", f"{place / 'mine.py'}:build"]
    return _run(place, "--stream", STREAM, "--method", "er", "--buffer", "4", *encoder)


def _best_settings(place: Path) -> None:
    """Write what `gplasc tune` writes at its end."""
    settings = {"model.encoder": "small", "train.epochs": 1, "train.batch": 4, "data.validation": 0.3}
    request = RunRequest(STREAM, "finetune", buffer=0, scale="smoke", settings=settings)
    search = Search(request, {"train.lr": (0.1, 0.2)}, 1, place)
    (place / "best.toml").write_text(_best(search, {"train.lr": 0.1}, 0))


def _spoil(name: str) -> Callable[[Path, Random, Path], str]:
    return lambda place, random, outside: damage_file(place / name, random)


def _spoil_features(place: Path, random: Random, outside: Path) -> str:
    index = place / "features" / "features.json"
    return change_json(index, random) if random.random() < 0.4 else damage_one(index.parent, random)


def _spoil_index(place: Path, random: Random, outside: Path) -> str:
    path = place / "state" / "state.json"
    if random.random() < 0.3:
        return damage_file(path, random)
    kind = change_json(path, random)
    with contextlib.suppress(ValueError, AttributeError, TypeError):  # give it its right checksum
        index = json.loads(path.read_text())
        index.pop("sha256", None)
        index["sha256"] = hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()
        path.write_text(json.dumps(index))
    return kind


NEWER: dict[str, Format] = {
    "classifier": Format(_classifier, damaged("state", "data/*"), _predict, checksum=True, weight=1),
    "classifier index": Format(_classifier, _spoil_index, _predict, weight=2),
    "forged classifier": Format(_classifier, _forge_learned, _predict, weight=1),
    "cut learning": Format(_cut_learning, damaged(f"state/{PENDING}"), _learn_on, weight=1),
    "images to learn": Format(_cut_learning, _spoil_photos, _learn_on, weight=1),
    "images to name": Format(_classifier, _spoil_photos, _name, weight=1),
    "features": Format(
        _features,
        _spoil_features,
        lambda place: _run(place, "--stream", f"features:{place / 'features'}", "--method", "ncm"),
        weight=1,
    ),
    "encoder file": Format(
        lambda place: (place / "mine.py").write_text(_ENCODER), _spoil_encoder, _use_encoder, weight=1
    ),
    "best of a search": Format(
        _best_settings,
        _spoil("best.toml"),
        lambda place: _run(place, "--config", str(place / "best.toml")),
        weight=1,
    ),
}
if importlib.util.find_spec("pyarrow"):
    NEWER["parquet"] = Format(_parquet, _spoil("all.parquet"), stream("parquet:HERE/all.parquet"))
