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
from apod.method.penalty import Penalty
from apod.method.settings import STRENGTHS, Settings

TABLE_BODIES, PRECOMPUTED = ("contrastive", "cross_entropy"), "precomputed"


def encodes(body: Any) -> bool:
    """Whether X is a table to be encoded, rather than numbers for a body that is there already."""
    return isinstance(body, str) and body in TABLE_BODIES


def checked_settings(parameters: Mapping[str, Any]) -> Settings:
    """The settings that parameters of `APODClassifier` stand for; InputError where one cannot be."""
    body, metric, strength = (parameters[name] for name in ("body", "metric", "strength"))
    if not isinstance(body, torch.nn.Module) and body not in (*TABLE_BODIES, PRECOMPUTED):
        raise UnknownName("body", str(body), (*TABLE_BODIES, PRECOMPUTED))
    if metric not in get_args(FairnessMetric):
        raise UnknownName("fairness metric", str(metric), get_args(FairnessMetric))
    _check_numbers(parameters)
    return Settings(
        selector=parameters["selector"],
        penalty=Penalty(parameters["penalty"], parameters["relaxation"], parameters["over"]),
        proxy=parameters["proxy"],
        proxy_reads=parameters["proxy_reads"],
        head_choice=parameters["head_choice"],
        strengths=_strengths(parameters["strengths"], strength),
        ask_strength=strength or Settings.ask_strength,
        body=body if encodes(body) else "contrastive",
        body_epochs=parameters["body_epochs"],
        epochs=parameters["epochs"],
        head_steps=parameters["head_steps"],
        batch_size=parameters["batch_size"],
        dropout=parameters["dropout"],
    )


def _check_numbers(parameters: Mapping[str, Any]) -> None:
    for name in ("embedding", "body_epochs", "epochs", "rounds"):
        check_whole(name, parameters[name])
    check_whole("batch_size", parameters["batch_size"], least=2)
    check_whole("head_steps", parameters["head_steps"], least=0)
    for name in ("dropout", "validation_fraction"):
        share: Any = parameters[name]
        if not isinstance(share, Real) or not 0 <= float(share) < 1:
            raise InputError(f"{name} is {share!r}: pass a number from 0 to below 1.")
    if isinstance(parameters["hidden"], str | Integral):
        raise InputError(f"hidden is {parameters['hidden']!r}: pass the widths of the hidden layers, as in (32,).")
    for width in parameters["hidden"]:
        check_whole("A width in hidden", width)


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """InputError unless the value is a whole number from `least` up."""
    if not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} is {value!r}: pass a whole number from {least} up.")


def _strengths(strengths: Any, strength: Any) -> tuple[float, ...]:
    """The strengths to train beside 0, the operating point among them."""
    if isinstance(strengths, str):
        if strengths != "grid":
            raise UnknownName("set of strengths", strengths, ("grid",))
        strengths = STRENGTHS
    if not isinstance(strengths, Iterable):
        raise InputError(f"strengths is {strengths!r}: pass a list of numbers, or 'grid'.")
    wanted = [*strengths, *([] if strength is None else [strength])]
    for one in wanted:
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
