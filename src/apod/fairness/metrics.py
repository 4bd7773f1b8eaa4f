"""How well and how fairly a classifier decides.

Everything is computed from `GroupCounts` (group x label x prediction), for any number of classifiers at once,
so it costs the same for a thousand rows as for ten million.

Rows whose group is UNKNOWN (-1) count towards accuracy and balanced accuracy and towards no group; how many
they are is reported. A rate nobody can be measured on is NaN, never 0, and so is whatever is built on it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from apod.errors import InputError, UnknownName
from apod.fairness.counts import (
    GroupCounts,
    group_counts,
    soft_group_counts,
)
from apod.fairness.many_labels import LABEL_RATES, LabelRates, LabelRatesJson, Metric, label_rates, label_table
from apod.fairness.notions import (
    EQUALIZED_ODDS,
    MEASURED,
    NOTIONS,
    Notion,
    RateName,
    count_gap,
    count_rates,
    extremes,
    ratio,
    spread,
)
from apod.text import number

if TYPE_CHECKING:
    from apod.data.dataset import FairnessMetric

__all__ = [
    "METRICS",
    "RATES",
    "RATE_WORDS",
    "SHOWN_RATES",
    "GroupCounts",
    "GroupRates",
    "GroupRatesJson",
    "Metrics",
    "MetricsJson",
    "RateName",
    "RatesJson",
    "ThresholdPoint",
    "Thresholds",
    "UndefinedRateWarning",
    "evaluate",
    "fairness_score",
    "group_counts",
    "metric_table",
    "soft_group_counts",
]

FloatArray = npt.NDArray[np.float64]


class RatesJson(TypedDict):
    """A group's rates in JSON; undefined is null. Files of earlier versions have no precision."""

    tpr: float | None
    fpr: float | None
    selection_rate: float | None
    precision: NotRequired[float | None]


class GroupRatesJson(RatesJson):
    """A group's rates in JSON, and what they rest on. With more than two labels the rates are by label."""

    n: int
    n_positive: int
    labels: NotRequired[dict[str, LabelRatesJson]]


class MetricsJson(TypedDict):
    """One classifier on one set of rows in JSON; undefined is null."""

    accuracy: float | None
    balanced_accuracy: float | None
    eop: float | None
    delta_eo: float | None
    gap: float | None
    demographic_parity_difference: float | None
    equalized_odds_difference: float | None
    selection_rate_ratio: NotRequired[float | None]  # these two from version 0.2 on
    predictive_parity_difference: NotRequired[float | None]
    groups: dict[str, GroupRatesJson]
    excluded: int


class ThresholdPoint(TypedDict):
    """What a threshold does on the test part."""

    threshold: float
    selection_rate: float | None
    accuracy: float | None
    gap: float | None


class Thresholds(TypedDict):
    """The threshold in use, and what others would do without and with mitigation."""

    in_use: float
    base: list[ThresholdPoint]
    selected: list[ThresholdPoint]


class UndefinedRateWarning(UserWarning):
    """A metric is NaN because a group it compares has no rows to be measured on."""


RATES: Mapping[RateName, Notion] = MappingProxyType(
    {
        "tpr": NOTIONS["true_positive_rate_parity"],
        "fpr": NOTIONS["false_positive_rate_parity"],
        "selection_rate": NOTIONS["demographic_parity"],
        "precision": MEASURED["predictive_parity"],
    }
)
"""Every rate that is shown per group, with the notion that compares it alone."""

SHOWN_RATES: tuple[RateName, ...] = ("tpr", "fpr", "selection_rate")
"""Those that every report shows; precision where a notion compares it."""

RATE_WORDS: Mapping[RateName, str] = MappingProxyType(
    {"tpr": "TPR", "fpr": "FPR", "selection_rate": "Selection rate", "precision": "Precision"}
)
"""These rates as people read them."""


def _per_group(name: RateName) -> Metric:
    """(..., g) the rate of every group."""
    return lambda counts: count_rates(RATES[name], counts)[..., 0, 0, :]


_tpr, _fpr = _per_group("tpr"), _per_group("fpr")


def _accuracy(counts: GroupCounts) -> FloatArray:
    cells = counts.overall
    return ratio(np.trace(cells, axis1=-2, axis2=-1), cells.sum((-2, -1)))


def _balanced_accuracy(counts: GroupCounts) -> FloatArray:
    cells = counts.overall
    recall = [ratio(cells[..., y, y], cells[..., y, :].sum(-1)) for y in range(counts.classes)]
    return np.asarray(sum(recall) / counts.classes)


def _eop(counts: GroupCounts) -> FloatArray:
    """The paper's EOP: TPR of group 0 over that of group 1; lowest over highest beyond two groups."""
    tpr = _tpr(counts)
    return ratio(tpr[..., 0], tpr[..., 1]) if counts.n_groups == 2 else ratio(*extremes(tpr))


