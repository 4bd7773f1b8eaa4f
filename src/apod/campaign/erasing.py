"""Erasing an answer: its value, its salt and everything computed from it go; the chain stays whole.

With an answer go all models fitted after it, what they achieved, their sealed hashes, and the reasons of the questions
they chose: with the other answers at hand, anybody could refit with either group and compare.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, delete, select

from apod.campaign import schema
from apod.campaign.achieved import forget_outcomes
from apod.campaign.errors import NotFound, StoreError
from apod.campaign.files import Files
from apod.campaign.journal import Desk, Journal
from apod.campaign.overwriting import note_due, overwrite
from apod.campaign.state import Given, State

PATIENCE = 0.25
"""Seconds for which an erasure may keep others waiting; a later call waits a fifth of it."""

AGAIN_SECONDS = 1.0


@dataclass(frozen=True)
class Erasure:
    """What was erased.

    overwritten  no byte of it is left in the database's files; otherwise somebody still reads an older state, and it is
                 overwritten at one of the next calls after that
    """

    answers: int
    models: int
    overwritten: bool = False


class Overwriting:
    """What is left to overwrite in one campaign's database, from this process."""

    def __init__(self, journal: Journal, models: Files) -> None:
        self._journal, self._models = journal, models
        self._tried = float("-inf")

    def attempt(self, seconds: float = PATIENCE) -> bool:
        """Overwrite what is due; whether nothing is left. Whatever goes wrong leaves it due."""
        self._tried = time.monotonic()
        with suppress(StoreError):
            due = self._due()
            if due and self._overwrite(due, seconds):
                table = schema.erasures
                mine = (table.c.campaign == self._journal.campaign) & table.c.seq.in_([row.seq for row in due])
                with self._journal.store.writing() as connection:
                    connection.execute(delete(table).where(mine))
            return not due or not self._due()
        return False

    def retry(self) -> None:
        """Try again, once a second at most."""
        if time.monotonic() - self._tried >= AGAIN_SECONDS:
            self.attempt(PATIENCE / 5)

    def _overwrite(self, due: Sequence[Any], seconds: float) -> bool:
        self._journal.submit(lambda desk: sweep(desk, self._models))
        return overwrite(self._journal.store, max(row.erased_by or 0 for row in due), seconds)

    def _due(self) -> Sequence[Any]:
        table = schema.erasures
        with self._journal.store.reading() as connection:
            return connection.execute(select(table).where(table.c.campaign == self._journal.campaign)).all()


def erase(desk: Desk, models: Files, *, row: int | None, token: int | None, annotator: str | None) -> Erasure:
    """Erase the answers on a row, to one question, or of one annotator."""
    state = desk.state
    sweep(desk, models)
    hit = [given for given in state.answers.values() if _meant(given, row, token, annotator) and not given.erased]
    gold = [row] if row is not None and row in state.gold else []
    known = [row] if row is not None and row in state.known else []
    if not hit and not gold and not known:
        raise NotFound("There is no answer of that kind to erase.")
    values = [seq for given in hit for seq in given.values] + [state.gold[item] for item in gold]
    values += [state.known[item] for item in known]
    spoiled = {model for model, seq in state.models.items() if seq > min(values)}
    reasons = _reasons(state, spoiled, {given.row for given in hit} | {*gold, *known} if row is not None else set())
    _delete(desk, schema.answers, values)
    _delete(desk, schema.reasons, reasons)
    _delete_models(desk, spoiled)
    forget_outcomes(desk.connection, desk.campaign, since=min(values))
    body = {
        "answers": [given.seq for given in hit],
        "gold": gold,
        "known": known,
        "sealed": sorted({*values, *reasons} - state.erased),
        "models": sorted(spoiled),
    }
    note_due(desk, desk.append("erased", body))
    desk.publish([], None)  # proposals of a spoiled model go too
    return Erasure(len(hit) + len(gold) + len(known), len(spoiled))


def sweep(desk: Desk, models: Files) -> None:
    """Delete model files that no model refers to: those of a crash, of an erasure, and old ones.

    Model files are written and deleted only by whoever holds the campaign's lock, so none can be under way.
    """
    table = schema.models
    kept = set(desk.connection.execute(select(table.c.file).where(table.c.campaign == desk.campaign)).scalars())
    if models.folder.is_dir():
        for path in models.folder.iterdir():
            if path.stem not in kept:
                models.forget(path.stem, path.suffix) if path.suffix else path.unlink(missing_ok=True)


def _meant(given: Given, row: int | None, token: int | None, annotator: str | None) -> bool:
    if row is not None:
        return given.row == row
    return given.token == token if token is not None else given.annotator == annotator


def _reasons(state: State, spoiled: set[str], rows: set[int]) -> list[int]:
    """Events that hold the reasons of affected questions and the hashes of spoiled models."""
    asked = [item.seq for item in state.questions.values() if item.model in spoiled or item.row in rows]
    return asked + [state.models[model] for model in spoiled]


def _delete(desk: Desk, table: Table, seqs: list[int]) -> None:
    for start in range(0, len(seqs), 500):  # databases limit the number of parameters
        part = seqs[start : start + 500]
        desk.connection.execute(delete(table).where(table.c.campaign == desk.campaign, table.c.seq.in_(part)))
    for seq in seqs:
        desk.sealed.pop(seq, None)  # written by the same batch, not sent yet


def _delete_models(desk: Desk, models: set[str]) -> None:
    table = schema.models
    for model in models:
        desk.connection.execute(delete(table).where(table.c.campaign == desk.campaign, table.c.model == model))
