"""The classifier's parameters, checked: what scikit-learn wants to happen in `fit`, not in the constructor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
import torch
from sklearn.utils import check_random_state

from apod.data import FairnessMetric
from apod.errors import InputError, UnknownName
from apod.method.algorithm1 import VANILLA
from apod.method.checks import below, whole
from apod.method.settings import CORRECTION_SETTINGS, HEAD_SETTINGS, PRESETS, SETTINGS, Settings

TABLE_BODIES = ("contrastive", "cross_entropy")

PARAMETERS = tuple(
    name for name in SETTINGS if name not in ("trajectories", "ask_strength", "questions_per_round", "least_gain")
)
"""Settings that are parameters of the classifier, too: all but those about asking, which it leaves to its user."""

HEAD_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {name: getattr(Settings, name) for name in PARAMETERS if name in HEAD_SETTINGS}
    | {"strengths": "grid", "embedding": 64, "hidden": (32,), "rounds": 10, "validation_fraction": 0.25}
    | {"metric": "delta_eo"}
)
"""Parameters of heads on a body, which have no effect where a model is corrected."""
CORRECTION_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {name: getattr(Settings, name) for name in CORRECTION_SETTINGS}
)
"""Parameters of a corrected model, which have no effect on heads."""


def encodes(body: Any) -> bool:
    """Whether X is a table to be encoded, rather than numbers for a body that is there already."""
    return isinstance(body, str) and body in TABLE_BODIES


def settings_parameters(settings: Settings) -> dict[str, Any]:
    """Parameters of `APODClassifier` that stand for these settings."""
    idle = HEAD_SETTINGS if settings.corrects else CORRECTION_SETTINGS
    return {name: getattr(settings, name) for name in PARAMETERS if name not in idle}


def corrects(parameters: Mapping[str, Any]) -> bool:
    """Whether a model is kept and corrected, rather than heads trained on a body."""
    return parameters["body"] is None


def checked_settings(parameters: Mapping[str, Any]) -> Settings:
    """The settings that parameters of `APODClassifier` stand for; InputError where one cannot be."""
    _check_strength(parameters["strength"])
    if corrects(parameters):
        _refuse_idle(parameters, HEAD_DEFAULTS, "heads on a body: add body='contrastive'")
        own = {name: parameters[name] for name in PARAMETERS if name not in (*HEAD_SETTINGS, "selector")}
        return Settings(**own, selector=parameters["selector"] or Settings.selector)
    if parameters["estimator"] is not None:
        raise InputError("estimator and body are both given: a model is corrected, or heads are trained on a body.")
    _refuse_idle(parameters, CORRECTION_DEFAULTS, "a corrected model: leave the body out")
    body, metric, strength = (parameters[name] for name in ("body", "metric", "strength"))
    if not isinstance(body, torch.nn.Module):
        SETTINGS["body"].check("body", body)
    if metric not in get_args(FairnessMetric):
        raise UnknownName("fairness metric", str(metric), get_args(FairnessMetric))
    _check_own(parameters)
    given = {name: parameters[name] for name in PARAMETERS if name not in CORRECTION_SETTINGS}
    given |= {
        "selector": parameters["selector"] or PRESETS["heads"].selector,
        "strengths": _strengths(parameters["strengths"], strength),
        "body": body if encodes(body) else "contrastive",
    }
    return Settings(**given, ask_strength=strength or Settings.ask_strength)


def _check_strength(strength: Any) -> None:
    if strength is None:
        return
    if isinstance(strength, bool) or not isinstance(strength, Real):
        raise InputError(f"A strength is {strength!r}: pass numbers.")
    if not 0 <= float(strength) < float("inf"):
        raise InputError(f"The strength must be positive or 0, got {strength!r}.")


def _refuse_idle(parameters: Mapping[str, Any], defaults: Mapping[str, Any], of: str) -> None:
    """InputError where a parameter was given that has no effect."""
    for name, default in defaults.items():
        value = parameters[name]
        if not np.array_equal(value, default):
            raise InputError(f"{name} is a parameter of {of}, or leave it out.")


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
