"""From the answers that stand to what an engine is fitted on, and how far annotators can be trusted.

Dawid and Skene's model with one coin: annotator j names the true group with probability p_j and any other group with
equal chances. Expectation-maximisation from the vote shares, with a weak prior that an annotator is right more often
than not, gives each row's probability of every group and each annotator's accuracy.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, select

from apod.campaign import schema
from apod.campaign.attributes import part_of
from apod.campaign.engine import GroupAnswer
from apod.campaign.errors import StoreError
from apod.campaign.events import commitment_of, erased_parts, stored_value
from apod.campaign.settings import KINDS
from apod.campaign.state import GOLD, GROUP, OPEN, State

FloatArray = npt.NDArray[np.float64]
PRIOR_RIGHT, PRIOR_WRONG = 4.0, 1.0
"""Answers an annotator is taken to have given rightly and wrongly before any is seen."""


@dataclass(frozen=True)
class Vote:
    """Annotator said that item is of a group."""

    item: int
    annotator: str
    group: int


@dataclass(frozen=True, eq=False)
class OneCoin:
    """A fitted model: P(group) per item, accuracy per annotator, share of each group."""

    posterior: Mapping[int, FloatArray]
    accuracy: Mapping[str, float]
    prevalence: FloatArray


def fit_one_coin(
    votes: Iterable[Vote], groups: int, known: Mapping[int, int] | None = None, rounds: int = 500
) -> OneCoin:
    """Fit the one-coin model; `known` are items whose group is certain (gold questions)."""
    votes = sorted(votes, key=lambda vote: (vote.item, vote.annotator, vote.group))
    items = list(dict.fromkeys(vote.item for vote in votes))
    people = sorted({vote.annotator for vote in votes})
    at = {item: index for index, item in enumerate(items)}
    who = {name: index for index, name in enumerate(people)}
    i = np.array([at[vote.item] for vote in votes], dtype=int)  # (v,)
    j = np.array([who[vote.annotator] for vote in votes], dtype=int)  # (v,)
    g = np.array([vote.group for vote in votes], dtype=int)  # (v,)
    fixed = {at[item]: group for item, group in (known or {}).items() if item in at}

    shares = np.zeros((len(items), groups))
    np.add.at(shares, (i, g), 1.0)
    posterior = _fix(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1), fixed)  # (n, g)
    accuracy, prevalence = np.zeros(len(people)), np.full(groups, 1 / groups)
    for _ in range(rounds):
        right = np.bincount(j, weights=posterior[i, g], minlength=len(people))
        total = np.bincount(j, minlength=len(people))
        accuracy = (PRIOR_RIGHT + right) / (PRIOR_RIGHT + PRIOR_WRONG + total)
        prevalence = (1 + posterior.sum(axis=0)) / (groups + len(items))
        log = np.tile(np.log(prevalence), (len(items), 1))  # (n, g)
        wrong = np.log((1 - accuracy) / max(groups - 1, 1))
        np.add.at(log, i, wrong[j][:, None])
        np.add.at(log, (i, g), (np.log(accuracy) - wrong)[j])
        log -= log.max(axis=1, keepdims=True)
        updated = _fix(np.exp(log) / np.exp(log).sum(axis=1, keepdims=True), fixed)
        moved = float(np.abs(updated - posterior).max(initial=0.0))
        posterior = updated
        if moved < 1e-12:
            break
    return OneCoin(
        {item: posterior[index] for item, index in at.items()},
        {name: float(accuracy[index]) for name, index in who.items()},
        prevalence,
    )


def _fix(posterior: FloatArray, fixed: Mapping[int, int]) -> FloatArray:
    for index, group in fixed.items():
        posterior[index] = 0.0
        posterior[index, group] = 1.0
    return posterior


def cohen_kappa(first: Sequence[Any], second: Sequence[Any]) -> float:
    """Cohen's kappa of two people's answers to the same items; NaN where it is undefined."""
    if len(first) != len(second) or not first:
        return float("nan")
    values = sorted(set(first) | set(second), key=str)
    a = np.array([values.index(value) for value in first])
    b = np.array([values.index(value) for value in second])
    observed = float((a == b).mean())
    expected = sum(float((a == value).mean() * (b == value).mean()) for value in range(len(values)))
    return float("nan") if expected >= 1 else (observed - expected) / (1 - expected)


def fleiss_kappa(votes: Iterable[Vote], groups: int) -> float:
    """Fleiss' kappa over items with at least two answers, however many each has; NaN where it is undefined."""
    counts: dict[int, FloatArray] = defaultdict(lambda: np.zeros(groups))
    for vote in votes:
        counts[vote.item][vote.group] += 1
    table = np.array([row for row in counts.values() if row.sum() >= 2])  # (n, g)
    if not len(table):
        return float("nan")
    n = table.sum(axis=1)
    observed = float((((table**2).sum(axis=1) - n) / (n * (n - 1))).mean())
    expected = float(((table.sum(axis=0) / n.sum()) ** 2).sum())
    return float("nan") if expected >= 1 else (observed - expected) / (1 - expected)


