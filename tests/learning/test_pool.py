import pytest
import torch

from gplasc.learning.pool import Pool, order_batches
from gplasc.memory import Buffer
from gplasc.streams import Samples


def samples(count, label):
    x = torch.arange(count, dtype=torch.uint8).reshape(-1, 1, 1, 1) + 10 * label
    return Samples(x, torch.full((count,), label))


def memory_of(count):
    memory = Buffer(count)
    memory.replace({"x": torch.full((count, 1, 1, 1), 99, dtype=torch.uint8), "y": torch.arange(count)})
    return memory


def test_take_keeps_the_order_and_tells_memory_rows():
    pool = Pool([samples(3, 1), samples(2, 2)], memory_of(2))
    batch = pool.take(torch.tensor([6, 0, 4, 2, 5]))
    assert batch.x.flatten().tolist() == [99, 10, 21, 12, 99]
    assert batch.y.tolist() == [1, 1, 2, 1, 0]
    assert batch.memory_rows.tolist() == [1, -1, -1, -1, 0]
    assert (pool.num_current, pool.num_memory) == (5, 2)


@pytest.mark.parametrize("kind", ["current", "mixed", "split"])
@pytest.mark.parametrize("remembered", [0, 3, 40])
def test_an_epoch_visits_every_sample_once(kind, remembered):
    pool = Pool([samples(25, 1)], memory_of(remembered) if remembered else None)
    batches = order_batches(pool, kind, 8, torch.Generator().manual_seed(0))
    assert sorted(torch.cat(batches).tolist()) == list(range(len(pool)))
    assert max(map(len, batches)) <= 8


def test_split_gives_each_batch_its_share_of_memory():
    pool = Pool([samples(60, 1)], memory_of(20))
    batches = order_batches(pool, "split", 8, torch.Generator().manual_seed(0))
    assert [int((batch >= 60).sum()) for batch in batches] == [2] * 10
