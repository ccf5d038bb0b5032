import math

import pytest
import torch

from gplasc.memory import Buffer
from gplasc.memory.balanced import _draw, _new_quota, _old_quotas, balanced_update


def rows(labels):
    y = torch.tensor(labels)
    return {"x": torch.arange(len(y), dtype=torch.uint8).reshape(-1, 1, 1, 1), "y": y}


def test_writing_does_not_move_what_is_there():
    memory = Buffer(4)
    memory.write(torch.tensor([0, 1]), rows([5, 6]))
    address = memory["x"].data_ptr()
    memory.write(torch.tensor([2, 1]), rows([7, 8]))
    assert memory["x"].data_ptr() == address
    assert memory["y"].tolist() == [5, 8, 7]
    assert len(memory) == 3


def test_more_rows_than_the_capacity_are_refused():
    with pytest.raises(ValueError, match="3 rows were offered to a memory of 2"):
        Buffer(2).replace(rows([1, 2, 3]))


def test_other_columns_are_refused():
    memory = Buffer(4)
    memory.write(torch.tensor([0]), rows([5]))
    with pytest.raises(ValueError, match="columns"):
        memory.write(torch.tensor([1]), {"y": torch.tensor([1])})


def test_sample_is_without_replacement_and_capped():
    memory = Buffer(8)
    memory.replace(rows(range(5)))
    index = memory.sample(100, torch.Generator().manual_seed(0))
    assert sorted(index.tolist()) == list(range(5))


def test_state_round_trip():
    memory = Buffer(6)
    memory.replace(rows([1, 2, 3]))
    memory.seen = 17
    other = Buffer(6)
    other.load_state_dict(memory.state_dict())
    assert other.seen == 17
    assert all(torch.equal(other[name], memory[name]) for name in memory.rows())
    other.write(torch.tensor([0]), rows([9]))
    assert memory["y"].tolist() == [1, 2, 3], "the state must be a copy"


def test_old_quotas_are_right_on_average():
    generator = torch.Generator().manual_seed(0)
    drawn = [sum(_old_quotas(3, 50, 6, generator)) for _ in range(2000)]
    assert abs(sum(drawn) / len(drawn) - 50 * 3 / 4) < 0.2


def new_quotas(rest, classes, generator):
    quotas = []
    for left in range(classes, 0, -1):
        quotas.append(_new_quota(rest - sum(quotas), left, generator))
    return quotas


@pytest.mark.parametrize(("rest", "classes"), [(100, 3), (7, 2), (1, 4), (0, 2), (103, 5)])
def test_new_quotas_are_exact_and_equal_on_average(rest, classes):
    generator = torch.Generator().manual_seed(0)
    drawn = [new_quotas(rest, classes, generator) for _ in range(2000)]
    for quotas in drawn:
        assert sum(quotas) == rest
        assert max(quotas) - min(quotas) <= 1
    for label in range(classes):  # the standard error is at most 0.5 / sqrt(2000)
        assert abs(sum(quotas[label] for quotas in drawn) / 2000 - rest / classes) < 0.05


def test_new_quotas_equal_those_of_co2l_for_equal_random_numbers():
    """The rule of Co2L's code: round the share of what is left up with the probability of its fraction."""
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        expected = []
        for number in range(7):
            share = (40 - sum(expected)) / (7 - number)
            fraction = share - math.floor(share)
            up = fraction > 0 and torch.rand((), generator=generator, dtype=torch.float64).item() < fraction
            expected.append(math.ceil(share) if up else math.floor(share))
        assert new_quotas(40, 7, torch.Generator().manual_seed(seed)) == expected


@pytest.mark.parametrize("capacity", [3, 10, 50])
def test_the_memory_is_full_and_balanced_after_every_task(capacity):
    generator = torch.Generator().manual_seed(1)
    memory = Buffer(capacity)
    for task in range(4):
        y = torch.tensor([2 * task, 2 * task + 1]).repeat(30)
        old, new = balanced_update(memory, y, num_old_tasks=task, generator=generator)
        assert len(set(new.tolist())) == len(new)
        memory.refill(old, {"y": y[new]})
        assert len(memory) == capacity
    counts = torch.bincount(memory["y"], minlength=8)
    if capacity == 50:
        assert counts.min() >= 5
        assert counts.max() <= 8


def test_a_class_with_few_samples_leaves_its_share_to_the_others():
    memory = Buffer(10)
    y = torch.tensor([0] * 2 + [1] * 30)
    generator = torch.Generator().manual_seed(0)
    _, new = balanced_update(memory, y, num_old_tasks=0, generator=generator)
    assert torch.bincount(y[new]).tolist() == [2, 8]


def test_rows_are_drawn_by_weight_and_never_repeat():
    generator, weights = torch.Generator().manual_seed(0), torch.tensor([0.9, 0.05, 0.03, 0.02]).double()
    first = [_draw(torch.arange(4), 1, weights, generator).item() for _ in range(400)]
    assert 320 < first.count(0) < 400
    for chances in (weights, None):
        assert sorted(_draw(torch.arange(4), 9, chances, generator).tolist()) == [0, 1, 2, 3]
        assert len(_draw(torch.arange(4), 0, chances, generator)) == 0


def test_a_column_can_be_widened():
    memory = Buffer(3)
    memory.write(torch.tensor([0, 1]), {**rows([5, 6]), "logits": torch.ones(2, 2)})
    memory.widen("logits", 4)
    memory.write(torch.tensor([2]), {**rows([7]), "logits": torch.full((1, 4), 2.0)})
    assert memory["logits"].isnan().tolist() == [[False, False, True, True]] * 2 + [[False] * 4]
    memory.widen("logits", 3)
    memory.widen("absent", 9)
    assert memory["logits"].shape == (3, 4)


def test_few_rows_of_a_large_memory_are_drawn_uniformly_without_replacement(monkeypatch):
    monkeypatch.setattr("gplasc.memory.buffer._LARGE", 8)
    memory = Buffer(10)
    memory.replace({"x": torch.zeros(10, 1), "y": torch.arange(10)})
    generator = torch.Generator().manual_seed(0)
    counts = torch.zeros(10)
    for _ in range(2000):
        index = memory.sample(4, generator)
        assert len(index.unique()) == len(index) == 4
        counts[index] += 1
    assert (counts / 2000 - 0.4).abs().max() < 0.05
