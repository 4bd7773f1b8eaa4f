"""Numbers from counted people, and nothing else: the same functions write evidence and verify it.

All of it follows from the joint counts of group x label x decision before x decision after, a seed and a key. Cells
with 1 to 4 people are left out together with every number that would tell them; the LL144 table alone is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.audit.bounds import counted_bounds
from apod.evidence.sections import (
    LL144,
    Cells,
    Changed,
    Decisions,
    Estimated,
    Findings,
    GroupRates,
    Levelling,
    LL144Row,
)
from apod.fairness.counts import GroupCounts
from apod.fairness.impact import counted_intervals, impact_ratios
from apod.fairness.metrics import SHOWN_RATES
from apod.fairness.notions import Notion, find_notion, ratio
from apod.fairness.resampling import Interval, paired_bootstrap
from apod.randomness import generator
from apod.run.record import metrics_entry
from apod.text import number

LEAST = 5
"""Cells with fewer people are left out, unless empty."""

RARE = 0.02
"""Categories with a smaller share are flagged: LL144 lets an auditor leave them out, with a reason."""

METRICS = ("gap", "demographic_parity_difference", "equalized_odds_difference", "eop", "accuracy", "balanced_accuracy")
CHANGED = ("gap", "accuracy", "balanced_accuracy")
LEVELLED = 0.01
"""A group's rate that falls by more than this has fallen."""

Counts = npt.NDArray[np.int64]
CERTAIN = "groups on record; people without one may be of any group. Arithmetic, no sampling"


def small(counts: npt.NDArray[Any]) -> bool:
    """Whether some cell has people, but too few to be shown."""
    return bool(((counts > 0) & (counts < LEAST)).any())


def joint_table(groups: Mapping[str, Any], unknown: Any) -> Counts:
    """(g + 1, 2, 2, 2) people by group, label, decision before and after; the last those without a group."""
    return np.array([*groups.values(), unknown], dtype=np.int64)


def shown_counts(table: Counts, names: Sequence[str]) -> dict[str, dict[str, Cells | None]]:
    """People by group, label and decision before, after and both, as they may be shown: not where a cell is small."""
    tables = {"before": table.sum(3), "after": table.sum(2), "both": table}
    return {
        which: {
            name: None if small(cells) and name != "unknown" else cells.tolist()
            for name, cells in zip([*names, "unknown"], found, strict=True)
        }
        for which, found in tables.items()
    }


def findings(table: Counts, names: Sequence[str], notion: str, seed: int, key: str, basis: str) -> Findings:
    """Everything measured of people with these joint counts."""
    compared = find_notion(notion)
    same = bool((table[:, :, 0, 1] + table[:, :, 1, 0] == 0).all())
    return Findings(
        basis=basis,
        people=int(table.sum()),
        unknown=int(table[-1].sum()),
        before=decisions(table.sum(3), names, compared, seed, key),
        after=None if same else decisions(table.sum(2), names, compared, seed, key),
        change={} if same else change(table, compared, seed, key),
    )


def decisions(table: Counts, names: Sequence[str], notion: Notion, seed: int, key: str) -> Decisions:
    """Everything measured of one set of decisions, from counts (g + 1, label, decision)."""
    counts = GroupCounts(table)
    found, spans = metrics_entry(counts, names, notion, seed, key)
    hidden = [small(counts.cells[g]) for g in range(len(names))]
    ratios = _ratios(counts, seed, key, "impact ratio")
    groups = {name: _group(counts, g, spans, ratios[g], hidden[g]) for g, name in enumerate(names)}
    metrics = {name: _estimated(getattr(found, name), spans[name]) for name in METRICS}
    lowest = [one for one in ratios if one.value is not None]
    metrics["impact_ratio"] = min(lowest, key=lambda one: one.value or 0.0) if lowest else Estimated(None)
    if any(hidden):  # a ratio of two rates, with one of them known, tells the other
        metrics |= {name: Estimated(None, suppressed=True) for name in ("eop",)}
    if any(one.selection_rate.suppressed for one in groups.values()):
        metrics["impact_ratio"] = Estimated(None, suppressed=True)
    return Decisions(groups, metrics, counted_bounds(notion, counts).to_dict(), CERTAIN)


