"""The scikit-learn estimator: fairer predictions from a table, labels, and whichever groups are known."""

from apod.classifier.correction import Selection
from apod.classifier.displays import GroupRatesDisplay, TradeoffDisplay
from apod.classifier.estimator import APODClassifier
from apod.classifier.inputs import NoGroupsWarning

__all__ = ["APODClassifier", "GroupRatesDisplay", "NoGroupsWarning", "Selection", "TradeoffDisplay"]
