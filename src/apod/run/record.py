"""What a run reports: the entries of result.json, round by round on the test part, its audit, a comparison.

Nothing here decides anything: the test part and the recorded groups are only reported on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from scipy import stats

from apod.audit import allocate, audit, draw_people
from apod.audit.json_types import AuditJson
from apod.audit.sampling import cells_of, check_people
from apod.data.dataset import UNKNOWN, Dataset, answer_codes
from apod.errors import BudgetError
from apod.fairness.counts import JointCounts, Weights, joint_counts, soft_class_counts, weighted_counts
from apod.fairness.many_labels import LABEL_RATES, LabelIntervals
from apod.fairness.metrics import (
    RATES,
    GroupCounts,
    Metrics,
    metric_table,
    soft_group_counts,
)
from apod.fairness.notions import Notion, count_events, member_rates
from apod.fairness.resampling import Interval, bootstrap, paired_bootstrap
from apod.method.algorithm1 import Answered, Answers, Question
from apod.method.annotators import Interview
from apod.method.selection import Choice, named_reason
from apod.randomness import generator
from apod.report.result import (
    Answer,
    Bound,
    Changes,
    Compared,
    CurveMetrics,
    Differences,
    Ends,
    GroupChanges,
    Intervals,
    MeasuredMetrics,
    RateIntervals,
    Reason,
    Result,
    Subgroup,
    Tested,
)
from apod.text import number

if TYPE_CHECKING:
    from apod.method.head_mitigation import Mitigation


def compared(result: Result) -> Compared:
    """What result.json says of the other run: its base, what it selected, and how many answers it read for that."""
    own = result["trajectories"]
    read = result["answers"] if own is None else [answer for answers in own.values() for answer in answers]
    return {
        "preset": result["preset"],
        "vanilla": result["vanilla"],
        "selected": result["selected"],
        "selected_because": result["selected_because"],
        "answers": len(result["answers"]),
        "answers_read": len(read),
        "people_read": len({answer["row"] for answer in read}),
        "seconds": result["timing"]["total_seconds"],
    }


Decisions = npt.NDArray[Any]
"""Of two labels bool, of more their codes."""

CURVE_METRICS = ("accuracy", "balanced_accuracy", "gap", "delta_eo", "eop")
JEFFREYS_DRAWS = 2000


@dataclass(frozen=True, eq=False)
class Measured:
    """The people a run reports on, the test part, and what their rates are compared by. No decision reads them."""

    dataset: Dataset
    rows: npt.NDArray[np.int64]
    notion: Notion
    seed: int

    def counts(self, decided: Decisions) -> GroupCounts:
        """Counts of decisions (K, n) by recorded group."""
        dataset, rows = self.dataset, self.rows
        given = dataset.labels[rows], decided, dataset.groups[rows], len(dataset.group_names)
        return weighted_counts(*given, self.weights, dataset.classes)

    @property
    def weights(self) -> Weights:
        """(n,) how many people each row of the part stands for, 1 on average; None: all alike."""
        own = self.dataset.weights
        return None if own is None else own[self.rows] / own[self.rows].mean()

    def curve(self, decided: Decisions) -> list[CurveMetrics]:
        """Accuracy and fairness of decisions (K, n), one entry each."""
        counts, metrics = self.counts(decided), metric_table(self.notion)
        values = {name: metrics[name](counts) for name in CURVE_METRICS}
        return [
            {
                "accuracy": number(values["accuracy"][k]),
                "balanced_accuracy": number(values["balanced_accuracy"][k]),
                "gap": number(values["gap"][k]),
                "delta_eo": number(values["delta_eo"][k]),
                "eop": number(values["eop"][k]),
            }
            for k in range(len(decided))
        ]

    def metrics(self, decided: Decisions) -> list[MeasuredMetrics]:
        """The METRICS object of decisions (K, n), with bootstrap intervals, one each."""
        counts, names, labels = self.counts(decided), self.dataset.group_names, self.dataset.label_names
        told = (names, self.notion, self.seed, self.dataset.key, labels)
        found = [metrics_entry(counts[k], *told) for k in range(len(decided))]
        return [{**one.to_dict(), "intervals": named_intervals(spans, names, labels)} for one, spans in found]

    def differences(self, before: Decisions, after: Decisions) -> Differences:
        """Intervals of after minus before on the same people, which two separate intervals would make far too wide."""
        dataset, rows = self.dataset, self.rows
        intervals = paired_bootstrap(
            dataset.labels[rows],
            before,
            after,
            dataset.groups[rows],
            len(dataset.group_names),
            generator(self.seed, "paired bootstrap", dataset.key),
            self.notion,
            weights=self.weights,
        )
        return {
            "accuracy": _pair(intervals["accuracy"]),
            "balanced_accuracy": _pair(intervals["balanced_accuracy"]),
            "gap": _pair(intervals["gap"]),
        }

    def joint(self, before: Decisions, after: Decisions) -> JointCounts:
        """People by recorded group, label and both decisions."""
        dataset, rows = self.dataset, self.rows
        people = (dataset.labels[rows], before, after, dataset.groups[rows])
        return joint_counts(*people, dataset.group_names, dataset.classes)

    def by_guess(self, decided: Decisions, guessed: npt.NDArray[np.float64]) -> float | None:
        """The gap of decisions (n,) if everybody's groups were as guessed, (n, G)."""
        labels, classes = self.dataset.labels[self.rows], self.dataset.classes
        if self.weights is not None:
            member = guessed * self.weights[:, None]
            rates = member_rates(self.notion, labels, decided[None], member[None])
            return number(float(self.notion.gap(rates)[0, 0]))
        if classes > 2:
            counts = soft_class_counts(labels, decided, guessed, classes)
        else:
            counts = soft_group_counts(labels, decided, guessed)
        return number(float(metric_table(self.notion)["gap"](counts)))

    def changes(self, before: Decisions, after: Decisions) -> Changes:
        """Whose decision is another one, per recorded group and direction."""
        recorded = self.dataset.groups[self.rows]
        flipped = before != after
        groups: dict[str, GroupChanges] = {}
        for code, name in enumerate(self.dataset.group_names):
            inside = recorded == code
            if self.dataset.classes > 2:
                moved = np.bincount(after[inside & flipped], minlength=self.dataset.classes).tolist()
                to = dict(zip(self.dataset.label_names, moved, strict=True))
                groups[name] = {"n": int(inside.sum()), "to": to}
                continue
            groups[name] = {
                "n": int(inside.sum()),
                "to_positive": int((inside & flipped & after).sum()),
                "to_negative": int((inside & flipped & before).sum()),
            }
        return {"total": int(flipped.sum()), "share": float(flipped.mean()), "groups": groups}


