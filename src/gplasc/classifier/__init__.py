"""An image classifier that keeps learning: new classes, task by task, in memory or in a state folder."""

from gplasc.classifier.estimator import ContinualClassifier
from gplasc.classifier.model import TaskRecord

__all__ = ["ContinualClassifier", "TaskRecord"]
