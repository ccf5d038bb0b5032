"""Named random generators: every draw in the library comes from one of these, so a run can be resumed bit for bit."""

import hashlib

import torch
from torch import Tensor


class Generators:
    """A generator for each name, seeded by the run's seed and the name alone.

    Adding a draw to one stream of randomness (say ``memory``) leaves all the others as they were. All generators live
    on the CPU; what is drawn is moved to the device, so that a run does not depend on where it is computed.

    >>> torch.equal(torch.rand(2, generator=Generators(0)["a"]), torch.rand(2, generator=Generators(0)["a"]))
    True
    >>> torch.equal(torch.rand(2, generator=Generators(0)["a"]), torch.rand(2, generator=Generators(0)["b"]))
    False
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[str, torch.Generator] = {}

    def __getitem__(self, name: str) -> torch.Generator:
        if name not in self._generators:
            digest = hashlib.sha256(f"{self.seed}/{name}".encode()).digest()
            self._generators[name] = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        return self._generators[name]

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state of every generator used so far."""
        return {name: generator.get_state() for name, generator in self._generators.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue where ``state_dict`` was taken; generators not named there start from the seed."""
        self._generators = {}
        for name, value in state.items():
            self[name].set_state(value)