def _group(counts: GroupCounts, g: int, spans: Mapping[str, Interval], impact: Estimated, hidden: bool) -> GroupRates:
    cells = counts.cells[g]  # (label, decision)
    people, chosen = int(cells.sum()), int(cells[:, 1].sum())
    known = int(counts.cells[:-1].sum())
    few = 0 < people < LEAST
    rates: dict[str, Estimated] = {}
    for rate, (part, whole) in {
        "tpr": (cells[1, 1], cells[1].sum()),
        "fpr": (cells[0, 1], cells[0].sum()),
        "selection_rate": (chosen, people),
    }.items():
        low, high = (float(end[g]) for end in spans[rate])
        rates[rate] = Estimated(number(float(ratio(np.asarray(part), np.asarray(whole)))), number(low), number(high))
    lone = small(np.array([chosen, people - chosen]))
    gone = Estimated(None, suppressed=True)
    return GroupRates(
        people=Estimated(None if few else people, suppressed=few),
        share=None if few or not known else people / known,
        below_2_percent=bool(known and people < RARE * known),
        selection_rate=gone if lone else rates["selection_rate"],
        tpr=gone if hidden else rates["tpr"],
        fpr=gone if hidden else rates["fpr"],
        impact_ratio=gone if lone else impact,
    )


def _ratios(counts: GroupCounts, seed: int, key: str, what: str) -> list[Estimated]:
    selected, people = counts.cells[:-1, :, 1].sum(1), counts.n
    values = impact_ratios(ratio(selected, people))
    low, high = counted_intervals(selected, people, generator(seed, what, key))
    ends = zip(values, np.minimum(low, values), np.maximum(high, values), strict=True)
    return [Estimated(number(float(value)), number(float(a)), number(float(b))) for value, a, b in ends]


def _estimated(value: float, span: Interval) -> Estimated:
    return Estimated(number(value), number(float(span.low)), number(float(span.high)))


def change(table: Counts, notion: Notion, seed: int, key: str) -> dict[str, Estimated]:
    """After minus before on the same people; the bootstrap draws people, so joint counts are all it needs."""
    groups, labels, before, after = (np.repeat(side.ravel(), table.ravel()) for side in np.indices(table.shape))
    codes = np.where(groups == len(table) - 1, -1, groups)
    rng = generator(seed, "paired bootstrap", key)
    found = paired_bootstrap(labels, before, after, codes, len(table) - 1, rng, notion)
    return {name: _estimated(float(found[name].value), found[name]) for name in CHANGED}


def changed(table: Counts, names: Sequence[str]) -> Changed:
    """Who changes, per group; in multiples of 5 where a count is below 5, because totals would tell it."""
    to_positive, to_negative = table[:, :, 0, 1].sum(1), table[:, :, 1, 0].sum(1)  # (g + 1,)
    rough = small(np.concatenate([to_positive, to_negative]))

    def shown(value: Any) -> int:
        return 5 * round(int(value) / 5) if rough else int(value)

    groups = {
        name: {"to_positive": shown(up), "to_negative": shown(down)}
        for name, up, down in zip(names, to_positive, to_negative, strict=False)
    }
    return Changed(shown(to_positive.sum() + to_negative.sum()), rough, groups)


def levelling(found: Findings, *, measured: bool) -> Levelling | None:
    """Whether the gap closed by making some group worse off; None where nothing was changed."""
    if found.after is None:
        return None
    moved: dict[str, dict[str, float | None]] = {}
    for name, old in found.before.groups.items():
        new = found.after.groups[name]
        pairs = {rate: (getattr(old, rate).value, getattr(new, rate).value) for rate in SHOWN_RATES}
        moved[name] = {
            rate: None if first is None or second is None else second - first for rate, (first, second) in pairs.items()
        }
    known = {name: one["tpr"] for name, one in moved.items() if one["tpr"] is not None}
    fell = [name for name, one in known.items() if one < -LEVELLED]
    rose = [name for name, one in known.items() if one > LEVELLED]
    said = _verdict(fell, rose, len(known) < len(moved))
    return Levelling(said if measured else f"{said} (by estimates, whose intervals are above)", moved)


def _verdict(fell: Sequence[str], rose: Sequence[str], partly: bool) -> str:
    points = f"{100 * LEVELLED:g} point"
    if fell and not rose:
        said = f"levelled down: TPR fell by more than {points} for {', '.join(fell)} and rose for nobody"
    elif fell:
        said = f"both: TPR rose by more than {points} for {', '.join(rose)} and fell for {', '.join(fell)}"
    elif rose:
        said = f"levelled up: TPR rose by more than {points} for {', '.join(rose)} and fell for nobody"
    else:
        said = f"neither: no group's TPR moved by more than {points}"
    return f"{said}; some groups' rates are left out" if partly else said


def ll144(table: Counts, names: Sequence[str], source: str) -> LL144:
    """Selection rates and impact ratios in the rule's form, from counts (g + 1, label, decision in use)."""
    people, selected = table[:-1].sum((1, 2)), table[:-1, :, 1].sum(1)
    rates = ratio(selected, people)
    ratios, known = impact_ratios(rates), int(people.sum())
    rows = tuple(
        LL144Row(
            name, int(people[g]), int(selected[g]), number(float(rates[g])), number(float(ratios[g])),
            bool(known and people[g] < RARE * known),
        )
        for g, name in enumerate(names)
    )  # fmt: skip
    return LL144(rows, int(table[-1].sum()), source)
