"""Algorithm 1 for any model: whom to ask, the answers so far, and the correction that they support.

The user's model is the frozen body, the correction is the head (`heads.correction`). What it is after a refit is a
function of the people, the seed and the answers alone (`method.correction_fit`), whatever their order: a run that is
resumed, a fit on the same answers and a campaign give the same correction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from apod.data.dataset import UNKNOWN, IntArray
from apod.data.encode import EmbeddedBlock
from apod.errors import InputError
from apod.fairness.notions import Notion
from apod.maxmin import Coverage
from apod.method.algorithm1 import Answered, Answers, Ask, Question, put
from apod.method.correction_choice import Limits
from apod.method.correction_fit import FittedCorrection, Frozen, Population, fit_correction, make_population
from apod.method.group_knowledge import PlacedKnowledge
from apod.method.posterior import People
from apod.method.questions import FIRST_RANDOM, RANDOM_SHARE, Asking
from apod.method.selection import SELECTORS, Choice, Likeness, Scores, View
from apod.method.verification import FAILED_TEST, UNVERIFIED, Verification, Verified, apply_verdict, plan_verification
from apod.models.scored import Scored
from apod.randomness import generator

Floats = npt.NDArray[np.float64]
Note = Callable[[str], None]

RANDOM_SHARES: Mapping[str, tuple[str, float]] = {
    "gap": ("label", RANDOM_SHARE),
    "cell": ("cell", 1.0),
    "stratified": ("label", 1.0),
}
"""Selectors that ask by the posterior of f_a: what random questions are shared among, and their share."""

FIRST_RULE = "first answers, random person of a label"


class ModelMitigation:
    """The state of Algorithm 1 around one frozen model."""

    def __init__(
        self,
        scored: Scored,
        labels: IntArray,
        training: int,
        *,
        notion: Notion,
        n_groups: int,
        cut: float,
        limits: Limits,
        seed: int,
        key: str = "",
        selector: str = "gap",
        reading: int | None = None,
        knowledge: PlacedKnowledge | None = None,
        blocks: Sequence[EmbeddedBlock] = (),
        weights: Floats | None = None,
    ) -> None:
        """People: the training part, scored out of fold, then those who are judged on besides.

        labels (n,) codes, 0 or 1 of two · training: so many come first, and only these are asked about · cut: the
        calibrated probability at which the model's decision changes · key: what tells this population's randomness from
        others' · blocks: the inputs' columns that are an embedding, for each · reading: the first so many say how f_a
        reads; all who may be asked about by default · weights (n,): how many people each stands for.
        """
        people = People(scored.inputs, labels, scored.decisions, scored.margins)
        self.population: Population = make_population(
            notion,
            people,
            scored.eta,
            cut,
            training,
            n_groups,
            seed,
            knowledge=knowledge,
            blocks=blocks,
            reading=reading,
        )
        if weights is not None:
            self.population = replace(self.population, weights=weights)
        self.limits, self.seed, self.key, self.selector = limits, seed, key, selector
        self.answers = [Answers()]
        self.closed: tuple[int, ...] = ()
        self.round = 0
        self._fitted: FittedCorrection | None = None
        self.verified: Verified | None = None  # what fresh answers said of what is fitted
        self.verified_by = 0  # the attribute that they were judged by
        if selector not in (*RANDOM_SHARES, *SELECTORS):
            raise InputError(f"No selector is called {selector!r}.")

    def begin_with(self, known: Answers, closed: Sequence[int] = ()) -> None:
        """Start from groups that were handed in; nobody is asked about `closed`."""
        self.answers, self.closed = [known], tuple(closed)

    @property
    def notion(self) -> Notion:
        """What is equalised, and what corrections are judged by."""
        return self.population.notion

    @property
    def fitted(self) -> FittedCorrection | None:
        """What the answers of the last refit say; None before anybody's group is known."""
        return self._fitted

    @property
    def reason(self) -> str | None:
        """Why the correction is applied or the model kept, in a sentence; None before anybody's group is known."""
        if self.verified is not None and self.verified.verdict == "failed":
            return FAILED_TEST
        if self.verified is not None and self.verified.verdict == "not verified" and not self.verified.strength:
            return UNVERIFIED
        return None if self._fitted is None else self._fitted.reason

    def likelihoods(self) -> dict[int, Floats]:
        """Of every answered row, how likely the answer is by group: one-hot where it is certain."""
        rows, groups = self.answers[0].known()
        found: dict[int, Floats] = {}
        for row, group, weight in zip(rows.tolist(), groups.tolist(), self.answers[0].trust().tolist(), strict=True):
            found.setdefault(row, np.zeros(self.population.n_groups))[group] += weight
        return found

    def refit(self) -> None:
        """The correction that all answers so far support."""
        known = self.likelihoods()
        self._fitted = fit_correction(self.population, known, self.limits, self.seed) if known else None
        self.verified = None
        self.round += 1

    def settle(self, frozen: Frozen, fresh: Mapping[int, Floats], told: Verified) -> None:
        """Keep a frozen correction as the verdict leaves it; `fresh` answers train f_a too."""
        known = {**self.likelihoods(), **fresh}
        self._fitted = apply_verdict(self.population, known, self.limits, self.seed, frozen, told)
        self.verified = told

    def withhold(self) -> None:
        """Keep the base model: nothing is applied before fresh answers have passed it."""
        if self._fitted is not None and self._fitted.chosen.applied:
            self._fitted = replace(self._fitted, chosen=replace(self._fitted.chosen, applied=False))
            self.verified = Verified("not verified", 0, 0, None, 0.0)

    def first_answers(self, ask: Ask, budget: int) -> list[Answered]:
        """Random answers, balanced by label: before any, nothing can be guessed of anybody."""
        rng = generator(self.seed, "first", self.key)
        return [
            put(
                self, ask, Question(0, 0, Choice(choice.row, {**choice.reason, "rule": FIRST_RULE}, choice.probability))
            )
            for choice in self._asking.choose(min(FIRST_RANDOM, budget), (), rng, self.closed)
        ]

    def verify(
        self, ask: Ask, count: int, closed: Sequence[int] = (), trajectory: int = 0, note: Note | None = None
    ) -> list[Answered]:
        """Try the chosen correction on so many fresh answers about people whose decision it changes.

        They are drawn from everybody it was judged on but `closed`. `note` hears the frozen correction's fingerprint
        before the first is asked about. What passes is applied as it is, and all answers judge it. No answers where the
        model stays anyway.
        """
        plan = plan_verification(self._fitted) if self._fitted is not None else None
        if plan is None:
            return []
        if note is not None:
            note(plan.fingerprint)
        askable = np.ones(len(self.population), dtype=np.bool_)
        askable[[*self.answers[0].rows, *closed]] = False
        drawn = plan.draw(count, askable, generator(self.seed, "verify", self.key))
        questions = [Question(trajectory, self.round, choice, "verification") for choice in drawn]
        heard = [Answered(question, ask(question)) for question in questions]
        self._conclude(plan, heard)
        return heard

    def _conclude(self, plan: Verification, heard: Sequence[Answered]) -> None:
        told = np.eye(self.population.n_groups)
        fresh = {one.question.row: told[one.group] for one in heard if one.group != UNKNOWN}
        self.settle(plan.frozen, fresh, plan.judge(fresh))

    def ask(self, k: int = 1, unavailable: Sequence[int] = ()) -> list[Question]:
        """The next k questions; `unavailable` are rows that somebody is being asked about."""
        return [Question(0, self.round, choice) for choice in self._choices(k, unavailable)]

    def _choices(self, k: int, unavailable: Sequence[int]) -> list[Choice]:
        rng = generator(self.seed, "select", self.selector, self.key, len(self.answers[0]))
        if self.selector in RANDOM_SHARES:
            return self._asking.choose(k, unavailable, rng, self.closed)
        return SELECTORS[self.selector](self._view(unavailable), k, rng)

    def add_answer(self, trajectory: int, row: int, group: int, weight: float = 1.0) -> None:
        """Take in an answer; UNKNOWN = asked, but the annotator could not tell."""
        asking, coverage = self._asking, None if self.selector in RANDOM_SHARES else self._coverage
        self.answers[trajectory] = self.answers[trajectory].plus(row, group, weight)
        asking.add_answer(row, None if group == UNKNOWN else self.likelihoods()[row])
        if group != UNKNOWN and coverage is not None:
            coverage.add([row])

    def membership(self, every: int = 1) -> Floats:
        """(n, G) everybody's probable group, averaged over every so many-th draw; answers as they were given."""
        population = self.population
        if self._fitted is None:
            return np.full((len(population), population.n_groups), 1 / population.n_groups)
        known = self.likelihoods()
        rows = np.array(sorted(known), dtype=np.int64)
        likelihood = np.array([known[row] for row in rows.tolist()])
        posterior = replace(self._fitted.posterior, weights=self._fitted.posterior.weights[::every])
        blocks = posterior.blocks(population.columns, rows, likelihood)
        return np.concatenate([members.mean(axis=1, dtype=np.float64) for _, members in blocks])

    def view(self, unavailable: Sequence[int] = ()) -> View:
        """What a selector may see."""
        return self._view(unavailable)

    def _view(self, unavailable: Sequence[int]) -> View:
        population, training = self.population, self.population.training
        askable = np.ones(training, dtype=np.bool_)
        askable[[*self.answers[0].rows, *self.closed, *unavailable]] = False

        def scores() -> Scores:
            return population.eta[:training], self.membership()[:training]

        labels = population.people.labels[:training]
        return View(labels, askable, scores, self._coverage, Likeness([self._ordinary]))

    @cached_property
    def _ordinary(self) -> npt.NDArray[np.float32]:
        """(training, p) people as f_a's encoding has them: where a model has no embedding, distances are here."""
        population = self.population
        return np.ascontiguousarray(population.columns[: population.training, : population.reader.ordinary_count])

    @cached_property
    def _coverage(self) -> Coverage:
        coverage = Coverage(self._ordinary)
        coverage.add(sorted(self.likelihoods()))
        return coverage

    @cached_property
    def _asking(self) -> Asking:
        by, share = RANDOM_SHARES.get(self.selector, ("label", 1.0))
        people, first = self.population.people, slice(0, self.population.training)
        labels, decisions = people.labels[first], people.decisions[first]
        strata = labels if by == "label" else self.notion.classes * labels + decisions
        asking = Asking(self.population, strata, self.seed, share, self.answers[0].handed_in)
        known = self.likelihoods()
        for row in self.answers[0].rows:
            asking.add_answer(row, known.get(row))
        return asking
