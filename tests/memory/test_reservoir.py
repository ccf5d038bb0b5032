"""The reservoir against one that takes samples one by one."""

import torch

from gplasc.memory import Buffer
from gplasc.memory.reservoir import _reservoir_slots, offer


def one_by_one(seen, count, capacity, generator):
    """The same draws, one sample at a time."""
    content = {}
    for position in range(count):
        number = seen + position
        slot = number
        if number >= capacity:
            slot = int(torch.rand((), generator=generator, dtype=torch.float64) * (number + 1))
        if slot < capacity:
            content[slot] = position
    return content


def test_equals_the_loop_and_never_names_a_slot_twice():
    for seen, count, capacity in [
        (0, 5, 8),
        (6, 9, 8),
        (20, 64, 8),
        (100, 300, 50),
        (0, 40, 3),
        (5, 4, 0),
        (9, 0, 4),
    ]:
        generator, twin = (torch.Generator().manual_seed(seen + count) for _ in range(2))
        position, slots = _reservoir_slots(seen, count, capacity, generator)
        assert dict(zip(slots.tolist(), position.tolist(), strict=True)) == one_by_one(
            seen, count, capacity, twin
        )
        assert len(slots.unique()) == len(slots)


def test_every_sample_is_kept_with_the_same_probability():
    capacity, total, batch, trials = 6, 30, 10, 2000
    generator = torch.Generator().manual_seed(0)
    kept = torch.zeros(total)
    for _ in range(trials):
        memory = Buffer(capacity)
        for rows in torch.arange(total).split(batch):
            offer(memory, {"x": rows, "y": rows}, generator)
        assert len(memory) == capacity
        assert memory.seen == total
        kept[memory["y"]] += 1
    # A standard deviation is sqrt(p (1 - p) / trials) = 0.009: none of 30 may be five of them away.
    assert (kept / trials - capacity / total).abs().max() < 5 * 0.009


def test_columns_stay_together_and_nothing_is_reallocated():
    memory, generator = Buffer(16), torch.Generator().manual_seed(1)
    place = None
    for rows in torch.arange(200).split(13):
        columns = {
            "x": rows.view(-1, 1, 1, 1).expand(-1, 1, 2, 2),
            "y": rows,
            "logits": rows.unsqueeze(1) * 2.0,
        }
        offer(memory, columns, generator)
        place = place or memory["x"].data_ptr()
        assert memory["x"].data_ptr() == place
    assert torch.equal(memory["x"][:, 0, 0, 0], memory["y"])
    assert torch.equal(memory["logits"][:, 0], memory["y"] * 2.0)
