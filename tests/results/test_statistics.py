import math

import pytest
from scipy import stats

from gplasc.results.group import Group, Measure
from gplasc.results.record import load_records
from gplasc.results.statistics import Difference, spread


def differences(*gains: float):
    return Difference.of(dict.fromkeys(range(len(gains)), 1.0), {i: 1.0 + g for i, g in enumerate(gains)})


def test_spread_is_the_sample_standard_deviation():
    found = spread([1.0, 2.0, 4.0])
    mean = 7 / 3
    assert found.mean == pytest.approx(mean)
    assert found.std == pytest.approx(math.sqrt(sum((v - mean) ** 2 for v in (1, 2, 4)) / 2))
    assert spread([]).count == 0


def test_only_common_seeds_are_paired():
    found = Difference.of({0: 10.0, 1: 20.0, 2: 5.0}, {1: 21.0, 2: 8.0, 3: 99.0})
    assert (found.mean, found.count) == (2.0, 2)
    # By hand: differences 1 and 3, std sqrt(2), so std / sqrt(n) = 1; t(0.975, 1) = tan(0.475 pi).
    assert found.high - 2.0 == pytest.approx(math.tan(0.475 * math.pi))
    assert 2.0 - found.low == pytest.approx(math.tan(0.475 * math.pi))


def test_few_seeds_do_not_make_a_narrow_interval():
    """The range of three gains is [3.4, 4.6]; Student's interval is wider."""
    found = differences(4.6, 4.4, 3.4)
    assert (round(found.low, 1), round(found.high, 1)) == (2.5, 5.7)


@pytest.mark.parametrize("gains", [(1.0, 2.0), (0.3, -0.2, 0.9, 1.4), tuple(i % 7 / 3 for i in range(40))])
def test_interval_is_that_of_scipy(gains):
    found = differences(*gains)
    expected = stats.ttest_1samp(gains, 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_no_verdict_below_five_seeds():
    assert differences(4.0, 4.1, 4.2, 4.1).low > 0
    assert differences(4.0, 4.1, 4.2, 4.1).verdict == 0
    assert differences(4.0, 4.1, 4.2, 4.1, 4.0).verdict == 1
    assert differences(-4.0, -4.1, -4.2, -4.1, -4.0).verdict == -1
    assert differences(-4.0, 4.1, -4.2, 4.1, 4.0).verdict == 0


def test_one_pair_has_no_interval():
    assert Difference.of({0: 1.0}, {1: 1.0}).count == 0
    assert str(Difference.of({0: 1.0}, {0: 2.0})) == "+1.00 (n=1)"
    assert math.isnan(Difference.of({0: 1.0}, {0: 2.0}).low)


def test_damaged_and_foreign_records_are_skipped(tiny, tmp_path):
    from gplasc._io.display import Display
    from gplasc.runs.execute import execute
    from gplasc.runs.workspace import Workspace

    record = execute(tiny("finetune"), Workspace(tmp_path, device="cpu"), display=Display()).record
    good = (tmp_path / record["run_id"] / "record.json").read_text()
    records, skipped = load_records([tmp_path])
    assert ([r["run_id"] for r in records], skipped) == ([record["run_id"]], [])
    bad = {"a": "{}", "b": "[]", "c": good[:100], "d": '"text"', "e/f": "3", "g": '{"run_id": ["x"]}'}
    for name, text in bad.items():
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "record.json").write_text(text)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "record.json").write_text(good)
    found, skipped = load_records([tmp_path])
    assert len(skipped) == 6
    assert "a/record.json is not the record of a run" in skipped[0]
    assert found == [record], "each run once, in spite of its copy"


def test_a_group_is_compared_over_common_seeds():
    measure = Measure("final_accuracy", "class-IL", scenario="class_il")
    assert measure == Measure("final_accuracy", scenario="class_il"), "labels are for people"
    base = Group({"row": "er"}, {measure: {0: 10.0, 1: 20.0, 2: 5.0}})
    group = Group({"row": "er+gplasc"}, {measure: {1: 21.0, 2: 8.0, 3: 99.0}})
    assert (group.difference(measure, base).mean, group.difference(measure, base).count) == (2.0, 2)
    assert group.ratio(measure, base) == 29.0 / 25.0
    assert group.ratio(Measure("seconds"), base) is None
    assert group.spread(Measure("seconds")).count == 0
