"""Optimizers without torch._dynamo are those of torch, and a run imports nothing slow that it does not need."""

import os
import subprocess
import sys

import pytest
import torch

from gplasc.learning import optimizer as module
from gplasc.learning.optimizer import SGD


@pytest.mark.parametrize(
    ("kinds", "state_name", "more"),
    [
        ((torch.optim.SGD, SGD), "momentum_buffer", {"momentum": 0.9}),
        ((torch.optim.AdamW, module._AdamW), "exp_avg_sq", {}),
    ],
)
def test_steps_and_state_are_those_of_torch(kinds, state_name, more):
    found = []
    for kind in kinds:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
        optimizer = kind(model.parameters(), lr=0.1, weight_decay=1e-3, foreach=True, **more)
        for step in range(6):
            if step == 3:  # a new object goes on with the stored state
                state, optimizer = optimizer.state_dict(), kind(model.parameters(), lr=0.5)
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            model(torch.randn(4, 5)).square().sum().backward()
            optimizer.step()
        buffers = [entry[state_name] for entry in optimizer.state_dict()["state"].values()]
        found.append([*model.parameters(), *buffers])
        assert all(not parameter.grad_fn for parameter in model.parameters())
    assert all(torch.equal(ours, theirs) for theirs, ours in zip(*found, strict=True))


def test_hooks_of_a_step_are_called():
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer, calls = SGD([weight], lr=0.1), []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    weight.sum().backward()
    optimizer.step()
    assert calls == [1]


def test_a_fresh_process_imports_neither_compiler_nor_scikit_learn_and_honors_omp_num_threads(tmp_path):
    """Torch reads the variable when it is imported; it decides the number of threads that a record has."""
    threads = "2" if os.cpu_count() == 1 else "1"  # not the default
    code = (
        "import sys, gplasc.runs.execute as r\n"
        "for more in ({}, {'optimizer': 'adamw'}):\n"
        f"    done = r.run('seq-digits', 'co2l', 'gplasc', scale='smoke', out={str(tmp_path)!r}, quiet=True, **more)\n"
        "print(done.record['environment']['threads'])\n"
        "print([name for name in ('torch._dynamo', 'sklearn', 'scipy', 'plotly') if name in sys.modules])"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == [threads, "[]"]
