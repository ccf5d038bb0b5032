"""All that the net knows of the inside of gplasc: after a move of modules only this file changes."""

import hashlib
import io
import json
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from gplasc.cli import main
from gplasc.paper import is_grid, list_experiments, load_experiment
from gplasc.runs.result import Result
from gplasc.runs.spec import RunRequest
from gplasc.settings.components import list_methods
from gplasc.study.stored import read_results
from gplasc.study.tables import write_comparison

COMPUTES_BFLOAT16 = "gplasc.runs.spec.computes_bfloat16"  # what the precision "auto" depends on
RESULTS = Path(__file__).parents[2] / "results"


def experiments() -> list[str]:
    """Return the names of all experiments that are grids of runs."""
    return list(filter(is_grid, list_experiments()))


def methods() -> list[str]:
    """Return the names of all methods."""
    return list(list_methods())


def run_ids(experiment: str, scale: str) -> list[str]:
    """Return the id of every planned run of an experiment, in order, without a digest of the data."""
    return [cell.run_id for cell in load_experiment(experiment).cells(scale)]


def method_run_id(stream: str, title: str, scale: str) -> str:
    """Return the id of a run of a method with plug-ins, such as ``er+gplasc``, without a digest of the data.

    With replay methods GPLASC had views of its own when the ids were written.
    """
    method, *plugins = title.split("+")
    settings = {"gplasc.share_views": False} if "gplasc" in plugins else {}
    return RunRequest(stream, method, plugins, scale=scale, settings=settings).resolve().config.run_id


def command(words: list[str]) -> tuple[int, str]:
    """Run a command line in this process; return its exit code and what it printed to the standard output."""
    said, code = io.StringIO(), 0
    with warnings.catch_warnings(), redirect_stdout(said), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            main(words)
        except SystemExit as end:
            code = int(end.code or 0)
    return code, said.getvalue()


def restored_run(folder: Path) -> tuple[dict[str, torch.Tensor], list[int], dict[str, object]]:
    """Return tensors, predictions for the samples it was evaluated on, and accuracy matrices of a finished run."""
    run = Result.read(folder).load(device="cpu")
    ctx = run.learner.ctx
    with torch.no_grad():
        scores = [ctx.predictor(run.features(run.evaluation_samples(task))) for task in run.stream]
    state = ctx.modules.state_dict() | {f"predictor.{n}": v for n, v in ctx.predictor.state_dict().items()}
    tensors = {name: value for name, value in state.items() if not name.endswith("_extra_state")}
    return tensors, torch.cat(scores).argmax(1).tolist(), run.record["matrix"]


def table_digests() -> dict[str, dict[str, str]]:
    """Return the digest of each table made of each file results/NAME.json: {NAME: {file name: digest}}."""
    found = {}
    with TemporaryDirectory() as folder:
        for path in sorted(RESULTS.glob("*.json")):
            results = read_results(path)
            written = write_comparison(results, Path(folder) / path.stem)
            texts = {
                file.name: file.read_bytes() for file in written if file.suffix in (".md", ".tex", ".csv")
            }
            found[path.stem] = {n: hashlib.sha256(text).hexdigest() for n, text in sorted(texts.items())}
    return found


def nested_keys(value: object, leaves: frozenset[str], path: str = "") -> set[str]:
    """Return the dotted names of all keys of a JSON object, with ``[]`` for a list; `leaves` are not opened."""
    if path in leaves:
        return set()
    if isinstance(value, list):
        return {key for one in value for key in nested_keys(one, leaves, f"{path}[]")}
    if not isinstance(value, dict):
        return set()
    names = {f"{path}.{key}".lstrip("."): one for key, one in value.items()}
    return set(names).union(*(nested_keys(one, leaves, name) for name, one in names.items()))


def read_json(path: Path) -> object:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
