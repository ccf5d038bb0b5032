"""A plug-in of your own: remembered samples keep the lengths of their features.

Check it, then add it to any method, alone or with other plug-ins:

    gplasc check examples/own_plugin.py
    gplasc run --stream seq-digits --method er --plugin examples/own_plugin.py --plugin gplasc

Expect a table of checks that all pass, with a contrastive method, with one that replays and with
one that never forwards its memory; and the accuracy matrices of a run with the term "length".
"""

import torch

import gplasc


class LengthSettings(gplasc.Settings):
    """Settings are typed and have defaults; ``--set own_plugin.weight=0.5`` changes one."""

    memory_batch: int = 32
    weight: float = 0.01


class Length(gplasc.Plugin):
    """Penalizes how much longer or shorter the features of past samples become."""

    LIKE = "gplasc"  # whose presets it takes, for settings of the same name; `compare` wants to know
    Settings = LengthSettings
    needs_previous = True  # keep the model after the last task, so that parts have `previous`

    def parts(self, batch, method_parts, ctx):
        """Ask for remembered samples where the method does not forward them."""
        if ctx.previous is None or ctx.method.forwards_memory or not len(ctx.memory):
            return {}
        # A generator of its own: the random numbers of other components do not change.
        drawn = ctx.draw(self.settings.memory_batch, ctx.random["own_plugin"])
        return {"memory": ctx.part(drawn, generator=ctx.random["own_plugin"])}

    def loss(self, method_parts, parts, ctx):
        """Return named terms, computed on the parts of the method and on those asked for."""
        held = [part for part in (*method_parts.values(), *parts.values()) if len(part.past)]
        if ctx.previous is None or not held:
            return {}
        now = torch.cat([part.out.features[part.past] for part in held]).norm(dim=1)
        before = torch.cat([part.previous.features[part.past] for part in held]).norm(dim=1)
        return {"length": self.settings.weight * (now - before).square().mean()}
