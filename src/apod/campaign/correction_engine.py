"""The engine of campaigns that keep a model, by everybody's scores, and correct it: the default.

It learns from the pool, which it scores out of fold; people held out are scored by the model as it is. The model itself
is remembered as plain arrays, for the classifier. Scores that came with the campaign, of a model that lives elsewhere,
are taken as they are.

The model is fitted once, on the pool, the rows not held out for an audit, and remembered as scores. A fit is one
correction, chosen by the posterior that the answers leave: a function of the answers alone, whatever their order and
whatever was fitted before. So the model on the dashboard, in `apod status`, in the report and in the downloaded
classifier is one and the same. What is kept of a fit is one weight vector of f_a, the correction and what it is
expected to do; draws of the posterior are not kept, and nothing is kept per person.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from apod.campaign.engine import GroupAnswer, ModelState
from apod.campaign.json_types import ChosenJson, OutcomeJson
from apod.campaign.materials import BASE, FACTS, PLANE, Materials
from apod.campaign.measuring import measure_correction, plane
from apod.campaign.pool_rows import one_by_one, part, pool_rows, proposal
from apod.campaign.settings import settings_of
from apod.campaign.state import Proposal
from apod.classifier.saving_models import Facts, packed_base, saved_base
from apod.data.dataset import IntArray
from apod.data.encode import TableEncoder
from apod.errors import CheckpointError, InputError
from apod.fairness.notions import Notion
from apod.heads.correction import BiasScores, Correction
from apod.method.algorithm1 import Answers
from apod.method.corrected import GuessedGroups, ModelPool
from apod.method.correction_fit import FittedCorrection, Population
from apod.method.group_knowledge import GroupKnowledge, columns_named, read_knowledge
from apod.method.model_mitigation import RANDOM_SHARES, ModelMitigation
from apod.method.posterior import People
from apod.method.questions import Asking
from apod.method.selection import FIRST_ANSWERS, Choice
from apod.method.settings import Settings
from apod.models.model import Fitted, Model, ScoresModel, fit_scores
from apod.models.scored import Scored, ScoredModel, fit_calibration
from apod.models.standard import CANDIDATES, Recipe, fit_standard
from apod.processes import blas_on_one_thread
from apod.randomness import generator

THRESHOLD = 0.5
SAVED = "model."
"""What the names of the model's own arrays begin with."""
SCORE = "score"
"""What the classifier calls the column of scores that came without a name."""
ON_EMBEDDINGS = "logistic regression"


class BaseFacts(TypedDict):
    """What is remembered of the model beside its scores."""

    name: str  # in words
    accuracies: dict[str, float]  # of the candidates, cross-validated
    model: NotRequired[Facts | None]  # the model itself; None where scikit-learn's version did not let it


@dataclass(frozen=True, eq=False)
class BaseModel:
    """Everybody in a campaign as its model sees them; the model itself is not needed any more."""

    pool: ModelPool  # those who may be learnt from
    held_out: Scored | None
    facts: BaseFacts

    @property
    def name(self) -> str:
        """What the model is, in words."""
        return str(self.facts["name"])

    def with_model(self, materials: Materials, settings: Settings) -> tuple[ModelPool, list[str]]:
        """The pool with the model itself in it, to predict with, and the columns of the tables that it takes."""
        features = materials.features()
        width = range(features.shape[1])
        columns = [f"x{at}" for at in width] if isinstance(features, np.ndarray) else list(map(str, features.columns))
        model: Model
        if materials.scores() is None:
            model = self._saved(materials) or fit_base(materials, settings, self.name).model
        else:
            column = materials.score_column or SCORE
            model, columns = ScoresModel(column, threshold_of(settings)), [*columns, column]
        return replace(self.pool, scored=replace(self.pool.scored, model=model)), columns

    def _saved(self, materials: Materials) -> Model | None:
        """The model as it was remembered; None where scikit-learn's version did not let it."""
        arrays = materials.recall(BASE)
        about = self.facts.get("model")
        if arrays is None or about is None:
            return None
        own = {name: np.asarray(array) for name, array in arrays.items() if name.startswith(SAVED)}
        return saved_base(about, own, np.array([0, 1]), None)


