"""A campaign tries its correction on fresh answers before it is applied (`method.verification`).

Once all other answers are there, the correction that they chose is frozen: an event of the log seals it, together with
the people drawn at random from those whose decision it changes. They are asked about like anybody else. Which questions
these are is sealed with it and with each question's reason: whoever knew it would know a decision that changes. So it
is never shown to annotators, and it goes with any answer that is erased.

The verdict is known when all of them are answered, the budget is spent or the campaign is closed; until then, and
where no correction was worth freezing or too few people are changed by it, the correction is not verified. A larger
budget brings more answers to train on, then a new candidate with people of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypedDict

from sqlalchemy import Connection, select

from apod.campaign import schema
from apod.campaign.audit_sample import planned
from apod.campaign.engine import Candidate, DrawnPerson, Engine, Trial, Verifying
from apod.campaign.events import Sealed
from apod.campaign.journal import Desk, Journal, read_answers
from apod.campaign.state import GOLD, VERIFICATION, Proposal, State
from apod.campaign.votes import Collected, collect


class SealedReason(TypedDict, total=False):
    """What is sealed with a question: why it was asked, and what the open log does not say of it."""

    rule: str | None
    purpose: str
    probability: float | None


@dataclass(frozen=True)
class VerificationProgress:
    """What a campaign that verifies does next."""

    trial: Trial | None  # None: no candidate is in force
    training: int  # so many more people may be asked about to train on
    due: int  # a candidate is to be frozen now, with so many people
    planned: int  # people to verify by that the budget allows, all candidates together
    proposals: tuple[Proposal, ...] = ()  # people of the candidate still to be asked about

    @property
    def version(self) -> list[int] | None:
        """What a model must have been fitted with to be up to date."""
        return None if self.trial is None else self.trial.version


def share_of(state: State) -> float:
    """The share of the questions that verify; 0: none do."""
    return float(state.settings.get("verify_share", 0.0))


def verification_progress(connection: Connection, campaign: int, state: State, at: int) -> VerificationProgress | None:
    """How far the verification is; None where the campaign has none."""
    if not share_of(state):
        return None
    candidates = _candidates(connection, campaign, state)
    event, last = candidates[-1] if candidates else (0, None)
    wanted = planned(share_of(state), state.budget, state.overlap)
    before = 0 if last is None else last.get("planned", 0)
    in_force = last is not None and wanted <= before
    trial = _trial(state, event, last) if last is not None and in_force else None
    people = last["people"] if last is not None and trial is not None else []
    left = [one for one in people if not state.closed(one["row"])]
    fresh = len(left) if trial is not None else wanted - before
    committed = sum(state.overlap - state.filled(state.questions[number]) for number in state.incomplete)
    rest = max(0, state.budget - state.spent - committed) // state.overlap
    audits = sum(state.questions[number].purpose == "audit" for number in state.rows.values())
    audit_share = float(state.settings.get("audit_share", 0.0))
    training = rest - fresh - max(0, planned(audit_share, state.budget, state.overlap) - audits)
    due = min(fresh, rest) if trial is None and training <= 0 and not _waiting(state, at) else 0
    proposals = tuple(_proposal(one) for one in left)
    return VerificationProgress(trial, max(0, training), 0 if state.finished else due, wanted, proposals)


def _waiting(state: State, at: int) -> bool:
    """Whether somebody holds a question that is still to train the candidate."""
    now = state.now(at)
    held = (state.questions[one.number].purpose for one in state.outstanding.values() if state.live(one, now))
    return any(purpose not in (GOLD, "audit") for purpose in held)


def _trial(state: State, event: int, candidate: Candidate) -> Trial:
    rows = [one["row"] for one in candidate["people"]]
    numbers = {row: state.rows[row] for row in rows if row in state.rows}
    asked = {row: number for row, number in numbers.items() if state.questions[number].seq > event}
    over = state.finished or state.spent >= state.budget
    done = all(state.closed(row) for row in rows) and not any(number in state.incomplete for number in asked.values())
    return Trial(event, candidate, frozenset(asked), over or done)


def _proposal(one: DrawnPerson) -> Proposal:
    from apod.method.verification import VERIFYING_RULE

    return Proposal(one["row"], {"rule": VERIFYING_RULE}, VERIFICATION, one["probability"])


def _candidates(connection: Connection, campaign: int, state: State) -> list[tuple[int, Candidate]]:
    """All candidates that were frozen and not erased, the latest last, with their events."""
    if not state.frozen:
        return []
    table = schema.reasons
    query = select(table.c.seq, table.c.value).where(table.c.campaign == campaign, table.c.seq.in_(state.frozen))
    return [(row.seq, json.loads(row.value)) for row in connection.execute(query.order_by(table.c.seq))]


def sealed_reasons(connection: Connection, campaign: int, state: State) -> dict[int, SealedReason]:
    """What the open log does not say of the questions of a campaign that verifies, by their numbers; else nothing."""
    if not share_of(state):
        return {}
    table = schema.reasons
    rows = connection.execute(select(table.c.seq, table.c.value).where(table.c.campaign == campaign))
    found = {row.seq: row.value for row in rows}
    return {asked.number: json.loads(found[asked.seq]) for asked in state.questions.values() if asked.seq in found}


def freeze(
    journal: Journal, engine: Engine, due: VerificationProgress, collected: Collected, barred: frozenset[int]
) -> bool:
    """Freeze the correction that these answers chose; False where there is none to verify, or answers changed."""
    made = engine.freeze(collected.weigh(), barred, due.due) if isinstance(engine, Verifying) else None
    if made is None:
        return False
    inputs, candidate = collected.inputs(), {**made, "planned": due.planned}

    def command(desk: Desk) -> bool:
        now = verification_progress(desk.connection, desk.campaign, desk.state, desk.at)
        current = collect(desk.state, read_answers(desk.connection, desk.campaign))
        if now is None or not now.due or current.inputs() != inputs:
            return False
        desk.append("frozen", {"answers": len(inputs)}, Sealed(candidate), schema.reasons)
        return True

    return journal.submit(command)
