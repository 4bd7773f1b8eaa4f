"""What each model achieved, kept with its refit, and whether the rest of the budget is worth asking for.

An engine that can measure its models (`Measuring`) is asked to at every refit, in the process that refits; looking at
the history computes nothing. What was measured goes when an answer that it may know is erased.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from sqlalchemy import Connection, delete, func, insert, select

from apod.campaign import schema
from apod.campaign.engine import Auditable, Engine, GroupAnswer, Measuring, Model
from apod.campaign.events import canonical
from apod.campaign.json_types import AuditedGapsJson, AuditedPointJson, OutcomeJson
from apod.campaign.log import moment
from apod.campaign.materials import Materials
from apod.campaign.settings import CampaignSettings
from apod.campaign.state import State
from apod.campaign.votes import Collected
from apod.method.outlook import WITHHELD, ExpectedGap, gain, is_enough


def spent_enough(state: State, rules: CampaignSettings, outcome: OutcomeJson | None) -> bool:
    """Whether a campaign should pause: the rest is expected to gain less than its owner asked for.

    It does so once; an owner who goes on wants the rest.
    """
    if not rules.least_gain or state.not_worth_more or state.paused or state.finished or state.spent >= state.budget:
        return False
    outlook = None if outcome is None else outcome.get("outlook")
    if isinstance(outlook, dict):
        return is_enough(outlook["gain"], rules.least_gain)
    gained = gain_of(expected_by(outcome), people_left(rules, state.budget - state.spent))
    return is_enough(gained, rules.least_gain)


def people_left(rules: CampaignSettings, answers: int) -> float:
    """How many people so many answers teach about: some audit or verify, and some share a person."""
    return answers * (1 - rules.audit_share - rules.verify_share) / rules.overlap


def gain_of(outlook: Sequence[ExpectedGap], more: float) -> float | None:
    """By how much so many more people are expected to narrow the gap; None beyond what was looked at.

    Between the steps of the outlook the gap is taken to change evenly.
    """
    known = [entry for entry in outlook if entry.gap == entry.gap]
    if not known or known[0] is not outlook[0] or known[0].answers + more > known[-1].answers + 0.5:
        return None
    there = known[0].answers + more
    gap = float(np.interp(there, [entry.answers for entry in known], [entry.gap for entry in known]))
    later = min((entry for entry in known if entry.answers >= there - 0.5), key=lambda entry: entry.answers)
    return gain(known[0], ExpectedGap(round(there), gap, gap, gap, later.strength))


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Achieved:
    """What one model achieved."""

    answers: int
    at: str
    event: int
    outcome: OutcomeJson = field(repr=False)


@dataclass(frozen=True)
class Measured:
    """What a model achieved; without an outcome where the engine does not measure, or could not: `failure` says why."""

    outcome: OutcomeJson | None = field(default=None, repr=False)
    failure: str | None = None  # the type of the error, never its text


@dataclass(frozen=True)
class RefitNews:
    """What was measured last, and how refits go; whatever the dashboard shows changes with it."""

    at: int | None  # when a model was measured last
    answers: int | None  # that it knows
    failures: int
    failure: str | None


def measured(
    materials: Materials,
    engine: Engine,
    model: Model,
    collected: Collected,
    answers: Sequence[GroupAnswer],
    chosen: float | None = None,
) -> Measured:
    """What the engine says of the model, and what the audit answers do, at the strength that the owner chose."""
    if not isinstance(engine, Measuring):
        return Measured()
    try:
        found = engine.measure(model, answers)
        expected_by(found)  # an engine of one's own may have it wrong: found out here, where nothing is at stake
        operating = found.get("operating")
        own = chosen if chosen is not None or operating is None else operating["strength"]
        return Measured({**found, "audit": _audited(materials, engine, model, collected, own)})
    except Exception as error:  # noqa: BLE001 a model that cannot be measured can still ask
        log.warning("the model could not be measured (%s)", type(error).__name__)
        return Measured(failure=type(error).__name__)


def expected_by(outcome: OutcomeJson | None) -> list[ExpectedGap]:
    """The gaps to expect by what was measured; empty where there are none."""
    found = None if outcome is None else outcome.get("outlook")
    return [ExpectedGap.from_dict(entry) for entry in found] if isinstance(found, list) else []


def _audited(
    materials: Materials, engine: Engine, model: Model, collected: Collected, strength: float | None
) -> AuditedPointJson | None:
    """What the audit answers say of the base model on the people held out, and of its correction at this strength."""
    from apod.campaign.audit_sample import audit_campaign, gaps_of, told_by_group

    if not isinstance(engine, Auditable):
        return None
    found: list[AuditedGapsJson | None] = []
    for place in range(len(materials.settings.asked)):
        own = audit_campaign(materials, engine, model, collected, strength=strength, attribute=place)
        found.append(None if own is None else gaps_of(own, materials, collected, place))
    if all(one is None for one in found):
        return None
    first = found[0]
    if first is None:  # nobody audited could tell it, but others: it has no gap of its own then
        told = told_by_group(materials, collected)
        first = {"answers": 0, "change": None, "told": told, "notes": []}
    each = dict(zip(materials.settings.columns, found, strict=False))  # of one attribute alone there are no columns
    if each:
        return {**first, "strength": strength, "attributes": each}
    return cast(AuditedPointJson, {**first, "strength": strength})


def write_outcome(
    connection: Connection, campaign: int, model: str, seq: int, at: int, answers: int, outcome: OutcomeJson
) -> None:
    """Keep what a model achieved."""
    row = {"campaign": campaign, "model": model, "seq": seq, "at": at, "answers": answers}
    connection.execute(insert(schema.outcomes), {**row, "outcome": canonical(outcome)})


def is_measured(connection: Connection, campaign: int, model: str) -> bool:
    """Whether what a model achieved is kept."""
    table = schema.outcomes
    query = select(table.c.seq).where(table.c.campaign == campaign, table.c.model == model)
    return connection.execute(query).first() is not None


def read_history(connection: Connection, campaign: int, most: int) -> list[Achieved]:
    """The outcomes in order, at most so many: the first, the last, and evenly between them."""
    table = schema.outcomes
    mine = table.c.campaign == campaign
    count = int(connection.execute(select(func.count()).select_from(table).where(mine)).scalar_one())
    seqs = list(connection.execute(select(table.c.seq).where(mine).order_by(table.c.seq)).scalars())
    chosen = [seqs[place] for place in thinned(count, most)]
    rows = connection.execute(select(table).where(mine, table.c.seq.in_(chosen)).order_by(table.c.seq))
    return [Achieved(row.answers, moment(row.at), row.seq, _shown(json.loads(row.outcome))) for row in rows]


def _shown(outcome: OutcomeJson) -> OutcomeJson:
    """An outcome as people see it: a gap to expect only where the posterior says that its intervals cover."""
    if outcome.pop("outlook_covers", False):
        return {**outcome, "outlook_withheld": None}
    return {**outcome, "outlook": None, "outlook_withheld": WITHHELD}


def read_refit_news(connection: Connection, campaign: int) -> RefitNews:
    """What was measured last, and how refits go."""
    table, refits = schema.outcomes, schema.refits
    query = select(table.c.at, table.c.answers).where(table.c.campaign == campaign)
    found = connection.execute(query.order_by(table.c.seq.desc()).limit(1)).first()
    noted = connection.execute(select(refits.c.failures, refits.c.failure).where(refits.c.campaign == campaign)).one()
    at, answers = (None, None) if found is None else (found.at, found.answers)
    return RefitNews(at, answers, noted.failures, noted.failure)


def thinned(count: int, most: int) -> list[int]:
    """At most so many places of a list, the last always among them, spread evenly."""
    if count <= most:
        return list(range(count))
    if most == 1:
        return [count - 1]
    return sorted({round(step * (count - 1) / (most - 1)) for step in range(most)})


def forget_outcomes(
    connection: Connection, campaign: int, models: Sequence[str] = (), since: int | None = None
) -> None:
    """Erase what these models achieved, or all that may know what an event brought."""
    table = schema.outcomes
    for model in models:
        connection.execute(delete(table).where(table.c.campaign == campaign, table.c.model == model))
    if since is not None:
        connection.execute(delete(table).where(table.c.campaign == campaign, table.c.seq >= since))
