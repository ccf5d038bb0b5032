"""Commands of the pages, and the same commands for data that is there and settings that take a second."""

import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from gplasc.paper import is_grid, load_experiment

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TINY = "synthetic:tasks=2,classes=2,size=8,channels=3,train=6,test=4"
ROOT = Path(__file__).parent.parent
HERE = ("folder:", "features:", "npz:", "parquet:", "synthetic")  # streams that need no stand-in

# Commands that are parsed and not executed, and why.
NOT_EXECUTED: tuple[tuple[str, Callable[[list[str]], bool]], ...] = (
    ("needs a Ray cluster; tests/sweep/test_ray.py starts one", lambda words: "ray" in words),
    ("tests/learning/test_distributed.py runs it", lambda words: "--devices" in words),
    ("downloads", lambda words: words[:2] == ["data", "get"]),
    ("tests/report/test_demo.py runs it", lambda words: words[0] == "demo"),
    ("tests/test_examples.py runs the checks", lambda words: words[0] == "check"),
    (
        "tests/experiments/test_toy.py and test_theory.py run them",
        lambda words: words[:1] == ["reproduce"] and words[1] in ("toy", "theory"),
    ),
)
# Lines that begin with another program, and why they are not executed.
OTHER_PROGRAMS = {
    "make": "installs into .venv, or is this test",
    "pip": "installs",
    "python3": "creates an environment",
    ".": "activates an environment",
    "python": "measures for minutes",
    "mkdir": "writes into the user's home folder",
    "torchrun": "tests/learning/test_distributed.py starts it",
}


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Return language, options and code of each block of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def lines(page: Path) -> Iterator[list[str]]:
    """Yield the words of each line of the shell; variables of the page are replaced by their values."""
    variables: dict[str, str] = {}
    for language, _, code in blocks(page):
        for line in code.replace("\\\n", " ").splitlines() if language == "sh" else ():
            words = shlex.split(line, comments=True)
            if len(words) == 1 and (found := re.fullmatch(r"(\w+)=(.*)", words[0])):
                variables[found[1]] = found[2]
            elif words:
                yield [
                    part
                    for word in words
                    for part in (shlex.split(variables[word[1:]]) if word.startswith("$") else [word])
                ]


def redirected_commands(page: Path) -> list[tuple[list[str], str]]:
    """Return the arguments of each gplasc command of a page, and the file that its output is written to, or nothing."""
    given = [words[1:] for words in lines(page) if words[0] == "gplasc"]
    return [(words[:-2], words[-1]) if ">" in words else (words, "") for words in given]


def commands(page: Path) -> list[list[str]]:
    """Return the arguments of each gplasc command of a page, without a redirection."""
    return [words for words, _ in redirected_commands(page)]


