"""What an audit found, ready for print and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apod.audit.design import Precision

WITHIN = (0.1, 0.05, 0.02)
"""How exactly the plan offers to know the differences."""


@dataclass(frozen=True)
class Estimate:
    """A number and its interval; None where nothing can be said."""

    value: float | None
    low: float | None
    high: float | None

    def to_dict(self) -> dict[str, float | None]:
        """For JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}

    @property
    def width(self) -> float | None:
        """Of the interval."""
        return None if self.low is None or self.high is None else self.high - self.low


@dataclass(frozen=True)
class Rates:
    """One group's rates."""

    tpr: Estimate
    fpr: Estimate
    selection_rate: Estimate
    people: Estimate  # how many of the table are of the group


@dataclass(frozen=True)
class ViewAudit:
    """One set of predictions. Differences: first group minus reference (the last); beyond two groups max - min."""

    groups: Mapping[str, Rates]
    tpr_difference: Estimate
    fpr_difference: Estimate
    gap: Estimate
    classical_tpr: Estimate | None  # from the answers alone, for comparison; two groups only
    classical_fpr: Estimate | None
    power: tuple[float, ...]  # how far proxies were used, for label 0 and 1
    residual: tuple[float, ...]  # share of variance they left
    answers_per_cell: tuple[int, ...]  # cells: label x decision, 00 01 10 11
    people_per_cell: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("tpr", "fpr", "selection_rate", "people")
        return {
            "groups": {
                group: {name: getattr(found, name).to_dict() for name in names} for group, found in self.groups.items()
            },
            "tpr_difference": self.tpr_difference.to_dict(),
            "fpr_difference": self.fpr_difference.to_dict(),
            "gap": self.gap.to_dict(),
            "classical": {
                "tpr_difference": self.classical_tpr.to_dict() if self.classical_tpr else None,
                "fpr_difference": self.classical_fpr.to_dict() if self.classical_fpr else None,
            },
            "proxy": {"power": list(self.power), "residual": list(self.residual)},
            "cells": {"answers": list(self.answers_per_cell), "people": list(self.people_per_cell)},
        }


@dataclass(frozen=True)
class Change:
    """The second set of predictions against the first, on the same people."""

    before: str
    after: str
    tpr_difference: Estimate
    fpr_difference: Estimate
    gap: Estimate
    groups: Mapping[str, tuple[Estimate, Estimate]]  # TPR and FPR of each group

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "from": self.before,
            "to": self.after,
            "tpr_difference": self.tpr_difference.to_dict(),
            "fpr_difference": self.fpr_difference.to_dict(),
            "gap": self.gap.to_dict(),
            "groups": {name: {"tpr": tpr.to_dict(), "fpr": fpr.to_dict()} for name, (tpr, fpr) in self.groups.items()},
        }


@dataclass(frozen=True)
class Audit:
    """How unfair the predictions are, how sure that is, and what more answers would add."""

    group_names: tuple[str, ...]
    people: int
    drawn: int  # answers of people drawn at random
    told: int  # further people whose group is known
    silent: int  # drawn, no answer
    level: float
    views: Mapping[str, ViewAudit]
    change: Change | None
    precision: Precision = field(repr=False)

    def plan(self, within: tuple[float, ...] = WITHIN) -> dict[float, int | None]:
        """Further answers that make both differences known within +- so much; None: more than there are people."""
        return {one: self.precision.needed(one) for one in within}

    def notes(self) -> tuple[str, ...]:
        """What a reader must know besides."""
        found = []
        if self.silent:
            found.append(
                f"{self.silent} people were drawn and gave no answer: the intervals hold if they are like those of the "
                "same label and decision who did."
            )
        thin = min((count for view in self.views.values() for count in view.answers_per_cell), default=0)
        if thin < 5:
            found.append(
                f"A cell of label and decision has {thin} answers: `apod audit FILE --draw` spreads them better."
            )
        if self.drawn < 100:
            found.append(f"{self.drawn} answers drawn at random are few: intervals are tested from 100 on.")
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "group_names": list(self.group_names),
            "reference": self.group_names[-1],
            "people": self.people,
            "answers": {"drawn": self.drawn, "told": self.told, "silent": self.silent},
            "level": self.level,
            "predictions": {name: view.to_dict() for name, view in self.views.items()},
            "change": self.change.to_dict() if self.change else None,
            "plan": [{"within": within, "more": more} for within, more in self.plan().items()],
            "notes": list(self.notes()),
        }
