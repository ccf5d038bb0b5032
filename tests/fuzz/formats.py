"""What is damaged: for each format how an intact input is made, how it is spoiled, and how a user would read it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tests.fuzz import arguments
from tests.fuzz.damage import VALUES, change_json, damage_bytes, damage_file, damage_one, damaged
from tests.fuzz.forged import FORGED
from tests.fuzz.hostile import NAMES, add_to_tar, add_to_zip, objects, pickles, settings, spoil_image
from tests.fuzz.newer import NEWER
from tests.fuzz.reading import STREAM, Format, UnexpectedError, command, digest, sentence, stream
from tests.streams.conftest import Imitations, picture

from gplasc._io.display import Display
from gplasc.learning import Callback, checkpoints
from gplasc.report.page import write_report
from gplasc.results.record import read_record
from gplasc.runs.execute import execute
from gplasc.runs.result import Result
from gplasc.runs.spec import RunRequest
from gplasc.runs.workspace import Workspace
from gplasc.streams import fingerprint, from_dataset

RUN = {"model.encoder": "small", "train.epochs": 2, "train.batch": 4, "train.lr": 0.05}
SAME = ("weights_sha256", "memory_sha256", "matrix", "geometry", "steps")


# ---- streams -------------------------------------------------------------------------------------------------------


def _npz_arrays(place: Path, random: Random, outside: Path) -> str:
    """Write arrays that are whole but unusual."""
    shapes = [(12, 8, 8), (12, 3, 8, 8), (12, 8, 8, 3), (12, 0, 8), (0, 8, 8), (12,), (), (12, 2, 8, 8)]
    shape = random.choice(shapes)
    kind = random.choice(["u1", "f4", "f8", "i8", "c16", "U3", "S3", "?", "M8[s]", "f2", ">i4", "V4"])
    content = random.randbytes(int(np.prod(shape)) * np.dtype(kind).itemsize)
    with np.errstate(all="ignore"):
        x = np.frombuffer(content, kind).reshape(shape)
    y: Any = random.choice(
        [
            np.arange(12) % 4,
            np.arange(12).astype(float) % 4,
            np.array(["a", "b", "c", "d"] * 3),
            np.array([b"a", b"\xff", b"", b"d"] * 3),
            np.full(12, 2**63, np.uint64),
            np.array([-(2**63), 2**63 - 1] * 6),
            np.zeros((12, 1), int),
            np.array([], int),
            np.array(3),
            np.array(["=1+1", "<b>", "\x1b", "a" * 1000] * 3),
        ]
    )
    changed = random.choice(
        [{"x_train": x}, {"y_train": y}, {"x_train": x, "x_test": x}, {"y_train": y, "y_test": y}]
    )
    path = place / "mine.npz"
    with np.load(path) as intact:
        arrays = dict(intact) | changed
    np.savez(path, **arrays)
    return f"{list(changed)} of {kind} {shape}, labels {y.dtype}"


def _cifar(place: Path, random: Random, outside: Path) -> str:
    folder = place / "cifar-10-batches-py"
    if random.random() < 0.5:
        return damage_one(folder, random)
    path = folder / random.choice(["data_batch_1", "test_batch", "batches.meta"])
    content = random.choice(pickles(outside))
    if random.random() < 0.3:
        content = damage_bytes(content, random)[1]
    path.write_bytes(content)
    return f"hostile pickle as {path.name}: {content[:40]!r}"


def _pictures(place: Path) -> None:
    for number in range(2):
        for i, suffix in enumerate(("png", "jpg", "gif", "webp", "bmp", "tif", "ppm")):
            picture(place / "images" / f"class{number}" / f"{i}.{suffix}", 12, 10, seed=number * 10 + i)


def _images(place: Path, random: Random, outside: Path) -> str:
    if random.random() < 0.5:
        return damage_one(place / "images", random)
    path = random.choice(sorted(path for path in (place / "images").rglob("*") if path.is_file()))
    return spoil_image(path, random, outside)


def _cache(place: Path, random: Random, outside: Path) -> str:
    """Decode once, then damage what was kept."""
    stream("folder:HERE/images", image_size=8)(place)
    return damage_one(place / "cache", random)


def _archive(make: str, pack: str, name: str, **options: Any) -> Callable[[Path], None]:
    def build(place: Path) -> None:
        imitate = Imitations(place)
        getattr(imitate, pack)(getattr(imitate, make)(), name, **options)

    return build


def _spoil_objects(place: Path, random: Random, outside: Path) -> str:
    (place / "seed").write_text(str(random.random()))
    return (place / "seed").read_text()


def _use_objects(place: Path) -> str:
    text = (place / "seed").read_text()
    random, spoiled = Random(text), bool(text)
    train, test = objects(random, spoiled=spoiled), objects(random, spoiled=spoiled)
    found = from_dataset(train, test, **settings(random) if spoiled else {})
    return digest(fingerprint(found), found.class_names, found.classes_per_task)


def _spoil_name(place: Path, random: Random, outside: Path) -> str:
    """Give a class a name that a terminal or a message may take for something else, and damage an image of it."""
    name = random.choice(NAMES)
    (place / "images" / "class1").rename(place / "images" / name)
    if random.random() < 0.5:
        damage_one(place / "images" / name, random)
    return repr(name)


def _check_names(place: Path) -> str:
    code, out, err = command(["data", "check", f"folder:{place / 'images'}"])
    if not all(line.isprintable() for line in (out + err).split("\n")):
        raise UnexpectedError(f"signs that control the terminal: {out + err!r}")
    sentence(code, err)
    return digest(out)


# ---- runs ----------------------------------------------------------------------------------------------------------


class _PowerCut(Callback):
    def on_step_end(self, learner: Any) -> None:
        if learner.position.total_steps == 7:
            raise KeyboardInterrupt


def _compute(place: Path, *callbacks: Callback) -> Any:
    resolved = RunRequest(STREAM, "er", buffer=4, scale="smoke", settings=RUN).resolve()
    out = place / "runs"
    return execute(
        resolved, Workspace(out, device="cpu", save_steps=2), display=Display(), callbacks=callbacks
    )


def _cut_run(place: Path) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        _compute(place, _PowerCut())
    shutil.rmtree(place / "cache", ignore_errors=True)


def _finish(place: Path) -> str:
    record = _compute(place).record
    return digest(*(record[name] for name in SAME))


def _spoil_run(place: Path, random: Random, outside: Path) -> str:
    (folder,) = (place / "runs").iterdir()
    done = [damage_file(sorted(folder.glob("checkpoint-*.pt"))[-1], random)]
    if random.random() < 0.3:
        done.append(damage_file(sorted(folder.glob("checkpoint-*.pt"))[0], random))
    if random.random() < 0.3:
        done.append(damage_file(folder / "settings.json", random))
    if random.random() < 0.2:
        (folder / ".record.0123abcd.tmp.json").write_text("half")
    return ", ".join(done)


def _forge(place: Path, random: Random, outside: Path) -> str:
    """Change a checkpoint and give it a right checksum."""
    (folder,) = (place / "runs").iterdir()
    path = sorted(folder.glob("checkpoint-*.pt"))[-1]
    if random.random() < 0.4:
        kind, content = damage_bytes(path.read_bytes()[:-32], random)
        path.write_bytes(content + hashlib.sha256(content).digest())
        return kind
    if random.random() < 0.3:
        content = random.choice(pickles(outside))
        path.write_bytes(content + hashlib.sha256(content).digest())
        return f"hostile pickle {content[:40]!r}"
    state, _ = checkpoints.load_newest(folder)
    assert state is not None
    part = random.choice([state, state["learner"], state["learner"]["position"], state["learner"]["results"]])
    key = random.choice(sorted(part))
    if random.random() < 0.5:
        part["other"] = part.pop(key)
    else:
        del part[key]
    checkpoints.write_state(path, state)
    return f"without {key}"


def _whole_run(place: Path) -> None:
    _compute(place)
    shutil.rmtree(place / "cache", ignore_errors=True)


def _spoil_record(place: Path, random: Random, outside: Path) -> str:
    (path,) = (place / "runs").glob("*/record.json")
    return damage_file(path, random) if random.random() < 0.4 else change_json(path, random)


def _report(place: Path) -> str:
    (folder,) = (place / "runs").iterdir()
    with contextlib.redirect_stderr(io.StringIO()):
        write_report([place / "runs"], place / "page.html", tables=place / "tables")
    return digest(json.dumps(read_record(folder).to_dict(), sort_keys=True))


def _restore(place: Path) -> str:
    (folder,) = (place / "runs").iterdir()
    restored = Result.read(folder).load(device="cpu")
    return digest([value.sum().item() for value in restored.network.state_dict().values()])


# ---- settings and arguments ----------------------------------------------------------------------------------------


def _toml(place: Path) -> None:
    words = ["show", "co2l", "--plugin", "gplasc", "--stream", "seq-cifar10", "--seed", "3", "--toml"]
    (place / "settings.toml").write_text(command(words)[1])


def _spoil_toml(place: Path, random: Random, outside: Path) -> str:
    path = place / "settings.toml"
    if random.random() < 0.4:
        return damage_file(path, random)
    lines = path.read_text().splitlines()
    number = random.randrange(len(lines))
    name = lines[number].partition(" =")[0]
    value = random.choice(
        [json.dumps(random.choice(VALUES)), "1979-05-27", "nan", "-inf", "[[[", "{a = 1}", '"""', "0x10"]
    )
    lines[number] = random.choice([f"{name} = {value}", f"{name}.{name} = {value}", f"[{name}]", value[:99]])
    path.write_text("\n".join(lines), encoding="utf-8", errors="replace")
    return f"line {number}: {lines[number][:60]}"


