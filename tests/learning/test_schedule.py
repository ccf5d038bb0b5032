import math

import pytest
import torch

from gplasc.config import Train
from gplasc.learning.schedule import learning_rate


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
