"""Features outside training: rows are encoded in pieces, and the pieces change nothing."""

import pytest
import torch

from gplasc.learning import context
from gplasc.streams import Samples


@pytest.mark.parametrize("count", [1, 128, 129, 257, 500])
@pytest.mark.parametrize("encoder", ["small", "resnet18"])
def test_pieces_give_the_features_of_one_pass_bit_for_bit(count, encoder, tiny, new_learner, monkeypatch):
    learner = new_learner(tiny("co2l", **{"model.encoder": encoder, "model.width": 4}))
    ctx, shape = learner.ctx, learner.stream.image_shape
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (count, *shape), dtype=torch.uint8, generator=generator)
    samples = Samples(x, torch.zeros(count, dtype=torch.int64))
    sizes = []
    ctx.network.encoder.register_forward_hook(lambda module, args, out: sizes.append(len(out)))
    pieces = ctx.features(samples)
    assert max(sizes) <= context.CPU_ROWS
    assert sum(sizes) == count
    monkeypatch.setattr(context, "CPU_ROWS", 512)
    assert torch.equal(pieces, ctx.features(samples))
    assert sizes[-1] == count
