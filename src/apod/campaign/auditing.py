"""What the audit questions of a campaign say about its classifier."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from apod.audit import Audit, audit
from apod.audit.estimate import ENOUGH
from apod.campaign.answers import Collected
from apod.campaign.engine import Auditable, Correcting, Engine, Model
from apod.campaign.materials import Materials
from apod.campaign.reserve import audit_order, planned
from apod.data.dataset import IntArray
from apod.errors import InputError
from apod.fairness.notions import EQUALIZED_ODDS

if TYPE_CHECKING:
    import pandas as pd

    from apod.classifier import APODClassifier

WIDEST = 0.5
"""Of all that a gap can be. A wider interval says nothing, and is no headline."""

NOT_AUDITABLE = "This campaign's engine makes no decisions to audit: audit the classifier's with `apod audit`."


def audit_campaign(
    materials: Materials,
    engine: Engine,
    model: Model | None,
    collected: Collected,
    classifier: APODClassifier | None = None,
    strength: float | None = None,
) -> Audit | None:
    """What the audit answers say of decisions about the people held out; None while there are none.

    Decisions are those of the latest base model ("before"); or of a fitted classifier at strength 0 ("before") and at
    its own, where that is another ("after"). Where the model is what the classifier will be, they are its own, at this
    strength. Proxies are f_a's, which has never seen an audit answer.
    """
    rows = materials.held_out()
    known = np.isin(rows, materials.known())
    answered = [answer for answer in collected.weigh("audit") if np.isin(answer.row, rows)]
    if not np.isin([answer.row for answer in answered], rows[~known]).any():
        return None
    if not isinstance(engine, Auditable):
        raise InputError(NOT_AUDITABLE)
    answers = np.zeros((len(rows), len(materials.settings.groups)))
    for answer in answered:
        answers[np.searchsorted(rows, answer.row), answer.group] += answer.weight
    if isinstance(engine, Correcting):
        decisions = engine.decisions_at(model, rows, strength if classifier is None else classifier.selected_strength_)
    elif classifier is None:
        decisions = {"before": engine.decisions(model, rows)["before"]}
    else:
        decisions = _decisions(materials, classifier, rows)
    return audit(
        materials.labels()[rows],
        decisions,
        answers,
        materials.settings.groups,
        probability=_probability(materials, engine, rows, (answers.sum(axis=1) > 0) & ~known),
        proxies=engine.proxies(model, rows),
        notion=getattr(engine, "notion", EQUALIZED_ODDS),  # an engine of one's own need not have one
        seed=materials.settings.seed,
    )


def audit_advice(budget: int, share: float, overlap: int) -> str | None:
    """What to change where an audit of this share cannot say anything of a gap; None where it can."""
    people = planned(share, budget, overlap)
    if people >= ENOUGH:
        return None
    if share == 0:
        return "Without an audit nothing measures the gap between the groups (--audit-share)."
    asked = budget // overlap
    if asked >= 2 * ENOUGH:
        proposed = f"--audit-share {math.ceil(100 * ENOUGH / asked) / 100:g}"
    else:  # as many people to train on as before
        more = asked - people + ENOUGH
        proposed = f"--budget {more * overlap} --audit-share {math.ceil(100 * ENOUGH / more) / 100:g}"
    return f"An audit of {people} people says nothing about a gap, one of about {ENOUGH} does: {proposed}."


def gaps_of(audit: Audit, materials: Materials, collected: Collected) -> dict[str, Any]:
    """An audit as the dashboard shows it: gaps, whether they say anything, groups' rates, the answers behind them."""
    found = audit.to_dict()
    views = {
        name: view["gap"] | {"says": _says(view["gap"], len(audit.notion.rates)), "groups": view["groups"]}
        for name, view in found["predictions"].items()
    }
    change = None if found["change"] is None else found["change"]["gap"]
    told = told_by_group(materials, collected)
    return {"answers": audit.drawn, **views, "change": change, "told": told, "notes": found["notes"]}


def told_by_group(materials: Materials, collected: Collected) -> dict[str, dict[str, int]]:
    """How many audit answers there are of every group and label: what its rates rest on."""
    names = materials.settings.groups
    told = {name: {"negative": 0, "positive": 0} for name in names}
    for answer in collected.weigh("audit"):
        if answer.weight > 0.5:  # where annotators disagree, the group that most of them say
            told[names[answer.group]]["positive" if materials.label(answer.row) else "negative"] += 1
    return told


def _says(gap: Mapping[str, float | None], most: float) -> bool:
    """Whether the interval of a gap, which is `most` at most, is narrow enough to say anything."""
    return gap["low"] is not None and gap["high"] is not None and gap["high"] - gap["low"] <= WIDEST * most


def _decisions(materials: Materials, classifier: APODClassifier, rows: IntArray) -> dict[str, IntArray]:
    features = materials.features()
    held_out: pd.DataFrame | npt.NDArray[np.float64] = (
        features[rows] if isinstance(features, np.ndarray) else features.iloc[rows]
    )
    heads = {"before": classifier.at(0.0)}
    if classifier.selected_strength_ > 0:
        heads["after"] = classifier
    return {name: (head.predict(held_out) == head.positive_).astype(np.int64) for name, head in heads.items()}


def _probability(
    materials: Materials, engine: Engine, rows: IntArray, answered: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Of everybody who answered: the share of their cell that did. However far the campaign is, within a cell those
    asked about so far are a random sample."""
    ordered, cells = audit_order(materials, engine)
    cell = np.zeros(len(rows), dtype=np.int64)  # of those who may be asked about
    cell[np.searchsorted(rows, ordered)] = cells
    share = np.bincount(cell[answered], minlength=int(cells.max()) + 1) / np.maximum(np.bincount(cells), 1)
    return np.where(answered, share[cell], np.nan)
