"""An image classifier that keeps learning: new classes, month by month, in memory or in a state folder."""

from gplasc.classifier._gate import TaskRecord
from gplasc.classifier.estimator import ContinualClassifier, Refused

__all__ = ["ContinualClassifier", "Refused", "TaskRecord"]