def metrics_entry(
    counts: GroupCounts, names: Sequence[str], notion: Notion, seed: int, key: str, labels: Sequence[str] | None = None
) -> tuple[Metrics, dict[str, Interval]]:
    """Metrics and 95 % intervals of one classifier's counts, as every run reports them."""
    # the same draws for every classifier: equal decisions have equal intervals
    rng = generator(seed, "bootstrap", key)
    spans = _widened(bootstrap(counts, rng, notion), counts, notion, rng)
    return Metrics.from_counts(counts, names, notion, warn=False, label_names=labels), spans


def subgroups(
    dataset: Dataset,
    labels: npt.NDArray[np.int64],
    answers: Answers,
    left: npt.NDArray[np.integer],
    centred: npt.NDArray[np.float64],
) -> list[Subgroup]:
    """How every (group, label) stands: answers so far, people left by guess (G, K), centred accuracy (G, K)."""
    rows, groups = answers.known()
    return [
        {
            "group": name,
            "label": label_name,
            "answered": int(((groups == group) & (labels[rows] == label)).sum()),
            "pool": int(left[group, label]),
            "centred_accuracy": number(centred[group, label]),
        }
        for group, name in enumerate(dataset.group_names)
        for label, label_name in enumerate(dataset.label_names)
    ]


