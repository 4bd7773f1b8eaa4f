"""What a run reports: the entries of result.json, computed round by round on the test part.

Nothing here decides anything: the test part and the recorded groups are only reported on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

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
from apod.fairness.notions import Notion
from apod.heads.bank import HeadBank
from apod.jsonable import number
from apod.method.algorithm1 import Mitigation
from apod.method.prepare import Prepared
from apod.method.rounds import Answered
from apod.method.score_choice import RoundScores
from apod.method.selection import View, centred_accuracies
from apod.method.state import named_reason
from apod.randomness import generator

CURVE_METRICS = ("accuracy", "balanced_accuracy", "gap", "delta_eo", "eop")
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
        intervals = bootstrap(counts[k], generator(seed, "bootstrap", prepared.dataset.key), notion)
        entries.append({**one.to_dict(), "intervals": _intervals(intervals, names)})
    return entries


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
