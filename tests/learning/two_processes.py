"""What two processes compute beside one, started by test_distributed.py: python two_processes.py RESULTS."""

import copy
import os
import sys

import torch
from torch import nn

from gplasc.learning.checkpoints import digest
from gplasc.learning.distributed import Processes, joined
from gplasc.runs.build import build_learner, open_inputs
from gplasc.runs.spec import RunRequest

STREAM = "synthetic:tasks=3,classes=2,size=8,channels=3,train=10,test=6"
METHODS = ("supcon", "co2l", "cila", "cclis", "er", "derpp", "icarl")
RUNS = [(method, plugins) for method in METHODS for plugins in ((), ("gplasc",))]
RUNS += [(method, ()) for method in ("agem", "gem", "gss", "gcr")]


def first_step(learner, stream, index):
    """Take the first step of a task on an odd number of samples, of the memory too if they are shuffled together."""
    learner.enter(stream[index], past=stream[:index])
    learner._begin()
    learner.ctx.modules.train()
    learner.optimizer.param_groups[0]["lr"] = 0.0
    terms = learner.step(learner.ctx.pool.take(torch.arange(0, len(learner.ctx.pool), 4)[:7]))
    gradients = {n: p.grad for n, p in learner.ctx.modules.named_parameters() if p.grad is not None}
    buffers = {n: b.clone() for n, b in learner.ctx.modules.named_buffers()}
    return {"terms": terms, "gradients": gradients, "buffers": buffers}


def compare_steps(method, plugins, processes, precision="float32"):
    """Learn a task on one process, then take a step of the next one on one process and on all."""
    settings = {"model.encoder": "small", "model.features": "signed", "train.batch": 8, "train.lr": 0.02}
    settings |= {"train.epochs": 1, "probe.epochs": 2, "train.precision": precision}
    settings |= {"gplasc.range_form": "softplus"} if plugins else {}
    resolved = RunRequest(STREAM, method, plugins, buffer=9, scale="smoke", settings=settings).resolve()
    stream, _ = open_inputs(resolved, None)
    one = build_learner(resolved.config, stream)
    one.learn_task(stream[0])
    state = copy.deepcopy(one.state_dict())
    several = build_learner(resolved.config, stream, processes=processes)
    several.load_state_dict(state)
    found = {"one": first_step(one, stream, 1), "two": first_step(several, stream, 1)}
    processes.check_equal("gradient", digest(found["two"]["gradients"]))
    return found


def compare_batchnorm(processes, rows):
    """Normalize the rows of all processes, some of which may have none, and go back."""
    torch.manual_seed(0)
    x, toward = torch.randn(2, rows, 3, 4, 4).unbind()
    one = nn.Sequential(nn.BatchNorm2d(3))
    nn.init.uniform_(one[0].weight)
    two = copy.deepcopy(one)
    processes.synchronize_batchnorm(two)
    found = {}
    for name, layer, share in (("one", one, slice(None)), ("two", two, processes.share(rows))):
        inputs = x[share].clone().requires_grad_()
        loss = (layer(inputs) * toward[share]).square().sum()
        loss.backward()
        whole = inputs.grad.flatten(1)
        if name == "two":
            whole = processes.gather(whole, rows)
            for value in layer.parameters():
                value.grad = processes.mean(value.grad) * processes.size
        found[name] = {"x": whole, "weight": layer[0].weight.grad, **dict(layer.named_buffers())}
    return found


def main(results):
    """Compute everything and let process 0 save it."""
    torch.set_num_threads(1)
    with joined("cpu") as (processes, _):
        assert isinstance(processes, Processes)
        found = {
            "+".join((method, *plugins)): compare_steps(method, plugins, processes)
            for method, plugins in RUNS
        }
        found["bfloat16"] = compare_steps("co2l", ("gplasc",), processes, "bfloat16")
        found["batchnorm 5"] = compare_batchnorm(processes, 5)
        found["batchnorm 1"] = compare_batchnorm(processes, 1)
        if processes.first:
            torch.save(found, results)


if __name__ == "__main__":
    main(sys.argv[1])
    os._exit(0)  # what is computed is saved; a thread of gloo may abort a process whose interpreter ends
