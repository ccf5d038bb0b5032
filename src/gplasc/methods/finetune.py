"""Fine-tuning: cross-entropy on the current task, nothing remembered (lower bound)."""

from gplasc.methods.base import ClassifierMethod
from gplasc.settings.types import Settings


class Finetune(ClassifierMethod[Settings]):
    """Plain SGD; what happens when nothing is done about forgetting."""