def _show(place: Path) -> str:
    code, out, err = command(["show", "--config", str(place / "settings.toml"), "--toml"])
    sentence(code, err)
    return digest(out)


def _words(place: Path) -> None:
    (place / "words.json").write_text(json.dumps(["show", "co2l", "--toml"]))


def _spoil_words(place: Path, random: Random, outside: Path) -> str:
    words = arguments.draw(random)
    (place / "words.json").write_text(json.dumps(words))
    return " ".join(word[:60] for word in words)


def _call(place: Path) -> str:
    code, out, err = command(json.loads((place / "words.json").read_text()))
    sentence(code, err)
    return digest(out)


def _layout(name: str, *given: Any, **more: Any) -> Callable[[Path], object]:
    """Return a function that writes an imitation of an official layout."""
    return lambda place: getattr(Imitations(place), name)(*given, **more)


_NPZ, _CIFAR10 = stream("npz:HERE/mine.npz"), stream("seq-cifar10")
_CIFAR_TAR = _archive("cifar10_python", "tar", "cifar-10-python.tar.gz")
_TINY, _TINY_ZIP = stream("seq-tinyimagenet", image_size=8, classes_per_task=2), "tiny-imagenet-200.zip"
_CUB = stream("cub200", image_size=8, classes_per_task=2)
_MNIST = stream("seq-mnist")

