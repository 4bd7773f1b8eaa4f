"""How unfair is a model? From its decisions about everybody and a few people's groups, some drawn at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from apod.audit.crossfit import components, cross_fitted
from apod.audit.design import Precision
from apod.audit.people import CellPlan, People, cells_of, check_people, sample_of
from apod.audit.rates import GroupRates, classical_difference, difference, rates
from apod.audit.result import Audit, Change, Estimate, Rates, ViewAudit
from apod.audit.shares import CellAnswers, FloatArray, Shares, estimate_shares
from apod.errors import InputError
from apod.randomness import generator

DRAWS = 4000
LEAST_FOR_PROXY = 10
"""Answers below which no proxy is fitted: it would only add noise."""


def audit(
    labels: npt.ArrayLike,
    predictions: Mapping[str, npt.ArrayLike],
    groups: npt.ArrayLike,
    group_names: Sequence[str],
    *,
    probability: npt.ArrayLike | None = None,
    proxies: npt.ArrayLike | None = None,
    features: npt.ArrayLike | None = None,
    seed: int = 0,
    level: float = 0.95,
) -> Audit:
    """Per-group rates and their differences with intervals for every set of predictions, and the change between them.

    labels (n,) 0/1 · predictions name -> (n,) 0/1 · groups (n,) codes into group_names, -1 = no answer; or (n, g)
    probabilities, a row of zeros = no answer · probability (n,) with which each row was drawn, NaN for rows not drawn
    at random; None: all answered rows were drawn at random, everybody with the same chance.

    proxies (n, g): P(group), made without the answers drawn at random; or features (n, d), from which they are
    cross-fitted. Without either the answers stand alone.
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}: pass a share between 0 and 1, like 0.95.")
    people = check_people(labels, predictions, groups, group_names, probability)
    if not len(people.drawn):
        raise InputError("Nobody who was drawn at random has answered yet: draw some first (apod audit FILE --draw N).")
    guessed = group_proxies(people, proxies, features, seed)
    names = list(people.decisions)
    views = {name: _view(people, name, guessed, seed, level) for name in names}
    return Audit(
        group_names=people.group_names,
        people=len(people.labels),
        drawn=len(people.drawn),
        told=len(people.told),
        silent=people.silent,
        level=level,
        views=views,
        change=_change(people, views, guessed, seed, level) if len(names) > 1 else None,
        precision=_precision(people, names, guessed, seed, level),
    )


def group_proxies(
    people: People, proxies: npt.ArrayLike | None = None, features: npt.ArrayLike | None = None, seed: int = 0
) -> FloatArray:
    """(n, g): given, cross-fitted, or the mix of groups among the answers, which tells nobody from anybody."""
    shape = people.answers.shape
    if proxies is not None:
        given = np.asarray(proxies, dtype=np.float64)
        if given.shape != shape or not ((given >= 0) & (given <= 1)).all():
            raise InputError(f"Proxies are probabilities, one per person and group: {shape[0]} x {shape[1]} numbers.")
        return given
    rows = np.flatnonzero(people.answered)
    if features is not None and len(rows) >= LEAST_FOR_PROXY:
        inputs = components(np.asarray(features, dtype=np.float64))
        return cross_fitted(inputs, rows, people.answers[rows], generator(seed, "audit", "folds"))
    mix = people.answers[rows].mean(axis=0) if len(rows) else np.full(shape[1], 1 / shape[1])
    return np.broadcast_to(mix, shape)


def _shares(people: People, plan: CellPlan, proxies: FloatArray) -> tuple[CellAnswers, Shares]:
    sample, means = sample_of(people, plan, proxies)
    return sample, estimate_shares(sample, plan.sizes, plan.labels, means)


def _view(people: People, name: str, proxies: FloatArray, seed: int, level: float) -> ViewAudit:
    plan = cells_of(people, [name])
    cells = plan.views[0]
    sample, shares = _shares(people, plan, proxies)
    drawn = rates(shares.draw(DRAWS, generator(seed, "audit", "view")), cells)
    two = len(people.group_names) == 2
    return ViewAudit(
        groups={
            group: Rates(
                *(_estimate(rate[..., g], level) for rate in (drawn.tpr, drawn.fpr, drawn.selection_rate, drawn.people))
            )
            for g, group in enumerate(people.group_names)
        },
        tpr_difference=_estimate(difference(drawn.tpr), level),
        fpr_difference=_estimate(difference(drawn.fpr), level),
        gap=_gap(drawn, level),
        classical_tpr=_classical(*classical_difference(sample, cells, 1, level)) if two else None,
        classical_fpr=_classical(*classical_difference(sample, cells, 0, level)) if two else None,
        power=tuple(float(shares.power[plan.labels == label][0]) for label in (0, 1)),
        residual=tuple(float(shares.residual[plan.labels == label][0]) for label in (0, 1)),
        answers_per_cell=tuple(int(count) for count in shares.answered),
        people_per_cell=tuple(int(size) for size in cells.sizes),
    )


