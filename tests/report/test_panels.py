import math

import pytest

from gplasc._io.table import Table
from gplasc.report.page import build_report
from gplasc.report.panels import Panel, make_panels, unlike
from gplasc.report.sections.provenance import time
from gplasc.results.group import Measure, group_records
from gplasc.results.record import Record


def ratio(panel: Panel) -> str:
    """The last cell of the table of times."""
    section = time([panel])
    assert section is not None
    table = section.parts[0].blocks[1]
    assert isinstance(table, Table)
    return str(table.cells[-1][-1].value)


def test_runs_that_differ_in_their_seed_alone_are_one_group(make_record) -> None:
    records = [make_record(seed=seed) for seed in (2, 0, 1)] + [make_record("er")]
    (panel,) = make_panels(records)
    assert [group.labels["row"] for group in panel.groups] == ["co2l", "er"]
    assert [r["settings"]["seed"] for r in panel.groups[0].records] == [0, 1, 2]


def test_a_run_given_twice_counts_once(make_record, make_data) -> None:
    (panel,) = make_panels([make_record(), make_record()])
    assert len(panel.groups[0].records) == 1
    again = Record.parse(make_data() | {"run_id": "0" * 12})
    groups, left_out = group_records([make_record(), again])
    assert [len(group.records) for group in groups] == [1]
    assert left_out == [f"the run {'0' * 12}, which has data, settings and seed of {make_record().run_id}"]


def test_runs_with_the_same_effective_settings_are_one_group(make_data) -> None:
    """No epochs of the first task, and as many as of the others, are the same training."""
    records = [make_data(seed=seed) for seed in (0, 1, 2)]
    for record, first in zip(records, (None, 5, 6), strict=True):
        record["settings"]["train"] = record["settings"]["train"] | {"epochs": 5, "first_epochs": first}
    groups, left_out = group_records([Record.parse(record) for record in records])
    assert [list(group.runs) for group in groups] == [[0, 1], [2]]
    assert left_out == []


