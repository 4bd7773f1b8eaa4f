"""The classifier's parameters, checked: what scikit-learn wants to happen in `fit`, not in the constructor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np
import torch
from sklearn.utils import check_random_state

from apod.data import FairnessMetric
from apod.errors import InputError, UnknownName
from apod.method.algorithm1 import VANILLA
from apod.method.settings import SETTINGS, Settings, below, whole

TABLE_BODIES = ("contrastive", "cross_entropy")

PARAMETERS = tuple(
    name for name in SETTINGS if name not in ("trajectories", "ask_strength", "questions_per_round", "least_gain")
)
"""Settings that are parameters of the classifier, too: all but those about asking, which it leaves to its user."""


def encodes(body: Any) -> bool:
    """Whether X is a table to be encoded, rather than numbers for a body that is there already."""
    return isinstance(body, str) and body in TABLE_BODIES


def settings_parameters(settings: Settings) -> dict[str, Any]:
    """Parameters of `APODClassifier` that stand for these settings."""
    return {name: getattr(settings, name) for name in PARAMETERS}


def checked_settings(parameters: Mapping[str, Any]) -> Settings:
    """The settings that parameters of `APODClassifier` stand for; InputError where one cannot be."""
    body, metric, strength = (parameters[name] for name in ("body", "metric", "strength"))
    if not isinstance(body, torch.nn.Module):
        SETTINGS["body"].check("body", body)
    if metric not in get_args(FairnessMetric):
        raise UnknownName("fairness metric", str(metric), get_args(FairnessMetric))
    _check_own(parameters)
    given = {name: parameters[name] for name in PARAMETERS}
    given |= {
        "strengths": _strengths(parameters["strengths"], strength),
        "body": body if encodes(body) else Settings.body,
    }
    return Settings(**given, ask_strength=strength or Settings.ask_strength)


def _check_own(parameters: Mapping[str, Any]) -> None:
    """Check what only the classifier has."""
    for name in ("embedding", "rounds"):
        whole(1)(name, parameters[name])
    below(1)("validation_fraction", parameters["validation_fraction"])
    if isinstance(parameters["hidden"], str | Integral):
        raise InputError(f"hidden is {parameters['hidden']!r}: pass the widths of the hidden layers, as in (32,).")
    for width in parameters["hidden"]:
        whole(1)("A width in hidden", width)


def _strengths(strengths: Any, strength: Any) -> tuple[float, ...]:
    """The strengths to train beside 0, the operating point among them."""
    if isinstance(strengths, str):
        if strengths != "grid":
            raise UnknownName("set of strengths", strengths, ("grid",))
        strengths = Settings.strengths
    if not isinstance(strengths, Iterable):
        raise InputError(f"strengths is {strengths!r}: pass a list of numbers, or 'grid'.")
    for one in [*strengths, *([] if strength is None else [strength])]:
        if not isinstance(one, Real):
            raise InputError(f"A strength is {one!r}: pass numbers.")
    trained = tuple(float(one) for one in strengths)
    if strength is None or float(strength) in (VANILLA, *trained):
        return trained
    return (*trained, float(strength))


def seed_of(random_state: Any) -> int:
    """The seed of all keyed draws: the int itself, otherwise one drawn from the state (None: NumPy's global one)."""
    state = check_random_state(random_state)
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(state.randint(np.iinfo(np.int32).max))
