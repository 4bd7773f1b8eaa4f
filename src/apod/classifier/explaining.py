"""Why a person's decision changes: the model's margin, the parts of the correction, and the columns that carry it.

The correction lowers a person's margin by strength x push, a sum over cells (for equalized odds: the labels) of bias
scores. f_a is linear in what it reads, so to first order a column's share of the push is the slope of the push in f_a's
log-odds times what the column adds to them, compared with the average person.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.classifier.correction import FittedModel
from apod.heads.correction import Correction, change_strengths
from apod.method.corrected import GuessedGroups
from apod.method.posterior import memberships
from apod.models.scored import Scored

Floats = npt.NDArray[np.float64]

MOST_COLUMNS = 3


def explain(state: FittedModel, X: Any, strength: float) -> pd.DataFrame:
    """One row per person, indexed as X is; columns as `APODClassifier.explain` documents them."""
    people = state.people(X)
    base, after = state.model.decisions(people, [0.0, strength])
    margin = 2 * (people.eta - state.model.scored.cut)
    found = {
        "score": people.scores,
        "margin": margin,
        "decision": state.labels(base),
        "corrected": state.labels(after),
        "changed": base != after,
    }
    index = X.index if isinstance(X, pd.DataFrame | pd.Series) else None
    correction, groups = state.model.correction, state.model.groups
    if correction is None or groups is None:
        return pd.DataFrame(found | {"push": np.zeros(len(people))}, index=index)
    members = groups.members(people.inputs)
    parts = strength * np.einsum("nkg,kg->nk", correction.scores.of(people.eta, members), correction.direction)
    found |= {"push": parts.sum(axis=1)}
    found |= {f"push_{name}": parts[:, cell] for cell, name in enumerate(_cell_names(state, correction))}
    found |= _carriers(state, correction, groups, people, members, strength)
    found["stands"] = _stands(state, correction, people, base != after, strength)
    return pd.DataFrame(found, index=index)


def _cell_names(state: FittedModel, correction: Correction) -> list[str]:
    """What the correction's cells are called: by the label they hold."""
    labels = state.labels(np.array([0, 1]))
    return ["everybody" if inside.all() else str(labels[int(inside.argmax())]) for inside in correction.scores.cells.T]


def column_pushes(
    state: FittedModel, correction: Correction, groups: GuessedGroups, people: Scored, members: Floats
) -> tuple[list[str], Floats]:
    """Columns of X, and (n, columns) how far each moves people by one unit of strength, to first order."""
    per_group = np.einsum(
        "nkg,kg->ng", correction.scores.of(people.eta, np.ones_like(members)), correction.direction
    )  # (n, G) the slope of the push in P(group)
    mean = (per_group * members).sum(axis=1, keepdims=True)
    slope = (members * (per_group - mean))[:, :-1]  # (n, G - 1) in f_a's log-odds
    weights = groups.reader.components @ groups.weights[:, :-1].T  # (d, G - 1)
    encoder = state.model.scored.encoder
    names = [state.reads.raw(encoder.columns_[block].name) for block in encoder.blocks_]
    raw = list(dict.fromkeys(names))
    found = np.zeros((len(people), len(raw)))
    away = people.inputs - groups.reader.centre  # (n, d)
    for place, name in enumerate(names):
        found[:, raw.index(name)] += away[:, place] * (slope @ weights[place])
    return raw, found


def _carriers(
    state: FittedModel,
    correction: Correction,
    groups: GuessedGroups,
    people: Scored,
    members: Floats,
    strength: float,
) -> dict[str, npt.NDArray[Any]]:
    names, pushes = column_pushes(state, correction, groups, people, members)
    order = np.argsort(-np.abs(pushes), axis=1, kind="stable")[:, :MOST_COLUMNS]
    labels = np.array(names, dtype=object)[order]
    amounts = strength * np.take_along_axis(pushes, order, axis=1)
    found: dict[str, npt.NDArray[Any]] = {}
    for place in range(order.shape[1]):
        found |= {f"column_{place + 1}": labels[:, place], f"column_{place + 1}_push": amounts[:, place]}
    return found


def _stands(
    state: FittedModel, correction: Correction, people: Scored, changed: npt.NDArray[np.bool_], strength: float
) -> Floats:
    """(n,) of those whose decision changes, the share of f_a's draws under which it does; NaN for all others."""
    found = np.full(len(people), np.nan)
    fitted = None if state.mitigation is None else state.mitigation.fitted
    rows = np.flatnonzero(changed)
    if fitted is None or len(rows) == 0:
        return found
    own, reader = people.take(rows), fitted.population.reader
    margin = 2 * (own.eta - correction.cut)
    draws = fitted.posterior.weights[:, :, : reader.ordinary_count + 1]
    stays = np.zeros(len(rows))
    for weights in draws:
        push = correction.push(own.eta, memberships(reader, weights, own.inputs))
        stays += change_strengths(margin, push) <= strength
    found[rows] = stays / len(draws)
    return found