FORMATS: dict[str, Format] = {
    "npz": Format(_layout("npz"), damaged(".", "*.npz"), _NPZ, checksum=True),
    "npz arrays": Format(_layout("npz"), _npz_arrays, _NPZ),
    "cifar pickles": Format(_layout("cifar10_python", 10), _cifar, _CIFAR10, weight=6),
    "cifar binary": Format(
        _layout("cifar10_binary", 10), damaged("cifar-10-batches-bin"), _CIFAR10, weight=2
    ),
    "cifar tar.gz": Format(_CIFAR_TAR, damaged(".", "*.tar.gz"), _CIFAR10, checksum=True),
    "hostile tar.gz": Format(
        _CIFAR_TAR,
        lambda place, random, outside: add_to_tar(place / "cifar-10-python.tar.gz", random, outside),
        _CIFAR10,
    ),
    "tiny zip": Format(_archive("tiny", "zip", _TINY_ZIP), damaged(".", "*.zip"), _TINY, checksum=True),
    "hostile zip": Format(
        _archive("tiny", "zip", _TINY_ZIP),
        lambda place, random, outside: add_to_zip(place / _TINY_ZIP, random, outside),
        _TINY,
        weight=2,
    ),
    "mnist gz": Format(_layout("idx"), damaged("mnist"), _MNIST, checksum=True),
    "mnist idx": Format(_layout("idx", zipped=False), damaged("mnist"), _MNIST),
    "cub lists": Format(_layout("cub"), damaged("CUB_200_2011", "*.txt"), _CUB),
    "images": Format(_pictures, _images, stream("folder:HERE/images", image_size=8), weight=8),
    "names of classes": Format(_pictures, _spoil_name, _check_names, weight=2),
    "objects": Format(lambda place: (place / "seed").write_text(""), _spoil_objects, _use_objects),
    "image cache": Format(_pictures, _cache, stream("folder:HERE/images", image_size=8), weight=2),
    "record": Format(_whole_run, _spoil_record, _report, weight=4),
    "weights": Format(_whole_run, damaged("runs", "weights.safetensors"), _restore, checksum=True, weight=3),
    "checkpoint": Format(_cut_run, _spoil_run, _finish, checksum=True, weight=2),
    "forged checkpoint": Format(_cut_run, _forge, _finish, weight=2),
    "terms log": Format(_cut_run, damaged("runs", "terms.jsonl"), _finish, checksum=True, weight=1),
    "settings": Format(_toml, _spoil_toml, _show),
    "arguments": Format(_words, _spoil_words, _call, weight=6),
    **NEWER,
    **FORGED,
}