def pairwise_kappa(votes: Iterable[Vote]) -> dict[tuple[str, str], float]:
    """Cohen's kappa of every two people who share an item."""
    given: dict[str, dict[int, int]] = defaultdict(dict)
    for vote in votes:
        given[vote.annotator][vote.item] = vote.group
    people = sorted(given)
    found = {}
    for index, first in enumerate(people):
        for second in people[index + 1 :]:
            shared = [item for item in given[first] if item in given[second]]
            if shared:
                pair = [given[first][item] for item in shared], [given[second][item] for item in shared]
                found[first, second] = cohen_kappa(*pair)
    return found


Inputs = tuple[tuple[int, ...], ...]
"""Which answers a model was fitted on: an answer's event and the event of its present value; with several attributes
also which of them it tells, for one may be erased without the others."""

HANDED_IN = ""
"""In place of the annotator, where a group was handed in with the table."""

_NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Known:
    """A counted answer that names a group, stands, and is not erased; or a group that was handed in."""

    row: int
    annotator: str
    group: int = field(repr=False)
    kind: str
    purpose: str
    seq: int  # its event
    value: int  # the event of its present value


@dataclass(frozen=True)
class Reviewed:
    """What a reviewer decided about a row; no group where it cannot be told, or was declined."""

    row: int
    group: int | None = field(repr=False)
    purpose: str
    seq: int


@dataclass(frozen=True)
class Collected:
    """All answers of a campaign that can be used, and its gold rows: first those handed in, then by their questions.

    What it says itself is about the first attribute; `further` has the others, `each` all of them.
    """

    known: tuple[Known, ...]
    gold: Mapping[int, int] = field(repr=False)  # row -> group
    gold_events: tuple[int, ...]
    groups: int
    reviewed: tuple[Reviewed, ...] = ()
    attribute: int = 0
    further: tuple[Collected, ...] = ()

    @property
    def each(self) -> tuple[Collected, ...]:
        """The answers about every attribute, one after the other."""
        return (replace(self, further=()), *self.further) if self.further else (self,)

    @property
    def votes(self) -> list[Vote]:
        """What annotators perceived, gold questions included."""
        return [Vote(item.row, item.annotator, item.group) for item in self.known if item.kind == "perceived"]

    @property
    def informative(self) -> bool:
        """Whether overlap or gold questions say anything about the annotators."""
        seen = Counter(item.row for item in self.known if item.kind == "perceived")
        return max(seen.values(), default=0) > 1 or any(item.purpose == GOLD for item in self.known)

    def inputs(self, purpose: str = "training") -> Inputs:
        """The answers that `weigh` depends on."""
        if not self.further:
            return self._inputs(purpose)
        told: dict[tuple[int, ...], tuple[int, ...]] = {}
        for one in self.each:
            for used in one._inputs(purpose):
                told[used] = (*told.get(used, ()), one.attribute)
        return tuple(sorted((*used, *attributes) for used, attributes in told.items()))

    def _inputs(self, purpose: str) -> Inputs:
        everything = self.informative
        used = {(item.seq, item.value) for item in self.known if everything or item.purpose == purpose}
        used.update((item.seq, item.seq) for item in self.reviewed if everything or item.purpose == purpose)
        if everything:
            used.update((seq, seq) for seq in self.gold_events)
        return tuple(sorted(used))

    def noise_model(self) -> OneCoin | None:
        """The annotators' accuracies; None while nothing is known about them."""
        decided = {item.row: item.group for item in self.reviewed if item.group is not None}
        return fit_one_coin(self.votes, self.groups, {**decided, **self.gold}) if self.informative else None

    def weigh(self, purpose: str = "training") -> tuple[GroupAnswer, ...]:
        """The groups known so far, in the order of their questions.

        Of several kinds on one row the most trustworthy counts: what the person reported, then records, then what
        annotators perceive. Perceived answers are weighted by the one-coin model wherever anything can be learnt
        about the annotators: from overlap or from gold questions. What a reviewer decided counts alone. Every attribute
        has votes, a noise model and decisions of its own.
        """
        return tuple(answer for one in self.each for answer in one._weigh(purpose))

    def _weigh(self, purpose: str) -> list[GroupAnswer]:
        model = self.noise_model()
        decided = {item.row: item.group for item in self.reviewed if item.purpose == purpose}
        by_row: dict[int, list[Known]] = defaultdict(list)
        for item in self.known:
            if item.purpose == purpose and item.row not in decided:
                by_row[item.row].append(item)
        found: list[GroupAnswer] = []
        for row, here in by_row.items():
            best = next(kind for kind in KINDS if any(item.kind == kind for item in here))
            chosen = [item for item in here if item.kind == best]
            found.extend(GroupAnswer(row, group, weight, self.attribute) for group, weight in _weights(chosen, model))
        known = ((row, group) for row, group in decided.items() if group is not None)
        found.extend(GroupAnswer(row, group, attribute=self.attribute) for row, group in known)
        return found


