"""Inputs that somebody made on purpose: code that a data file names, links, bombs; and faulty files of a user."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tests.fuzz.damage import VALUES, change_value, damage_bytes, damage_file
from tests.fuzz.hostile import NAMES, RAN, objects
from tests.fuzz.newer import _TINY, _classifier, _predict, _run
from tests.fuzz.reading import STREAM, Format, UnexpectedError, command, digest, sentence, stream

from gplasc.classifier import ContinualClassifier
from gplasc.runs.result import Result

_EVIL = """open({mark!r}, "w").close()
import torch
from gplasc.methods.er import ER
from gplasc.plugins.gplasc import GPLASCPlugin
class {kind}: pass
def build(): return torch.nn.Conv2d(3, 4, 3)
"""


def _evil(place: Path, outside: Path, kind: str) -> str:
    path = place / "evil.py"
    path.write_text(_EVIL.format(mark=str(outside / RAN), kind=kind))
    return str(path)


def _computed(place: Path) -> None:
    _run(
        place,
        "--stream",
        STREAM,
        "--method",
        "er",
        "--buffer",
        "4",
        "--set",
        "model.encoder=small",
    )
    shutil.rmtree(place / "cache", ignore_errors=True)


def _printable(*texts: str) -> None:
    for text in texts:
        if not all(line.isprintable() for line in text.split("\n")):
            raise UnexpectedError(f"signs that control the terminal: {text[:500]!r}")


# ---- data files that name code, or a name that a terminal takes for something else ----------------------------------


def _forge_record(place: Path, random: Random, outside: Path) -> str:
    """Name code in a record, or change it in other ways."""
    (path,) = (place / "runs").glob("*/record.json")
    record = json.loads(path.read_text())
    settings, choice = record["settings"], random.randrange(6)
    if choice == 0:
        settings["method"] = _evil(place, outside, "Evil(ER)")
    elif choice == 1:
        settings["plugins"] = [_evil(place, outside, "Evil(GPLASCPlugin)")]
    elif choice == 2:
        settings["model"]["encoder"] = f"{_evil(place, outside, 'Evil')}:build"
    elif choice == 3:
        name = random.choice(NAMES)
        node = random.choice([record, settings, record["stream"]])
        node[random.choice(sorted(key for key, value in node.items() if isinstance(value, str)))] = name
    else:
        change_value(random.choice([record, settings, settings["options"]]), random)
    path.write_text(json.dumps(record), encoding="utf-8", errors="surrogatepass")
    return f"forgery {choice}"


def _use_record(place: Path) -> str:
    """List, report and load the run, and compute it again in its place."""
    (folder,) = (place / "runs").iterdir()
    listed, reported = (
        command(["runs", str(place / "runs")]),
        command(["report", str(place / "runs"), "-o", "a.html"]),
    )
    _printable(*listed[1:], *reported[1:])
    result = Result.read(folder)
    repr(result), result._repr_html_()
    return digest([value.sum().item() for value in result.load(device="cpu").network.state_dict().values()])


def _forge_state(place: Path, random: Random, outside: Path) -> str:
    """Name code in a state, which has a right checksum."""
    path = place / "state" / "state.json"
    index = json.loads(path.read_text())
    choice = random.randrange(5)
    if choice == 0:
        index["parameters"]["encoder"] = index["encoder"] = f"{_evil(place, outside, 'Evil')}:build"
    elif choice == 1:
        index["parameters"]["method"] = index["config"]["method"] = _evil(place, outside, "Evil(ER)")
    elif choice == 2:
        index["config"]["method"] = _evil(place, outside, "Evil(ER)")
    elif choice == 3:
        index["parameters"]["plugins"] = [_evil(place, outside, "Evil(GPLASCPlugin)")]
    else:
        name = random.choice(NAMES)
        index["names"][0] = index["tasks"][0]["new_classes"][0] = name
    del index["sha256"]
    index["sha256"] = hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(index))
    return f"forgery {choice}"


def _use_state(place: Path) -> str:
    for words in (["info"], ["predict"], ["report"]):
        more = {"predict": [str(place / "c"), "--device", "cpu"], "report": ["-o", "a.html"]}.get(
            words[0], []
        )
        code, out, err = command([*words, str(place / "state"), *more])
        _printable(out, err)
        sentence(code, err)
    return _predict(place)


# ---- links ----------------------------------------------------------------------------------------------------------


def _link(folder: str) -> Callable[[Path, Random, Path], str]:
    """Return what moves a file or folder of a case elsewhere and puts a link in its place."""

    def spoil(place: Path, random: Random, outside: Path) -> str:
        # A run or a state may be kept elsewhere: only what is inside it is replaced.
        root = next((place / "runs").iterdir()) if folder == "runs" else place / folder
        paths = sorted(root.rglob("*"))
        new = [root / name for name in ("pending", "lock", "candidate.json", "log.txt", "previous")]
        path = random.choice([*paths, *(path for path in new if not path.exists())])
        target = place / "elsewhere"
        target.mkdir()
        if path.exists():
            shutil.copytree(path, target / "x") if path.is_dir() else shutil.copy(path, target / "x")
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif random.random() < 0.5:
            (target / "x").mkdir()
            for name in (
                "task.json",
                "checkpoint-000000001.pt",
                f"rows-{'0' * 32}.safetensors",
                "000001.json",
            ):
                (target / "x" / name).write_text("mine")
        else:
            (target / "x").write_text("mine")
        path.symlink_to(target / "x")
        (place / "before").write_text(_contents(target))
        return f"a link as {path.relative_to(place)}"

    return spoil


def _contents(folder: Path) -> str:
    return digest(
        sorted(
            (str(p), p.read_bytes() if p.is_file() else b"") for p in folder.rglob("*") if p.name != "lock"
        )
    )


def _unchanged(use: Callable[[Path], str]) -> Callable[[Path], str]:
    """Return a function that uses a case and looks whether something was written through its link."""

    def used(place: Path) -> str:
        try:
            return use(place)
        finally:
            before = place / "before"
            if before.exists() and before.read_text() != _contents(place / "elsewhere"):
                raise UnexpectedError("something was written or deleted through a link")

    return used


def _learn_more(place: Path) -> str:
    code, _, err = command(["learn", str(place / "state"), "c", "--device", "cpu", "--quiet"])
    sentence(code, err)
    return _predict(place)


def _two_months(place: Path) -> None:
    _classifier(place)
    for path in (place / "c").rglob("*.png"):  # images that are new
        path.write_bytes(path.read_bytes())
        from PIL import Image

        Image.open(path).rotate(90).save(path)


def _restart(place: Path) -> str:
    return _run(
        place,
        "--stream",
        STREAM,
        "--method",
        "er",
        "--buffer",
        "4",
        "--set",
        "model.encoder=small",
        "--restart",
    )


# ---- bombs ----------------------------------------------------------------------------------------------------------


def _member(shape: tuple[int, ...], kind: str, size: int) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": shape})
    return header.getvalue() + bytes(size)


def _npz_bomb(place: Path, random: Random, outside: Path) -> str:
    """Write arrays that announce more than they have, unpack to far more, or come twice."""
    path = place / "mine.npz"
    with np.load(path) as intact:
        names = sorted(intact.files)
    name, kind = random.choice(names), random.choice(["|u1", "<f8", "|S0", "|U0", "|V0", "|O", "<f4"])
    size = random.choice([0, 100, 2**20, 2**28, 3 * 10**8])
    shape = random.choice([(2**36, 8, 8), (10**8,), (size,), (0,), (2**62,), (1, 1, size), (-1,), (2,) * 40])
    packing = random.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
    content = random.choice([_member(shape, kind, size), _member((size,), "|u1", size)])
    with zipfile.ZipFile(path, "a", packing, compresslevel=1) as archive:
        archive.writestr(random.choice([f"{name}.npy", f"{name}.npy", "junk", "x.npy"]), content)
    return f"{name} {kind} {shape} {size:,}"


def _features_file(place: Path) -> None:
    draw = np.random.default_rng(0)
    x = np.concatenate([draw.normal(n, 0.1, (6, 4)) for n in range(3)])
    np.savez(place / "mine.npz", x=x, y=np.repeat([0, 1, 2], 6))


def _learn_features(place: Path) -> str:
    code, _, err = command(["learn", str(place / "state"), "mine.npz", "--device", "cpu", "--quiet"])
    sentence(code, err)
    classifier = ContinualClassifier.load(place / "state", device="cpu", quiet=True)
    return digest(classifier.predict_proba(np.eye(4, dtype=np.float32)).round(5).tolist())


def _damage_or_bomb(place: Path, random: Random, outside: Path) -> str:
    if random.random() < 0.5:
        return _npz_bomb(place, random, outside)
    return damage_file(place / "mine.npz", random)


def _parquet_bomb(place: Path, random: Random, outside: Path) -> str:
    """Write few bytes that mean many: values in a dictionary, rows, pixels; or columns of other types."""
    import pyarrow
    from pyarrow import parquet

    rows, size = random.choice([(40, 2**26), (10**6, 10), (400, 2**20), (4, 10)])
    values = random.choice(
        [[bytes(size)], ["x" * size], [b"\x89PNG", None], [{"bytes": bytes(size)}], [[1, 2]]]
    )
    labels = random.choice(
        [[0, 1], ["a" * min(size, 10**6), "b"], [None], [1.5], [2**62], [[1]], [True], [b"x"]]
    )
    try:
        image = pyarrow.array(values)
        if not (pyarrow.types.is_nested(image.type) or image.null_count):  # not in dictionaries of parquet
            image = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), image)
    except (pyarrow.ArrowException, TypeError):
        image = pyarrow.array(values * min(rows, 40))
    label = pyarrow.array(np.resize(np.array([0, 1]), len(image)))
    if random.random() < 0.5:
        label = pyarrow.array((labels * len(image))[: len(image)] if len(image) < 10**4 else label)
    table = pyarrow.table({"image": image, "label": label})
    parquet.write_table(
        table,
        place / "all.parquet",
        compression="zstd",
        store_schema=random.random() < 0.5,
        use_dictionary=True,
    )
    return f"{rows:,} rows of {str(values)[:20]} {str(labels)[:20]}"


# ---- a user's methods and plug-ins, arguments, and the database of a search -----------------------------------------

_METHOD = """from gplasc.methods.er import ER
from gplasc.plugins.gplasc import GPLASCPlugin


