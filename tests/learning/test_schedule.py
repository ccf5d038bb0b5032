import math

import pytest
import torch

from gplasc.learning.schedule import learning_rate
from gplasc.settings.types import Train


def test_co2l_values():
    train = Train(lr=0.5, warmup_epochs=10)
    # The warm-up of a task of 100 epochs ends at 0.4878 (Co2L); the cosine goes on from there, once an epoch.
    assert learning_rate(train, 0.5, 9, 100, 0.999999) == pytest.approx(0.4878, abs=1e-4)
    assert learning_rate(train, 0.5, 0, 100, 0.0) == pytest.approx(0.01)
    assert learning_rate(train, 0.5, 99, 100, 0.5) == pytest.approx(0.5e-3)
    halfway = 0.5e-3 + (0.5 - 0.5e-3) * (1 + math.cos(math.pi * 0.5)) / 2
    assert learning_rate(train, 0.5, 49, 100, 0.3) == pytest.approx(halfway)


def test_warm_up_of_a_short_task_is_cut():
    train = Train(lr=0.5, warmup_epochs=10)
    rates = [learning_rate(train, 0.5, epoch, 2, 0.0) for epoch in range(2)]
    assert rates[0] == pytest.approx(0.01)
    assert rates[1] == pytest.approx(0.5e-3)
    assert learning_rate(train, 0.5, 0, 1, 0.0) == pytest.approx(0.5e-3)


@pytest.mark.parametrize(("lr", "start"), [(0.5, 0.01), (1.0, 0.01), (0.01, 0.001)])
def test_the_first_warm_up_ends_where_that_of_the_later_tasks_does(lr, start):
    """Co2L and CCLIS compute the target from the later tasks' 100 epochs, also for a first task of 500."""
    train = Train(lr=1.0, epochs=100, first_epochs=500, warmup_epochs=10, warmup_target="epochs")
    floor = lr * 0.1**3
    target = floor + (lr - floor) * (1 + math.cos(math.pi * 10 / 100)) / 2
    for epochs in (500, 100):
        for epoch in range(10):
            for part in (0.0, 0.25, 0.75):
                wanted = start + (epoch + part) / 10 * (target - start)
                found = learning_rate(train, lr, epoch, epochs, part, warmup_from=start)
                assert found == pytest.approx(wanted, rel=1e-12)
        after = floor + (lr - floor) * (1 + math.cos(math.pi * 11 / epochs)) / 2
        assert learning_rate(train, lr, 10, epochs, 0.0, warmup_from=start) == pytest.approx(after)


def test_the_warm_up_may_end_in_the_tasks_own_schedule():
    train = Train(lr=0.5, epochs=100, first_epochs=500, warmup_target="task")
    target = 0.5e-3 + (0.5 - 0.5e-3) * (1 + math.cos(math.pi * 10 / 500)) / 2
    assert learning_rate(train, 0.5, 9, 500, 1 - 1e-9) == pytest.approx(target)


@pytest.mark.parametrize("epochs", [1, 2, 3, 12, 19])
def test_few_later_epochs_do_not_end_the_first_warm_up_below_half(epochs):
    """The target is where the later tasks' own warm-up, cut to half of their epochs, ends."""
    train = Train(lr=0.5, epochs=epochs, first_epochs=25, warmup_target="epochs")
    target = learning_rate(train, 0.5, 9, 25, 1 - 1e-9)
    assert 0.25 <= target <= 0.5
    if epochs > 1:
        assert target == pytest.approx(learning_rate(train, 0.5, epochs // 2 - 1, epochs, 1 - 1e-9))


def test_a_small_learning_rate_has_no_warm_up_from_above():
    train = Train(lr=0.5, warmup_from=0.01)
    rates = [learning_rate(train, 0.005, epoch, 100, 0.0) for epoch in range(10)]
    assert max(rates) - min(rates) < 1e-12


def test_constant():
    train = Train(lr=0.1, schedule="constant", warmup_epochs=0)
    assert {learning_rate(train, 0.1, epoch, 5, 0.5) for epoch in range(5)} == {0.1}


def test_multistep_equals_that_of_torch():
    train = Train(lr=0.3, schedule="multistep", milestones=(3, 5), lr_decay=0.2, warmup_epochs=0)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5], gamma=0.2)
    for epoch in range(7):
        for part in (0.0, 0.9):
            assert learning_rate(train, 0.3, epoch, 7, part) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()


def test_multistep_after_a_warm_up():
    train = Train(lr=0.5, schedule="multistep", milestones=(3,), warmup_epochs=2, warmup_from=0.1)
    rates = [learning_rate(train, 0.5, epoch, 4, 0.0) for epoch in range(4)]
    assert rates == pytest.approx([0.1, 0.3, 0.5, 0.05])
