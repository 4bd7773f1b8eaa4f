"""What users hand in, checked: the classifier's parameters, labels, groups with gaps, and which rows train."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_array, column_or_1d

from apod.classifier.groups import Groups
from apod.data import FairnessMetric
from apod.data.columns import check_label_count, positive_of
from apod.data.dataset import UNKNOWN, Grouping, IntArray, answer_code, category_name
from apod.errors import InputError, UnknownName
from apod.fairness.many_labels import notion_by_default
from apod.method.algorithm1 import VANILLA, Answers
from apod.method.checks import below, whole
from apod.method.settings import CORRECTION_SETTINGS, HEAD_SETTINGS, PRESETS, SETTINGS, Settings
from apod.models.prediction import is_module
from apod.randomness import generator

NAME = "classifier"
"""Stands for the dataset's name in the keys of all random draws."""

DEPRECATED = "deprecated"
"""The value of a parameter that has another name by now."""

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


def corrects(parameters: Mapping[str, object]) -> bool:
    """Whether a model is kept and corrected, rather than heads trained on a body."""
    return parameters["body"] is None


def checked_settings(parameters: Mapping[str, Any], classes: int = 2) -> Settings:
    """The settings that `APODClassifier`'s parameters stand for with so many labels; InputError where one cannot be."""
    _check_strength(parameters["strength"])
    parameters = _renamed(parameters)
    parameters = {**parameters, "notion": parameters["notion"] or notion_by_default(classes)}
    if classes > 2:
        _check_many_labels(parameters, classes)
    if corrects(parameters):
        _refuse_idle(parameters, HEAD_DEFAULTS, "heads on a body: add body='contrastive'")
        own = {name: parameters[name] for name in PARAMETERS if name not in (*HEAD_SETTINGS, "selector")}
        return Settings(**own, selector=parameters["selector"] or Settings.selector)
    if parameters["estimator"] is not None:
        raise InputError("estimator and body are both given: a model is corrected, or heads are trained on a body.")
    _refuse_idle(parameters, CORRECTION_DEFAULTS, "a corrected model: leave the body out")
    body, metric, strength = (parameters[name] for name in ("body", "metric", "strength"))
    if not is_module(body):
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


