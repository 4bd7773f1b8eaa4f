"""One run from a dataset to a fairer classifier, its result and its report: what `apod run` does."""

from apod.run.experiment import Listener, Outcome, run_experiment

__all__ = ["Listener", "Outcome", "run_experiment"]