def base_model(materials: Materials, settings: Settings) -> BaseModel:
    """The campaign's model as it was remembered, or else fitted now."""
    parts = materials.remember(BASE, lambda: _computed(materials, settings))
    rows, labels = pool_rows(materials), materials.labels()
    features, training = materials.features(), labels[pool_rows(materials).training]
    threshold = threshold_of(settings)
    scores = np.asarray(parts["scores"], dtype=np.float64)
    calibration = fit_calibration(scores, training, threshold)
    seen, known = part(features, rows.training), _knowledge(materials, settings)
    model = ScoredModel(
        ScoresModel(None, threshold),
        calibration,
        TableEncoder().fit(seen, read_as=None if known is None else known.read_as),
    )
    pool = ModelPool(model, model.score(None, seen, scores), training, len(training))
    held_out = None
    if len(rows.held_out):
        own = np.asarray(parts["held_out"], dtype=np.float64)
        held_out = model.score(None, part(features, rows.held_out), own)
    return BaseModel(pool, held_out, json.loads(bytes(parts[FACTS])))


def fit_base(materials: Materials, settings: Settings, name: str | None = None) -> Fitted:
    """The model itself, the same whenever it is fitted; `name` is the candidate that was chosen, where one was."""
    rows, given = pool_rows(materials), materials.scores()
    threshold = threshold_of(settings)
    if given is not None:
        return fit_scores(given[rows.training], threshold=threshold)
    seen, labels = part(materials.features(), rows.training), materials.labels()[rows.training]
    only = name if name is not None else ON_EMBEDDINGS if materials.manifest.get("embedding") else None
    candidates: Mapping[str, Recipe] = CANDIDATES if only is None else {only: CANDIDATES[only]}
    unread = columns_named(settings.group_probability)
    seed = materials.settings.seed
    return fit_standard(seen, labels, seed, candidates=candidates, threshold=threshold, unread=unread)


def _knowledge(materials: Materials, settings: Settings) -> GroupKnowledge | None:
    """What the campaign was told of the groups when it was created."""
    return read_knowledge(settings, materials.settings.groups, materials.settings.label_names)


def threshold_of(settings: Settings) -> float:
    """The score above which the model predicts the positive label."""
    return THRESHOLD if settings.threshold is None else settings.threshold


def _computed(materials: Materials, settings: Settings) -> dict[str, npt.NDArray[Any]]:
    fitted, rows, given = fit_base(materials, settings), pool_rows(materials), materials.scores()
    about, arrays = _packed(fitted) if given is None else (None, {})
    facts = json.dumps({"name": fitted.name, "accuracies": fitted.accuracies, "model": about})
    found: dict[str, npt.NDArray[Any]] = {"scores": fitted.training_scores, **arrays}
    found[FACTS] = np.frombuffer(facts.encode(), dtype=np.uint8)
    if len(rows.held_out):
        people = part(materials.features(), rows.held_out)
        found["held_out"] = fitted.model.margin(people) if given is None else given[rows.held_out]
    return found


def _packed(fitted: Fitted) -> tuple[Facts | None, dict[str, npt.NDArray[Any]]]:
    """The model itself as JSON and arrays; None where another version of scikit-learn does not let it."""
    try:
        about, arrays = packed_base(fitted.model, fitted.name)
    except InputError:
        return None, {}
    return dict(about), {f"{SAVED}{name}": array for name, array in arrays.items()}


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CorrectionModel:
    """What is kept of one fit."""

    arrays: Mapping[str, npt.NDArray[Any]]  # "weights" and "targeted" of f_a, "shares" and "direction"
    outcome: OutcomeJson  # what it is expected to do, as JSON

    @property
    def _operating(self) -> ChosenJson:
        chosen = self.outcome["operating"]
        if chosen is None:
            raise CheckpointError("A saved model names no strength: it will be fitted again.")
        return chosen

    @property
    def strength(self) -> float:
        """The strength that was chosen; 0 where the base model is kept."""
        return float(self._operating["strength"])

    @property
    def because(self) -> str:
        """Why it is that one, in a sentence."""
        return str(self._operating["because"])

    def state(self) -> ModelState:
        """Plain arrays and JSON."""
        return ModelState(self.arrays, {"outcome": self.outcome})


