"""A method of your own: replay that also holds the answers of the previous model.

Check it, then run it, alone and with a plug-in:

    gplasc check examples/own_method.py
    gplasc run --stream seq-digits --method examples/own_method.py --plugin gplasc

Expect a table of checks that all pass (reproducible, resumable, finite, within its memory), and
the two accuracy matrices of a run. Its progress shows the terms "ce", "replay" and "held".
"""

from torch.nn.functional import mse_loss

import gplasc
from gplasc.methods.base import ClassifierMethod, cross_entropy, remember_balanced


class HoldingSettings(gplasc.Settings):
    """Settings are typed and have defaults; ``--set own_method.weight=0.5`` changes one."""

    memory_batch: int = 32
    weight: float = 0.1


class Holding(ClassifierMethod):
    """Cross-entropy on current and remembered samples; logits of past classes stay in place."""

    Settings = HoldingSettings
    forwards_memory = True
    teacher = "eval"  # the mode of the previous model, ctx.previous; without it there is none

    def parts(self, batch, ctx):
        """Return what is forwarded: each part is one forward pass."""
        parts = {"batch": ctx.part(batch)}
        if len(ctx.memory):
            drawn = ctx.draw(self.settings.memory_batch, ctx.random["memory"])
            parts["memory"] = ctx.part(drawn)
        return parts

    def loss(self, parts, ctx):
        """Return named terms; the loop adds them up and logs each."""
        terms = {"ce": cross_entropy(parts["batch"].out.logits, parts["batch"].y)}
        if memory := parts.get("memory"):
            now, before = memory.out.logits, memory.previous.logits
            terms["replay"] = cross_entropy(now, memory.y)
            terms["held"] = self.settings.weight * mse_loss(now[:, : before.shape[1]], before)
        return terms

    def end_task(self, ctx):
        """Fill the memory with a balanced choice of the samples seen so far."""
        remember_balanced(ctx)