def commands_in_text(page: Path) -> list[list[str]]:
    """Return the arguments of each gplasc command with options that stands in a sentence."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"`gplasc ([^`]+)`", text)
    return [shlex.split(code.replace("\n", " ")) for code in found if "--" in code and "..." not in code]


def values(words: list[str], name: str) -> list[str]:
    """Return the values of an option."""
    if name not in words:
        return []
    start = words.index(name) + 1
    end = next((n for n in range(start, len(words)) if words[n].startswith("--")), len(words))
    return words[start:end]


def option(words: list[str], name: str, *given: str | None) -> list[str]:
    """Return the words with an option set to these values; None removes it."""
    if name in words:
        start = words.index(name)
        words = words[:start] + words[start + 1 + len(values(words, name)) :]
    return words if None in given else [*words, name, *(str(value) for value in given)]


def at_smoke_scale(words: list[str]) -> list[str] | None:
    """Return the same command at smoke scale; None if it is not executed."""
    if any(applies(words) for _, applies in NOT_EXECUTED):
        return None
    words = [re.sub(r"^(train\.(first_)?epochs)=\d+$", r"\1=2", word) for word in words]
    change = _CHANGES.get(words[0])
    return change(words) if change else words


def _data(words: list[str]) -> list[str]:
    return [word.replace("seq-cifar10", "seq-digits") for word in words]


def _learn(words: list[str]) -> list[str]:
    words = option(option(words, "--min-accuracy", None), "--max-damage", None)  # the images are noise
    if Path(words[1]).exists():  # settings are chosen when a classifier is created
        return [*words, "--quiet"]
    if "--encoder" not in words:
        words = [*words, "--encoder", "small"]
    return [*option(words, "--image-size", "16"), "--buffer", "6", "--scale", "smoke", "--quiet"]


def _training(words: list[str]) -> list[str]:
    """A command that trains with one group of settings: run, sweep, tune."""
    words = option(words, "--scale", "smoke")
    stream = values(words, "--stream")
    if not stream or not stream[0].startswith(HERE):
        words = option(words, "--stream", TINY)
    words = ["model.encoder=small" if word.startswith("model.encoder=") else word for word in words]
    if not {"--encoder", "model.encoder=small"} & set(words) and not (stream and "features:" in stream[0]):
        words += ["--set", "model.encoder=small"]
    return [*option(words, "--buffer", "6"), "--quiet"]


def _features(words: list[str]) -> list[str]:
    return option(words, "--stream", TINY)


def _sweep(words: list[str]) -> list[str]:
    grid = [word.partition(",")[0] for word in values(words, "--grid")]  # one point of the grid
    words = option(words, "--grid", *grid) if grid else words
    return _training(option(option(words, "--workers", "1"), "--seeds", "0"))


def _tune(words: list[str]) -> list[str]:
    words = option(option(words, "--workers", "1"), "--trials", "2")
    return [*_training(words), "--set", "data.validation=0.5"]


def _plan(words: list[str], path: Path) -> list[str]:
    """The comparison of a plan, with another stream, scale and seed."""
    text = 'scale = "smoke"\n' + path.read_text(encoding="utf-8")
    text = re.sub(r"^streams = .*", 'streams = ["seq-digits"]', text, flags=re.MULTILINE)
    small = Path(tempfile.mkdtemp()) / "plan.toml"
    small.write_text(re.sub(r"^seeds = .*", "seeds = [0]", text, flags=re.MULTILINE), encoding="utf-8")
    return [*option(option(words, "--plan", str(small)), "--workers", "1"), "--quiet"]


def _compare(words: list[str]) -> list[str]:
    if plan := values(words, "--plan"):
        return _plan(words, ROOT / plan[0])
    stream = values(words, "--stream")[0]
    words = option(words, "--stream", stream if stream.startswith(HERE) else "seq-digits")
    for name, value in (("--scale", "smoke"), ("--seeds", "0"), ("--workers", "1")):
        words = option(words, name, value)
    if "--tune" in words:
        words = option(option(words, "--tune", "2"), "--tune-seeds", "1000")
    if plugins := values(words, "--plugins"):
        words = option(words, "--plugins", plugins[-1])
    words = option(words, "--methods", values(words, "--methods")[-1])
    return [*words, "--quiet"]


def _reproduce(words: list[str]) -> list[str]:
    for name, value in (("--scale", "smoke"), ("--seeds", "0"), ("--workers", "1")):
        words = option(words, name, value)
    methods = values(words, "--methods")
    if "--fair" in words:
        words = option(words, "--trials", "1")
        if "--streams" in words:
            words = option(words, "--streams", "seq-digits")
        if buffers := values(words, "--buffers"):
            words = option(words, "--buffers", buffers[0])
        if methods or "--only" not in words:
            words = option(words, "--methods", *(methods[:1] or ["er"]))
        else:
            words = option(words, "--only", values(words, "--only")[0])  # one of the rows that are named
        if plugins := values(words, "--plugins"):
            words = option(words, "--plugins", plugins[-1])
        if not any(word.startswith("model.encoder=") for word in words):
            words += ["--set", "model.encoder=small"]
        return [*words, "--quiet"]
    if not is_grid(words[1]):
        return words
    experiment = load_experiment(words[1])
    rows = [row for row in experiment.rows if not methods or row.method in methods]
    row = next((row for row in rows if row.base), rows[0])  # a row and the one it is compared with
    given = values(words, "--only") or [
        (row.streams or experiment.streams)[0],
        *(row.buffers or experiment.buffers or ())[:1],
    ]
    names = [row.name, row.base] if row.base else [row.name]
    return [*option(words, "--only", *given, *names), "--quiet"]


_CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "compare": _compare,
    "data": _data,
    "features": _features,
    "learn": _learn,
    "reproduce": _reproduce,
    "run": _training,
    "sweep": _sweep,
    "tune": _tune,
}