class CorrectionEngine:
    """Algorithm 1 around one kept model: nothing is kept between calls but the people and their scores."""

    def __init__(self, materials: Materials) -> None:
        self._materials, self._seed = materials, materials.settings.seed
        self.settings = settings_of(materials.settings.engine)
        self._rows = pool_rows(materials)
        self.base = base_model(materials, self.settings)
        names, self._key = materials.settings.groups, materials.settings.name
        self._mitigation = self.base.pool.mitigation(
            self.settings, len(names), self._seed, self._key, _knowledge(materials, self.settings)
        )

    @property
    def population(self) -> Population:
        """Everybody a correction is fitted and judged on."""
        return self._mitigation.population

    @property
    def notion(self) -> Notion:
        """What is equalised: measurements and the audit speak of its gap."""
        return self.population.notion

    def fit(self, answers: Sequence[GroupAnswer], start: CorrectionModel | None) -> CorrectionModel | None:
        """The correction that these answers support, whatever came before; None while they are too few."""
        found = self.mitigated(answers)
        return None if found is None or found.fitted is None else self._kept(found.fitted)

    def mitigated(self, answers: Sequence[GroupAnswer]) -> ModelMitigation | None:
        """The same with everything it was chosen by, draws included."""
        rows, known = self._rows.learnable(answers)
        if len(set(rows)) < min(FIRST_ANSWERS, self._materials.budget()):
            return None
        own = copy.copy(self._mitigation)
        groups, weights = (tuple(getattr(one, name) for one in known) for name in ("group", "weight"))
        own.answers = [Answers(tuple(rows), groups, weights)]
        with blas_on_one_thread:  # the same sums on every machine
            own.refit()
        return own

    def _kept(self, fitted: FittedCorrection) -> CorrectionModel:
        ordinary = fitted.weights.shape[1]
        arrays = {
            "weights": fitted.weights,
            "targeted": fitted.posterior.weights[:, :, ordinary:].mean(axis=0),
            "shares": fitted.scores.shares,
            "direction": fitted.correction.direction,
        }
        outcome = measure_correction(fitted, self._seed)
        return CorrectionModel(arrays, {**outcome, "model": self.base.name})

    def load(self, state: ModelState) -> CorrectionModel:
        """The model of this state, checked against the campaign's people."""
        population, arrays = self.population, dict(state.arrays)
        free, columns = population.n_groups - 1, population.columns.shape[1]
        parts = [arrays[name] for name in ("weights", "targeted") if name in arrays]
        if sum(one.shape[-1] for one in parts) != columns or any(len(one) != free for one in parts):
            raise CheckpointError("A saved model does not fit this campaign's people: it will be fitted again.")
        return CorrectionModel(arrays, state.meta["outcome"])

    def propose(
        self, model: CorrectionModel | None, answers: Sequence[GroupAnswer], unavailable: AbstractSet[int], k: int
    ) -> list[Proposal]:
        """The selector's choices after these answers; questions that are out count as answered in expectation."""
        told = self._told(answers)
        gold = set(self._rows.inside(self._materials.gold()))
        asked = [row for row in self._rows.inside(unavailable) if row not in told]
        with blas_on_one_thread:
            if self.settings.selector in RANDOM_SHARES or model is None:
                by, share = RANDOM_SHARES.get(self.settings.selector, ("label", 1.0))
                chosen = self._asked(told, asked, gold, by, share if model is not None else 1.0, k)
            else:
                own = self.mitigated(answers)
                chosen = [] if own is None else one_by_one([question.choice for question in own.ask(k, asked)])
        return [proposal(self._materials, self._rows, choice) for choice in chosen]

    def _asked(
        self, told: Mapping[int, Floats], asked: Sequence[int], gold: AbstractSet[int], by: str, share: float, k: int
    ) -> list[Choice]:
        """By the posterior of f_a: random people of a stratum, and those who tell most about the gap."""
        people = self.population.people
        strata = people.labels if by == "label" else 2 * people.labels + people.decisions
        asking = Asking(self.population, strata, self._seed, share)
        for row, likelihood in told.items():
            asking.add_answer(row, likelihood)
        out = [row for row in asked if row not in gold]
        rng = generator(self._seed, "select", self.settings.selector, self._key, len(told) + len(out))
        return asking.choose(k, out, rng, barred=sorted(gold))

    def measure(self, model: CorrectionModel, answers: Sequence[GroupAnswer]) -> OutcomeJson:
        """What the model is expected to do; the map of the pool is made along with the first."""
        held_out = None if self.base.held_out is None else self.base.held_out.inputs
        self._materials.remember(PLANE, lambda: plane(self._rows.everybody(self.base.pool.people.inputs, held_out)))
        return {"round": len(self._told(answers)), **model.outcome}

    def decisions(self, model: CorrectionModel | None, rows: IntArray) -> dict[str, IntArray]:
        """Of held-out people: before, by the model as it is."""
        return {"before": self._of_held_out(rows).decisions}

    def decisions_at(
        self, model: CorrectionModel | None, rows: IntArray, strength: float | None
    ) -> dict[str, IntArray]:
        """The same, and after, by the correction, where it has a strength: this one, or else the one chosen."""
        found, people = self.decisions(model, rows), self._of_held_out(rows)
        own = 0.0 if model is None else model.strength if strength is None else strength
        if model is not None and own > 0:
            found["after"] = self.decided(model, people, own)
        return found

    def decided(self, model: CorrectionModel, people: Scored, strength: float) -> IntArray:
        """(n,) decisions of the corrected model at this strength; at 0 the model's own."""
        members = GuessedGroups(self.population.reader, model.arrays["weights"]).members(people.inputs)
        decided = self._correction(model).decisions(people.decisions, people.eta, members, strength)
        return np.asarray(decided[0], dtype=np.int64)

    def proxies(self, model: CorrectionModel | None, rows: IntArray) -> Floats:
        """(n, g) P(group) of held-out people by f_a, their label and decision included; even shares without answers."""
        groups = self.population.n_groups
        if model is None:
            return np.full((len(rows), groups), 1 / groups)
        people, labels = self._of_held_out(rows), self._materials.labels()[rows]
        seen = People(people.inputs, labels, people.decisions, people.margins)
        weights = np.concatenate([model.arrays["weights"], model.arrays["targeted"]], axis=1)
        logits = self.population.reader.columns(seen) @ weights.T
        return np.asarray(softmax(np.column_stack([logits, np.zeros(len(logits))]), axis=1))

    def _correction(self, model: CorrectionModel) -> Correction:
        cells = np.asarray(self.notion.cells(np.array([0, 1])))
        return Correction(BiasScores(cells, model.arrays["shares"]), model.arrays["direction"], self.population.cut)

    def _of_held_out(self, rows: IntArray) -> Scored:
        places = self._rows.among_held_out(rows)
        assert self.base.held_out is not None
        return self.base.held_out.take(places)

    def _told(self, answers: Sequence[GroupAnswer]) -> dict[int, Floats]:
        """Of every answered row, how likely the answers are by group: one-hot where they are certain."""
        rows, known = self._rows.learnable(answers)
        found: dict[int, Floats] = {}
        for row, answer in zip(rows, known, strict=True):
            found.setdefault(row, np.zeros(self.population.n_groups))[answer.group] += answer.weight
        return found
