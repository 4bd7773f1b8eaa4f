"""What the audit questions of a campaign say about its classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from apod.audit import Audit, audit
from apod.campaign.answers import Collected
from apod.campaign.engine import Auditable, Engine, Model
from apod.campaign.materials import Materials
from apod.campaign.reserve import audit_order
from apod.data.dataset import IntArray
from apod.errors import InputError
from apod.fairness.notions import EQUALIZED_ODDS

if TYPE_CHECKING:
    import pandas as pd

    from apod.classifier import APODClassifier

NOT_AUDITABLE = "This campaign's engine makes no decisions to audit: audit the classifier's with `apod audit`."


def audit_campaign(
    materials: Materials,
    engine: Engine,
    model: Model | None,
    collected: Collected,
    classifier: APODClassifier | None = None,
) -> Audit | None:
    """Before and after mitigation on the people held out, from the audit answers; None while there are none.

    Decisions are those of the latest model, before without a penalty, after by the head that asks; or of a fitted
    classifier at strength 0 and at its own. Proxies are f_a's, which has never seen an audit answer.
    """
    rows = materials.held_out()
    answered = [answer for answer in collected.weigh("audit") if np.isin(answer.row, rows)]
    if not answered:
        return None
    if not isinstance(engine, Auditable):
        raise InputError(NOT_AUDITABLE)
    answers = np.zeros((len(rows), len(materials.settings.groups)))
    for answer in answered:
        answers[np.searchsorted(rows, answer.row), answer.group] += answer.weight
    decisions = engine.decisions(model, rows) if classifier is None else _decisions(materials, classifier, rows)
    return audit(
        materials.labels()[rows],
        decisions,
        answers,
        materials.settings.groups,
        probability=_probability(materials, engine, rows, answers.sum(axis=1) > 0),
        proxies=engine.proxies(model, rows),
        notion=getattr(engine, "notion", EQUALIZED_ODDS),  # an engine of one's own need not have one
        seed=materials.settings.seed,
    )


def _decisions(materials: Materials, classifier: APODClassifier, rows: IntArray) -> dict[str, IntArray]:
    features = materials.features()
    held_out: pd.DataFrame | npt.NDArray[np.float64] = (
        features[rows] if isinstance(features, np.ndarray) else features.iloc[rows]
    )
    heads = {"before": classifier.at(0.0), "after": classifier}
    return {name: (head.predict(held_out) == head.positive_).astype(np.int64) for name, head in heads.items()}


def _probability(
    materials: Materials, engine: Engine, rows: IntArray, answered: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Of everybody who answered: the share of their cell that did. However far the campaign is, within a cell those
    asked about so far are a random sample."""
    ordered, cells = audit_order(materials, engine)
    cell = np.empty(len(rows), dtype=np.int64)
    cell[np.searchsorted(rows, ordered)] = cells
    share = np.bincount(cell[answered], minlength=int(cells.max()) + 1) / np.maximum(np.bincount(cells), 1)
    return np.where(answered, share[cell], np.nan)
