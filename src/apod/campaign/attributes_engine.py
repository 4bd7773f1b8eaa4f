"""The engine of a campaign about several attributes: one correction for all of them, one question about all of them.

Every attribute has its own f_a and bias scores; the correction is chosen for the sum of the gaps (`method.attributes`).
What is kept of a fit are the weights of every f_a, one below the other, and shares and direction side by side. What is
inherited and speaks of groups speaks of the first attribute.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from apod.campaign.correction_engine import CorrectionEngine, CorrectionModel
from apod.campaign.engine import Candidate, GroupAnswer, ModelState, Trial
from apod.campaign.json_types import OutcomeJson
from apod.campaign.materials import Materials
from apod.campaign.measuring import INTERSECTIONS, with_attributes
from apod.data.dataset import IntArray
from apod.errors import CheckpointError
from apod.method.algorithm1 import Answers
from apod.method.attribute_mitigation import AttributeMitigation, Likelihoods
from apod.method.attributes import FittedAttributes, split_weights
from apod.method.corrected import GuessedGroups
from apod.method.correction_fit import FittedCorrection
from apod.method.model_mitigation import ModelMitigation
from apod.method.posterior import People
from apod.method.questions import Asking, AskingAttributes
from apod.method.selection import FIRST_ANSWERS
from apod.models.scored import Scored
from apod.processes import blas_on_one_thread

Floats = npt.NDArray[np.float64]
ASSOCIATION = "association."
"""What the names of arrays of associations begin with."""


class WeighedAttributes(AttributeMitigation):
    """The method's state with answers that several people may have given, weighed for every attribute."""

    given: Sequence[Likelihoods] = ()

    def likelihoods_of(self, attribute: int) -> Likelihoods:
        """Of every row that was told, how likely the answers are by group."""
        return dict(self.given[attribute]) if self.given else {}


