"""When checkpoints are written; tests/learning/test_kill.py shows that runs continue from them."""

from types import SimpleNamespace

import pytest

from gplasc.learning.callbacks import checkpoint as module
from gplasc.learning.callbacks.checkpoint import Checkpoint


class Clock:
    """A clock that moves when it is told to; a checkpoint takes two seconds."""

    def __init__(self, monkeypatch):
        self.now, self.saves = 0.0, 0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(module.checkpoints, "save", lambda *_: self._save())

    def _save(self):
        self.now += 2.0
        self.saves += 1


@pytest.fixture
def learner():
    position = SimpleNamespace(total_steps=3, task=0)
    return SimpleNamespace(log_terms=lambda: None, position=position, state_dict=dict)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_short_tasks_spend_little_of_their_time_on_checkpoints(clock, learner, tmp_path):
    callback = Checkpoint(tmp_path, every=1e9)
    for _ in range(1000):
        clock.now += 5.0
        callback.on_task_trained(learner)
        callback.on_task_end(learner)
    assert clock.saves == 1 + 5000 // 402  # the first costs nobody knows what


def test_the_interval_is_the_longest_time_between_two(clock, learner, tmp_path):
    callback = Checkpoint(tmp_path, every=60.0)
    callback.on_task_end(learner)
    clock.now += 61.0  # less than two hundred times two seconds
    callback.on_task_end(learner)
    assert clock.saves == 2
    callback.on_step_end(learner)
    assert clock.saves == 2
    clock.now += 60.0
    callback.on_step_end(learner)
    assert clock.saves == 3


def test_with_a_number_of_steps_none_is_left_out(clock, learner, tmp_path):
    callback = Checkpoint(tmp_path, every_steps=3)
    callback.on_step_end(learner)
    callback.on_task_trained(learner)
    callback.on_task_end(learner)
    assert clock.saves == 3
