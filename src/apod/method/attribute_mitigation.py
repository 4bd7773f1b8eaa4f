"""Algorithm 1 for any model and several attributes: one question asks about all of them, one correction serves all.

Answers are kept as one number per person (`data.dataset.answer_code`), so that whoever counts, keeps and replays
answers need not know how many attributes there are. What is inherited speaks of the first attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from apod.data.dataset import UNKNOWN, answer_codes
from apod.data.encode import EmbeddedBlock
from apod.errors import InputError
from apod.fairness.notions import Notion
from apod.method.algorithm1 import Alternating, Answered, Answers
from apod.method.attributes import FittedAttributes, FrozenAttributes, fit_attributes
from apod.method.correction_choice import Limits
from apod.method.correction_fit import STRENGTHS, Frozen, Population
from apod.method.model_mitigation import RANDOM_SHARES, ModelMitigation
from apod.method.questions import Asking, AskingAttributes
from apod.method.verification import Verification, Verified
from apod.models.scored import Scored

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Likelihoods = dict[int, Floats]


class AttributeMitigation(ModelMitigation):
    """The state of Algorithm 1 around one frozen model, for two attributes or more."""

    def __init__(
        self,
        scored: Scored,
        labels: IntArray,
        training: int,
        *,
        notion: Notion,
        sizes: Sequence[int],
        cut: float,
        limits: Limits,
        seed: int,
        key: str = "",
        selector: str = "gap",
        intersections: bool = False,
        reading: int | None = None,
        blocks: Sequence[EmbeddedBlock] = (),
    ) -> None:
        """As for one attribute; `sizes` says how many groups each has, `intersections` whether these count too."""
        super().__init__(
            scored,
            labels,
            training,
            notion=notion,
            n_groups=sizes[0],
            cut=cut,
            limits=limits,
            seed=seed,
            key=key,
            selector=selector,
            reading=reading,
            blocks=blocks,
        )
        if selector not in RANDOM_SHARES:
            known = ", ".join(RANDOM_SHARES)
            raise InputError(f"The selector {selector!r} asks about one attribute: several are asked about by {known}.")
        self.sizes, self.intersections = tuple(sizes), intersections
        self.populations: tuple[Population, ...] = tuple(replace(self.population, n_groups=size) for size in sizes)

    @property
    def fitted(self) -> FittedAttributes | None:
        """What the answers of the last refit say; None before anybody's group is known."""
        assert self._fitted is None or isinstance(self._fitted, FittedAttributes)
        return self._fitted

    def answers_of(self, attribute: int) -> Answers:
        """The answers about one attribute, over the same people; UNKNOWN where that could not be told."""
        answers = self.answers[0]
        groups = tuple(answer_codes(code, self.sizes)[attribute] for code in answers.groups)
        return Answers(answers.rows, groups, answers.weights, handed_in=answers.handed_in)

    def likelihoods(self) -> Likelihoods:
        """Of the first attribute."""
        return self.likelihoods_of(0)

    def likelihoods_of(self, attribute: int) -> Likelihoods:
        """Of every row that was told, how likely the answer is by group; what was asked replaces what was handed in."""
        answers, found = self.answers_of(attribute), Likelihoods()
        for place, (row, group) in enumerate(zip(answers.rows, answers.groups, strict=True)):
            if group == UNKNOWN:
                continue
            if place >= answers.handed_in and row in answers.rows[: answers.handed_in]:
                found.pop(row, None)
            found.setdefault(row, np.zeros(self.sizes[attribute]))[group] += answers.weights[place]
        return found

    def _told(self) -> list[Likelihoods]:
        return [self.likelihoods_of(attribute) for attribute in range(len(self.sizes))]

    def refit(self) -> None:
        """The correction that all answers so far support."""
        told = self._told()
        self._fitted = self._fit(told) if any(told) else None
        self.verified = None
        self.round += 1

    def _fit(self, told: Sequence[Likelihoods], frozen: FrozenAttributes | None = None) -> FittedAttributes:
        return fit_attributes(
            self.populations, told, self.limits, self.seed, intersections=self.intersections, frozen=frozen
        )

    def _conclude(self, plan: Verification, heard: Sequence[Answered]) -> None:
        """What fresh answers say is judged by the attribute that the correction is expected to do most for."""
        fitted, fresh = self.fitted, [Likelihoods() for _ in self.sizes]
        assert fitted is not None
        for one in heard:
            for own, size, code in zip(fresh, self.sizes, answer_codes(one.group, self.sizes), strict=True):
                if code != UNKNOWN:
                    own[one.question.row] = np.eye(size)[code]
        self.verified_by = fitted.leading_place  # the refit below may put another in the lead
        self.settle_attributes(plan.frozen, fresh, plan.judge(fresh[self.verified_by]))

    def settle_attributes(self, frozen: Frozen, fresh: Sequence[Likelihoods], told: Verified) -> None:
        """Keep a frozen correction as the verdict leaves it; `fresh` answers, per attribute, train every f_a too."""
        assert isinstance(frozen, FrozenAttributes)
        place = frozen.place if told.strength == 0 else int(np.abs(STRENGTHS - told.strength).argmin())
        every = [{**known, **new} for known, new in zip(self._told(), fresh, strict=True)]
        fitted = self._fit(every, replace(frozen, place=place))
        self._fitted = fitted if told.strength > 0 else _kept_back(fitted)
        self.verified = told

    def add_answer(self, trajectory: int, row: int, group: int, weight: float = 1.0) -> None:
        """Take in an answer about all attributes, one number; UNKNOWN = none of them could be told."""
        asking = self._asking
        self.answers[trajectory] = self.answers[trajectory].plus(row, group, weight)
        asking.add_answers(row, [told.get(row) for told in self._told()])

    def membership(self, every: int = 1) -> Floats:
        """(n, G) everybody's probable group of the first attribute."""
        return self.membership_of(0, every)

    def membership_of(self, attribute: int, every: int = 1) -> Floats:
        """(n, G) everybody's probable group of an attribute, averaged over every so many-th draw."""
        size, fitted = self.sizes[attribute], self.fitted
        if fitted is None:
            return np.full((len(self.population), size), 1 / size)
        known = self.likelihoods_of(attribute)
        rows = np.array(sorted(known), dtype=np.int64)
        likelihood = np.array([known[row] for row in rows.tolist()]).reshape(-1, size)
        own = fitted.parts[attribute].posterior
        blocks = replace(own, weights=own.weights[::every]).blocks(self.population.columns, rows, likelihood)
        return np.concatenate([members.mean(axis=1, dtype=np.float64) for _, members in blocks])

    @cached_property
    def _asking(self) -> AskingAttributes:
        by, share = RANDOM_SHARES[self.selector]
        people, first = self.population.people, slice(0, self.population.training)
        labels, decisions = people.labels[first], people.decisions[first]
        strata = labels if by == "label" else 2 * labels + decisions
        further = tuple(Asking(one, strata, self.seed, share, alone=False) for one in self.populations[1:])
        answers, told = self.answers[0], self._told()
        handed = answers.rows[: answers.handed_in]
        whole = [row for row in handed if all(row in known for known in told)]
        asking = AskingAttributes(
            self.populations[0], strata, self.seed, share, len(whole), alone=False, further=further
        )
        asked = {*whole, *answers.rows[answers.handed_in :]}
        for row in dict.fromkeys(answers.rows):
            asking.add_answers(row, [known.get(row) for known in told], row in asked)
        return asking


def answers_about(mitigation: Alternating, trajectory: int = 0, attribute: int = 0) -> Answers:
    """The answers of a trajectory about one attribute, of one or several."""
    if isinstance(mitigation, AttributeMitigation):
        return mitigation.answers_of(attribute)
    return mitigation.answers[trajectory]


def _kept_back(fitted: FittedAttributes) -> FittedAttributes:
    """The same, not applied: in all its parts."""
    chosen = replace(fitted.chosen, applied=False)
    parts = tuple(replace(part, chosen=chosen) for part in fitted.parts)
    crossed = None if fitted.crossed is None else replace(fitted.crossed, chosen=chosen)
    return replace(fitted, chosen=chosen, parts=parts, crossed=crossed)
