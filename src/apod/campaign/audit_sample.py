"""The audit's share of a campaign: people held out at random, and what their answers say about the classifier.

Some rows are set aside when a campaign is created. They measure the classifier, so nothing learns from them: not the
engine, not the classifier. A share of the questions goes to them, in an order drawn once and for all: cells of label
and unmitigated decision take turns, within a cell the order is random. However far a campaign gets, those asked about
so far are a random sample of every cell.

The probability stored with an audit question is that of its person to be among all audit questions the budget allows.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from apod.audit import Audit, audit
from apod.audit.estimate import ENOUGH
from apod.audit.json_types import EstimateJson, ToldJson
from apod.campaign.engine import Auditable, Correcting, Engine, Model, Several
from apod.campaign.json_types import AuditedGapsJson, AuditedViewJson, AuditedViews
from apod.campaign.materials import Materials
from apod.campaign.settings import CampaignSettings
from apod.campaign.state import Proposal, State
from apod.campaign.votes import HANDED_IN, Collected
from apod.data.dataset import IntArray
from apod.errors import BudgetError, InputError
from apod.fairness.notions import EQUALIZED_ODDS
from apod.randomness import generator

if TYPE_CHECKING:
    import pandas as pd

    from apod.classifier import APODClassifier


HELD_OUT = 0.2
"""Share of the rows that is set aside where a campaign has an audit."""

CELLS = 4
"""Of label and unmitigated decision."""

RULE = "audit, random person of a label and decision"


def held_out_rows(
    labels: npt.ArrayLike,
    settings: CampaignSettings,
    gold: AbstractSet[int] = frozenset(),
    known: AbstractSet[int] = frozenset(),
) -> IntArray:
    """Rows set aside for the audit: a fifth of each label, drawn at random, gold rows apart; sorted.

    People whose group is known are among them like anybody else: they speak for themselves in the audit.
    """
    if settings.audit_share == 0:
        return np.empty(0, dtype=np.int64)
    codes = np.asarray(labels)
    rng = generator(settings.seed, "held out", len(codes))
    free = np.setdiff1d(np.arange(len(codes)), sorted(gold))
    parts = []
    for label in (0, 1):
        mine = free[codes[free] == label]
        parts.append(rng.permutation(mine)[: round(HELD_OUT * len(mine))])
    rows = np.sort(np.concatenate(parts)).astype(np.int64)
    wanted = planned(settings.audit_share, settings.budget, settings.overlap)
    reserved = sum(row in known for row in rows.tolist())
    left = len(codes) - len(rows) - (len(known) - reserved)
    if wanted > len(rows) - reserved or settings.budget > settings.overlap * left:
        raise BudgetError(
            f"{settings.budget} answers with an audit share of {settings.audit_share:g} do not fit "
            f"{len(codes) - len(known)} rows to ask about, "
            "a fifth of which is held out: ask for fewer answers or a smaller share."
        )
    return rows


def held_out_later(labels: npt.ArrayLike, settings: CampaignSettings, batch: int) -> IntArray:
    """The same of rows that arrive later, numbered from 0: a fifth of each label, on average where they are few."""
    codes = np.asarray(labels)
    rng = generator(settings.seed, "held out", len(codes), batch)
    parts = [np.empty(0, dtype=np.int64)]
    for label in (0, 1):
        mine = np.flatnonzero(codes == label)
        count = int(HELD_OUT * len(mine) + rng.random())
        parts.append(rng.permutation(mine)[:count])
    return np.sort(np.concatenate(parts[:1] if settings.audit_share == 0 else parts)).astype(np.int64)


def planned(share: float, budget: int, overlap: int) -> int:
    """How many people the audit asks about with this budget."""
    return int(share * (budget // overlap) + 1e-9)


@dataclass(frozen=True)
class Progress:
    """How far the questions of both purposes are."""

    training: int
    audit: int
    planned: int  # audit questions the budget allows


def progress(state: State) -> Progress:
    """Questions asked so far, by purpose."""
    audit = sum(state.questions[number].purpose == "audit" for number in state.rows.values())
    share = float(state.settings.get("audit_share", 0.0))
    return Progress(len(state.rows) - audit, audit, planned(share, state.budget, state.overlap))


@dataclass(frozen=True, eq=False)
class AuditOrder:
    """Held-out rows in the order the audit asks about them, with the cell of each and the batch it arrived in."""

    rows: IntArray
    cells: IntArray  # label and unmitigated decision, below `CELLS`
    batches: IntArray

    @property
    def strata(self) -> IntArray:
        """(n,) of each: those who arrived together, of a cell. However far the audit is, a random sample of each."""
        return self.batches * CELLS + self.cells


def audit_order(materials: Materials, engine: Engine) -> AuditOrder:
    """The order of the audit, drawn once, then kept; whoever arrives later takes random places in it.

    Within a cell everybody has a place between 0 and 1, those asked about so far the first ones: people who arrive
    are asked about before others where their place comes before theirs, until the audit has caught up.
    """
    drawn = [materials.remember("audit order", lambda: _drawn(materials, engine, 0))]
    drawn += materials.remember_later("audit order", lambda batch: _drawn(materials, engine, batch))
    rows, cells = (np.concatenate([one[name] for one in drawn]).astype(np.int64) for name in ("rows", "cells"))
    batches = np.repeat(np.arange(len(drawn)), [len(one["rows"]) for one in drawn])
    places = np.empty(len(rows))
    for stratum in np.unique(batches * CELLS + cells).tolist():
        mine = np.flatnonzero(batches * CELLS + cells == stratum)
        places[mine] = np.sort(generator(materials.settings.seed, "audit places", stratum).random(len(mine)))
    sequence = _taking_turns(cells, np.argsort(places, kind="stable"))
    return AuditOrder(rows[sequence], cells[sequence], batches[sequence])


def _drawn(materials: Materials, engine: Engine, batch: int) -> dict[str, npt.NDArray[np.int64]]:
    """Rows held out of a batch in random order, cells taking turns."""
    start, stop = materials.starts[batch : batch + 2]
    rows = np.setdiff1d(materials.held_out(), materials.known())
    rows = rows[(rows >= start) & (rows < stop)]
    cells = materials.labels()[rows] * 2
    if isinstance(engine, Auditable) and len(rows):  # decisions tell cells apart in which rates are measured
        cells = cells + engine.decisions(None, rows)["before"]
    key = (len(rows),) if batch == 0 else (len(rows), batch)
    order = generator(materials.settings.seed, "audit order", *key).permutation(len(rows))
    sequence = _taking_turns(cells, order)
    return {"rows": rows[sequence], "cells": cells[sequence].astype(np.int64)}


def _taking_turns(cells: IntArray, order: IntArray) -> IntArray:
    """Places of `cells`: within a cell in this order; one of every cell, then the next of every cell."""
    turn = np.empty(len(cells), dtype=np.int64)
    for cell in np.unique(cells):
        mine = order[cells[order] == cell]
        turn[mine] = np.arange(len(mine))
    return np.lexsort((cells, turn))


def audit_proposals(
    materials: Materials, engine: Engine, so_far: Progress, unavailable: AbstractSet[int], k: int
) -> list[Proposal]:
    """The next k people of the audit, each with the probability to be among all it asks about."""
    if not len(materials.held_out()) or k < 1:
        return []
    order = audit_order(materials, engine)
    asked = np.isin(order.rows, list(unavailable))
    left = np.cumsum(~asked) <= max(0, so_far.planned - so_far.audit)  # of those not asked about, the first ones
    size = np.bincount(order.strata)
    chance = np.bincount(order.strata[asked | left], minlength=len(size)) / np.maximum(size, 1)
    names = materials.settings.label_names
    return [
        Proposal(
            int(order.rows[at]),
            {"rule": RULE, "label": names[order.cells[at] // 2]},
            "audit",
            float(chance[order.strata[at]]) or None,
        )
        for at in np.flatnonzero(~asked)[:k].tolist()
    ]


def mix(
    training: Sequence[Proposal], audit: Sequence[Proposal], so_far: Progress, share: float, k: int
) -> list[Proposal]:
    """Both kinds in one queue of at most k: an audit question whenever their share falls behind."""
    left, reserved = deque(training), deque(audit)
    asked, measured = so_far.training, so_far.audit
    found: list[Proposal] = []
    while len(found) < k and (left or reserved):
        due = measured + 1 <= share * (asked + measured + 1) + 1e-9
        if reserved and (due or not left):
            found.append(reserved.popleft())
            measured += 1
        elif left:
            found.append(left.popleft())
            asked += 1
    return found


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
    attribute: int = 0,
) -> Audit | None:
    """What the audit answers say of decisions about the people held out; None while there are none.

    Decisions are those of the latest base model ("before"); or of a fitted classifier at strength 0 ("before") and at
    its own, where that is another ("after"). Where the model is what the classifier will be, they are its own, at this
    strength. Proxies are f_a's, which has never seen an audit answer. With several attributes it is about one of them.
    """
    rows, own, groups = materials.held_out(), collected.each[attribute], materials.settings.asked[attribute].groups
    handed_in = [item.row for item in own.known if item.annotator == HANDED_IN]  # those speak for themselves
    known = np.isin(rows, np.union1d(materials.known(), np.array(handed_in, dtype=np.int64)))
    answered = [answer for answer in own.weigh("audit") if np.isin(answer.row, rows)]
    if not np.isin([answer.row for answer in answered], rows[~known]).any():
        return None
    if not isinstance(engine, Auditable):
        raise InputError(NOT_AUDITABLE)
    answers = np.zeros((len(rows), len(groups)))
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
        groups,
        probability=_probability(materials, engine, rows, (answers.sum(axis=1) > 0) & ~known),
        proxies=engine.proxies_of(attribute, model, rows)
        if isinstance(engine, Several)
        else engine.proxies(model, rows),
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


def gaps_of(audit: Audit, materials: Materials, collected: Collected, attribute: int = 0) -> AuditedGapsJson:
    """An audit as the dashboard shows it: gaps, whether they say anything, groups' rates, the answers behind them."""
    found = audit.to_dict()
    views: AuditedViews = {}
    for name, view in found["predictions"].items():
        says = _says(view["gap"], len(audit.notion.rates))
        shown: AuditedViewJson = {**view["gap"], "says": says, "groups": view["groups"]}
        if name == "before":
            views["before"] = shown
        else:
            views["after"] = shown
    change = None if found["change"] is None else found["change"]["gap"]
    told = told_by_group(materials, collected, attribute)
    return {"answers": audit.drawn, **views, "change": change, "told": told, "notes": found["notes"]}


