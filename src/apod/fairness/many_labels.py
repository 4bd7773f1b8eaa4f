"""More than two labels: notions of them, and metrics. No label is the positive one, so rates are of each label against
all others.

A notion's rate is then of a *pair*: a cell, and a decision that is counted in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from apod.fairness.counts import GroupCounts
from apod.fairness.notions import (
    BoolArray,
    FloatArray,
    IntArray,
    Notion,
    RateName,
    compared,
    count_gap,
    count_rates,
    find_notion,
    spread,
)
from apod.text import number


def notion_for(name: str, classes: int) -> Notion:
    """The notion of this name for so many labels."""
    found = find_notion(name)
    return found if found.classes == classes else type(found)(classes)  # type: ignore[call-arg]


def notion_by_default(classes: int) -> Literal["equalized_odds", "true_positive_rate_parity"]:
    """What is equalised where nobody says: with more than two labels, that each is recognised equally often.

    Of two labels that is the same gap as equalized odds: |dTPR| + |dTNR|.
    """
    return "equalized_odds" if classes == 2 else "true_positive_rate_parity"


def counted_decisions(notion: Notion) -> IntArray:
    """(k, e) the decision that is counted in every cell."""
    labels = np.arange(notion.classes)
    return np.asarray(notion.events(labels)[notion.cells(labels).argmax(axis=0)])


def pair_events(notion: Notion, labels: npt.NDArray[Any], decided: npt.NDArray[Any]) -> tuple[BoolArray, BoolArray]:
    """(n, k x e) who is inside every pair of a cell and an event, and who of these got the decision; arrays (n,)."""
    cells, got = compared(notion, labels, decided)
    happened = cells[:, :, None] & got[:, None]  # (n, k, e)
    return np.broadcast_to(cells[:, :, None], happened.shape).reshape(len(labels), -1), happened.reshape(
        len(labels), -1
    )


def pair_gap(notion: Notion, rates: FloatArray) -> FloatArray:
    """The gap of rates that lie as (..., k x e, G)."""
    return notion.gap(rates.reshape(*rates.shape[:-2], -1, counted_decisions(notion).shape[1], rates.shape[-1]))


Metric = Callable[[GroupCounts], FloatArray]

LABEL_RATES: Mapping[RateName, str] = MappingProxyType(
    {
        "tpr": "label_tpr",
        "fpr": "label_fpr",
        "selection_rate": "label_selection_rate",
        "precision": "label_precision",
    }
)
"""Every rate of one label against all others: its name among the metrics, which are (..., K, g)."""


class LabelRatesJson(TypedDict):
    """A group's rates of one label against all others in JSON; undefined is null; `n` people have that label."""

    tpr: float | None
    fpr: float | None
    selection_rate: float | None
    precision: float | None
    n: int


class LabelIntervals(TypedDict):
    """A group's rates of one label against all others in JSON, each with the ends of its 95 % interval."""

    tpr: list[float | None]
    fpr: list[float | None]
    selection_rate: list[float | None]
    precision: list[float | None]


@dataclass(frozen=True)
class LabelRates:
    """One group's rates of one label against all others; `n` people of the group have that label."""

    tpr: float
    fpr: float
    selection_rate: float
    precision: float
    n: int

    def to_dict(self) -> LabelRatesJson:
        """Ready for JSON: undefined is None."""
        return {
            "tpr": number(self.tpr),
            "fpr": number(self.fpr),
            "selection_rate": number(self.selection_rate),
            "precision": number(self.precision),
            "n": self.n,
        }


def label_rates(values: Mapping[str, FloatArray], counts: GroupCounts, label: int, group: int) -> LabelRates:
    """One group's rates of one label, by the metrics of one classifier's counts."""
    rates = {name: float(values[own][label, group]) for name, own in LABEL_RATES.items()}
    return LabelRates(**rates, n=round(float(counts.cells[group, label].sum())))


def label_table(notion: Notion) -> Mapping[str, Metric]:
    """Metrics by name for more than two labels, but accuracies. What speaks of a positive label is NaN.

    `demographic_parity_difference` is the total variation between the groups' decisions, `equalized_odds_difference`
    the largest difference of P(decision | label) over all labels and decisions.
    """

    def undefined(counts: GroupCounts) -> FloatArray:
        return np.full(counts.cells.shape[:-3], np.nan)

    def undefined_each(counts: GroupCounts) -> FloatArray:
        return np.full((*counts.cells.shape[:-3], counts.n_groups), np.nan)

    own = {
        name: notion_for(name, notion.classes)
        for name in (
            "equalized_odds",
            "true_positive_rate_parity",
            "false_positive_rate_parity",
            "demographic_parity",
            "selection_rate_ratio",
            "predictive_parity",
        )
    }
    odds, recognised, wrongly, parity, fifths, precise = own.values()
    return MappingProxyType(
        {
            "eop": undefined,
            "delta_eo": undefined,
            "gap": lambda counts: count_gap(notion, counts),
            "demographic_parity_difference": lambda counts: count_gap(parity, counts),
            "equalized_odds_difference": lambda counts: spread(count_rates(odds, counts)).max((-2, -1)),
            "selection_rate_ratio": lambda counts: 1 - count_gap(fifths, counts),
            "predictive_parity_difference": lambda counts: count_gap(precise, counts),
            **dict.fromkeys(LABEL_RATES, undefined_each),
            "label_tpr": lambda counts: count_rates(recognised, counts)[..., 0, :],
            "label_fpr": lambda counts: np.swapaxes(np.diagonal(count_rates(wrongly, counts), 0, -3, -2), -1, -2),
            "label_selection_rate": lambda counts: count_rates(parity, counts)[..., 0, :, :],
            "label_precision": lambda counts: count_rates(precise, counts)[..., 0, :],
        }
    )