def bound_entry(dataset: Dataset, mitigation: Mitigation, trajectory: int) -> Bound:
    """Theorem 1 for the asking head of a trajectory, groups by proxy where nobody answered."""
    plan = mitigation.plan
    head = plan.trajectories[trajectory].head
    return {
        "round": mitigation.round - 1,
        "answered": len(mitigation.answers[trajectory]),
        "strength": plan.heads[head].strength,
        **mitigation.bound(trajectory).to_dict(dataset.group_names),
    }


def answer_entry(dataset: Dataset, rows: npt.NDArray[np.int64], answered: Answered, strength: float | None) -> Answer:
    """One answer as it stands in result.json; the reason's codes become names."""
    choice = answered.question.choice
    reason = named_reason(choice.reason, dataset.group_names, dataset.label_names)
    # the first of all people is infinitely far from nobody
    plain = {name: number(value) if isinstance(value, float) else value for name, value in reason.items()}
    groupings = dataset.groupings
    codes = answer_codes(answered.group, [len(one.names) for one in groupings])
    told = {one.name: one.names[code] if code >= 0 else None for one, code in zip(groupings, codes, strict=True)}
    entry: Answer = {
        "row": int(dataset.rows[rows[choice.row]]),
        "group": told[dataset.attribute],
        "round": answered.question.round,
        "purpose": answered.question.purpose,
        "probability": choice.probability,
        "strength": strength,
        "reason": cast(Reason, plain),  # selectors say what they looked at
    }
    if dataset.further:
        entry["groups"] = told
    return entry


def _widened(
    intervals: dict[str, Interval], counts: GroupCounts, notion: Notion, rng: np.random.Generator
) -> dict[str, Interval]:
    """The bootstrap's intervals; where it has nothing to resample, a rate of 0 or 1, Jeffreys' interval instead.

    So three people who are all recognised do not make a rate that is certain, nor a gap that rests on it.
    """
    found = dict(intervals)
    for rate, one in RATES.items() if counts.classes == 2 else ():
        happened, people = (part[0, 0] for part in _effective_events(one, counts))  # (g,)
        sure = (people > 0) & ((happened == 0) | (happened == people))
        low, high = (stats.beta.ppf(end, happened + 0.5, people - happened + 0.5) for end in (0.025, 0.975))
        low, high = np.where(happened == 0, 0.0, low), np.where(happened == people, 1.0, high)
        old = found[rate]
        found[rate] = replace(old, low=np.where(sure, low, old.low), high=np.where(sure, high, old.high))
    happened, people = _effective_events(notion, counts)  # (k, e, g)
    if (people > 0).all() and ((happened == 0) | (happened == people)).any():
        drawn = notion.gap(rng.beta(happened + 0.5, people - happened + 0.5, size=(JEFFREYS_DRAWS, *happened.shape)))
        low, high = np.quantile(drawn, (0.025, 0.975))
        old = found["gap"]
        found["gap"] = replace(old, low=np.minimum(old.low, low), high=np.maximum(old.high, high))
    return found


def _effective_events(notion: Notion, counts: GroupCounts) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """`count_events`; of weighted people, of as many with equal weights as would tell as much."""
    happened, people = count_events(notion, counts)
    if counts.squares is None:
        return happened, people
    _, squares = count_events(notion, GroupCounts(counts.squares))
    shrunk = np.where(squares > 0, people / np.where(squares > 0, squares, 1.0), 0.0)
    return happened * shrunk, people * shrunk


def named_intervals(intervals: Mapping[str, Interval], names: Sequence[str], labels: Sequence[str] = ()) -> Intervals:
    """Intervals as result.json has them; of more than two labels, also those of each."""
    groups: dict[str, RateIntervals] = {
        name: {
            "tpr": _pair(intervals["tpr"], g),
            "fpr": _pair(intervals["fpr"], g),
            "selection_rate": _pair(intervals["selection_rate"], g),
            "precision": _pair(intervals["precision"], g),
        }
        for g, name in enumerate(names)
    }
    if len(labels) > 2:
        for g, name in enumerate(names):
            groups[name]["labels"] = {label: _label_intervals(intervals, y, g) for y, label in enumerate(labels)}
    return {
        "accuracy": _pair(intervals["accuracy"]),
        "balanced_accuracy": _pair(intervals["balanced_accuracy"]),
        "gap": _pair(intervals["gap"]),
        "delta_eo": _pair(intervals["delta_eo"]),
        "eop": _pair(intervals["eop"]),
        "groups": groups,
    }