def test_another_result_of_a_run_is_not_dropped_in_silence(make_data, tmp_path) -> None:
    """As two machines compute it; a copy with the same numbers needs no word."""
    one, other = make_data(), make_data()
    other["matrix"]["class_il"][0][0] += 1.0
    records = [Record.parse(data) for data in (one, one, other)]
    assert group_records(records)[1] == [f"another result of the run {records[0].run_id}"]
    page = build_report(records, tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"Not on this page: another result of the run {records[0].run_id}." in page


def test_runs_of_different_data_are_never_averaged(make_data) -> None:
    """Two class orders under one name: their settings are equal, and the digest of the data is not."""
    records = []
    for order, accuracy in (("0123", 57.6), ("3210", 50.8)):
        for seed in (0, 1):
            data = make_data(tasks=2, seed=seed, accuracy=accuracy, class_names=list(order))
            data["settings"]["identity"] = {"data": order * 16}
            records.append(Record.parse(data | {"run_id": f"{order}{seed}"}))
    panels = make_panels(records)
    assert [[len(group.records) for group in panel.groups] for panel in panels] == [[2], [2]]
    assert [panel.title for panel in panels] == [
        f"seq-cifar10, data {order}{order}, memory 200, cpu scale" for order in ("0123", "3210")
    ]
    assert panels[0].name == make_panels(records[:2])[0].name != panels[1].name
    without = [Record.parse(r.to_dict() | {"settings": r["settings"] | {"identity": {}}}) for r in records]
    assert len(make_panels(without)[0].groups) == 2, "the names of the classes tell as much"


def test_runs_of_two_precisions_or_versions_of_a_file_are_two_rows(make_data) -> None:
    records = [make_data() for _ in range(3)]
    records[1]["settings"]["train"] = records[1]["settings"]["train"] | {"precision": "bfloat16"}
    records[2]["settings"]["identity"] = {"./co2l.py": "ab" * 32}
    (panel,) = make_panels([Record.parse(r | {"run_id": str(n)}) for n, r in enumerate(records)])
    rows = [group.labels["row"] for group in panel.groups]
    assert rows == ["co2l, precision bfloat16", "co2l, precision none", "co2l, precision none (2)"]


def test_streams_scales_memories_and_divisions_into_tasks_are_panels_of_their_own(make_record) -> None:
    records = [
        make_record(),
        make_record(stream="seq-cifar100"),
        make_record(scale="paper"),
        make_record(buffer=500),
        make_record(tasks=4),
    ]
    panels = make_panels(records)
    assert len(panels) == 5
    assert len({panel.title for panel in panels}) == 5
    assert len({panel.name for panel in panels}) == 5


def test_variants_are_named_by_the_setting_that_tells_them_apart(make_record) -> None:
    records = [make_record(settings={"train": {"lr": lr, "milestones": [60, 75]}}) for lr in (1.0, 0.5)]
    (panel,) = make_panels(records)
    assert [group.labels["row"] for group in panel.groups] == ["co2l, lr 0.5", "co2l, lr 1.0"]


def test_groups_of_one_name_are_numbered(make_data) -> None:
    """As two files of one name in different folders are."""
    records = [make_data(name) | {"title": "mine"} for name in ("a", "b")]
    for record in records:
        record["settings"]["options"] = {}
    (panel,) = make_panels([Record.parse(record) for record in records])
    assert [group.labels["row"] for group in panel.groups] == ["mine", "mine (2)"]


def test_gain_is_the_mean_difference_over_common_seeds(make_record) -> None:
    records = [make_record(seed=seed, accuracy=40) for seed in range(4)]
    records += [make_record("co2l", ("gplasc",), seed=seed, accuracy=50) for seed in range(1, 6)]
    (panel,) = make_panels(records)
    ((group, base),) = panel.pairs
    assert unlike(group, base) == []
    slow = []
    for plain in records[:4]:
        for other in records[4:]:
            if plain["settings"]["seed"] == other["settings"]["seed"]:
                of = [r["metrics"]["task_il"]["final_accuracy"] for r in (plain, other)]
                slow.append(of[1] - of[0])
    gain = panel.gain(group, Measure("final_accuracy", scenario="task_il"))
    assert gain is not None
    assert gain.count == len(slow) == 3
    assert gain.mean == pytest.approx(sum(slow) / 3)
    assert gain.low <= gain.mean <= gain.high
    assert ratio(panel) == "× 2.00 ± 0.00"


def test_the_nearest_base_is_taken_and_its_other_settings_are_told(make_record) -> None:
    far = make_record(settings={"train": {"lr": 0.9, "milestones": [1]}})
    near = make_record(settings={"train": {"lr": 0.2, "milestones": [60, 75]}})
    (panel,) = make_panels([far, near, make_record("co2l", ("gplasc",)), make_record("er", ("gplasc",))])
    ((group, base),) = panel.pairs  # er has no base here
    assert base.first is near
    assert unlike(group, base) == ["train.lr"]


def test_times_of_different_machines_are_not_compared(make_data) -> None:
    records = [make_data(), make_data("co2l", ("gplasc",))]
    records[1]["environment"]["device"] = "another"
    (panel,) = make_panels([Record.parse(record) for record in records])
    assert ratio(panel) == "–"


def test_missing_numbers_are_left_out(make_data) -> None:
    records = [make_data(seed=seed) for seed in range(3)]
    for record in records[:2]:
        record["matrix"]["class_il"][2][0] = math.nan
    (panel,) = make_panels([Record.parse(record) for record in records])
    value = panel.groups[0].spread(Measure("forgetting", scenario="class_il"))
    assert value.count == 1
    assert value.mean == panel.groups[0].records[2].metric("forgetting")
    assert panel.groups[0].matrix("class_il")[2][0] == records[2]["matrix"]["class_il"][2][0]


def test_no_two_lines_of_a_figure_look_the_same(make_record) -> None:
    rows = [
        ("co2l", ()),
        ("co2l", ("gplasc",)),
        ("co2l", ("gplasc-plus",)),
        ("er", ()),
        ("er", ("gplasc-plus",)),
    ]
    (panel,) = make_panels([make_record(method, plugins) for method, plugins in rows])
    looks = panel.looks
    assert len(set(looks.values())) == len(looks) == 5
    assert looks["co2l"] == (looks["co2l+gplasc"][0], True), (
        "a base has the color of its first variant, hollow"
    )
