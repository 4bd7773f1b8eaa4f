"""Self-report: the person concerned answers about themselves by a link of their own, and may take it back.

Looking at the link changes nothing; answering uses it up. The answer comes from the best source there is and costs no
budget. Its receipt is a code that nobody stores: with it the answer can be withdrawn, which erases it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import update

from apod.campaign import schema
from apod.campaign.access import PERSON
from apod.campaign.asking import own_answer
from apod.campaign.attributes import Answer, Value
from apod.campaign.errors import CampaignFinished, Conflict, NotFound
from apod.campaign.journal import Desk
from apod.campaign.settings import Attribute
from apod.data.cells import write_cells
from apod.errors import InputError
from apod.files import write_private

if TYPE_CHECKING:
    from apod.campaign.access import Access
    from apod.campaign.session import Session


@dataclass(frozen=True)
class SelfReportLink:
    """A link for one person; its token is shown once and stored nowhere."""

    row: int
    id: str
    token: str = field(repr=False)
    expires_at: str


@dataclass(frozen=True)
class SelfReportForm:
    """What a person is told before they answer."""

    campaign: str
    groups: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    question: str | None
    purpose: str | None
    legal_basis: str | None


class SelfReports:
    """Links for the people concerned, and what they answer: `campaign.owner.self_reports`."""

    def __init__(self, session: Session, access: Access) -> None:
        self._session, self._access = session, access

    def invite(self, rows: Sequence[int], days: float = 30.0) -> list[SelfReportLink]:
        """A link for each of these rows. Rows held out for the audit are asked about by the audit alone."""
        held, size = set(self._session.materials.held_out().tolist()), len(self._session.materials)
        gold = self._session.materials.gold()
        for row in rows:
            if not 0 <= row < size:
                raise InputError(f"There is no row {row}: rows go from 0 to {size - 1}.")
            if row in held or row in gold:
                raise InputError(f"Row {row} measures the classifier or checks annotators: leave it out.")
        made = self._access.grant_rows(rows, days)
        return [SelfReportLink(row, self._session.shown(row)[0], one.token, one.expires_at) for row, one in made]

    def mail_merge(self, path: Path, rows: Sequence[int], origin: str, days: float = 30.0) -> int:
        """Write a CSV of row, id, link and expires_at, readable by its owner alone; how many links."""
        write_private(path, self.merged(rows, origin, days))
        return len(rows)

    def merged(self, rows: Sequence[int], origin: str, days: float = 30.0) -> bytes:
        """The content of that CSV."""
        made = self.invite(rows, days)
        lines = ([one.row, one.id, f"{origin}/self-report#{one.token}", one.expires_at] for one in made)
        return write_cells(["row", "id", "link", "expires_at"], lines)

    def form(self, token: str) -> SelfReportForm | None:
        """What the person is told; None where the link is not good. It stays as good as it was."""
        if self._access.person(token) is None:
            return None
        rules = self._session.rules()
        told = rules.question, rules.purpose or rules.guidelines, rules.legal_basis
        return SelfReportForm(rules.name, rules.groups, rules.asked, *told)

    def answer(self, token: str, answer: Answer) -> str | None:
        """Record what the person says, a group, "cannot_tell" or "declined"; the receipt's code. Uses the link up.

        With several attributes, one of these for each. None where the link is not good.
        """
        value, code = self._session.value_of(answer), secrets.token_hex(12)

        def command(desk: Desk) -> bool:
            found = self._access.person_in(desk.connection, token)
            if found is None:
                return False
            _record(desk, found.row, value, receipt_hash(code))
            used = update(schema.access).where(schema.access.c.id == found.id).values(used=desk.at)
            desk.connection.execute(used)
            return True

        done = self._session.journal.submit(command)
        self._session.wake()
        return code if done else None

    def find(self, code: str) -> str:
        """The id of the question that a receipt is for; NotFound where there is none."""
        wanted = receipt_hash(code)
        found = self._session.journal.view(
            lambda connection, state, at: (
                state.id_of(state.answers[state.receipts[wanted]].token) if wanted in state.receipts else None
            )
        )
        if found is None:
            raise NotFound("There is no answer with this code: check how it is written.")
        return found


def receipt_hash(code: str) -> str:
    """What stands in the log for a receipt's code."""
    return hashlib.sha256(code.strip().lower().encode(errors="replace")).hexdigest()


def _record(desk: Desk, row: int, value: Value, receipt: str) -> None:
    state = desk.state
    if state.finished:
        raise CampaignFinished("The campaign is finished: it takes no more answers.")
    if own_answer(state, row, PERSON) is not None:
        raise Conflict("An answer of this person was recorded before: withdraw it by its code.")
    asked = state.questions.get(state.rows.get(row, 0))
    body = {
        "question": asked.number if asked is not None else len(state.questions) + 1,
        "row": row,
        "purpose": asked.purpose if asked is not None else "training",
        "probability": asked.probability if asked is not None else None,
        "model": asked.model if asked is not None else None,
        "rule": asked.rule if asked is not None else PERSON,
        "annotator": PERSON,
        "lease_ms": 0,
        "expired": [],
    }
    token = desk.append("asked", body)
    told = {"token": token, "kind": "self_reported", **value.body, "late": False, "counted": True}
    desk.append("answered", {**told, "expired": [], "free": True, "receipt": receipt}, value.seal())
    number = state.rows[row]
    for held in [one.token for one in state.outstanding.values() if one.number == number]:
        desk.append("released", {"token": held, "cause": "self-report"})  # nobody knows better: it is not asked again
