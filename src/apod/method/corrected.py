"""A frozen model with its correction: what predicts, is saved, deployed and explained.

At strength 0 every output is the model's own, bit for bit. Above it a person's calibrated probability is lowered by
half of strength x push (`heads.correction`) and turned back into a score of the model's own kind, so that scores are
continuous in the strength and cross the model's threshold exactly where the corrected decision changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from apod.data.dataset import MOST_GROUPS
from apod.data.encode import ReadAs
from apod.errors import InputError
from apod.fairness.many_labels import notion_for
from apod.fairness.notions import find_notion
from apod.heads.correction import AnyCorrection, ClassCorrection
from apod.method.attribute_mitigation import AttributeMitigation
from apod.method.attributes import FittedAttributes
from apod.method.correction_choice import Limits
from apod.method.correction_fit import STRENGTHS, FittedCorrection
from apod.method.group_knowledge import GroupKnowledge
from apod.method.joint import Pair, crossed_members
from apod.method.model_mitigation import ModelMitigation
from apod.method.posterior import BLOCK, Reader
from apod.method.settings import Settings
from apod.models.model import Fitted
from apod.models.scored import Scored, ScoredModel, scored_model

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GuessedGroups:
    """f_a of x alone, as bias scores read it: one weight vector per group but the last, no draws.

    Of several attributes the weights are stacked; what is read are their groups side by side and, where intersections
    count, these besides.
    """

    reader: Reader
    weights: Floats  # (G - 1, p + 1); of several attributes one below the other
    sizes: tuple[int, ...] = ()  # how many groups every attribute has; empty: one attribute
    associations: Mapping[Pair, Floats] | None = None  # what goes with what, where intersections count

    def members(self, inputs: npt.NDArray[np.floating]) -> Floats:
        """(n, G) P(group | x); a row's are the same whoever else is there, to the last bit."""
        logits = np.zeros((len(inputs), len(self.weights) + 1))
        for start in range(0, len(inputs), BLOCK):
            away = inputs[start : start + BLOCK] - self.reader.centre
            for group, slope in enumerate(self._slopes):
                logits[start : start + BLOCK, group] = (away * slope).sum(axis=1) + self.weights[group, -1]
        if not self.sizes:
            return np.asarray(softmax(logits, axis=1))
        ends = np.cumsum([size - 1 for size in self.sizes])
        each = np.split(logits[:, :-1], ends[:-1], axis=1)
        found = [np.asarray(softmax(np.column_stack([own, np.zeros(len(own))]), axis=1)) for own in each]
        return np.concatenate(found if self.associations is None else [*found, self._crossed(found)], axis=1)

    def _crossed(self, members: Sequence[Floats]) -> Floats:
        assert self.associations is not None
        return crossed_members(members, self.associations)

    def slopes(self, members: Floats, worth: Floats) -> Floats:
        """(n, sum of G - 1) how the sum of memberships (n, G) x worth (n, G) moves with f_a's log-odds."""
        sizes = self.sizes or (members.shape[1],)
        ends = np.cumsum(sizes)
        each, value = (np.split(own, ends, axis=1) for own in (members, worth))
        found = []
        for place, (own, amount) in enumerate(zip(each[: len(sizes)], value[: len(sizes)], strict=True)):
            slope = own * (amount - (own * amount).sum(axis=1, keepdims=True))
            if self.associations is not None:  # an intersection moves with its group in every attribute
                cells, rest = each[-1].reshape(-1, *sizes), tuple(at + 1 for at in range(len(sizes)) if at != place)
                amounts = cells * value[-1].reshape(-1, *sizes)
                total = amounts.reshape(len(amounts), -1).sum(axis=1, keepdims=True)
                slope = slope + amounts.sum(axis=rest) - cells.sum(axis=rest) * total
            found.append(slope[:, :-1])
        return np.concatenate(found, axis=1)

    @cached_property
    def _slopes(self) -> Floats:
        """(G - 1, d) of the log-odds, by encoded column."""
        return np.asarray(self.weights[:, :-1] @ self.reader.components.T)


