"""The model that a campaign keeps and corrects, by everybody's scores: fitted once, then remembered.

It is fitted on the pool that the campaign began with, the rows not held out for an audit, which it scores out of fold;
people held out, and rows that arrive later, are scored by the model as it is. The model itself is remembered as plain
arrays, for the classifier. Scores that came with the campaign, of a model that lives elsewhere, are taken as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from apod.campaign.materials import BASE, FACTS, Materials
from apod.campaign.pool_rows import part, pool_rows, table_encoder
from apod.classifier.saving_models import Facts, packed_base, saved_base
from apod.errors import InputError
from apod.method.corrected import ModelPool
from apod.method.group_knowledge import GroupKnowledge, columns_named, read_knowledge
from apod.method.settings import Settings
from apod.models.model import Fitted, Model, ScoresModel, fit_scores, selecting
from apod.models.scored import Scored, ScoredModel, fit_calibration
from apod.models.standard import CANDIDATES, Recipe, fit_standard

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
            model = _model(materials, settings, self.facts)
        else:
            column = materials.score_column or SCORE
            model, columns = ScoresModel(column, self.pool.scored.model.threshold), [*columns, column]
        return replace(self.pool, scored=replace(self.pool.scored, model=model)), columns


def _model(materials: Materials, settings: Settings, facts: BaseFacts) -> Model:
    """The model itself, as it was remembered, or fitted again where scikit-learn's version did not let it."""
    arrays, about = materials.recall(BASE), facts.get("model")
    if arrays is None or about is None:
        return fit_base(materials.original, settings, facts["name"]).model
    own = {name: np.asarray(array) for name, array in arrays.items() if name.startswith(SAVED)}
    return saved_base(about, own, np.array([0, 1]), None)


def base_model(materials: Materials, settings: Settings) -> BaseModel:
    """The campaign's model as it was remembered, or else fitted now, on the rows that the campaign began with.

    Its calibration and what f_a reads are theirs too; who arrived later is scored by the model as it is.
    """
    first = materials.original
    parts = materials.remember(BASE, lambda: _computed(first, settings))
    facts: BaseFacts = json.loads(bytes(parts[FACTS]))
    added = materials.remember_later(BASE, lambda batch: _computed_later(materials, settings, facts, batch))
    rows, labels = pool_rows(materials), materials.labels()
    scores = np.asarray(parts["scores"], dtype=np.float64)
    given = Fitted(ScoresModel(None, threshold_of(settings)), scores, False, "", {})
    threshold = selecting(given, settings.selection_rate, len(first.labels())).model.threshold
    calibration = fit_calibration(scores, labels[first.training_rows()], threshold)
    model = ScoredModel(ScoresModel(None, threshold), calibration, table_encoder(materials, settings))
    features, training = materials.features(), labels[rows.training]
    everybody = np.concatenate([scores, *(one["scores"] for one in added)])
    people = model.score(None, part(features, rows.training), everybody)
    pool = ModelPool(model, people, training, len(training), reading=len(scores))
    held_out = None
    if len(rows.held_out):
        own = [np.asarray(one["held_out"], dtype=np.float64) for one in (parts, *added) if "held_out" in one]
        held_out = model.score(None, part(features, rows.held_out), np.concatenate(own))
    return BaseModel(pool, held_out, facts)


def fit_base(materials: Materials, settings: Settings, name: str | None = None) -> Fitted:
    """The model itself, the same whenever it is fitted; `name` is the candidate that was chosen, where one was."""
    rows, given = pool_rows(materials), materials.scores()
    threshold = threshold_of(settings)
    if given is not None:
        scored = fit_scores(given[rows.training], threshold=threshold)
        return selecting(scored, settings.selection_rate, len(materials.labels()))
    seen, labels = part(materials.features(), rows.training), materials.labels()[rows.training]
    only = name if name is not None else ON_EMBEDDINGS if materials.manifest.get("embedding") else None
    candidates: Mapping[str, Recipe] = CANDIDATES if only is None else {only: CANDIDATES[only]}
    unread = columns_named(settings.group_probability)
    seed = materials.settings.seed
    fitted = fit_standard(seen, labels, seed, candidates=candidates, threshold=threshold, unread=unread)
    return selecting(fitted, settings.selection_rate, len(materials.labels()))


def told_groups(materials: Materials, settings: Settings) -> GroupKnowledge | None:
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


def _computed_later(
    materials: Materials, settings: Settings, facts: BaseFacts, batch: int
) -> dict[str, npt.NDArray[Any]]:
    """Scores of a batch that arrived later: the model was not fitted on it."""
    given = materials.batches[batch]
    if given.get("scores") is not None:
        scores = materials.files.array(given["scores"]["file"]).astype(np.float64)
    else:
        scores = _model(materials, settings, facts).margin(materials.batch_features(batch))
    start, stop = materials.starts[batch : batch + 2]
    parts = {"scores": materials.training_rows(), "held_out": materials.held_out()}
    found = {name: scores[rows[(rows >= start) & (rows < stop)] - start] for name, rows in parts.items()}
    return found if len(found["held_out"]) else {"scores": found["scores"]}


def _packed(fitted: Fitted) -> tuple[Facts | None, dict[str, npt.NDArray[Any]]]:
    """The model itself as JSON and arrays; None where another version of scikit-learn does not let it."""
    try:
        about, arrays = packed_base(fitted.model, fitted.name)
    except InputError:
        return None, {}
    return dict(about), {f"{SAVED}{name}": array for name, array in arrays.items()}
