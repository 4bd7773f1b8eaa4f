"""A fit that keeps a model and corrects its margin: the model, its correction, and what is expected of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import logit

from apod.classifier.inputs import Rows
from apod.classifier.reads import Reads, fit_reads
from apod.data import IntArray
from apod.errors import InputError
from apod.method.attribute_mitigation import AttributeMitigation
from apod.method.corrected import CorrectedModel, ModelPool, corrected, model_pool
from apod.method.correction_fit import STRENGTHS, FittedCorrection
from apod.method.gap_interval import GapEstimate
from apod.method.group_knowledge import columns_named, read_knowledge, refuse_contradiction
from apod.method.model_mitigation import ModelMitigation
from apod.method.outlook import CorrectionOutlookJson
from apod.method.plan import correction_outlook
from apod.method.settings import Settings
from apod.models.embedding_steps import embedding_step
from apod.models.estimator import EstimatorModel, fit_estimator, name_of, rows_of
from apod.models.model import Model, ScoresModel, selecting
from apod.models.prediction import on_rows
from apod.models.scored import Scored
from apod.models.standard import fit_standard, warn_if_trained_on

Floats = npt.NDArray[np.float64]

NOT_VERIFIED = "not verified"
"""What the answers that chose a correction say about it is no test of it."""
NOBODY_KNOWN = "Nobody's group is known, so the base model is kept."
NEAREST_TO_CERTAIN = 1e-15


@dataclass(frozen=True)
class Selection:
    """What the answers chose: a strength, 0 = the model as it is, and the gaps to expect without and with it.

    Gaps are of as many people as the correction was judged on; None where nobody's group is known.
    """

    strength: float
    reason: str
    before: GapEstimate | None
    after: GapEstimate | None
    verification: str = NOT_VERIFIED


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model and its correction, as they predict the labels of the user."""

    model: CorrectedModel
    reads: Reads
    columns: tuple[str, ...] | None  # of X, in order; None: X goes to the user's model as it is
    classes: npt.NDArray[Any]  # (K,) in order
    positive: int | None  # which of two, 0 or 1; None of more
    name: str  # of the model, in words
    standard: bool  # whether it is one of ours, which knows the labels as 0 and 1
    own_threshold: bool  # whether decisions at strength 0 are left to the model's `predict`
    tradeoff: pd.DataFrame
    selection: Selection
    deciles: Floats | None  # (G, 9) of f_a's P(group) of the people it was judged on; None without a correction
    mitigation: ModelMitigation | None  # None once loaded
    outlook: CorrectionOutlookJson | None = None  # the same
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # groups by attribute, of several

    @property
    def selected(self) -> float:
        """The strength that the answers chose."""
        return self.selection.strength

    @property
    def because(self) -> str:
        """Why that one, in a sentence."""
        return self.selection.reason

    @property
    def own(self) -> Any:
        """The user's fitted model; None where it is one of ours."""
        model = self.model.scored.model
        return model.estimator if isinstance(model, EstimatorModel) and not self.standard else None

    @property
    def training_rows(self) -> IntArray | None:
        """All rows; None once loaded."""
        return None if self.mitigation is None else np.arange(self.mitigation.population.training)

    def checked_strength(self, strength: float) -> float:
        """The strength, or an InputError where it cannot be."""
        return self.model.at(strength).strength

    def predict(self, X: Any, strength: float) -> npt.NDArray[Any]:
        """(n,) labels; at strength 0 those of the model."""
        if strength == 0 and self.own_threshold and not self.standard:
            own = self._own("predict", X)
            if own is not None:
                return np.asarray(own)
        return self.labels(self.model.at(strength).decisions(self.people(X))[0])

    def labels(self, decided: IntArray) -> npt.NDArray[Any]:
        """(n,) the user's labels of decisions: 1 for the positive one, of more than two labels their places."""
        return np.asarray(self.classes[1 - decided if self.positive == 0 else decided])

    def predict_proba(self, X: Any, strength: float) -> Floats:
        """(n, K) in the order of the classes; at strength 0 those of the model."""
        if not self.model.scored.model.probabilities:
            raise InputError(
                f"{self.name} gives no probabilities: use decision_function, or wrap it in CalibratedClassifierCV."
            )
        own = self._own("predict_proba", X) if strength == 0 else None
        if own is not None:
            own = np.asarray(own)
            return own[:, ::-1] if self._turned else own
        scores = self.model.at(strength).scores(self.people(X))
        if self.positive is None:
            return scores
        both = [1 - scores, scores] if self.positive else [scores, 1 - scores]
        return np.stack(both, axis=1)

    def decision_function(self, X: Any, strength: float) -> Floats:
        """(n,) log-odds of the second class, or the scores of a model without probabilities; at strength 0 the
        model's own where it has a decision function. Of more than two classes (n, K), logarithms of probabilities."""
        own = self._own("decision_function", X) if strength == 0 else None
        if own is not None:
            return -np.asarray(own) if self._turned else np.asarray(own)
        scores = self.model.at(strength).scores(self.people(X))
        if self.positive is None:
            own = self.model.scored.model.probabilities
            return np.log(scores.clip(NEAREST_TO_CERTAIN)) if own else scores
        if self.model.scored.model.probabilities:
            scores = logit(scores.clip(NEAREST_TO_CERTAIN, 1 - NEAREST_TO_CERTAIN))
        return np.asarray(scores if self.positive else -scores)

    def query(self, count: int, barred: Sequence[int]) -> IntArray:
        """Rows worth asking about."""
        if self.mitigation is None:
            raise InputError("A loaded classifier holds no training rows to choose from: fit again to query.")
        return np.array([question.row for question in self.mitigation.ask(count, barred)], dtype=np.int64)

    @property
    def _turned(self) -> bool:
        """Whether the model's second class is the classifier's first."""
        return self.standard and self.positive == 0

    def _model_rows(self, X: Any) -> Any:
        """X as the model takes it: a user's as it is, with the column of scores where those are the model."""
        given = not self.standard or isinstance(self.model.scored.model, ScoresModel)
        return X if given else self.reads.of(X)

    def people(self, X: Any) -> Scored:
        """These people as the model and its correction see them."""
        return self.model.score_people(self._model_rows(X), self.reads.of(X))

    def _own(self, method: str, X: Any) -> Any:
        """What the model itself says, None where it has no such method."""
        model = self.model.scored.model
        if not isinstance(model, EstimatorModel) or not hasattr(model.estimator, method):
            return None
        rows = model.prepare(self._model_rows(X))
        return on_rows(model.estimator, method, rows, rows_of(X), name_of(model.estimator))


