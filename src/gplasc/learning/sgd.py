"""SGD that is ready at once."""

from __future__ import annotations

import inspect

import torch
from torch.optim import Optimizer


class SGD(torch.optim.SGD):
    """`torch.optim.SGD` that does not import ``torch._dynamo``.

    The wrappers of PyTorch's optimizers import it when they are first called, which takes two seconds of processor
    time. They matter only if the optimizer itself is compiled. The functions without them are the same computation.

    Example:
        >>> weight = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = SGD([weight], lr=0.5)
        >>> weight.square().sum().backward()
        >>> optimizer.step()
        >>> weight.tolist()
        [0.0, 0.0]
    """

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    load_state_dict = inspect.unwrap(Optimizer.load_state_dict)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    step = torch.no_grad()(inspect.unwrap(torch.optim.SGD.step))
    zero_grad = inspect.unwrap(Optimizer.zero_grad)
