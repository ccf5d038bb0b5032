"""The grids as data: complete beside the published tables, sharing runs, and narrowed as the user asks."""

import pytest

from gplasc.errors import UserError
from gplasc.paper import is_grid, list_experiments, load_experiment
from gplasc.published import published
from gplasc.settings.components import list_methods
from gplasc.streams.catalog import find_stream
from gplasc.streams.sources.synthetic import parse
from gplasc.study.experiment import SEEDS, _stand_ins

NAMES = [
    "table-accuracy", "table-replay", "table-finegrained", "table-forgetting", "ablation-components",
    "ablation-distillation", "ablation-task-number", "ablation-buffer", "ablation-range-loss", "sensitivity",
    "ablation-plus", "overlap", "tsne", "time", "digits", "fashion", "ladder", "seq-mnist",
]  # fmt: skip


def ids(name: str, scale: str = "paper", **narrow) -> set[str]:
    return {cell.run_id for cell in load_experiment(name).cells(scale, (0,), **narrow)}


def test_every_name_is_there():
    assert set(filter(is_grid, list_experiments())) == set(NAMES)
    assert {"toy", "theory", *NAMES} == set(list_experiments())
    assert all(list_experiments().values())
    assert is_grid("overlap")
    assert not is_grid("toy")
    with pytest.raises(UserError, match="did you mean 'overlap'"):
        is_grid("overlaps")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", ["paper", "cpu", "smoke"])
def test_every_grid_has_complete_settings(name, scale):
    cells = load_experiment(name).cells(scale)
    assert len(cells) % len(SEEDS[scale]) == 0
    assert {base for cell in cells for base in cell.bases} <= {str(cell.labels["row"]) for cell in cells}
    assert {cell.spec.config.method for cell in cells} <= set(list_methods())
    for cell in cells:
        config = cell.spec.config
        assert config.scale == scale
        if scale == "smoke" and cell.labels["stream"] != "seq-digits":
            assert config.stream.startswith("synthetic:"), "smoke scale must need no data"
        else:
            assert config.stream == cell.labels["stream"]


@pytest.mark.parametrize("name", [n for n in NAMES if load_experiment(n).published])
def test_grids_cover_their_published_tables_and_nothing_else(name):
    experiment = load_experiment(name)
    ours = {
        (*cell.labels.values(), scenario)
        for cell in experiment.cells("paper", (0,))
        for scenario in experiment.scenarios
    }
    tables = {experiment.published_table(scenario) for scenario in experiment.scenarios}
    theirs = {
        (number.row, number.stream, number.buffer or 200, number.scenario or scenario)
        for table in tables
        for number in published(table)
        for scenario in experiment.scenarios
    }
    assert theirs <= ours
    if name == "seq-mnist":
        assert {row for row, *_ in ours - theirs} == {"gcr"}  # has no published number there
    elif name not in ("overlap", "ablation-range-loss"):  # whose published side lacks numbers or a scenario
        assert ours == theirs


def test_stand_ins_have_the_shape_of_the_real_streams():
    streams = {stream for name in NAMES for stream in load_experiment(name).streams}
    for stream in streams - {"seq-digits"}:
        info, _ = find_stream(stream)
        other = _stand_ins()[stream]
        shape = parse(other.stream.partition(":")[2])
        assert (shape.tasks, shape.classes, shape.channels) == (
            info.tasks,
            info.classes_per_task,
            info.channels,
        )
        assert (shape.size == info.image_size) != bool(other.reduced), "a reduced size must be said"
    assert "seq-digits" not in _stand_ins()


def test_grids_share_runs():
    main = ids("table-accuracy")
    assert ids("table-forgetting") <= main
    assert ids("time") <= main
    assert ids("ablation-range-loss", only=["hinge"]) <= main
    assert ids("ablation-components", only=["co2l", "co2l+gplasc"]) <= main
    assert ids("table-replay", only=["er", "der", "icarl"]) <= main
    assert ids("ablation-task-number", only=["expected tasks = known", "co2l", "seq-cifar*"]) <= main
    assert ids("tsne") <= ids("overlap")
    assert ids("sensitivity", only=["margin = 0.15", "seq-cifar10"]) <= main


def test_presets_of_the_real_stream_hold_at_smoke_scale():
    (cell,) = load_experiment("ablation-components").cells("smoke", only=["co2l+gplasc"])
    assert cell.spec.config.options["gplasc"]["margin"] == 0.15
    assert cell.spec.config.stream.startswith("synthetic:")
    assert " on seq-cifar10 200, seed " in cell.text


def test_what_is_set_reaches_the_run():
    cells = {
        str(cell.labels["row"]): cell for cell in load_experiment("ablation-components").cells("cpu", (7,))
    }
    options = cells["r2scl only"].spec.config.options["gplasc"]
    assert (options["lambda_distill"], options["lambda_range"]) == (0.0, 1.0)
    options = cells["distill only"].spec.config.options["gplasc"]
    assert (options["lambda_distill"], options["lambda_range"], options["lambda_position"]) == (1.0, 0.0, 0.0)
    assert {cell.spec.config.seed for cell in cells.values()} == {7}
    oracle = next(c for c in load_experiment("overlap").cells("cpu", (0,)) if c.labels["row"] == "oracle")
    assert (oracle.spec.config.buffer, oracle.labels["buffer"]) == (50_000, 200)


def test_narrowing():
    experiment = load_experiment("table-accuracy")
    cells = experiment.cells("cpu", (0, 1), only=["seq-cifar10", "200"], methods=["co2l"])
    assert {tuple(c.labels.values()) for c in cells} == {
        ("co2l", "seq-cifar10", 200),
        ("co2l+gplasc", "seq-cifar10", 200),
    }
    assert len(cells) == 4
    assert len(experiment.cells("cpu", (0,), only=["seq-cifar*", "co2l", "cila"])) == 2 * 2 * 2
    rows = {
        str(cell.labels["row"]) for cell in load_experiment("sensitivity").cells("cpu", (0,), only=["margin"])
    }
    assert rows == {f"margin = {value}" for value in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)}
    with pytest.raises(UserError, match="did you mean 'seq-cifar10'"):
        experiment.cells("cpu", only=["seq-cifr10"])
    with pytest.raises(UserError, match="has no method 'supcon'"):
        experiment.cells("cpu", methods=["supcon"])
    with pytest.raises(UserError, match="nothing of table-accuracy is left"):
        experiment.cells("cpu", only=["seq-tinyimagenet"], methods=["gem"])


@pytest.mark.parametrize("stream", ["cub200", "seq-tinyimagenet"])
def test_stand_ins_keep_their_own_image_size(stream):
    experiment = load_experiment("ladder")
    row = next(row for row in experiment.rows if row.name == "co2l")
    sizes = {
        scale: experiment.cell(row, stream, None, 0, scale).spec.config.data.image_size
        for scale in ("cpu", "smoke")
    }
    assert sizes["cpu"] is not None
    assert sizes["smoke"] is None