def fit_model(
    estimator: Any,
    X: Any,
    classes: npt.NDArray[Any],
    positive: int | None,
    rows: Rows,
    settings: Settings,
    seed: int,
    key: str,
    weights: Floats | None = None,
) -> FittedModel:
    """Fit (or take) the model, and the correction that the known groups support.

    X as the user gave it, a frame where the model is one of ours.
    """
    if rows.attributes and (weights is not None or len(classes) > 2):
        raise InputError("Several attributes go with two labels and no weights: pass one column of groups.")
    if estimator is None:
        columns: tuple[str, ...] | None = tuple(map(str, X.columns))
        reads = fit_reads(X)
        read = reads.of(X)
        threshold = 0.5 if settings.threshold is None else settings.threshold
        unread = columns_named(settings.group_probability)
        fitted = fit_standard(read, rows.labels, seed, threshold=threshold, unread=unread, weights=_mean_one(weights))
    else:
        y = classes[1 - rows.labels if positive == 0 else rows.labels]
        counted = None if positive is None else classes[positive]
        fitted = fit_estimator(estimator, X, y, seed, settings.threshold, counted, weights)
        columns = None
        step = embedding_step(fitted.model.estimator) if isinstance(fitted.model, EstimatorModel) else None
        reads = fit_reads(X, rows.groups, rows.group_names, step)
        read = reads.of(X)
        warn_if_trained_on(fitted, read, rows.labels, seed)
        if settings.threshold is None and settings.selection_rate is None:
            _check_own_decisions(fitted.model)
    fitted = selecting(fitted, settings.selection_rate, len(rows.labels), weights)
    label_names = [str(label) for label in (classes[::-1] if positive == 0 else classes)]
    known = read_knowledge(settings, rows.group_names, label_names)
    read_as = None if known is None else known.read_as
    given = read if estimator is None else X, rows.labels
    pool = model_pool(fitted, given, reads=(read, None), read_as=read_as, weights=weights)
    own, attributes = estimator is not None, rows.attributes
    if attributes:
        sizes = [len(names) for names in attributes.values()]
        mitigation: ModelMitigation = pool.attribute_mitigation(settings, sizes, seed, key, AttributeMitigation)
    else:
        mitigation = pool.mitigation(settings, max(2, len(rows.group_names)), seed, key, known)
    mitigation.answers[0] = rows.answers()
    if not attributes:
        refuse_contradiction(known, rows.labels, *mitigation.answers[0].known())
    mitigation.refit()
    made = fitted_model(pool, mitigation, reads, columns, classes, positive, fitted.name, settings, own=own)
    return replace(made, attributes=attributes)


