import math

import pytest

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