def told_by_group(materials: Materials, collected: Collected, attribute: int = 0) -> dict[str, ToldJson]:
    """How many audit answers there are of every group and label: what its rates rest on."""
    names = materials.settings.asked[attribute].groups
    told: dict[str, ToldJson] = {name: {"negative": 0, "positive": 0} for name in names}
    for answer in collected.each[attribute].weigh("audit"):
        if answer.weight > 0.5:  # where annotators disagree, the group that most of them say
            told[names[answer.group]]["positive" if materials.label(answer.row) else "negative"] += 1
    return told


def _says(gap: EstimateJson, most: float) -> bool:
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
    """Of everybody who answered: the share that did of those of their cell who arrived together.

    However far the campaign is, those asked about so far are a random sample of them. Of a cell where nobody who
    arrived together with others answered yet, the share of the cell: until then the others speak for them.
    """
    order = audit_order(materials, engine)
    where = np.searchsorted(rows, order.rows)
    stratum, cell = (np.zeros(len(rows), dtype=np.int64) for _ in range(2))  # of those who may be asked about
    stratum[where], cell[where] = order.strata, order.cells
    size, told = np.bincount(order.strata), np.bincount(stratum[answered], minlength=int(order.strata.max()) + 1)
    silent = np.unique(np.flatnonzero((size > 0) & (told == 0)) % CELLS)
    together = told / np.maximum(size, 1)
    alike = np.bincount(cell[answered], minlength=CELLS) / np.maximum(np.bincount(order.cells, minlength=CELLS), 1)
    return np.where(answered, np.where(np.isin(cell, silent), alike[cell], together[stratum]), np.nan)