class Mine({base}):
    def {hook}:
        {body}
"""
_HOOKS = (
    "parts(self, batch, ctx)", "loss(self, parts, ctx)", "adjust_gradients(self, parts, ctx)", "loss(self, *given)",
    "after_step(self, batch, parts, ctx)", "end_task(self, ctx)", "modules(self, ctx, network)", "predictor(self, ctx)",
    "__init__(self, *given)", "state_dict(self)", "begin_task(self, ctx)",
)  # fmt: skip
_DOES = (
    "pass", "return {}", "return {'a': 1}", "return {'a': None}", "return {1: ctx}", "raise KeyError('x')", "1 / 0",
    "return undefined", "return {'a': __import__('torch').zeros(2)}", "return {'a': float('nan')}", "raise SystemExit",
    "return {'a': __import__('torch').tensor(float('inf'))}", "return [1]", "raise StopIteration", "self.x.y",
    "import nothing_at_all", "return ctx.memory['no'].x", "return {'a': 'text'}", "raise OSError('full')",
    "return ctx.draw(10**9)", "raise RecursionError", "assert False", "raise Exception('two\\nlines \\x1b[31m')",
)  # fmt: skip


def _spoil_method(place: Path, random: Random, outside: Path) -> str:
    path = place / "mine.py"
    base = random.choice(("ER", "ER", "GPLASCPlugin"))
    hook, body = random.choice(_HOOKS), random.choice(_DOES)
    path.write_text(_METHOD.format(base=base, hook=hook, body=body))
    if random.random() < 0.2:
        path.write_bytes(damage_bytes(path.read_bytes(), random)[1])
    return f"{base}: {hook}: {body}"


def _use_method(place: Path) -> str:
    path = str(place / "mine.py")
    named = (
        ["--method", "er", "--plugin", path]
        if "(GPLASCPlugin)" in (place / "mine.py").read_bytes().decode(errors="replace")
        else ["--method", path]
    )
    words = ["run", "--stream", STREAM, *named, "--buffer", "4", *_TINY, "--set", "model.encoder=small"]
    code, out, err = command([*words, "--out", str(place / "runs")])
    _printable(out, err)
    sentence(code, err)
    return digest(code)


def _arrays(random: Random, *, spoiled: bool) -> tuple[Any, Any]:
    """Return images and labels for a classifier; of a spoiled case some are nearly allowed."""
    items: list[Any] = [(np.full((8, 8, 3), 20 * number, np.uint8), number % 3) for number in range(9)]
    if not spoiled or random.random() < 0.4:
        odd = [item for item in objects(random, spoiled=True) if item is not None] if spoiled else []
        return [*items, *random.sample(odd, min(len(odd), 2))], None
    x: Any = random.choice(
        [np.zeros((9, 8, 8, 3), np.uint8), np.arange(36, dtype=np.float32).reshape(9, 4), items]
    )
    if random.random() < 0.5 and isinstance(x, np.ndarray):
        kind = random.choice(["f4", "f8", "i8", "c16", "U3", "O", "?", "f2", "u2", "M8[s]"])
        x = x.astype(kind) if kind != "M8[s]" else x.astype("i8").astype(kind)
    labels = [
        10**400,
        -1,
        "1",
        "x",
        None,
        float("nan"),
        float("inf"),
        np.int8(3),
        True,
        2**63,
        b"1",
        "",
        " ",
        1.5,
    ]
    y: Any = random.choice(
        [[0, 1, 2] * 3, [random.choice(labels)] * 9, ["a", random.choice(labels), "b"] * 3, None, 3]
    )
    return x, y


def _learn_objects(place: Path) -> str:
    text = (place / "seed").read_text()
    random, spoiled = Random(text), bool(text)
    more: dict[str, Any] = {"method": "ncm", "encoder": "small", "image_size": 8}
    x, y = _arrays(random, spoiled=spoiled)
    if spoiled and random.random() < 0.4:
        names = (
            "buffer",
            "seed",
            "image_size",
            "train.lr",
            "held_out",
            "reject",
            "keep_features",
            "method",
            "scale",
        )
        odd = [np.int64(4), np.float32(0.5), np.array(3), "4", None, *VALUES]
        more |= {random.choice(names): random.choice(odd)}
    if getattr(x, "ndim", 4) == 2:
        more |= {"encoder": "auto", "image_size": None}
    classifier = ContinualClassifier(**more, device="cpu", quiet=True)
    classifier.learn(x, y)
    classifier.save(place / "state")
    loaded = ContinualClassifier.load(place / "state", device="cpu", quiet=True)
    images = (
        np.zeros((1, 8, 8, 3), np.uint8)
        if len(loaded.model.options.shape) == 3
        else np.zeros((1, 4), np.float32)
    )
    return digest(loaded.predict_proba(images).round(4).tolist(), loaded.classes_.tolist())


def _search(place: Path, *more: str) -> str:
    words = [
        "tune",
        "--stream",
        STREAM,
        "--method",
        "er",
        "--buffer",
        "4",
        *_TINY,
        "--set",
        "model.encoder=small",
    ]
    words += [
        "--set",
        "data.validation=0.3",
        "--set",
        "train.batch=4",
        "--space",
        "train.lr=0.1,0.2",
        "--trials",
        "1",
    ]
    code, _, err = command([*words, "--workers", "1", "--out", str(place / "search"), *more])
    sentence(code, err)
    return digest((place / "search" / "trials.csv").read_text())


def _spoil_search(place: Path, random: Random, outside: Path) -> str:
    return damage_file(place / "search" / "study.db", random)


def _seed(place: Path) -> None:
    (place / "seed").write_text("")


def _spoil_seed(place: Path, random: Random, outside: Path) -> str:
    (place / "seed").write_text(str(random.random()))
    return (place / "seed").read_text()


def _npz(place: Path) -> None:
    from tests.streams.conftest import Imitations

    Imitations(place).npz()


FORGED: dict[str, Format] = {
    "forged record": Format(_computed, _forge_record, _use_record, weight=3),
    "forged state": Format(_classifier, _forge_state, _use_state, weight=2),
    "links of a state": Format(_two_months, _link("state"), _unchanged(_learn_more), weight=2),
    "links of a run": Format(_computed, _link("runs"), _unchanged(_restart), weight=1),
    "npz bombs": Format(_npz, _npz_bomb, stream("npz:HERE/mine.npz"), weight=2),
    "npz to learn": Format(_features_file, _damage_or_bomb, _learn_features, weight=2),
    "method file": Format(
        lambda place: (place / "mine.py").write_text(
            _METHOD.format(base="ER", hook="unused(self)", body="pass")
        ),
        _spoil_method,
        _use_method,
        weight=3,
    ),
    "objects to learn": Format(_seed, _spoil_seed, _learn_objects, weight=3),
}
if os.environ.get("GPLASC_FUZZ_SEARCH"):  # each case starts processes, which takes seconds
    FORGED["search"] = Format(_search, _spoil_search, _search, weight=1)
try:
    import pyarrow as _pyarrow
except ImportError:
    pass
else:
    assert _pyarrow
    FORGED["parquet bombs"] = Format(
        lambda place: _parquet_intact(place), _parquet_bomb, stream("parquet:HERE/all.parquet"), weight=2
    )


def _parquet_intact(place: Path) -> None:
    from tests.fuzz.newer import _parquet

    _parquet(place)