class AttributesEngine(CorrectionEngine):
    """Algorithm 1 around one kept model for two attributes or more."""

    def __init__(self, materials: Materials) -> None:
        super().__init__(materials)
        self.attributes = materials.settings.asked
        self.sizes = tuple(len(one.groups) for one in self.attributes)
        self._mitigation: WeighedAttributes = self.base.pool.attribute_mitigation(
            self.settings, self.sizes, self._seed, self._key, WeighedAttributes
        )

    def mitigated(self, answers: Sequence[GroupAnswer], trial: Trial | None = None) -> ModelMitigation | None:
        """The correction that these answers support, with everything it was chosen by, draws included."""
        told = self._told_each(answers)
        people = sorted({row for one in told for row in one})
        if len(people) < min(FIRST_ANSWERS, self._materials.budget()):
            return None
        own = copy.copy(self._mitigation)
        own.given = told
        own.answers = [Answers(tuple(people), (0,) * len(people), (1.0,) * len(people))]  # for whoever counts them
        with blas_on_one_thread:
            own.refit()
        return own

    def freeze(self, answers: Sequence[GroupAnswer], unavailable: AbstractSet[int], count: int) -> Candidate | None:
        """Nothing: corrections for several attributes are applied without (settings refuse to verify them)."""
        return None

    def _kept(self, found: ModelMitigation, fitted: FittedCorrection, trial: Trial | None = None) -> CorrectionModel:
        several = cast("FittedAttributes", fitted)
        kept = super()._kept(found, several.parts[0], trial)
        ordinary = fitted.weights.shape[1]
        targeted = [part.posterior.weights[:, :, ordinary:].mean(axis=0) for part in several.parts]
        arrays = {
            "weights": several.stacked_weights,
            "targeted": np.concatenate(targeted),
            "shares": several.correction.scores.shares,
            "direction": several.correction.direction,
        }
        if several.crossed is not None:
            arrays |= {f"{ASSOCIATION}{i}.{j}": array for (i, j), array in several.associations.items()}
        return CorrectionModel(arrays, self._outcome(kept.outcome, several), kept.trial)

    def _outcome(self, outcome: OutcomeJson, fitted: FittedAttributes) -> OutcomeJson:
        """What was measured, with the gaps to expect in every attribute and, where they count, the intersections."""
        names = [*(one.name for one in self.attributes), *([] if fitted.crossed is None else [INTERSECTIONS])]
        return with_attributes(outcome, dict(zip(names, fitted.judged, strict=True)), self._seed)

    def load(self, state: ModelState) -> CorrectionModel:
        """The model of this state, checked against the campaign's people."""
        arrays, columns = dict(state.arrays), self.population.columns.shape[1]
        parts = [arrays[name] for name in ("weights", "targeted") if name in arrays]
        free = sum(self.sizes) - len(self.sizes)
        if sum(one.shape[-1] for one in parts) != columns or any(len(one) != free for one in parts):
            raise CheckpointError("A saved model does not fit this campaign's people: it will be fitted again.")
        return CorrectionModel(arrays, state.meta["outcome"], state.meta.get("trial"))

    def _asking(self, answers: Sequence[GroupAnswer], closed: Sequence[int], strata: IntArray, share: float) -> Asking:
        """By the posteriors of all f_a; who is known in some attributes alone may still be asked about."""
        first, *others = self._mitigation.populations
        further = tuple(Asking(one, strata, self._seed, share, alone=False) for one in others)
        asking = AskingAttributes(first, strata, self._seed, share, alone=False, further=further)
        told, gone = self._told_each(answers), set(closed)
        for row in dict.fromkeys(row for own in told for row in own):
            asking.add_answers(row, [own.get(row) for own in told], row in gone)
        return asking

    def decided(self, model: CorrectionModel, people: Scored, strength: float) -> IntArray:
        """(n,) decisions of the corrected model at this strength; at 0 the model's own."""
        pairs = {name: array for name, array in model.arrays.items() if name.startswith(ASSOCIATION)}
        found = {_pair(name): np.asarray(array) for name, array in pairs.items()}
        guessed = GuessedGroups(self.population.reader, model.arrays["weights"], self.sizes, found or None)
        decided = self._correction(model).decisions(
            people.decisions, people.eta, guessed.members(people.inputs), strength
        )
        return np.asarray(decided[0], dtype=np.int64)

    def proxies(self, model: CorrectionModel | None, rows: IntArray) -> Floats:
        """(n, g) P(group) of held-out people in the first attribute."""
        return self.proxies_of(0, model, rows)

    def proxies_of(self, attribute: int, model: CorrectionModel | None, rows: IntArray) -> Floats:
        """(n, g) P(group) of held-out people by an attribute's f_a; even shares without answers."""
        groups = self.sizes[attribute]
        if model is None:
            return np.full((len(rows), groups), 1 / groups)
        people, labels = self._of_held_out(rows), self._materials.labels()[rows]
        seen = People(people.inputs, labels, people.decisions, people.margins)
        own = [split_weights(model.arrays[name], self.sizes)[attribute] for name in ("weights", "targeted")]
        logits = self.population.reader.columns(seen) @ np.concatenate(own, axis=1).T
        return np.asarray(softmax(np.column_stack([logits, np.zeros(len(logits))]), axis=1))

    def _told_each(self, answers: Sequence[GroupAnswer]) -> list[Likelihoods]:
        """Of every row that was told about an attribute, how likely the answers are by group."""
        found: list[Likelihoods] = [{} for _ in self.sizes]
        rows, known = self._rows.learnable(answers)
        for row, answer in zip(rows, known, strict=True):
            own = found[answer.attribute]
            own.setdefault(row, np.zeros(self.sizes[answer.attribute]))[answer.group] += answer.weight
        return found


def _pair(name: str) -> tuple[int, int]:
    """The two attributes that an array of associations is about."""
    first, second = name.removeprefix(ASSOCIATION).split(".")
    return int(first), int(second)