def _weights(chosen: list[Known], model: OneCoin | None) -> list[tuple[int, float]]:
    if chosen[0].kind == "perceived" and model is not None:
        posterior = model.posterior[chosen[0].row]
        return [(group, float(p)) for group, p in enumerate(posterior) if p > _NEGLIGIBLE]
    counts = Counter(item.group for item in chosen)
    return [(group, count / len(chosen)) for group, count in sorted(counts.items())]


def checked_answers(connection: Connection, campaign: int, state: State) -> dict[int, Any]:
    """Sealed answers by event, each against the commitment in the log; an error where one was changed or is gone."""
    sealed, events = schema.answers, schema.events
    same = (sealed.c.campaign == events.c.campaign) & (sealed.c.seq == events.c.seq)
    query = select(sealed.c.seq, sealed.c.salt, sealed.c.value, events.c.commitment).join(events, same)
    rows = connection.execute(query.where(sealed.c.campaign == campaign)).all()
    found = {
        row.seq: stored_value(row.value)
        for row in rows
        if commitment_of(bytes(row.salt), row.value) == row.commitment
        and erased_parts(row.value) == state.erased_parts.get(row.seq, frozenset())
    }
    wanted = {given.values[-1] for given in state.current() if given.outcome == GROUP and not given.erased}
    wanted |= {one.seq for one in state.reviews.values() if one.outcome == GROUP and not one.erased}
    missing = (wanted | set(state.gold.values()) | set(state.known.values())) - set(found)
    if missing:
        raise StoreError(
            f"{len(missing)} answers are not the ones that were given: run `apod log verify` and restore a backup."
        )
    return found


def collect(state: State, values: Mapping[int, object]) -> Collected:
    """The usable answers; `values` are the sealed group codes by event."""
    first, *further = (_collect(state, values, place, groups) for place, groups in enumerate(state.group_counts))
    return replace(first, further=tuple(further)) if further else first


def _collect(state: State, values: Mapping[int, object], attribute: int, groups: int) -> Collected:
    """Those about one attribute."""

    def said(seq: int) -> int | None:
        return part_of(values.get(seq), attribute)

    handed_in = tuple(
        Known(row, HANDED_IN, group, "records", "audit" if row in state.known_audit else "training", seq, seq)
        for row, seq in state.known.items()
        if (group := said(seq)) is not None
    )
    told = tuple(
        Known(
            given.row,
            given.annotator,
            group,
            given.kind,
            state.questions[given.number].purpose,
            given.seq,
            given.values[-1],
        )
        for given in state.current()
        if given.counted and given.outcome_of(attribute) == GROUP and not given.erased
        if (group := said(given.values[-1])) is not None
    )
    gold = {row: group for row, seq in state.gold.items() if (group := said(seq)) is not None}
    events = tuple(seq for seq in state.gold.values() if said(seq) is not None)
    reviewed = tuple(
        Reviewed(asked.row, said(one.seq) if outcome == GROUP else None, asked.purpose, one.seq)
        for one in state.reviews.values()
        if not one.erased and (outcome := one.outcome_of(attribute)) != OPEN
        if outcome != GROUP or said(one.seq) is not None
        for asked in [state.questions[one.number]]
    )
    return Collected(handed_in + told, gold, events, groups, reviewed, attribute)
