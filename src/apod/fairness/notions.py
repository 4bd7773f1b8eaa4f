"""Fairness notions: what is equalised between groups, one object each.

A notion compares rates: among the people of a *cell* (everybody, or those of one true label), how often does a
group get the decision that is counted, the *event*? Its gap is the largest minus the smallest rate over the groups,
summed over cells and events. Penalty, metrics, choice of the head, outlook, campaign measurements, audit and reports
all read the same object, so what is trained is what is judged and shown.

To add one, write a class with `name`, `words`, `rates`, `cells` and `events`, and list it in `NOTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from apod.errors import UnknownName
from apod.fairness.counts import GroupCounts
from apod.fairness.words import MORE_LABELS, Words

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

RateName = Literal["tpr", "fpr", "selection_rate", "precision"]
"""The rates that are shown per group."""
Among = Literal["labels", "decisions"]
"""Whether people are compared who have the same label, or who got the same decision."""


class Notion(Protocol):
    """What is equalised. n people, k cells, e events, G groups.

    Invariants: `cells` and `events` depend on a person's label alone, or on the decision alone (`among`); a gap is 0
    where all groups have the same rates, never negative, and unchanged when groups are renamed.
    """

    @property
    def name(self) -> str:
        """As in options and files."""
        ...

    @property
    def words(self) -> Words:
        """As people read it."""
        ...

    @property
    def rates(self) -> tuple[RateName, ...]:
        """The per-group metrics (`metrics.RATES`) that it compares, where there are two labels."""
        ...

    @property
    def classes(self) -> int:
        """How many labels there are."""
        ...

    @property
    def among(self) -> Among:
        """What `cells` and `events` are given: labels, the event being a decision; or decisions, and it is a label."""
        ...

    def cells(self, labels: npt.NDArray[Any]) -> BoolArray:
        """(..., n, k) who is compared with whom: everybody inside a cell, whatever their group."""
        ...

    def events(self, labels: npt.NDArray[Any]) -> IntArray:
        """(..., n, e) the decisions that are counted, of each person."""
        ...

    def gap(self, rates: FloatArray, *, skip_undefined: bool = False) -> FloatArray:
        """How far groups are apart: rates (..., k, e, G) -> (...).

        NaN where a group's rate is undefined; with `skip_undefined` such groups are left out while two remain.
        """
        ...


@dataclass(frozen=True)
class _RateParity:
    """What all notions here share. With two labels the decision 1 is counted, with more every decision."""

    name: ClassVar[str]
    two_labels: ClassVar[Words]
    classes: int = 2
    among: ClassVar[Among] = "labels"

    @property
    def words(self) -> Words:
        """As people read it."""
        return self.two_labels if self.classes == 2 else MORE_LABELS[self.name]

    def gap(self, rates: FloatArray, *, skip_undefined: bool = False) -> FloatArray:
        """The sum of highest minus lowest rate; half of it where every decision is counted: one's loss is another's
        gain."""
        each = spread(rates, skip_undefined=skip_undefined)  # (..., k, e)
        flat = each.reshape(*each.shape[:-2], -1)
        total = sum(flat[..., place] for place in range(flat.shape[-1]))  # few: many times as fast as a reduction
        return np.asarray(total / (2 if each.shape[-1] > 1 else 1))

    def _labels(self) -> tuple[int, ...]:
        return tuple(range(self.classes))

    def _each_decision(self, labels: npt.NDArray[Any]) -> IntArray:
        counted = (1,) if self.classes == 2 else self._labels()
        return np.broadcast_to(np.array(counted, dtype=np.int64), (*labels.shape, len(counted)))


@dataclass(frozen=True)
class EqualizedOdds(_RateParity):
    """Within every label, all groups get every decision equally often."""

    name: ClassVar[str] = "equalized_odds"
    two_labels: ClassVar[Words] = Words(
        "equalized odds",
        "|dTPR| + |dFPR|",
        "Difference of the groups' TPR plus difference of their FPR, both without sign",
        "Highest minus lowest TPR of the groups, plus highest minus lowest FPR",
        "all groups meet the same errors",
    )
    rates: ClassVar[tuple[RateName, ...]] = ("tpr", "fpr")

    def cells(self, labels: npt.NDArray[Any]) -> BoolArray:
        """(..., n, k) one cell per label."""
        return np.asarray(labels[..., None] == np.arange(self.classes))

    def events(self, labels: npt.NDArray[Any]) -> IntArray:
        """(..., n, e) every decision; of two, the positive one."""
        return self._each_decision(labels)


@dataclass(frozen=True)
class TruePositiveRateParity(_RateParity):
    """The positives of all groups are recognised equally often; with more labels, the people of every label."""

    name: ClassVar[str] = "true_positive_rate_parity"
    two_labels: ClassVar[Words] = Words(
        "true positive rate parity",
        "|dTPR|",
        "Difference of the groups' TPR, without sign",
        "Highest minus lowest TPR of the groups",
        "the positives of all groups are recognised equally often",
    )
    rates: ClassVar[tuple[RateName, ...]] = ("tpr",)

    def cells(self, labels: npt.NDArray[Any]) -> BoolArray:
        """(..., n, k) the positives; with more labels, one cell per label."""
        return np.asarray(labels[..., None] == np.array((1,) if self.classes == 2 else self._labels()))

    def events(self, labels: npt.NDArray[Any]) -> IntArray:
        """(..., n, 1) the decision that is right."""
        return np.asarray(labels[..., None], dtype=np.int64)


@dataclass(frozen=True)
class FalsePositiveRateParity(_RateParity):
    """The negatives of all groups are called positive equally often; with more labels, called what they are not."""

    name: ClassVar[str] = "false_positive_rate_parity"
    two_labels: ClassVar[Words] = Words(
        "false positive rate parity",
        "|dFPR|",
        "Difference of the groups' FPR, without sign",
        "Highest minus lowest FPR of the groups",
        "the negatives of all groups are called positive equally often",
    )
    rates: ClassVar[tuple[RateName, ...]] = ("fpr",)

    def cells(self, labels: npt.NDArray[Any]) -> BoolArray:
        """(..., n, k) the negatives; with more labels, for every label the people of the others."""
        return np.asarray(labels[..., None] != np.array((1,) if self.classes == 2 else self._labels()))

    def events(self, labels: npt.NDArray[Any]) -> IntArray:
        """(..., n, e) every decision; of two, the positive one."""
        return self._each_decision(labels)

    def gap(self, rates: FloatArray, *, skip_undefined: bool = False) -> FloatArray:
        """The sum over labels of highest minus lowest rate of being called so wrongly."""
        wrongly = np.diagonal(rates, axis1=-3, axis2=-2)  # (..., G, k): a cell with the decision it stands for
        return np.asarray(spread(np.swapaxes(wrongly, -1, -2), skip_undefined=skip_undefined).sum(-1))


@dataclass(frozen=True)
class DemographicParity(_RateParity):
    """All groups get every decision equally often, whatever the true labels."""

    name: ClassVar[str] = "demographic_parity"
    two_labels: ClassVar[Words] = Words(
        "demographic parity",
        "|d selection rate|",
        "Difference of the groups' selection rates, without sign",
        "Highest minus lowest selection rate of the groups",
        "all groups are called positive equally often",
    )
    rates: ClassVar[tuple[RateName, ...]] = ("selection_rate",)

    def cells(self, labels: npt.NDArray[Any]) -> BoolArray:
        """(..., n, 1) everybody."""
        return np.ones((*labels.shape, 1), dtype=np.bool_)

    def events(self, labels: npt.NDArray[Any]) -> IntArray:
        """(..., n, e) every decision; of two, the positive one."""
        return self._each_decision(labels)


@dataclass(frozen=True)
class SelectionRateRatio(DemographicParity):
    """The lowest selection rate over the highest is 1. Measured; equalised as demographic parity."""

    name: ClassVar[str] = "selection_rate_ratio"
    two_labels: ClassVar[Words] = Words(
        "selection-rate ratio",
        "1 - lowest / highest selection rate",
        "1 minus the ratio of the groups' selection rates, the lower over the higher",
        "1 minus the ratio of the lowest to the highest selection rate",
        "all groups are called positive equally often; above 20, the ratio is below four fifths",
    )

    def gap(self, rates: FloatArray, *, skip_undefined: bool = False) -> FloatArray:
        """1 - lowest / highest; with more labels, of the decision for which that is largest."""
        low, high = extremes(rates, skip_undefined=skip_undefined)  # (..., 1, e)
        return np.asarray((1 - ratio(low, high)).max(axis=(-2, -1)))


@dataclass(frozen=True)
class PredictiveParity(_RateParity):
    """Of those called positive, equally many are in all groups; with more labels, of those called anything.

    Measured only: whom it compares depends on the decisions, and equal precisions contradict equal error rates where
    base rates differ.
    """

    name: ClassVar[str] = "predictive_parity"
    among: ClassVar[Among] = "decisions"
    two_labels: ClassVar[Words] = Words(
        "predictive parity",
        "|d precision|",
        "Difference of the groups' precision, without sign",
        "Highest minus lowest precision of the groups",
        "a positive decision is right equally often in all groups",
    )
    rates: ClassVar[tuple[RateName, ...]] = ("precision",)

    def cells(self, labels: npt.NDArray[Any]) -> BoolArray:
        """(..., n, k) of decisions: the positive ones; with more labels, one cell per decision."""
        return np.asarray(labels[..., None] == np.array((1,) if self.classes == 2 else self._labels()))

    def events(self, labels: npt.NDArray[Any]) -> IntArray:
        """(..., n, 1) of decisions: the label that makes one right."""
        return np.asarray(labels[..., None], dtype=np.int64)


EQUALIZED_ODDS: Notion = EqualizedOdds()
"""What is equalised by default, and by the paper."""

NOTIONS: Mapping[str, Notion] = MappingProxyType(
    {
        notion.name: notion
        for notion in (EQUALIZED_ODDS, TruePositiveRateParity(), FalsePositiveRateParity(), DemographicParity())
    }
)
"""Every notion that can be equalised by name, for two labels; for more, make one with `classes`."""

MEASURED: Mapping[str, Notion] = MappingProxyType(
    {**NOTIONS, **{notion.name: notion for notion in (PredictiveParity(), SelectionRateRatio())}}
)
"""Every notion whose gap is measured."""


def find_notion(name: str) -> Notion:
    """The notion of this name, also one that is measured only."""
    if name not in MEASURED:
        raise UnknownName("fairness notion", name, MEASURED)
    return MEASURED[name]


def compared(notion: Notion, labels: npt.NDArray[Any], decided: npt.NDArray[Any]) -> tuple[BoolArray, BoolArray]:
    """(n, k) who is in which cell, and (n, e) whether what is counted happened; labels and decisions (n,)."""
    given, counted = (labels, decided) if notion.among == "labels" else (decided, labels)
    return notion.cells(given), np.asarray(notion.events(given) == counted[..., None])


def event_counts(
    notion: Notion, labels: npt.NDArray[Any], decided: npt.NDArray[Any], member: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """How many people of each cell and group got the decision that is counted, and how many there are.

    labels (n,) · decided (R, n) by R classifiers · member (D, n, G) in D versions: one-hot groups, probabilities, draws
    of groups, or how many people a row stands for. Returns (D, R, k, e, G) and (D, 1, k, 1, G); the latter of every
    classifier, (D, R, k, 1, G), where its decisions say who is compared.
    """
    if notion.among == "decisions":
        each = [_event_counts(notion, own, labels[None], member) for own in decided]
        happened, people = (np.concatenate(part, axis=1) for part in zip(*each, strict=True))
        return happened, people
    return _event_counts(notion, labels, decided, member)


def _event_counts(
    notion: Notion, labels: npt.NDArray[Any], decided: npt.NDArray[Any], member: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """`event_counts` where cells and events are those of `labels`."""
    versions, groups = member.shape[0], member.shape[2]
    cells, events = notion.cells(labels), notion.events(labels)
    happened = np.empty((versions, len(decided), cells.shape[1], events.shape[1], groups))
    people = np.empty((versions, 1, cells.shape[1], 1, groups))
    for cell in range(cells.shape[1]):
        rows = np.flatnonzero(cells[:, cell])
        inside = member[:, rows].transpose(1, 0, 2).reshape(len(rows), versions * groups)  # (v, D x G)
        people[:, 0, cell, 0] = inside.sum(axis=0).reshape(versions, groups)
        for event in range(events.shape[1]):
            counted = (decided[:, rows] == events[rows, event]).astype(np.float64)  # (R, v)
            sums = (counted @ inside).reshape(len(decided), versions, groups)  # one product, not a count per version
            happened[:, :, cell, event] = sums.transpose(1, 0, 2)
    return happened, people


def member_rates(notion: Notion, labels: npt.NDArray[Any], decided: npt.NDArray[Any], member: FloatArray) -> FloatArray:
    """(D, R, k, e, G) the compared rates; NaN where a group has nobody in a cell. Arguments as in `event_counts`."""
    return ratio(*event_counts(notion, labels, decided, member))


def count_events(notion: Notion, counts: GroupCounts) -> tuple[FloatArray, FloatArray]:
    """The same as `event_counts` from counts by group, label and decision: (..., k, e, G) and (..., k, 1, G)."""
    table = counts.cells[..., :-1, :, :]  # (..., G, label, decision): each entry stands for so many people
    *batch, groups, size, _ = table.shape
    labels, decided = (side.ravel() for side in np.indices((size, size)))
    member = np.swapaxes(table.reshape(-1, groups, size * size), 1, 2).astype(np.float64)
    happened, people = event_counts(notion, labels, decided[None], member)
    return happened[:, 0].reshape(*batch, *happened.shape[2:]), people[:, 0].reshape(*batch, *people.shape[2:])


def count_rates(notion: Notion, counts: GroupCounts) -> FloatArray:
    """(..., k, e, G) the compared rates by counts; NaN where a group has nobody in a cell."""
    return ratio(*count_events(notion, counts))


def count_gap(notion: Notion, counts: GroupCounts, *, skip_undefined: bool = False) -> FloatArray:
    """(...) the gap by counts."""
    return notion.gap(count_rates(notion, counts), skip_undefined=skip_undefined)


def ratio(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> FloatArray:
    """A share; NaN, never 0, where there is nobody to measure on."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def extremes(rate: FloatArray, *, skip_undefined: bool = False) -> tuple[FloatArray, FloatArray]:
    """Lowest and highest group's rate; NaN where a group has none (skipping: where fewer than two have)."""
    defined = ~np.isnan(rate)  # (..., G)
    enough = defined.sum(-1) >= (2 if skip_undefined else max(2, rate.shape[-1]))
    low = np.where(enough, np.where(defined, rate, np.inf).min(-1), np.nan)
    return low, np.where(enough, np.where(defined, rate, -np.inf).max(-1), np.nan)


def spread(rate: FloatArray, *, skip_undefined: bool = False) -> FloatArray:
    """Highest minus lowest group's rate: (..., G) -> (...)."""
    groups = rate.shape[-1]
    if groups == 2:  # the same to the bit, many times as fast
        return np.abs(rate[..., 0] - rate[..., 1])
    if groups > 2 and not skip_undefined:  # so too: a group without a rate makes all of it NaN
        low = high = rate[..., 0]
        for group in range(1, groups):
            low, high = np.minimum(low, rate[..., group]), np.maximum(high, rate[..., group])
        return np.asarray(high - low)
    low, high = extremes(rate, skip_undefined=skip_undefined)
    return high - low
