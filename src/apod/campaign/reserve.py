"""The audit's share of a campaign: people held out at random, asked about in between, never trained on.

Some rows are set aside when a campaign is created. They measure the classifier, so nothing learns from them: not the
engine, not the classifier. A share of the questions goes to them, in an order drawn once and for all: cells of label
and unmitigated decision take turns, within a cell the order is random. However far a campaign gets, those asked about
so far are a random sample of every cell.

The probability stored with an audit question is that of its person to be among all audit questions the budget allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from apod.campaign.engine import Auditable, Engine
from apod.campaign.materials import Materials
from apod.campaign.settings import CampaignSettings
from apod.campaign.state import Proposal, State
from apod.data.dataset import IntArray
from apod.errors import BudgetError
from apod.randomness import generator

HELD_OUT = 0.2
"""Share of the rows that is set aside where a campaign has an audit."""

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


def audit_order(materials: Materials, engine: Engine) -> tuple[IntArray, IntArray]:
    """Held-out rows to ask about, in the order the audit does, and the cell of each; drawn once, then kept."""

    def draw() -> dict[str, npt.NDArray[np.int64]]:
        rows = np.setdiff1d(materials.held_out(), materials.known())
        cells = materials.labels()[rows] * 2
        if isinstance(engine, Auditable):  # decisions tell cells apart in which rates are measured
            cells = cells + engine.decisions(None, rows)["before"]
        order = generator(materials.settings.seed, "audit order", len(rows)).permutation(len(rows))
        turn = np.empty(len(rows), dtype=np.int64)
        for cell in np.unique(cells):
            mine = order[cells[order] == cell]
            turn[mine] = np.arange(len(mine))
        sequence = np.lexsort((cells, turn))  # one of every cell, then the next of every cell
        return {"rows": rows[sequence], "cells": cells[sequence].astype(np.int64)}

    found = materials.remember("audit order", draw)
    return found["rows"].astype(np.int64), found["cells"].astype(np.int64)


def audit_proposals(
    materials: Materials, engine: Engine, so_far: Progress, unavailable: AbstractSet[int], k: int
) -> list[Proposal]:
    """The next k people of the audit, each with the probability to be among all it asks about."""
    if not len(materials.held_out()) or k < 1:
        return []
    rows, cells = audit_order(materials, engine)
    size = np.bincount(cells)
    taken = np.bincount(cells[: max(so_far.planned, so_far.audit)], minlength=len(size))
    chance = taken / np.maximum(size, 1)
    names = materials.settings.label_names
    free = ((row, cell) for row, cell in zip(rows.tolist(), cells.tolist(), strict=True) if row not in unavailable)
    return [
        Proposal(row, {"rule": RULE, "label": names[cell // 2]}, "audit", float(chance[cell]) or None)
        for row, cell in islice(free, k)
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
