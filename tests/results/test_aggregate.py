import json
import math

import pytest

from gplasc.results.aggregate import load_records, paired_difference, spread


def test_spread_is_the_sample_standard_deviation():
    found = spread([1.0, 2.0, 4.0])
    mean = 7 / 3
    assert found.mean == pytest.approx(mean)
    assert found.std == pytest.approx(math.sqrt(sum((v - mean) ** 2 for v in (1, 2, 4)) / 2))
    assert spread([]).count == 0


def test_only_common_seeds_are_paired():
    found = paired_difference({0: 10.0, 1: 20.0, 2: 5.0}, {1: 21.0, 2: 8.0, 3: 99.0})
    assert (found.mean, found.count) == (2.0, 2)
    assert found.low == 1.0
    assert found.high == 3.0


def test_interval_covers_the_mean_and_shrinks_with_more_pairs():
    few = paired_difference(dict.fromkeys(range(4), 0.0), {i: float(i % 2) for i in range(4)})
    many = paired_difference(dict.fromkeys(range(400), 0.0), {i: float(i % 2) for i in range(400)})
    assert few.low <= few.mean <= few.high
    assert many.high - many.low < few.high - few.low


def test_no_pairs():
    assert paired_difference({0: 1.0}, {1: 1.0}).count == 0
    assert str(paired_difference({0: 1.0}, {0: 2.0})) == "+1.00"


def test_records_are_found_once(tmp_path):
    for folder, run in (("a", "x"), ("b/c", "y"), ("d", "x")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "record.json").write_text(json.dumps({"run_id": run}))
    assert sorted(record["run_id"] for record in load_records([tmp_path])) == ["x", "y"]
