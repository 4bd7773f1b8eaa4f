"""One run from a dataset to a fairer classifier, its result and its report: what `apod run` does."""

from apod.method.prepare import Prepared, prepare
from apod.run.experiment import Listener, Outcome, run_experiment

__all__ = ["Listener", "Outcome", "Prepared", "prepare", "run_experiment"]
