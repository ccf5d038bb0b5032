import pytest

from gplasc.published import published, tables
from gplasc.streams.catalog import list_streams


def test_every_table_is_complete():
    counts = {name: len(published(name)) for name in tables()}
    assert counts == {
        "acc_result": 23 * 6 - 4,  # GEM has no numbers on Seq-Tiny-ImageNet
        "er_baseline_": 6 * 6,
        "cub200_imagenet_r_a": 4 * 6,
        "forgetting_result": 12 * 6,
        "buffer_abla_cil": 15,
        "buffer_abla_til": 15,
        "ablation_components": 8,
        "ablation_thresholg_loss": 4,
        "time_comparison": 20,
        "resnet18_overlapping": 1,
        "der_seq_mnist": 20,
    }


def lookup(table, row, **where):
    """Return the first of the numbers with exactly these values."""
    place = {"buffer": None, "scenario": None, "metric": "final_accuracy", "point": None} | where
    return next(iter(published(table, row=row, **place)), None)


@pytest.mark.parametrize(
    ("table", "row", "stream", "buffer", "scenario", "mean", "std"),
    [
        ("acc_result", "er", "seq-tinyimagenet", 200, "class_il", 8.65, 0.16),
        ("acc_result", "cclis+gplasc", "seq-cifar100", 500, "task_il", 73.35, 0.89),
        ("acc_result", "cila", "seq-cifar10", 500, "class_il", 77.03, 0.79),
        ("er_baseline_", "der+gplasc", "seq-cifar100", None, "class_il", 33.03, 1.25),
        ("cub200_imagenet_r_a", "co2l+gplasc", "imagenet-a", 500, "class_il", 10.5, 2.83),
        ("buffer_abla_cil", "supcon", "seq-cifar10", 300, "class_il", 53.12, 0.98),
        ("buffer_abla_til", "co2l+gplasc", "seq-cifar10", 100, "task_il", 92.33, 1.23),
        ("ablation_components", "r2scl only", "seq-cifar10", 200, "task_il", 94.68, None),
        ("ablation_thresholg_loss", "leaky_relu", "seq-cifar10", 200, "class_il", 68.15, None),
    ],
)
def test_numbers_as_printed(table, row, stream, buffer, scenario, mean, std):
    found = lookup(table, row, stream=stream, buffer=buffer, scenario=scenario)
    assert found is not None
    assert (found.mean, found.std) == (mean, std)
    assert " " in found.label, "words, no label of LaTeX"
    assert "Global Pre-fixing" in found.paper


def test_other_metrics_and_points():
    seconds = lookup("time_comparison", "co2l+gplasc", stream="seq-cifar10", metric="seconds", point="1")
    assert str(seconds) == "1764"
    where = {"stream": "seq-cifar10", "buffer": 200, "metric": "overlap", "point": "4-3"}
    assert str(lookup("resnet18_overlapping", "supcon", **where)) == "0.481"
    where = {"stream": "seq-cifar100", "buffer": 500, "scenario": "task_il", "metric": "forgetting"}
    forgetting = lookup("forgetting_result", "cila+gplasc", **where)
    assert str(forgetting) == "30.08 ± 1.15"


def test_what_was_not_published_is_none():
    assert lookup("acc_result", "gem", stream="seq-tinyimagenet", buffer=200, scenario="class_il") is None
    assert lookup("acc_result", "gss", stream="seq-cifar10", buffer=500, scenario="class_il") is None
    assert lookup("acc_result", "co2l", stream="seq-cifar10", buffer=300, scenario="class_il") is None
    where = {"stream": "seq-cifar10", "scenario": "class_il"}
    assert lookup("er_baseline_", "er", buffer=200, **where) is None, "that table states no buffer"
    assert lookup("er_baseline_", "er", **where) is not None
    with pytest.raises(ValueError, match="did you mean 'acc_result'"):
        lookup("acc_results", "co2l", stream="seq-cifar10")


def test_contradictions_stand_beside_the_numbers():
    ours = lookup("acc_result", "co2l+gplasc", stream="seq-cifar10", buffer=200, scenario="class_il")
    assert any("69.9" in note and "70.09" in note for note in ours.notes)
    other = lookup("acc_result", "co2l+gplasc", stream="seq-cifar100", buffer=200, scenario="class_il")
    assert not any("69.9" in note for note in other.notes)
    er = lookup("acc_result", "er", stream="seq-cifar10", buffer=200, scenario="class_il")
    assert any("58.21" in note for note in er.notes)
    assert any("states no buffer" in note for note in tables()["er_baseline_"].remarks)


def test_every_note_speaks_of_some_number():
    for name, table in tables().items():
        said = {text for number in published(name) for text in number.notes} | set(table.remarks)
        assert said == {note.text for note in table.notes}


def test_notes_quote_numbers_that_exist():
    """The contradictions are recomputed from the numbers themselves."""

    def mean(table, row, stream="seq-cifar10", buffer=200, scenario="class_il"):
        return lookup(table, row, stream=stream, buffer=buffer, scenario=scenario).mean

    assert mean("acc_result", "co2l+gplasc") == 70.59 == mean("ablation_components", "co2l+gplasc")
    assert mean("buffer_abla_cil", "co2l+gplasc") == 69.9
    assert mean("ablation_thresholg_loss", "hinge") == 70.09
    with_it, without = (mean("er_baseline_", row, "seq-cifar100", None) for row in ("er+gplasc", "er"))
    assert with_it - without == pytest.approx(3.50)
    where = {"buffer": 500, "metric": "forgetting"}
    worse = [
        (stream, scenario)
        for stream in ("seq-cifar10", "seq-cifar100", "seq-tinyimagenet")
        for scenario in ("class_il", "task_il")
        if lookup("forgetting_result", "cila+gplasc", stream=stream, scenario=scenario, **where).mean
        > lookup("forgetting_result", "cila", stream=stream, scenario=scenario, **where).mean
    ]
    assert len(worse) == 4


def test_streams_have_our_names():
    ours = {info.name for info in list_streams()}
    assert {number.stream for name in tables() for number in published(name)} <= ours
