"""What a run reports: the entries of result.json, computed round by round on the test part.

Nothing here decides anything: the test part and the recorded groups are only reported on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from apod.data.dataset import Dataset
from apod.fairness.metrics import (
    RATES,
    GroupCounts,
    Interval,
    Metrics,
    bootstrap,
    group_counts,
    metric_table,
    paired_bootstrap,
)
from apod.fairness.notions import Notion, count_events
from apod.heads.bank import HeadBank
from apod.jsonable import number
from apod.method.algorithm1 import Answered, Mitigation
from apod.method.choice import RoundScores
from apod.method.prepare import Prepared
from apod.method.selection import View, centred_accuracies, named_reason
from apod.randomness import generator

CURVE_METRICS = ("accuracy", "balanced_accuracy", "gap", "delta_eo", "eop")
JEFFREYS_DRAWS = 2000
INTERVALS = ("accuracy", "balanced_accuracy", "gap", "delta_eo", "eop")


def counts_on_test(prepared: Prepared, bank: HeadBank) -> GroupCounts:
    """Counts of every head's decisions on the test part, by recorded group."""
    dataset, rows = prepared.dataset, prepared.split.test
    predicted = (bank.margins(prepared.test) > 0).numpy()
    return group_counts(dataset.labels[rows], predicted, dataset.groups[rows], len(dataset.group_names))


def curve(prepared: Prepared, mitigation: Mitigation, scores: RoundScores) -> list[dict[str, float | None]]:
    """Accuracy and fairness of every head as it is now, one entry per strength."""
    counts = counts_on_test(prepared, mitigation.heads)
    metrics = metric_table(mitigation.notion)
    values = {name: metrics[name](counts) for name in CURVE_METRICS}
    return [
        {
            "strength": head.strength,
            **{name: number(value[k]) for name, value in values.items()},
            "validation_score": number(scores.score[k]),
        }
        for k, head in enumerate(mitigation.plan.heads)
    ]


def subgroups(dataset: Dataset, mitigation: Mitigation, view: View, trajectory: int) -> list[dict[str, Any]]:
    """How every (group, label) stands: answers so far, people left by proxy, the asking head's centred accuracy."""
    n_groups = len(dataset.group_names)
    proxy = view.proxy
    accuracies = centred_accuracies(view.labels, view.predicted, proxy, n_groups, view.askable)
    rows, groups = mitigation.answers[trajectory].known()
    entries = []
    for group, name in enumerate(dataset.group_names):
        for label, label_name in enumerate(dataset.label_names):
            inside = view.askable & (proxy == group) & (view.labels == label)
            entries.append(
                {
                    "group": name,
                    "label": label_name,
                    "answered": int(((groups == group) & (view.labels[rows] == label)).sum()),
                    "pool": int(inside.sum()),
                    "centred_accuracy": number(accuracies[group, label]),
                }
            )
    return entries


def bound_entry(prepared: Prepared, mitigation: Mitigation, trajectory: int) -> dict[str, Any]:
    """Theorem 1 for the asking head of a trajectory, groups by proxy where nobody answered."""
    dataset, plan = prepared.dataset, mitigation.plan
    head = plan.trajectories[trajectory].head
    return {
        "round": mitigation.round - 1,
        "answered": len(mitigation.answers[trajectory]),
        "strength": plan.heads[head].strength,
        **mitigation.bound(trajectory).to_dict(dataset.group_names),
    }


def answer_entry(
    dataset: Dataset, rows: npt.NDArray[np.int64], answered: Answered, strength: float | None
) -> dict[str, Any]:
    """One answer as it stands in result.json; the reason's codes become names."""
    choice = answered.question.choice
    reason = named_reason(choice.reason, dataset.group_names, dataset.label_names)
    # the first of all people is infinitely far from nobody
    plain = {name: number(value) if isinstance(value, float) else value for name, value in reason.items()}
    return {
        "row": int(dataset.rows[rows[choice.row]]),
        "group": dataset.group_names[answered.group] if answered.group >= 0 else None,
        "round": answered.question.round,
        "purpose": answered.question.purpose,
        "probability": choice.probability,
        "strength": strength,
        "reason": plain,
    }


