"""What a fitted classifier does: it predicts at any operating point, explains a change, says whom to ask about.

The correction lowers a person's margin by strength x push, a sum over cells (for equalized odds: the labels) of bias
scores. f_a is linear in what it reads, so to first order a column's share of the push is the slope of the push in f_a's
log-odds times what the column adds to them, compared with the average person.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from apod.classifier.correction import FittedModel, Selection
from apod.classifier.inputs import encodes, is_table
from apod.classifier.reads import raw_frame
from apod.data import IntArray, as_frame
from apod.errors import InputError
from apod.heads.correction import AnyCorrection, ClassCorrection, Correction, class_push
from apod.method.algorithm1 import VANILLA
from apod.method.checks import whole
from apod.method.corrected import GuessedGroups
from apod.method.outlook import CorrectionOutlookJson
from apod.models.content_columns import ContentColumns
from apod.models.estimator import gives_probabilities
from apod.models.scored import Scored

if TYPE_CHECKING:
    from torch.nn import Module

    from apod.classifier.fitting import FittedHeads


Floats = npt.NDArray[np.float64]

MOST_COLUMNS = 3


def explain(state: FittedModel, X: Any, strength: float) -> pd.DataFrame:
    """One row per person, indexed as X is; columns as `APODClassifier.explain` documents them."""
    people = state.people(X)
    base, after = state.model.decisions(people, [0.0, strength])
    if isinstance(state.model.correction, ClassCorrection) or people.eta.ndim == 2:
        return explain_classes(state, people, base, after, strength, index_of(X))
    margin = 2 * (people.eta - state.model.scored.cut)
    found = {
        "score": people.scores,
        "margin": margin,
        "decision": state.labels(base),
        "corrected": state.labels(after),
        "changed": base != after,
    }
    index = index_of(X)
    correction, groups = state.model.correction, state.model.groups
    if correction is None or groups is None:
        return pd.DataFrame(found | {"push": np.zeros(len(people))}, index=index)
    members = groups.members(people.inputs)
    parts = strength * np.einsum("nkg,kg->nk", correction.scores.of(people.eta, members), correction.direction)
    found |= {"push": parts.sum(axis=1)}
    found |= {f"push_{name}": parts[:, cell] for cell, name in enumerate(_cell_names(state, correction))}
    found |= _carriers(state, correction, groups, people, members, strength)
    found["stands"] = _stands(state, correction, people, base != after, strength)
    return pd.DataFrame(found, index=index)


def index_of(X: Any) -> Any:
    """What rows are called: the index of a table."""
    return X.index if isinstance(X, pd.DataFrame | pd.Series) else None


def explain_classes(
    state: FittedModel, people: Scored, base: IntArray, after: IntArray, strength: float, index: Any
) -> pd.DataFrame:
    """The same of more than two labels: what moves the model's decision against its rival, the corrected decision or,
    where that is the same, the label that comes next."""
    rows, correction, groups = np.arange(len(people)), state.model.correction, state.model.groups
    value = people.eta - strength * state.model.pushes(people)
    value[rows, base] = -np.inf
    rival = np.where(base != after, after, value.argmax(axis=1))
    found: dict[str, npt.NDArray[Any]] = {
        "score": people.scores[rows, base],
        "margin": people.eta[rows, base] - people.eta[rows, rival],
        "decision": state.labels(base),
        "rival": state.labels(rival),
        "corrected": state.labels(after),
        "changed": base != after,
    }
    if not isinstance(correction, ClassCorrection) or groups is None:
        return pd.DataFrame(found | {"push": np.zeros(len(people))}, index=index)
    members = groups.members(people.inputs)
    own = correction.push(people.eta, members)
    found["push"] = strength * (own[rows, base] - own[rows, rival])
    found |= {f"push_{label}": strength * own[:, place] for place, label in enumerate(state.classes.tolist())}
    everybody = correction.scores.of(people.eta, np.ones_like(members))  # (n, k, G)
    each = np.stack([_of_group(correction, everybody, group) for group in range(members.shape[1])], axis=2)
    per_group = each[rows, base] - each[rows, rival]  # (n, G) the slope of the push in P(group)
    names, pushes = _pushes_by_column(state, groups, people, members, per_group)
    found |= _largest(names, pushes, strength)
    found["stands"] = _stands(state, correction, people, base != after, strength)
    return pd.DataFrame(found, index=index)


def _of_group(correction: ClassCorrection, scores: Floats, group: int) -> Floats:
    """(n, K) the part of the pushes that one group's bias scores make."""
    alone = np.zeros_like(scores)
    alone[:, :, group] = scores[:, :, group]
    return np.asarray(
        class_push(alone, correction.direction[None], correction.counted, len(correction.scores.cells))[0]
    )


def _cell_names(state: FittedModel, correction: Correction) -> list[str]:
    """What the correction's cells are called: by the label they hold."""
    labels = state.labels(np.array([0, 1]))
    return ["everybody" if inside.all() else str(labels[int(inside.argmax())]) for inside in correction.scores.cells.T]


