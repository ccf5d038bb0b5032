"""Rows of a buffer are exchanged in place; the content is what a copy would have."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gplasc.memory import Buffer


def filled(capacity, size):
    memory = Buffer(capacity)
    memory.write(torch.arange(size), {"y": torch.arange(size), "z": torch.arange(size) * 10.0})
    return memory


@given(st.data())
def test_keeps_the_others_and_takes_the_new(data):
    capacity = data.draw(st.integers(1, 12))
    size = data.draw(st.integers(0, capacity))
    dropped = data.draw(st.permutations(range(size)))[: data.draw(st.integers(0, size))]
    count = data.draw(st.integers(0, capacity - size + len(dropped)))
    memory = filled(capacity, size)
    new = torch.arange(100, 100 + count)
    memory.exchange(torch.tensor(dropped, dtype=torch.long), {"y": new, "z": new * 10.0})
    expected = sorted([y for y in range(size) if y not in dropped] + new.tolist())
    assert len(memory) == len(expected)
    if expected:
        assert sorted(memory["y"].tolist()) == expected
        assert torch.equal(memory["z"], memory["y"] * 10.0)


def test_rows_that_stay_are_not_moved_when_there_is_no_gap():
    memory = filled(6, 6)
    memory.exchange(torch.tensor([4, 1]), {"y": torch.tensor([7, 8]), "z": torch.tensor([70.0, 80.0])})
    assert memory["y"].tolist() == [0, 7, 2, 3, 8, 5]


def test_more_than_the_capacity_is_refused():
    with pytest.raises(ValueError, match="memory of 3"):
        filled(3, 3).exchange(torch.tensor([0]), {"y": torch.tensor([1, 2]), "z": torch.zeros(2)})