def _mean_one(weights: Floats | None) -> Floats | None:
    """Weights whose scale says nothing; a user's own model gets them as they were given."""
    return None if weights is None else weights / weights.mean()


def fitted_model(
    pool: ModelPool,
    mitigation: ModelMitigation,
    reads: Reads,
    columns: tuple[str, ...] | None,
    classes: npt.NDArray[Any],
    positive: int | None,
    name: str,
    settings: Settings,
    *,
    own: bool,
) -> FittedModel:
    """What a classifier needs of a mitigated model; `own`: it is the user's, and knows labels by the user's names."""
    fitted = mitigation.fitted
    model = corrected(pool.scored, fitted)
    return FittedModel(
        model=model,
        reads=reads,
        columns=columns,
        classes=classes,
        positive=positive,
        name=name,
        standard=not own,
        own_threshold=settings.threshold is None and settings.selection_rate is None,
        tradeoff=tradeoff(fitted, mitigation.seed),
        selection=selected(mitigation),
        deciles=_deciles(model, fitted),
        mitigation=mitigation,
        outlook=_outlook(mitigation),
    )


def _outlook(mitigation: ModelMitigation) -> CorrectionOutlookJson | None:
    """What as many answers can tell of a gap, and how many would confirm the leading correction."""
    if mitigation.fitted is None:
        return None
    return correction_outlook(mitigation.fitted, mitigation.limits, len(mitigation.likelihoods()))


def _deciles(model: CorrectedModel, fitted: FittedCorrection | None) -> Floats | None:
    if fitted is None or model.groups is None:
        return None
    people = fitted.population.people.inputs
    return deciles(model.groups.members(people) if model.groups.sizes else fitted.members(people))


def deciles(members: Floats) -> Floats:
    """(G, 9) of everybody's P(group), (n, G): by these new people are compared with those of the fit."""
    return np.quantile(members, np.arange(1, 10) / 10, axis=0).T


def selected(mitigation: ModelMitigation) -> Selection:
    """The strength that the answers chose, and why."""
    fitted, told = mitigation.fitted, mitigation.verified
    if fitted is None:
        return Selection(0.0, NOBODY_KNOWN, None, None)
    gaps = fitted.estimates(len(fitted.population), mitigation.seed)
    verification = NOT_VERIFIED if told is None else told.verdict
    return Selection(fitted.strength, str(mitigation.reason), *gaps, verification=verification)


def tradeoff(fitted: FittedCorrection | None, seed: int) -> pd.DataFrame:
    """The path of the leading direction, a row per strength; columns as `APODClassifier.tradeoff_` documents them."""
    if fitted is None:
        nothing = {"gap": np.nan, "gap_low": np.nan, "gap_high": np.nan, "fall": 0.0, "fall_sd": 0.0}
        return pd.DataFrame([{"strength": 0.0, **nothing, "accuracy_lost": 0.0, "balanced_lost": 0.0, "changed": 0.0}])
    way, gaps = fitted.chosen.direction, fitted.path_estimates(len(fitted.population), seed)
    along = {
        "fall": fitted.falls.mean,
        "fall_sd": fitted.falls.deviation,
        "accuracy_lost": fitted.costs.accuracy,
        "balanced_lost": fitted.costs.balanced,
        "changed": fitted.costs.changed,
    }
    return pd.DataFrame(
        {
            "strength": [0.0, *STRENGTHS],
            "gap": [one.gap for one in gaps],
            "gap_low": [one.low for one in gaps],
            "gap_high": [one.high for one in gaps],
            **{name: [0.0, *values[way]] for name, values in along.items()},
        }
    )


def _check_own_decisions(model: Model) -> None:
    """InputError where a model's `predict` decides at another score than models of its kind do."""
    if not isinstance(model, EstimatorModel) or not hasattr(model.estimator, "predict") or model.probe is None:
        return
    rows, scores = model.probe, model.margin(model.probe)
    own = np.asarray(on_rows(model.estimator, "predict", rows, rows_of(rows), name_of(model.estimator))).ravel()
    if scores.ndim == 2:
        ordered = np.sort(scores, axis=1)
        if (own != model.classes[scores.argmax(axis=1)])[ordered[:, -1] > ordered[:, -2]].any():
            raise InputError(
                f"{name_of(model.estimator)} does not predict the label of its highest score: corrections need that."
            )
        return
    if ((own == model.classes[1]) != (scores > model.threshold))[scores != model.threshold].any():
        raise InputError(
            f"{name_of(model.estimator)} does not predict by a score of {model.threshold:g}: pass the threshold it "
            "decides at (threshold=)."
        )