def column_pushes(
    state: FittedModel, correction: Correction, groups: GuessedGroups, people: Scored, members: Floats
) -> tuple[list[str], Floats]:
    """Columns of X, and (n, columns) how far each moves people by one unit of strength, to first order."""
    per_group = np.einsum(
        "nkg,kg->ng", correction.scores.of(people.eta, np.ones_like(members)), correction.direction
    )  # (n, G) the slope of the push in P(group)
    return _pushes_by_column(state, groups, people, members, per_group)


def _pushes_by_column(
    state: FittedModel, groups: GuessedGroups, people: Scored, members: Floats, per_group: Floats
) -> tuple[list[str], Floats]:
    slope = groups.slopes(members, per_group)  # (n, G - 1)
    weights = groups.reader.components @ groups.weights[:, :-1].T  # (d, G - 1)
    encoder = state.model.scored.encoder
    names = [state.reads.raw(encoder.columns_[block].name) for block in encoder.blocks_]
    raw = list(dict.fromkeys(names))
    found = np.zeros((len(people), len(raw)))
    away = people.inputs - groups.reader.centre  # (n, d)
    for place, name in enumerate(names):
        found[:, raw.index(name)] += away[:, place] * (slope @ weights[place])
    return raw, found


def _carriers(
    state: FittedModel,
    correction: Correction,
    groups: GuessedGroups,
    people: Scored,
    members: Floats,
    strength: float,
) -> dict[str, npt.NDArray[Any]]:
    return _largest(*column_pushes(state, correction, groups, people, members), strength)


def _largest(names: list[str], pushes: Floats, strength: float) -> dict[str, npt.NDArray[Any]]:
    """The columns that move a person most, and how far."""
    order = np.argsort(-np.abs(pushes), axis=1, kind="stable")[:, :MOST_COLUMNS]
    labels = np.array(names, dtype=object)[order]
    amounts = strength * np.take_along_axis(pushes, order, axis=1)
    found: dict[str, npt.NDArray[Any]] = {}
    for place in range(order.shape[1]):
        found |= {f"column_{place + 1}": labels[:, place], f"column_{place + 1}_push": amounts[:, place]}
    return found


def _stands(
    state: FittedModel, correction: AnyCorrection, people: Scored, changed: npt.NDArray[np.bool_], strength: float
) -> Floats:
    """(n,) of those whose decision changes, the share of f_a's draws under which it does; NaN for all others."""
    found = np.full(len(people), np.nan)
    fitted = None if state.mitigation is None else state.mitigation.fitted
    rows = np.flatnonzero(changed)
    if fitted is None or len(rows) == 0:
        return found
    own, draws = people.take(rows), len(fitted.posterior.weights)
    stays = np.zeros(len(rows))
    for draw in range(draws):
        stays += correction.changed(own.decisions, own.eta, fitted.drawn_members(own.inputs, draw), strength)
    found[rows] = stays / draws
    return found


GIVEN = "Given by the caller."


class FittedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier around what a fit leaves behind: a corrected model, or heads on a body."""

    estimator: Any
    body: str | Module | None
    strength: float | None
    classes_: npt.NDArray[Any]
    positive_: Any
    groups_: tuple[str, ...]
    attributes_: dict[str, tuple[str, ...]]
    tradeoff_: pd.DataFrame
    selection_: Selection | None
    outlook_: CorrectionOutlookJson | None
    selected_strength_: float
    selected_because_: str | None
    model_: str | None
    estimator_: Any
    training_rows_: IntArray
    contents_: ContentColumns | None = None  # what embedded pictures and texts, where `apod run` or a campaign did
    _state: FittedModel | FittedHeads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.body is None
        tags.input_tags.allow_nan = self._encodes or (self.body is None and _takes_gaps(self.estimator))
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "selected_strength_")  # set last, so that a fit that failed is none

    @property
    def _encodes(self) -> bool:
        """Whether X is a table that is encoded here."""
        return (self.estimator is None and self.body is None) or encodes(self.body)

    def _adopt(self, state: FittedModel | FittedHeads, group_names: tuple[str, ...], strength: float | None) -> Self:
        """Be what a fit left behind, at this strength, or the one that was chosen; 0 where nobody's group is known."""
        self._state = state
        self.classes_, self.groups_ = state.classes, group_names
        self.positive_ = None if state.positive is None else state.classes[state.positive]
        self.attributes_ = dict(state.attributes) if isinstance(state, FittedModel) else {}
        self.tradeoff_ = state.tradeoff
        self.selection_ = state.selection if isinstance(state, FittedModel) else None
        self.outlook_ = state.outlook if isinstance(state, FittedModel) else None
        self.model_ = state.name if isinstance(state, FittedModel) else None
        self.estimator_ = state.own if isinstance(state, FittedModel) else None
        if state.training_rows is not None:
            self.training_rows_ = state.training_rows
        wanted = strength if group_names else VANILLA
        self.selected_because_ = state.because if strength is None or not group_names else GIVEN
        self.selected_strength_ = state.checked_strength(state.selected if wanted is None else float(wanted))
        return self

    def _checked(self, X: Any, encode: bool, *, reset: bool) -> Any:
        """X as the user's model takes it, as a frame to be encoded, or as a float32 matrix for a ready body."""
        table = is_table(X)
        if self.estimator is not None:
            X = X if hasattr(X, "shape") or hasattr(X, "__len__") else np.asarray(X)
            if hasattr(X, "toarray"):
                raw_frame(X)  # f_a reads no sparse matrix, and this says so
            if not reset and hasattr(self, "n_features_in_") and np.ndim(X) == 1:
                raise InputError("Expected 2D array, got 1D array instead. Reshape your data: one row per person.")
            validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        if table and not isinstance(X, pd.DataFrame):
            X = as_frame(X)
        # where an encoder follows, it refuses what it cannot take, and names the column and the row
        if not encode:
            module = not isinstance(self.body, str)
            return validate_data(self, X, dtype=np.float32, reset=reset, ensure_all_finite=module)
        if not table:
            return as_frame(validate_data(self, X, reset=reset, ensure_all_finite=False))
        validate_data(self, X, skip_check_array=True, reset=reset)
        if len(X) == 0:
            raise InputError(f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
        return as_frame(X)

    def _rows(self, X: Any) -> Any:
        encode = isinstance(self._state, FittedModel) or self._state.encoder is not None
        given = self._checked(X, encode, reset=False)
        names = self._state.columns if isinstance(self._state, FittedModel) else None
        return given if names is None else given.set_axis(list(names), axis=1)  # names were compared already

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """(n,) log-odds of the second class, at strength 0 of a corrected model what that itself says.

        Positive = predicted, unless `threshold` is another than the model's own. Of more than two classes
        (n, n_classes), the largest = predicted.
        """
        check_is_fitted(self)
        return self._state.decision_function(self._rows(X), self.selected_strength_)

    @available_if(lambda self: self.estimator is None or gives_probabilities(self.estimator))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """(n, n_classes) probabilities of the classes, at strength 0 of a corrected model what that itself says."""
        check_is_fitted(self)
        return self._state.predict_proba(self._rows(X), self.selected_strength_)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """(n,) the predicted class; deterministic, and nobody's group is needed."""
        check_is_fitted(self)
        return self._state.predict(self._rows(X), self.selected_strength_)

    def explain(self, X: Any) -> pd.DataFrame:
        """Why decisions change, a row per person; of a corrected model alone.

        `score` of the model · `margin`: 2 x (its calibrated probability - the one it decides at) · `decision` of the
        model, `corrected` decision, whether it is `changed` · `push`: what the correction takes off the margin, and its
        parts by label (`push_LABEL`) · `column_1`, ...: the columns of X that carry most of it, and how much each does
        (`column_1_push`), to first order and compared with the average person · `stands`: of those whose decision
        changes, the share of the draws of f_a under which it does; known right after a fit alone.

        Of more than two labels `margin` and `push` are of the model's decision against its `rival`, the corrected
        decision or the label that comes next, and `push_LABEL` is what is taken off each label's probability.

        It says much about what is guessed of a person's group: keep it as confidential as that.
        """
        check_is_fitted(self)
        if not isinstance(self._state, FittedModel):
            raise InputError("Heads on a body have no correction to explain: fit without body=.")
        return explain(self._state, self._rows(X), self.selected_strength_)

    def at(self, strength: float) -> Self:
        """The same fit at another operating point: a copy. Of a correction any strength from 0 up, or a trained one."""
        check_is_fitted(self)
        other = copy.copy(self)
        other.strength = other.selected_strength_ = self._state.checked_strength(strength)
        other.selected_because_ = GIVEN
        return other

    def query(self, batch_size: int = 1, *, exclude: Sequence[int] = ()) -> IntArray:
        """Row indices of X, as passed to `fit`, whose group is worth knowing next; best first, never annotated ones.

        Find out their groups and fit again with more of `sensitive_features`. `exclude` names rows not to ask about,
        because nobody could tell. Rows of the validation part of heads are never asked about. Before the first answers
        the rows are drawn at random, alternating between the classes. The same fit always gives the same rows; fewer
        than `batch_size` when the rows run out.
        """
        check_is_fitted(self)
        whole(1)("batch_size", batch_size)
        return self._state.query(batch_size, [int(row) for row in exclude])


def _takes_gaps(estimator: Any) -> bool:
    """Whether a user's model is fine with missing values, by its tags."""
    try:
        return bool(get_tags(estimator).input_tags.allow_nan)
    except (AttributeError, TypeError, ValueError):
        return True  # it does not say
