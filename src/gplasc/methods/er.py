"""ER: experience replay from a reservoir (Riemer et al. 2019, Chaudhry et al. 2019)."""

from gplasc.methods.base import ReplayMethod, ReplaySettings


class ER(ReplayMethod[ReplaySettings]):
    """Current and remembered samples are one batch: one forward pass, one mean."""

    Settings = ReplaySettings
    DEVIATIONS = (
        "the reservoir is offered every sample in every epoch, as in the code of the published numbers: it may hold "
        "samples of the current task, and one sample twice",
    )
