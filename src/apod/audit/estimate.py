"""How unfair is a model? From its decisions about everybody and a few people's groups, some drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from apod.audit import json_types
from apod.audit.bounds import Bounds, audited_bounds
from apod.audit.json_types import NOTHING, AuditJson, ChangeJson, Estimate, EstimateJson, ViewJson
from apod.audit.sampling import CellPlan, People, Precision, cells_of, check_people, group_proxies, sample_of
from apod.audit.shares import (
    CellAnswers,
    Cells,
    FloatArray,
    Shares,
    classical_difference,
    difference,
    estimate_shares,
)
from apod.errors import InputError
from apod.fairness.counts import effective_number
from apod.fairness.impact import impact_intervals, impact_ratios
from apod.fairness.metrics import RATES, RateName
from apod.fairness.notions import EQUALIZED_ODDS, Notion, SelectionRateRatio
from apod.randomness import generator
from apod.text import number

DRAWS = 4000
LEAST_FOR_POINT = 60
"""Answers drawn at random below which an audit gives intervals and no estimates (docs/audit.md)."""

ENOUGH = 40
"""Answers, about, until the interval of a gap is narrower than half of all a gap can be (docs/audit.md)."""

WITHIN = (0.1, 0.05, 0.02)
"""How exactly the plan offers to know the differences."""

CLASSICAL: tuple[RateName, ...] = ("tpr", "fpr")
"""Differences that the textbook estimate is shown beside."""


@dataclass(frozen=True)
class ViewAudit:
    """One set of predictions. Differences: first group minus reference (the last); beyond two groups max - min."""

    groups: Mapping[str, Mapping[str, Estimate]]  # group -> each rate, its impact ratio, `people`: how many are of it
    differences: Mapping[RateName, Estimate]
    gap: Estimate  # by the audit's notion
    bounds: Bounds  # worst and best case of that gap: nothing is assumed of proxies and of people without an answer
    by_proxies: float | None  # the gap if the guesses were the groups; None where guesses tell nobody from anybody
    classical: Mapping[RateName, Estimate]  # differences from the answers alone, for comparison; two groups only
    power: tuple[float, ...]  # how far proxies were used, for label 0 and 1
    residual: tuple[float, ...]  # share of variance they left
    answers_per_cell: tuple[int, ...]  # cells: label x decision, 00 01 10 11
    people_per_cell: tuple[int, ...]

    def to_dict(self) -> ViewJson:
        """For JSON."""
        classical = _dicts(self.classical)
        return {
            "groups": {group: json_types.group_json(_dicts(found)) for group, found in self.groups.items()},
            **json_types.differences_json(_dicts(self.differences)),
            "gap": self.gap.to_dict(),
            "bounds": self.bounds.to_dict(),
            "by_proxies": self.by_proxies,
            "classical": {"tpr_difference": classical.get("tpr"), "fpr_difference": classical.get("fpr")},
            "proxy": {"power": list(self.power), "residual": list(self.residual)},
            "cells": {"answers": list(self.answers_per_cell), "people": list(self.people_per_cell)},
        }


@dataclass(frozen=True)
class Change:
    """The second set of predictions against the first, on the same people."""

    before: str
    after: str
    differences: Mapping[RateName, Estimate]
    gap: Estimate
    groups: Mapping[str, Mapping[str, Estimate]]  # group -> each rate

    def to_dict(self) -> ChangeJson:
        """For JSON."""
        return {
            "from": self.before,
            "to": self.after,
            **json_types.differences_json(_dicts(self.differences)),
            "gap": self.gap.to_dict(),
            "groups": {group: json_types.rates_json(_dicts(found)) for group, found in self.groups.items()},
        }


Name = TypeVar("Name", bound=str)


def _dicts(estimates: Mapping[Name, Estimate]) -> dict[Name, EstimateJson]:
    return {name: estimate.to_dict() for name, estimate in estimates.items()}


def _spans(estimates: Mapping[Name, Estimate]) -> dict[Name, Estimate]:
    return {name: estimate.span() for name, estimate in estimates.items()}


@dataclass(frozen=True)
class Audit:
    """How unfair the predictions are, how sure that is, and what more answers would add."""

    group_names: tuple[str, ...]
    notion: Notion  # whose gap it is
    people: int
    drawn: int  # answers of people drawn at random
    known: int  # further people whose group is known
    silent: int  # drawn, no answer
    level: float
    views: Mapping[str, ViewAudit]
    change: Change | None
    precision: Precision = field(repr=False)
    effective: float | None = None  # equally weighted answers that would tell as much; None: nobody is weighted

    def plan(self, within: tuple[float, ...] = WITHIN) -> dict[float, int | None]:
        """Further answers that make the differences known within +- so much; None: more than there are people."""
        return {one: self.precision.needed(one) for one in within}

    def notes(self) -> tuple[str, ...]:
        """What a reader must know besides."""
        found = []
        if self.effective is not None:
            found.append(
                "Rows are weighted: rates and intervals are of the people they stand for, without worst-case bounds; "
                f"the answers tell as much as {self.effective:.0f} of equal weight."
            )
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
        if self.drawn < LEAST_FOR_POINT:
            found.append(
                f"{self.drawn} answers drawn at random are few: intervals, and no estimates below {LEAST_FOR_POINT}."
            )
        elif self.drawn < 100:
            found.append(f"{self.drawn} answers drawn at random are few: intervals are tested from 100 on.")
        return tuple(found)

    def spans(self) -> Audit:
        """The same without estimates: what few answers leave."""
        views = {
            name: replace(
                view,
                groups={group: _spans(found) for group, found in view.groups.items()},
                differences=_spans(view.differences),
                gap=view.gap.span(),
                classical={},
            )
            for name, view in self.views.items()
        }
        change = self.change and replace(
            self.change,
            differences=_spans(self.change.differences),
            gap=self.change.gap.span(),
            groups={group: _spans(found) for group, found in self.change.groups.items()},
        )
        return replace(self, views=views, change=change)

    def to_dict(self) -> AuditJson:
        """For JSON."""
        return {
            "group_names": list(self.group_names),
            "reference": self.group_names[-1],
            "notion": self.notion.name,
            "people": self.people,
            "answers": {"drawn": self.drawn, "told": self.known, "silent": self.silent},
            "level": self.level,
            "predictions": {name: view.to_dict() for name, view in self.views.items()},
            "change": self.change.to_dict() if self.change else None,
            "plan": [{"within": within, "more": more} for within, more in self.plan().items()],
            "notes": list(self.notes()),
        }


def audit(
    labels: npt.ArrayLike,
    predictions: Mapping[str, npt.ArrayLike],
    groups: npt.ArrayLike,
    group_names: Sequence[str],
    *,
    probability: npt.ArrayLike | None = None,
    proxies: npt.ArrayLike | None = None,
    features: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    notion: Notion = EQUALIZED_ODDS,
    seed: int = 0,
    level: float = 0.95,
) -> Audit:
    """Per-group rates and their differences with intervals for every set of predictions, and the change between them.

    labels (n,) 0/1 · predictions name -> (n,) 0/1 · groups (n,) codes into group_names, -1 = no answer; or (n, g)
    probabilities, a row of zeros = no answer · probability (n,) with which each row was drawn, NaN for rows not drawn
    at random; None: all answered rows were drawn at random, everybody with the same chance.

    proxies (n, g): P(group), made without the answers drawn at random; or features (n, d), from which they are
    cross-fitted. Without either the answers stand alone. weights (n,): how many people each row stands for; rates and
    intervals are then those of the people stood for. The gap and the plan are those of the notion. Fewer than
    `LEAST_FOR_POINT` answers drawn at random leave intervals without an estimate.
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}: pass a share between 0 and 1, like 0.95.")
    people = check_people(labels, predictions, groups, group_names, probability, weights)
    if not len(people.drawn):
        raise InputError("Nobody who was drawn at random has answered yet: draw some first (apod audit FILE --draw N).")
    guessed = group_proxies(people, proxies, features, seed)
    auditor = _Auditor(people, guessed, notion, seed, level)
    names = list(people.decisions)
    views = {name: auditor.view(name) for name in names}
    found = Audit(
        group_names=people.group_names,
        notion=notion,
        people=len(people.labels),
        drawn=len(people.drawn),
        known=len(people.known),
        silent=people.silent,
        level=level,
        views=views,
        change=auditor.change(views) if len(names) > 1 else None,
        precision=auditor.precision(names[0]),
        effective=None if people.weights is None else effective_number(people.weights[people.drawn]),
    )
    return found if found.drawn >= LEAST_FOR_POINT else found.spans()