def _delta_eo(counts: GroupCounts) -> FloatArray:
    """The paper's signed Delta-EO: (TPR0 - TPR1) + (FPR0 - FPR1); a sign needs exactly two groups."""
    both = _tpr(counts) + _fpr(counts)  # (..., g)
    return both[..., 0] - both[..., 1] if counts.n_groups == 2 else np.full(both.shape[:-1], np.nan)


def metric_table(notion: Notion = EQUALIZED_ODDS) -> Mapping[str, Metric]:
    """Every metric by name: counts in; one number per classifier (or classifier and group) out. No warnings.

    `gap` is that of the notion; whatever the notion, the others are what their names say.
    """
    if notion.classes > 2:
        own = {"accuracy": _accuracy, "balanced_accuracy": _balanced_accuracy, **label_table(notion)}
        return MappingProxyType(own)
    return MappingProxyType(
        {
            "accuracy": _accuracy,
            "balanced_accuracy": _balanced_accuracy,
            "eop": _eop,
            "delta_eo": _delta_eo,
            "gap": lambda counts: count_gap(notion, counts),
            "demographic_parity_difference": lambda counts: count_gap(RATES["selection_rate"], counts),
            "equalized_odds_difference": lambda counts: np.maximum(spread(_tpr(counts)), spread(_fpr(counts))),
            "selection_rate_ratio": lambda counts: 1 - count_gap(MEASURED["selection_rate_ratio"], counts),
            "predictive_parity_difference": lambda counts: count_gap(RATES["precision"], counts),
            **{name: _per_group(name) for name in RATES},  # these per group: (..., g)
        }
    )


BESIDE = ("selection_rate_ratio", "predictive_parity_difference")
"""Undefined as soon as a group is selected from never: nobody is warned of that who did not ask for them."""

METRICS = metric_table()
"""The metrics by name, the gap that of equalized odds."""


def _fairness_by_eop(counts: GroupCounts, skip_undefined: bool) -> FloatArray:
    # min(EOP, 1/EOP) is lowest over highest; so it is 0, not NaN, where group 1's TPR alone is 0.
    return ratio(*extremes(_tpr(counts), skip_undefined=skip_undefined))


def _fairness_by_delta_eo(counts: GroupCounts, skip_undefined: bool) -> FloatArray:
    if counts.n_groups == 2:
        return 1 - np.abs(_delta_eo(counts))
    return 1 - count_gap(EQUALIZED_ODDS, counts, skip_undefined=skip_undefined)


_FAIRNESS = MappingProxyType(
    {
        "eop": (_fairness_by_eop, ("equalized_odds", "true_positive_rate_parity")),
        "delta_eo": (_fairness_by_delta_eo, ("equalized_odds",)),
    }
)
"""The paper's metrics as scores, and the notions that each of them stands for."""


def fairness_score(
    metric: FairnessMetric,
    counts: GroupCounts,
    notion: Notion = EQUALIZED_ODDS,
    *,
    skip_undefined: bool = False,
    warn: bool = True,
) -> FloatArray:
    """How fair each classifier is by the task's metric, 1 at best: what head selection adds to accuracy.

    "delta_eo": 1 - |Delta-EO| (beyond two groups 1 - gap). "eop": min(EOP, 1/EOP) (lowest over highest TPR). Where
    another notion is equalised than the metric speaks of, 1 - gap of that notion.
    NaN where a group's rate is undefined; with `skip_undefined` such groups are left out while two remain,
    because a weak proxy may never name a small group.
    """
    if metric not in _FAIRNESS:
        raise UnknownName("fairness metric", metric, _FAIRNESS)
    by_metric, notions = _FAIRNESS[metric]
    if notion.name in notions:
        score = by_metric(counts, skip_undefined)
    else:
        score = 1 - count_gap(notion, counts, skip_undefined=skip_undefined)
    if warn and np.isnan(score).any():
        _warn_undefined([f"fairness by {metric}"])
    return score


@dataclass(frozen=True)
class GroupRates:
    """One group's rates and what they rest on. With more than two labels they are NaN, and stand by label."""

    tpr: float
    fpr: float
    selection_rate: float
    precision: float
    n: int
    n_positive: int  # 0 with more than two labels, none of which is the positive one
    labels: Mapping[str, LabelRates] = field(default_factory=dict)

    def to_dict(self) -> GroupRatesJson:
        """Ready for JSON: undefined is None."""
        found: GroupRatesJson = {
            "tpr": number(self.tpr),
            "fpr": number(self.fpr),
            "selection_rate": number(self.selection_rate),
            "precision": number(self.precision),
            "n": self.n,
            "n_positive": self.n_positive,
        }
        if self.labels:
            found["labels"] = {name: rates.to_dict() for name, rates in self.labels.items()}
        return found


