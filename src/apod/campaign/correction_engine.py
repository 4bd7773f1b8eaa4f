"""The engine of campaigns that keep a model, by everybody's scores, and correct it: the default.

The model is fitted once and remembered as scores (`campaign.base_model`). A fit is one correction, chosen by the
posterior that the answers leave: a function of the answers alone, whatever their order and whatever was fitted before.
So the model on the dashboard, in `apod status`, in the report and in the downloaded classifier is one and the same.
What is kept of a fit is one weight vector of f_a, the correction and what it is expected to do; draws of the posterior
are not kept, and nothing is kept per person.

Where a campaign verifies its correction, the one that was frozen is kept instead, as far as fresh answers passed it;
until they did, the base model is.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from apod.campaign.base_model import base_model, told_groups
from apod.campaign.engine import Candidate, DrawnPerson, GroupAnswer, ModelState, Trial
from apod.campaign.json_types import ChosenJson, OutcomeJson, VerificationJson
from apod.campaign.materials import Materials
from apod.campaign.measuring import measure_correction, remember_plane
from apod.campaign.outcomes import people_left
from apod.campaign.pool_rows import one_by_one, pool_rows, proposal
from apod.campaign.settings import settings_of
from apod.campaign.state import Proposal
from apod.data.dataset import IntArray
from apod.errors import CheckpointError
from apod.fairness.notions import Notion
from apod.heads.correction import BiasScores, Correction
from apod.method.algorithm1 import Answers
from apod.method.corrected import GuessedGroups
from apod.method.correction_fit import FittedCorrection, Frozen, Population
from apod.method.model_mitigation import RANDOM_SHARES, ModelMitigation
from apod.method.outlook import CorrectionOutlookJson
from apod.method.plan import correction_outlook
from apod.method.posterior import People
from apod.method.questions import Asking
from apod.method.selection import FIRST_ANSWERS, Choice
from apod.method.verification import (
    LEVEL,
    Changes,
    Verification,
    Verified,
    needed_count,
    plan_verification,
)
from apod.models.scored import Scored
from apod.processes import blas_on_one_thread
from apod.randomness import generator

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CorrectionModel:
    """What is kept of one fit."""

    arrays: Mapping[str, npt.NDArray[Any]]  # "weights" and "targeted" of f_a, "shares" and "direction"
    outcome: OutcomeJson  # what it is expected to do, as JSON
    trial: list[int] | None = None  # the frozen correction that it keeps (`Trial.version`)

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
        tried = {} if self.trial is None else {"trial": self.trial}
        return ModelState(self.arrays, {"outcome": self.outcome, **tried})


class CorrectionEngine:
    """Algorithm 1 around one kept model: nothing is kept between calls but the people and their scores."""

    def __init__(self, materials: Materials) -> None:
        self._materials, self._seed = materials, materials.settings.seed
        self.settings = settings_of(materials.settings.engine)
        self._rows = pool_rows(materials)
        self.base = base_model(materials, self.settings)
        names, self._key = materials.settings.groups, materials.settings.name
        self._mitigation = self.base.pool.mitigation(
            self.settings, len(names), self._seed, self._key, told_groups(materials, self.settings)
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
        found = self.in_force(answers, None)
        return None if found is None or found.fitted is None else self._kept(found, found.fitted)

    def fit_frozen(self, answers: Sequence[GroupAnswer], trial: Trial) -> CorrectionModel | None:
        """The same with a frozen correction, as far as it passed; while it is tried, the base model is kept."""
        found = self.in_force(answers, trial)
        return None if found is None or found.fitted is None else self._kept(found, found.fitted, trial)

    def freeze(self, answers: Sequence[GroupAnswer], unavailable: AbstractSet[int], count: int) -> Candidate | None:
        """What these answers chose, and people drawn from those it changes; None where that could verify nothing."""
        found = self.mitigated(answers)
        plan = None if found is None or found.fitted is None else plan_verification(found.fitted)
        if plan is None:
            return None
        askable = np.ones(len(self.population), dtype=np.bool_)
        askable[self._rows.inside(unavailable)] = False
        drawn = plan.draw(count, askable, generator(self._seed, "verify", self._key, plan.fingerprint))
        place = {int(row): at for at, row in enumerate(plan.changes.rows)}
        people = [self._drawn(plan.changes, choice, place[choice.row]) for choice in drawn]
        if needed_count(np.array([one["chance"] for one in people]), LEVEL) is None:
            return None
        frozen = plan.frozen
        return {
            "fingerprint": plan.fingerprint,
            "weights": frozen.weights.tolist(),
            "shares": frozen.scores.shares.tolist(),
            "direction": frozen.direction.tolist(),
            "place": frozen.place,
            "half": plan.changes.half,
            "people": people,
        }

    def _drawn(self, changes: Changes, choice: Choice, at: int) -> DrawnPerson:
        return {
            "row": int(self._rows.training[choice.row]),
            "probability": choice.probability,
            "place": int(changes.place[at]),
            "chance": float(changes.chance[at]),
            "favoured": changes.favoured[at].tolist(),
            "upward": bool(changes.upward[at]),
        }

    def _verification(self, candidate: Candidate) -> Verification:
        """A frozen correction and the people it is tried on."""
        people = candidate["people"]
        rows = np.array(self._rows.inside([one["row"] for one in people]), dtype=np.int64)  # sorted, as they are below
        people = sorted(people, key=lambda one: one["row"])
        column = {name: np.array([one[name] for one in people]) for name in ("place", "favoured", "chance", "upward")}
        changes = Changes(rows, **column, weight=np.ones(len(rows)), half=candidate["half"])
        cells = np.asarray(self.notion.cells(np.array([0, 1])))
        scores = BiasScores(cells, np.array(candidate["shares"]))
        direction, weights = np.array(candidate["direction"]), np.array(candidate["weights"])
        return Verification(Frozen(weights, scores, direction, candidate["place"]), changes)

    def mitigated(self, answers: Sequence[GroupAnswer], trial: Trial | None = None) -> ModelMitigation | None:
        """The same with everything it was chosen by, draws included."""
        rows, known = self._rows.learnable(answers)
        if len(set(rows)) < min(FIRST_ANSWERS, self._materials.budget()):
            return None
        own = copy.copy(self._mitigation)
        groups, weights = (tuple(getattr(one, name) for one in known) for name in ("group", "weight"))
        own.answers = [Answers(tuple(rows), groups, weights)]
        with blas_on_one_thread:  # the same sums on every machine
            if trial is None:
                own.refit()
            else:
                self._settle(own, trial)
        return own

    def in_force(self, answers: Sequence[GroupAnswer], trial: Trial | None) -> ModelMitigation | None:
        """What is applied: where the campaign verifies, nothing that fresh answers have not passed."""
        found = self.mitigated(answers, trial)
        if found is not None and found.verified is None and self._materials.settings.verify_share:
            found.withhold()
        return found

    def _settle(self, own: ModelMitigation, trial: Trial) -> None:
        plan = self._verification(trial.candidate)
        if plan.frozen.weights.shape != (self.population.n_groups - 1, self.population.reader.ordinary_count + 1):
            own.refit()  # frozen for other people than the campaign has now
            return
        fresh = set(self._rows.inside(trial.asked))
        told = plan.judge({row: likely for row, likely in own.likelihoods().items() if row in fresh})
        if not trial.complete:
            told = Verified("not verified", told.asked, 0, None, 0.0)
        elif told.verdict == "not verified":
            told = replace(told, strength=0.0)
        own.settle(plan.frozen, {}, told)
        own.round += 1

    def _kept(self, found: ModelMitigation, fitted: FittedCorrection, trial: Trial | None = None) -> CorrectionModel:
        ordinary = fitted.weights.shape[1]
        arrays = {
            "weights": fitted.weights,
            "targeted": fitted.posterior.weights[:, :, ordinary:].mean(axis=0),
            "shares": fitted.scores.shares,
            "direction": fitted.correction.direction,
        }
        outcome: OutcomeJson = {**measure_correction(fitted, self._seed), "model": self.base.name}
        operating: ChosenJson = {"strength": fitted.strength, "because": str(found.reason)}
        outcome["operating"] = operating
        outcome["outlook"] = self._outlook(found, fitted)
        if self._materials.settings.verify_share:
            outcome["verification"] = self._verified_json(found.verified, trial)
        return CorrectionModel(arrays, outcome, None if trial is None else trial.version)

    def _outlook(self, found: ModelMitigation, fitted: FittedCorrection) -> CorrectionOutlookJson:
        """What the budget can tell, and what is still to come of it."""
        people = round(people_left(self._materials.settings, self._materials.budget()))
        handed_in = len(np.setdiff1d(self._materials.known(), self._materials.held_out()))
        asked, several = len(set(found.answers[0].rows)) - handed_in, len(found.answers[0].groups_seen()) > 1
        return correction_outlook(fitted, found.limits, max(people, asked), max(0, people - asked) if several else None)

    def _verified_json(self, told: Verified | None, trial: Trial | None) -> VerificationJson:
        rules = self._materials.settings
        if told is None or trial is None:
            words = "Not verified: no correction was put to the test of fresh answers yet."
            return {"verdict": "not verified", "asked": 0, "favourable": 0, "needed": None, "words": words}
        words = told.words(rules.groups, rules.label_names)
        if not trial.complete:
            people = len(trial.candidate["people"])
            words = f"Not verified yet: {told.asked} of {people} fresh answers are there."
        return {
            "verdict": told.verdict,
            "asked": told.asked,
            "favourable": told.favourable,
            "needed": told.needed,
            "words": words,
        }

    def load(self, state: ModelState) -> CorrectionModel:
        """The model of this state, checked against the campaign's people."""
        population, arrays = self.population, dict(state.arrays)
        free, columns = population.n_groups - 1, population.columns.shape[1]
        parts = [arrays[name] for name in ("weights", "targeted") if name in arrays]
        if sum(one.shape[-1] for one in parts) != columns or any(len(one) != free for one in parts):
            raise CheckpointError("A saved model does not fit this campaign's people: it will be fitted again.")
        return CorrectionModel(arrays, state.meta["outcome"], state.meta.get("trial"))

    def propose(
        self, model: CorrectionModel | None, answers: Sequence[GroupAnswer], unavailable: AbstractSet[int], k: int
    ) -> list[Proposal]:
        """The selector's choices after these answers; questions that are out count as answered in expectation."""
        told = self._people(answers)
        gold = set(self._rows.inside(self._materials.gold()))
        closed = self._rows.inside(unavailable)
        asked = [row for row in closed if row not in told]
        with blas_on_one_thread:
            if self.settings.selector in RANDOM_SHARES or model is None:
                by, share = RANDOM_SHARES.get(self.settings.selector, ("label", 1.0))
                chosen = self._asked(answers, closed, gold, by, share if model is not None else 1.0, k)
            else:
                own = self.mitigated(answers)
                chosen = [] if own is None else one_by_one([question.choice for question in own.ask(k, asked)])
        return [proposal(self._materials, self._rows, choice) for choice in chosen]

    def _asked(
        self,
        answers: Sequence[GroupAnswer],
        closed: Sequence[int],
        gold: AbstractSet[int],
        by: str,
        share: float,
        k: int,
    ) -> list[Choice]:
        """By the posterior of f_a: random people of a stratum, and those who tell most about the gap."""
        people, told = self.population.people, self._people(answers)
        strata = people.labels if by == "label" else 2 * people.labels + people.decisions
        asking = self._asking(answers, closed, strata, share)
        out = [row for row in closed if row not in told and row not in gold]
        rng = generator(self._seed, "select", self.settings.selector, self._key, len(told) + len(out))
        return asking.choose(k, out, rng, barred=sorted(gold))

    def _asking(self, answers: Sequence[GroupAnswer], closed: Sequence[int], strata: IntArray, share: float) -> Asking:
        """What chooses questions after these answers."""
        asking = Asking(self.population, strata, self._seed, share)
        for row, likelihood in self._told(answers).items():
            asking.add_answer(row, likelihood)
        return asking

    def measure(self, model: CorrectionModel, answers: Sequence[GroupAnswer]) -> OutcomeJson:
        """What the model is expected to do; the map of the pool is made along with the first."""
        held_out = None if self.base.held_out is None else self.base.held_out.inputs
        remember_plane(self._materials, lambda: self._rows.everybody(self.base.pool.people.inputs, held_out))
        return {"round": len(self._people(answers)), **model.outcome}

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

    def _people(self, answers: Sequence[GroupAnswer]) -> set[int]:
        """Whose groups are known, as far as may be learnt from them."""
        return set(self._rows.learnable(answers)[0])

    def _told(self, answers: Sequence[GroupAnswer]) -> dict[int, Floats]:
        """Of every answered row, how likely the answers are by group: one-hot where they are certain."""
        rows, known = self._rows.learnable(answers)
        found: dict[int, Floats] = {}
        for row, answer in zip(rows, known, strict=True):
            found.setdefault(row, np.zeros(self.population.n_groups))[answer.group] += answer.weight
        return found