@dataclass(frozen=True, eq=False)
class CorrectedModel:
    """A frozen model, a direction of correction, and the strength in use.

    Without a correction (nobody's group is known) strength 0 is the only one.
    """

    scored: ScoredModel
    groups: GuessedGroups | None
    correction: AnyCorrection | None
    strength: float = 0.0

    @property
    def strengths(self) -> Floats:
        """The operating points that are reported: 0, and places along the path where there is one."""
        return np.concatenate([[0.0], STRENGTHS]) if self.correction is not None else np.zeros(1)

    def at(self, strength: float) -> CorrectedModel:
        """The same at another strength, any number from 0 up."""
        if not 0 <= strength < float("inf"):
            raise InputError(f"The strength is {strength!r}: pass a number from 0 up.")
        if strength > 0 and self.correction is None:
            raise InputError("Nobody's group is known, so there is no correction: only strength 0 is available.")
        return replace(self, strength=float(strength))

    def score_people(self, X: Any, columns: Any | None = None) -> Scored:
        """People as model and correction see them; f_a reads `columns`, or X itself."""
        return self.scored.score(X, columns)

    def decisions(self, people: Scored, strengths: npt.ArrayLike | None = None) -> IntArray:
        """(K, n) decisions at these strengths, at the one in use by default."""
        own = np.atleast_1d(np.asarray(self.strength if strengths is None else strengths, dtype=np.float64))
        if self.correction is None or self.groups is None:
            return np.tile(people.decisions, (len(own), 1))
        members = self.groups.members(people.inputs)
        return self.correction.decisions(people.decisions, people.eta, members, own).astype(np.int64)

    def scores(self, people: Scored) -> Floats:
        """(n,) scores of the model's own kind at the strength in use: above its threshold where the decision is 1.

        Of more than two labels (n, K), the decision's the largest.
        """
        if self.strength == 0 or self.correction is None or self.groups is None:
            return people.scores
        members = self.groups.members(people.inputs)
        if isinstance(self.correction, ClassCorrection):
            own = self.correction.probabilities(people.eta, members, self.strength)
            decided = self.correction.decisions(people.decisions, people.eta, members, self.strength)[0]
            return largest_at(self.scored.calibration.score(own), decided)
        lowered = people.eta - self.strength / 2 * self.correction.push(people.eta, members)
        scores = self.scored.calibration.score(lowered)
        decided = self.correction.decisions(people.decisions, people.eta, members, self.strength)[0]
        threshold = self.scored.model.threshold  # rounding may put somebody at the threshold on the wrong side
        return np.where(decided, np.maximum(scores, np.nextafter(threshold, np.inf)), np.minimum(scores, threshold))

    def pushes(self, people: Scored) -> Floats:
        """(n,) how far one unit of strength lowers a person's margin, 2 x (probability - cut); (n, K) a label's."""
        if self.correction is None or self.groups is None:
            return np.zeros(people.eta.shape)
        return self.correction.push(people.eta, self.groups.members(people.inputs))


def largest_at(scores: Floats, decided: IntArray) -> Floats:
    """These scores (n, K), the decision's raised where rounding put another on a par with it."""
    rows = np.arange(len(scores))
    others = scores.copy()
    others[rows, decided] = -np.inf
    raised = scores.copy()
    raised[rows, decided] = np.maximum(scores[rows, decided], np.nextafter(others.max(axis=1), np.inf))
    return raised


def corrected(scored: ScoredModel, fitted: FittedCorrection | None) -> CorrectedModel:
    """The model with the correction that was fitted, at the strength that was chosen; uncorrected where None was."""
    if fitted is None:
        return CorrectedModel(scored, None, None)
    groups = GuessedGroups(fitted.population.reader, fitted.weights)
    if isinstance(fitted, FittedAttributes):
        associations = None if fitted.crossed is None else fitted.associations
        groups = GuessedGroups(fitted.population.reader, fitted.stacked_weights, fitted.sizes, associations)
    return CorrectedModel(scored, groups, fitted.correction, fitted.strength)