@dataclass(frozen=True)
class Metrics:
    """One classifier on one set of rows. NaN = undefined; `delta_eo` always is beyond two groups."""

    accuracy: float
    balanced_accuracy: float
    eop: float
    delta_eo: float
    gap: float
    demographic_parity_difference: float
    equalized_odds_difference: float
    selection_rate_ratio: float
    predictive_parity_difference: float
    groups: Mapping[str, GroupRates]
    excluded: int  # rows without a known group, in no group's rates

    @classmethod
    def from_counts(
        cls,
        counts: GroupCounts,
        group_names: Sequence[str],
        notion: Notion = EQUALIZED_ODDS,
        *,
        warn: bool = True,
        label_names: Sequence[str] | None = None,
    ) -> Metrics:
        """The metrics of one classifier; one warning if any is undefined, unless told not to.

        `label_names` of more than two labels; their codes unless given.
        """
        if counts.cells.ndim != 3 or len(group_names) != counts.n_groups:
            raise InputError(
                f"counts of shape {counts.cells.shape} for {len(group_names)} group names: "
                "pick one classifier, like counts[0], and name each group."
            )
        values = {name: metric(counts) for name, metric in metric_table(notion).items()}
        people = counts if counts.rows is None else GroupCounts(counts.rows)  # rows, whatever they weigh
        n, many = people.n, counts.classes > 2
        n_positive = np.zeros(counts.n_groups) if many else people.tp + people.fn
        labels = list(label_names or map(str, range(counts.classes))) if many else []
        groups = {
            group: GroupRates(
                tpr=float(values["tpr"][a]),
                fpr=float(values["fpr"][a]),
                selection_rate=float(values["selection_rate"][a]),
                precision=float(values["precision"][a]),
                n=round(float(n[a])),  # expected counts, from soft membership, are not whole
                n_positive=round(float(n_positive[a])),
                labels={label: label_rates(values, counts, y, a) for y, label in enumerate(labels)},
            )
            for a, group in enumerate(group_names)
        }
        grouped = (*RATES, *LABEL_RATES.values())
        numbers = {name: float(value) for name, value in values.items() if name not in grouped}
        metrics = cls(**numbers, groups=groups, excluded=round(float(people.excluded)))
        if warn and metrics.undefined:
            _warn_undefined(metrics.undefined)
        return metrics

    @property
    def undefined(self) -> tuple[str, ...]:
        """Names of the metrics that are NaN though they should be numbers, or are NaN for some group."""
        alone = [name for name in METRICS if name not in (*RATES, *BESIDE) and math.isnan(getattr(self, name))]
        rates = [rate for group in self.groups.values() for rate in (group.labels.values() or [group])]
        grouped = [name for name in SHOWN_RATES if any(math.isnan(getattr(rate, name)) for rate in rates)]
        if any(group.labels for group in self.groups.values()):  # no positive label
            alone = [name for name in alone if name not in ("eop", "delta_eo")]
        return tuple(name for name in alone + grouped if name != "delta_eo" or len(self.groups) == 2)

    def to_dict(self) -> MetricsJson:
        """Ready for JSON: undefined is None; `groups` maps a name to its rates, n and n_positive."""
        return {
            "accuracy": number(self.accuracy),
            "balanced_accuracy": number(self.balanced_accuracy),
            "eop": number(self.eop),
            "delta_eo": number(self.delta_eo),
            "gap": number(self.gap),
            "demographic_parity_difference": number(self.demographic_parity_difference),
            "equalized_odds_difference": number(self.equalized_odds_difference),
            "selection_rate_ratio": number(self.selection_rate_ratio),
            "predictive_parity_difference": number(self.predictive_parity_difference),
            "groups": {name: rates.to_dict() for name, rates in self.groups.items()},
            "excluded": self.excluded,
        }


def evaluate(
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    groups: npt.ArrayLike,
    group_names: Sequence[str],
    notion: Notion = EQUALIZED_ODDS,
    *,
    warn: bool = True,
) -> Metrics:
    """Accuracy and fairness of predictions (n,) on rows whose group may be UNKNOWN (-1)."""
    counts = group_counts(y_true, y_pred, groups, len(group_names), notion.classes)
    metrics = Metrics.from_counts(counts, group_names, notion, warn=False)
    if warn and metrics.undefined:
        _warn_undefined(metrics.undefined)
    return metrics


def _warn_undefined(names: Sequence[str]) -> None:
    text = f"Undefined, so NaN: {', '.join(names)}. Nobody to measure on, or a rate of 0 to divide by."
    warnings.warn(text, UndefinedRateWarning, stacklevel=3)