def cell_shares(people: People, plan: CellPlan, proxies: FloatArray) -> tuple[CellAnswers, Shares]:
    """The answers drawn at random, and what they say of every cell's group shares."""
    sample, means = sample_of(people, plan, proxies)
    return sample, estimate_shares(sample, plan.sizes, plan.labels, means)


@dataclass(frozen=True, eq=False)
class _Auditor:
    """What all parts of one audit share."""

    people: People
    proxies: FloatArray
    notion: Notion
    seed: int
    level: float

    def view(self, name: str) -> ViewAudit:
        plan = cells_of(self.people, [name])
        cells = plan.views[0]
        sample, shares = cell_shares(self.people, plan, self.proxies)
        drawn = self._draw(shares, "view")
        rates = {rate: cells.rates(notion, drawn)[..., 0, 0, :] for rate, notion in RATES.items()}  # (draws, g)
        counted = rates | {"people": cells.people(drawn).sum(-2)}
        ratios = self._impact(rates["selection_rate"])
        two = len(self.people.group_names) == 2
        return ViewAudit(
            groups={
                group: found | {"impact_ratio": ratios[group]} for group, found in self._per_group(counted).items()
            },
            differences={rate: self._estimate(difference(values)) for rate, values in rates.items()},
            gap=self._gap(cells, drawn),
            bounds=audited_bounds(self.notion, self.people, name, self.level),
            by_proxies=self._by_proxies(plan),
            classical={rate: self._classical(sample, cells, RATES[rate]) for rate in CLASSICAL} if two else {},
            power=tuple(float(shares.power[plan.labels == label][0]) for label in (0, 1)),
            residual=tuple(float(shares.residual[plan.labels == label][0]) for label in (0, 1)),
            answers_per_cell=tuple(int(count) for count in shares.answered),
            people_per_cell=tuple(plan.rows_per_cell(self.people.known).tolist()),
        )

    def change(self, views: Mapping[str, ViewAudit]) -> Change:
        """Differences after minus before, in cells of both decisions: whoever is decided alike cancels out."""
        before, *_, after = views
        plan = cells_of(self.people, [before, after])
        _, shares = cell_shares(self.people, plan, self.proxies)
        drawn = self._draw(shares, "change")

        def changed(value: Callable[[Cells], FloatArray]) -> FloatArray:
            old, new = (value(cells) for cells in plan.views)
            return np.asarray(new - old)

        def rate_of(notion: Notion) -> Callable[[Cells], FloatArray]:
            return lambda cells: cells.rates(notion, drawn)[..., 0, 0, :]

        def difference_of(notion: Notion) -> Callable[[Cells], FloatArray]:
            return lambda cells: difference(rate_of(notion)(cells))

        gap = self._estimate(changed(lambda cells: self.notion.gap(cells.rates(self.notion, drawn))))
        return Change(
            before,
            after,
            {rate: self._estimate(changed(difference_of(notion))) for rate, notion in RATES.items()},
            _between(views[before].gap, views[after].gap, gap),
            self._per_group({rate: changed(rate_of(notion)) for rate, notion in RATES.items()}),
        )

    def precision(self, name: str) -> Precision:
        """How exact further answers would make the decisions' differences, scaled to how exact they are now."""
        plan = cells_of(self.people, [name])
        _, shares = cell_shares(self.people, plan, self.proxies)
        worth = shares.effective[:, None]
        known = (worth * shares.share + 0.5) / (worth + 0.5 * len(self.people.group_names))
        foreseen = Precision(known, plan.views, shares.residual, shares.answered, self.notion)
        drawn = self._draw(shares, "view")
        now = max(_half(self._estimate(apart)) for apart in self._compared(plan.views[0], drawn))
        ratio = float(np.clip(now / max(foreseen.half_widths(0)[0].max(), 1e-9), 0.5, 2.0))
        return replace(foreseen, unequal=ratio)

    def _draw(self, shares: Shares, part: str) -> FloatArray:
        """(draws, c, g) group shares that the answers allow."""
        return shares.draw(DRAWS, generator(self.seed, "audit", part))

    def _compared(self, cells: Cells, drawn: FloatArray) -> list[FloatArray]:
        """The differences whose sizes make up the notion's gap, (draws,) each."""
        apart = difference(cells.rates(self.notion, drawn))  # (draws, k, e)
        return list(np.moveaxis(apart.reshape(len(apart), -1), 1, 0))

    def _per_group(self, values: Mapping[str, FloatArray]) -> dict[str, dict[str, Estimate]]:
        return {
            group: {name: self._estimate(drawn[..., g]) for name, drawn in values.items()}
            for g, group in enumerate(self.people.group_names)
        }

    def _impact(self, selection: FloatArray) -> dict[str, Estimate]:
        """Every group's impact ratio from draws of the selection rates (draws, g)."""
        low, high = impact_intervals(selection, self.level)
        value = np.clip(impact_ratios(np.median(selection, axis=0)), low, high)
        ends = zip(self.people.group_names, value, low, high, strict=True)
        return {group: NOTHING if np.isnan(found).any() else Estimate(*map(float, found)) for group, *found in ends}

    def _by_proxies(self, plan: CellPlan) -> float | None:
        if np.ptp(self.proxies, axis=0).max() == 0:
            return None
        _, means = sample_of(self.people, plan, self.proxies)
        cells = plan.views[0]
        return number(float(self.notion.gap(cells.rates(self.notion, means))))

    def _estimate(self, drawn: FloatArray, level: float | None = None) -> Estimate:
        if np.isnan(drawn).all():
            return NOTHING
        level = level or self.level
        low, middle, high = np.nanquantile(drawn, [(1 - level) / 2, 0.5, (1 + level) / 2])
        return Estimate(float(middle), float(low), float(high))

    def _gap(self, cells: Cells, drawn: FloatArray) -> Estimate:
        """The notion's gap. Absolute values of draws lean upwards, so the estimate is of the differences' medians, and
        the lower end what all signed intervals leave at least."""
        if isinstance(self.notion, SelectionRateRatio):
            ratios = self._impact(cells.rates(self.notion, drawn)[:, 0, 0]).values()
            return max((one.to_one() for one in ratios), key=lambda one: one.high or 0.0)
        high = self._estimate(self.notion.gap(cells.rates(self.notion, drawn))).high
        if high is None:
            return NOTHING
        compared = self._compared(cells, drawn)
        each = 1 - (1 - self.level) / len(compared)  # all must hold at once
        ends = [self._estimate(apart, each) for apart in compared]
        least = sum(max(0.0, end.low or 0.0, -(end.high or 0.0)) for end in ends)
        return Estimate(sum(abs(end.value or 0.0) for end in ends), least, high)

    def _classical(self, sample: CellAnswers, cells: Cells, notion: Notion) -> Estimate:
        middle, low, high = classical_difference(sample, cells, notion, self.level)
        # rates of 0 and 1 have no spread: the textbook would claim certainty
        return Estimate(float(middle), float(low), float(high)) if low < high else NOTHING


def _between(before: Estimate, after: Estimate, span: Estimate) -> Estimate:
    """The change of a gap: after minus before as they are shown, within the span of the draws they share."""
    if before.value is None or after.value is None or span.low is None or span.high is None:
        return span
    value = after.value - before.value
    return Estimate(value, min(value, span.low), max(value, span.high))


def _half(estimate: Estimate) -> float:
    return ((estimate.high or 0.0) - (estimate.low or 0.0)) / 2