def metrics_entries(prepared: Prepared, bank: HeadBank, notion: Notion, seed: int) -> list[dict[str, Any]]:
    """The METRICS object of every head of a bank on the test part, with bootstrap intervals."""
    counts = counts_on_test(prepared, bank)
    names = prepared.dataset.group_names
    entries = []
    for k in range(len(bank)):
        one = Metrics.from_counts(counts[k], names, notion, warn=False)
        # the same draws for every head: equal predictions have equal intervals
        rng = generator(seed, "bootstrap", prepared.dataset.key)
        intervals = bootstrap(counts[k], rng, notion)
        entries.append({**one.to_dict(), "intervals": _intervals(_widened(intervals, counts[k], notion, rng), names)})
    return entries


def _widened(
    intervals: dict[str, Interval], counts: GroupCounts, notion: Notion, rng: np.random.Generator
) -> dict[str, Interval]:
    """The bootstrap's intervals; where it has nothing to resample, a rate of 0 or 1, Jeffreys' interval instead.

    So three people who are all recognised do not make a rate that is certain, nor a gap that rests on it.
    """
    found = dict(intervals)
    for rate, one in RATES.items():
        happened, people = (part[0, 0] for part in count_events(one, counts))  # (g,)
        sure = (people > 0) & ((happened == 0) | (happened == people))
        low, high = (stats.beta.ppf(end, happened + 0.5, people - happened + 0.5) for end in (0.025, 0.975))
        low, high = np.where(happened == 0, 0.0, low), np.where(happened == people, 1.0, high)
        old = found[rate]
        found[rate] = replace(old, low=np.where(sure, low, old.low), high=np.where(sure, high, old.high))
    happened, people = count_events(notion, counts)  # (k, e, g)
    if (people > 0).all() and ((happened == 0) | (happened == people)).any():
        drawn = notion.gap(rng.beta(happened + 0.5, people - happened + 0.5, size=(JEFFREYS_DRAWS, *happened.shape)))
        low, high = np.quantile(drawn, (0.025, 0.975))
        old = found["gap"]
        found["gap"] = replace(old, low=np.minimum(old.low, low), high=np.maximum(old.high, high))
    return found


def _intervals(intervals: dict[str, Interval], names: Sequence[str]) -> dict[str, Any]:
    def pair(name: str, *place: int) -> list[float | None]:
        interval = intervals[name]
        return [number(interval.low[place]), number(interval.high[place])]

    groups = {name: {rate: pair(rate, g) for rate in RATES} for g, name in enumerate(names)}
    return {**{name: pair(name) for name in INTERVALS}, "groups": groups}


def differences(
    prepared: Prepared, before: npt.NDArray[np.bool_], after: npt.NDArray[np.bool_], notion: Notion, seed: int
) -> dict[str, list[float | None]]:
    """Intervals of after minus before on the same people, which two separate intervals would make far too wide."""
    dataset, rows = prepared.dataset, prepared.split.test
    intervals = paired_bootstrap(
        dataset.labels[rows],
        before,
        after,
        dataset.groups[rows],
        len(dataset.group_names),
        generator(seed, "paired bootstrap", dataset.key),
        notion,
    )
    names = ("accuracy", "balanced_accuracy", "gap")
    return {name: [number(float(intervals[name].low)), number(float(intervals[name].high))] for name in names}


def changes(prepared: Prepared, before: npt.NDArray[np.bool_], after: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Whose decision on the test part is another one, per recorded group and direction."""
    dataset = prepared.dataset
    recorded = dataset.groups[prepared.split.test]
    flipped = before != after
    groups = {}
    for code, name in enumerate(dataset.group_names):
        inside = recorded == code
        groups[name] = {
            "n": int(inside.sum()),
            "to_positive": int((inside & flipped & after).sum()),
            "to_negative": int((inside & flipped & before).sum()),
        }
    return {"total": int(flipped.sum()), "share": float(flipped.mean()), "groups": groups}