def _renamed(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters with `notion` where its former name `penalty` was given."""
    old = parameters.get("penalty", DEPRECATED)
    if old == DEPRECATED:
        return parameters
    if parameters["notion"] not in (None, old, Settings.notion):
        raise InputError("penalty is the former name of notion: pass notion alone.")
    warnings.warn("penalty is now called notion, and goes with apod 0.3: pass notion.", FutureWarning, stacklevel=4)
    return {**parameters, "notion": old}


def _check_many_labels(parameters: Mapping[str, Any], classes: int) -> None:
    """InputError where a parameter speaks of two labels."""
    if not corrects(parameters):
        raise InputError(
            "Only binary classification is supported. "  # as scikit-learn says it
            f"Heads on a body know two labels, and y has {classes}: leave the body out."
        )
    if parameters["threshold"] is not None:
        raise InputError(f"A threshold tells two labels apart, and y has {classes}: leave threshold out.")


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


class NoGroupsWarning(UserWarning):
    """A fairer classifier was asked for, but nobody's group is known yet: the fit is a plain one."""


def is_table(X: Any) -> bool:
    """Whether X has typed columns (pandas, polars, pyarrow, ...), so that text in it means categories."""
    if isinstance(X, pd.DataFrame):
        return True
    speaks = any(hasattr(X, name) for name in ("__arrow_c_stream__", "__dataframe__"))
    return speaks and len(getattr(X, "shape", ())) == 2


def checked_labels(y: Any, positive: object) -> tuple[npt.NDArray[Any], int | None, IntArray]:
    """The classes in order, which of two is the positive one, and every row's label: 1 for that one, of more than two
    classes its place among them."""
    if y is None:
        raise InputError("APODClassifier requires y to be passed, but the target y is None.")
    values = y.to_numpy() if hasattr(y, "to_numpy") else y
    values = column_or_1d(check_array(values, ensure_2d=False, dtype=None, input_name="y"), warn=True)
    if values.dtype == object:
        if pd.isna(values).any():
            raise InputError("y holds missing labels: every row needs one; fill them in or remove those rows.")
        values = pd.Series(values, dtype=object).infer_objects().to_numpy()  # numbers are numbers again
    kind = type_of_target(values, input_name="y", raise_unknown=True)
    if kind not in ("binary", "multiclass"):
        raise InputError(f"Unknown label type: {kind}. Labels are two classes or more, one per row.")
    classes, codes = np.unique(values, return_inverse=True)
    if len(classes) > 2:
        if positive is not None:
            raise InputError(f"y holds {len(classes)} classes, none of which is the positive one: leave positive out.")
        check_label_count("y", len(classes), len(values))
        counts = np.bincount(codes)
        if counts.min() < 2:
            raise InputError(
                f"y holds the class {classes[counts.argmin()]!s} in a single row: a model needs two at least; merge it "
                "with another, or leave the row out."
            )
        return classes, None, codes.astype(np.int64)
    if len(classes) < 2:
        raise InputError("y holds 1 class only: there is nothing to tell apart; pass rows of both classes.")
    one = positive_of("y", [category_name("y", value) for value in classes.tolist()], positive)
    return classes, one, (codes == one).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Rows:
    """All rows handed to `fit`, as codes, and the two parts they are cut into."""

    labels: IntArray  # (n,) codes, 0 or 1 of two labels
    groups: IntArray  # (n,) codes into group_names, UNKNOWN where not annotated
    group_names: tuple[str, ...]
    training: IntArray
    validation: IntArray  # the training part itself where the rows are too few for a part of their own
    weights: npt.NDArray[np.float64] | None = None  # (n, g) probability of each group, where answers are not certain
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # groups by attribute, of several
    further: tuple[Grouping, ...] = ()

    @property
    def annotated(self) -> bool:
        """Whether anybody's group is known."""
        return bool(self.group_names)

    def answers(self) -> Answers:
        """S of the training part; a row that may be of several groups stands once for each."""
        if self.further:
            each = [self.groups, *(one.codes for one in self.further)]
            sizes = [len(names) for names in self.attributes.values()]
            known = np.flatnonzero(np.any([own != UNKNOWN for own in each], axis=0))
            codes = tuple(answer_code([int(own[row]) for own in each], sizes) for row in known)
            return Answers(tuple(known.tolist()), codes)
        if self.weights is None:
            groups = self.groups[self.training]
            known = np.flatnonzero(groups != UNKNOWN)
            return Answers(tuple(known.tolist()), tuple(groups[known].tolist()))
        mine = self.weights[self.training]
        rows, groups = np.nonzero(mine)
        return Answers(tuple(rows.tolist()), tuple(groups.tolist()), tuple(mine[rows, groups].tolist()))


def make_rows(labels: IntArray, groups: Groups, validation_fraction: float | None, seed: int) -> Rows:
    """All rows as codes, in two parts; None: all of them train, and nothing is left to choose by."""
    if validation_fraction is None:
        everybody = np.arange(len(labels))
        named = {
            one.name: one.names for one in (Grouping(groups.attribute, groups.names, groups.codes), *groups.further)
        }
        attributes = named if groups.further else {}
        return Rows(
            labels, groups.codes, groups.names, everybody, everybody, groups.weights, attributes, groups.further
        )
    training, validation = training_and_validation(labels, groups.codes, validation_fraction, seed)
    return Rows(
        labels, groups.codes, groups.names, training, validation if len(validation) else training, groups.weights
    )


def training_and_validation(
    labels: IntArray, groups: IntArray, fraction: float, seed: int
) -> tuple[IntArray, IntArray]:
    """Row indices of the training part and of the part that only chooses the head, each in ascending order.

    `fraction` of each label, rounded down, is drawn at random by seed, among the rows nobody was asked about: an
    answer is worth more in training. The draw is made once over all rows, so asking about training rows and fitting
    again leaves both parts as they are. Only where too few rows are left do annotated ones come in, the same share of
    every group; their groups are then known instead of guessed.
    """
    order = generator(seed, "validation", "classifier").permutation(len(labels))
    chosen: list[IntArray] = []
    for label in (0, 1):
        rows = order[labels[order] == label]
        wanted = int(fraction * len(rows))
        free, annotated = rows[groups[rows] == UNKNOWN], rows[groups[rows] != UNKNOWN]
        chosen.append(free[:wanted])
        if (short := wanted - len(free)) > 0:
            for group in np.unique(groups[annotated]):
                inside = annotated[groups[annotated] == group]
                chosen.append(inside[: int(short / len(annotated) * len(inside))])
    validation = np.sort(np.concatenate(chosen))
    return np.setdiff1d(np.arange(len(labels)), validation), validation