def _change(people: People, views: Mapping[str, ViewAudit], proxies: FloatArray, seed: int, level: float) -> Change:
    """Differences after minus before, in cells of both decisions: whoever is decided alike cancels out."""
    before, *_, after = views
    plan = cells_of(people, [before, after])
    _, shares = _shares(people, plan, proxies)
    drawn = shares.draw(DRAWS, generator(seed, "audit", "change"))
    old, new = (rates(drawn, cells) for cells in plan.views)
    return Change(
        before,
        after,
        _estimate(difference(new.tpr) - difference(old.tpr), level),
        _estimate(difference(new.fpr) - difference(old.fpr), level),
        _between(views[before].gap, views[after].gap, _estimate(_gaps(new) - _gaps(old), level)),
        {
            group: (
                _estimate(new.tpr[..., g] - old.tpr[..., g], level),
                _estimate(new.fpr[..., g] - old.fpr[..., g], level),
            )
            for g, group in enumerate(people.group_names)
        },
    )


def _precision(people: People, names: Sequence[str], proxies: FloatArray, seed: int, level: float) -> Precision:
    """How exact further answers would make the first decisions' differences, scaled to how exact they are now."""
    plan = cells_of(people, names[:1])
    _, shares = _shares(people, plan, proxies)
    worth = shares.effective[:, None]
    settled = (worth * shares.share + 0.5) / (worth + 0.5 * len(people.group_names))
    foreseen = Precision(settled, plan.views, shares.residual, shares.answered)
    drawn = rates(shares.draw(DRAWS, generator(seed, "audit", "view")), plan.views[0])
    now = np.array([_half(_estimate(difference(rate), level)) for rate in (drawn.tpr, drawn.fpr)])
    expected = foreseen.half_widths(0)[0]
    ratio = float(np.clip(now.max() / max(expected.max(), 1e-9), 0.5, 2.0))
    return Precision(settled, plan.views, shares.residual, shares.answered, ratio)


def _gaps(drawn: GroupRates) -> FloatArray:
    return np.asarray(np.abs(difference(drawn.tpr)) + np.abs(difference(drawn.fpr)))


def _estimate(drawn: FloatArray, level: float) -> Estimate:
    if np.isnan(drawn).all():
        return Estimate(None, None, None)
    low, middle, high = np.nanquantile(drawn, [(1 - level) / 2, 0.5, (1 + level) / 2])
    return Estimate(float(middle), float(low), float(high))


def _gap(drawn: GroupRates, level: float) -> Estimate:
    """|dTPR| + |dFPR|. Absolute values of draws lean upwards, so the estimate is of the two medians, and the lower end
    what both signed intervals leave at least."""
    high = _estimate(_gaps(drawn), level).high
    if high is None:
        return Estimate(None, None, None)
    each = 1 - (1 - level) / 2  # both must hold at once
    ends = [_estimate(difference(rate), each) for rate in (drawn.tpr, drawn.fpr)]
    least = sum(max(0.0, end.low or 0.0, -(end.high or 0.0)) for end in ends)
    return Estimate(sum(abs(end.value or 0.0) for end in ends), least, high)


def _between(before: Estimate, after: Estimate, span: Estimate) -> Estimate:
    """The change of a gap: after minus before as they are shown, within the span of the draws they share."""
    if before.value is None or after.value is None or span.low is None or span.high is None:
        return span
    value = after.value - before.value
    return Estimate(value, min(value, span.low), max(value, span.high))


def _half(estimate: Estimate) -> float:
    return ((estimate.high or 0.0) - (estimate.low or 0.0)) / 2


def _classical(middle: FloatArray, low: FloatArray, high: FloatArray) -> Estimate:
    if np.isnan(middle):
        return Estimate(None, None, None)
    return Estimate(float(middle), float(low), float(high))