def _label_intervals(intervals: Mapping[str, Interval], label: int, group: int) -> LabelIntervals:
    tpr, fpr, selection_rate, precision = (_pair(intervals[own], label, group) for own in LABEL_RATES.values())
    return {"tpr": tpr, "fpr": fpr, "selection_rate": selection_rate, "precision": precision}


def _pair(interval: Interval, *place: int) -> Ends:
    return [number(interval.low[place]), number(interval.high[place])]


def tested(point: CurveMetrics) -> Tested:
    """What is said of the operating point that would be chosen, on the test part."""
    return {
        "accuracy": point["accuracy"],
        "balanced_accuracy": point["balanced_accuracy"],
        "gap": point["gap"],
    }


def named_cells(dataset: Dataset, cells: Sequence[tuple[int, int]]) -> list[list[str]]:
    """(group, label) cells by name."""
    return [[dataset.group_names[group], dataset.label_names[label]] for group, label in cells]


AUDIT, VERIFYING = -1, -2
"""Stand for the trajectory in the file of answers: what audits and verifies belongs to none."""

RULE = "audit, random person of a label and both decisions"


@dataclass(frozen=True, eq=False)
class Audited:
    """The test part, as an audit meets it."""

    measured: Measured
    predicted: npt.NDArray[np.bool_]  # (2, n_test) before, after
    guessed: npt.NDArray[np.float64]  # (n_test, G) group probabilities
    known: Answers = field(default_factory=Answers)  # handed in: they speak for themselves
    closed: Sequence[int] = ()  # nobody can answer for these: they are no part of the audit


def audited(people: Audited, answers: int, round_: int, interview: Interview) -> AuditJson | None:
    """Estimates per group before and after from so many answers about the test part, as `apod audit --json` has them.

    None where nobody who was drawn could be told.
    """
    measured, part = people.measured, np.delete(np.arange(len(people.measured.rows)), list(people.closed))
    dataset, notion, seed = measured.dataset, measured.notion, measured.seed
    labels, names = dataset.labels[measured.rows[part]], dataset.group_names
    before, after = people.predicted[:, part].astype(np.int64)
    decisions = {"before": before, "after": after}
    groups, chance = np.full(len(part), UNKNOWN), np.full(len(part), np.nan)
    known = np.isin(part, people.known.rows)
    groups[known] = np.array(people.known.groups, dtype=np.int64)[np.searchsorted(people.known.rows, part[known])]
    free = np.flatnonzero(~known)
    if answers > len(free):
        raise BudgetError(f"An audit of {answers} people does not fit the {len(free)} of the test part: ask for fewer.")
    plan = cells_of(check_people(labels, decisions, groups, names, chance), list(decisions))
    even = np.full((len(plan.sizes), len(names)), 1 / len(names))
    room = np.bincount(plan.code[free], minlength=len(plan.sizes))
    counts = allocate(even, plan.views, answers, room, notion)
    drawn = draw_people(plan.code, counts, free, generator(seed, "audit", dataset.key))
    for row, probability in zip(drawn.rows.tolist(), drawn.probability.tolist(), strict=True):
        choice = Choice(int(part[row]), {"rule": RULE}, probability)
        groups[row] = interview(Question(AUDIT, round_, choice, "audit"))
        chance[row] = probability
    if (groups[drawn.rows] == UNKNOWN).all():
        return None
    proxies = people.guessed[part]
    return audit(
        labels,
        decisions,
        groups,
        names,
        probability=chance,
        proxies=proxies,
        weights=None if dataset.weights is None else dataset.weights[measured.rows[part]],
        seed=seed,
        notion=notion,
    ).to_dict()
