"""Equal shares, ranks inside groups, and who has to go."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from gplasc.memory.per_task import _rank_within, equal_shares, surplus


@given(st.integers(0, 300), st.integers(1, 40))
def test_shares_are_equal_exact_and_never_grow(total, count):
    shares = equal_shares(total, count)
    assert int(shares.sum()) == total
    assert int(shares.max() - shares.min()) <= 1
    assert (equal_shares(total, count + 1)[:count] <= shares).all()


@given(st.lists(st.integers(0, 5), max_size=40))
def test_ranks_count_earlier_rows_of_the_group(groups):
    group = torch.tensor(groups, dtype=torch.long)
    assert _rank_within(group).tolist() == [groups[:i].count(groups[i]) for i in range(len(groups))]


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 6), min_size=4, max_size=4))
def test_surplus_leaves_every_group_its_share(groups, shares):
    group, share = torch.tensor(groups, dtype=torch.long), torch.tensor(shares)
    gone = surplus(group, share).tolist()
    left = [value for index, value in enumerate(groups) if index not in gone]
    for number in range(4):
        assert left.count(number) == min(groups.count(number), shares[number])


def test_ranks_decide_who_goes():
    group, rank = torch.tensor([0, 0, 1, 0, 1]), torch.tensor([2, 0, 0, 1, 1])
    assert surplus(group, torch.tensor([2, 1]), rank).tolist() == [0, 4]
