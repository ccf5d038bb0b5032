"""Steady statistics: the batch's own for the forward pass, nothing kept."""

import copy

import torch

from gplasc.models import build_encoder, steady_statistics


def test_steady_statistics_normalize_by_the_batch_and_remember_nothing() -> None:
    net, x = build_encoder("small", width=4, in_channels=1).train(), torch.randn(6, 1, 8, 8)
    twin = copy.deepcopy(net)
    with steady_statistics(net):
        features = net(x)
    assert torch.equal(features, twin(x))
    running = {name: value for name, value in net.state_dict().items() if "running" in name}
    assert running
    assert not any(torch.equal(value, twin.state_dict()[name]) for name, value in running.items())
    net(x)
    for name, value in twin.state_dict().items():
        if "running" in name:
            assert torch.equal(value, net.state_dict()[name])