Several = TypeVar("Several", bound=AttributeMitigation)


@dataclass(frozen=True, eq=False)
class ModelPool:
    """A frozen model and the people that its correction is fitted and judged on; holds no groups."""

    scored: ScoredModel
    people: Scored  # the training part, scored out of fold where the model was fitted on it, then the others
    labels: IntArray  # (n,) codes, 0 or 1 of two labels
    training: int  # so many come first: only these may be asked about
    reading: int | None = None  # so many say how f_a reads; None: all of these
    weights: Floats | None = None  # (n,) how many people each stands for, 1 on average; None: all alike

    def attribute_mitigation(
        self, settings: Settings, sizes: Sequence[int], seed: int, key: str, kind: type[Several]
    ) -> Several:
        """The same for several attributes of so many groups each; InputError where these settings are for one."""
        for option, given in (
            ("--group-share", settings.group_share),
            ("--group-probability", settings.group_probability),
            ("--least-gain", settings.least_gain or None),
        ):
            if given is not None:
                raise InputError(f"{option} is for one attribute: leave it out, or name one attribute.")
        crosses = settings.over_groups == "intersections"
        if crosses and np.prod(sizes) > MOST_GROUPS:
            raise InputError(
                f"There are {np.prod(sizes)} intersections, and at most {MOST_GROUPS} can be compared: merge small "
                "groups, name fewer attributes, or leave --over-groups out."
            )
        return kind(
            self.people,
            self.labels,
            self.training,
            notion=find_notion(settings.notion),
            sizes=sizes,
            cut=self.scored.cut,
            limits=Limits.from_settings(settings),
            seed=seed,
            key=key,
            selector=settings.selector,
            intersections=crosses,
            reading=self.reading,
            blocks=self.scored.encoder.embedded_blocks(),
        )

    def mitigation(
        self, settings: Settings, n_groups: int, seed: int, key: str = "", known: GroupKnowledge | None = None
    ) -> ModelMitigation:
        """Algorithm 1 around the model, before any answer; `key` tells this pool's random questions from others'."""
        return ModelMitigation(
            self.people,
            self.labels,
            self.training,
            notion=notion_for(settings.notion, 2 if self.people.eta.ndim == 1 else self.people.eta.shape[1]),
            n_groups=n_groups,
            cut=self.scored.cut,
            limits=Limits.from_settings(settings),
            seed=seed,
            key=key,
            selector=settings.selector,
            reading=self.reading,
            knowledge=None if known is None else known.placed(self.scored.encoder, self.people.inputs),
            blocks=self.scored.encoder.embedded_blocks(),
            weights=self.weights,
        )


def model_pool(
    fitted: Fitted,
    training: tuple[Any, IntArray],
    others: tuple[Any, IntArray] | None = None,
    reads: Any | None = None,
    read_as: Mapping[str, ReadAs] | None = None,
    weights: Floats | None = None,
) -> ModelPool:
    """Calibrate a model on its training part and score everybody its correction is judged on.

    training, others: rows as the model takes them, and labels 0/1; `others` were not fitted on · reads: what f_a reads
    of the training part and of the others, two tables, where that is not what the model reads · read_as: columns of
    probabilities among these · weights (n,): how many people each row stands for, of the training part and the others.
    """
    rows, labels = training
    counted = None if weights is None else weights / weights.mean()
    first, second = reads if reads is not None else (None, None)
    own = None if counted is None else counted[: len(labels)]
    scored = scored_model(fitted, labels, rows if first is None else first, read_as, own)
    people = scored.score(rows, first, fitted.training_scores)
    if others is None or len(others[1]) == 0:
        return ModelPool(scored, people, labels, len(labels), weights=counted)
    return ModelPool(
        scored,
        people.followed_by(scored.score(others[0], second)),
        np.concatenate([labels, others[1]]),
        len(labels),
        weights=counted,
    )
