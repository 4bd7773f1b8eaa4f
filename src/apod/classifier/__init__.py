"""The scikit-learn estimator: fairer predictions from a table, labels, and whichever groups are known."""

from apod.classifier.estimator import APODClassifier
from apod.classifier.inputs import NoGroupsWarning

__all__ = ["APODClassifier", "NoGroupsWarning"]
