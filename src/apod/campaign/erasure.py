"""Erasing an answer: its value, its salt and everything computed from it go, from the database's files too.

A deleted row is still there for whoever began to read before, in SQLite's write-ahead log or in a page of PostgreSQL.
An erasure therefore notes in its own transaction that its bytes are due (`apod_erasures`), tries to overwrite them
without keeping anybody waiting for more than a moment, and otherwise leaves that to the next calls and to whoever opens
the campaign next.

SQLite: `secure_delete` overwrites a deleted row, but leaves copies where it moved rows between pages before; so the
tables are written anew by the erasure itself, and what is due is the truncation of the write-ahead log. PostgreSQL:
VACUUM FULL writes a table into a new file; it leaves out a deleted row only where no snapshot is older than that.

With an answer go all models fitted and corrections frozen after it, what they achieved, their sealed hashes, and the
reasons of the questions they chose: with the other answers at hand, anybody could refit with either group and compare.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, select, text, update

from apod.campaign import schema
from apod.campaign.errors import NotFound, StoreError
from apod.campaign.events import canonical, stored_value, without_part
from apod.campaign.files import Files
from apod.campaign.journal import Desk, Journal
from apod.campaign.outcomes import forget_outcomes
from apod.campaign.state import Given, State
from apod.campaign.store import Store
from apod.errors import InputError

TABLES = tuple(
    table.name for table in (schema.answers, schema.reasons, schema.models, schema.outcomes, schema.proposals)
)
"""Where answers stand, and what was computed from them."""

_HELD = text("""
    SELECT count(*) FROM (
        SELECT backend_xmin AS held FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND (datid IS NULL OR datname = current_database())
        UNION ALL SELECT backend_xid FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND datname = current_database()
        UNION ALL SELECT xmin FROM pg_replication_slots
        UNION ALL SELECT transaction FROM pg_prepared_xacts WHERE database = current_database()
    ) AS holders WHERE age(held) >= age(CAST(CAST(:erased_by AS bigint) % 4294967296 AS text)::xid)
""")  # whoever may still see what that transaction deleted; any role may look


def count_due(connection: Connection, campaign: int) -> int:
    """How many erasures have left bytes in the database's files."""
    query = select(func.count()).select_from(schema.erasures).where(schema.erasures.c.campaign == campaign)
    return int(connection.execute(query).scalar_one())


def note_due(desk: Desk, seq: int) -> None:
    """Note, in the transaction that erases, that its bytes are to be overwritten."""
    row: dict[str, object] = {"campaign": desk.campaign, "seq": seq}
    if desk.connection.dialect.name == "sqlite":
        rewrite(desk.connection)
    else:
        row["erased_by"] = int(desk.connection.execute(text("SELECT txid_current()")).scalar_one())
    desk.connection.execute(insert(schema.erasures), row)


def rewrite(connection: Connection) -> None:
    """SQLite: write the tables anew into pages without a past; those they leave are overwritten."""
    connection.exec_driver_sql("PRAGMA temp_store=MEMORY")  # the copy must not lie in a file of its own
    for table in TABLES:
        connection.exec_driver_sql(f"CREATE TEMP TABLE apod_kept AS SELECT * FROM {table} ORDER BY rowid")
        connection.exec_driver_sql(f"DELETE FROM {table}")
        connection.exec_driver_sql(f"INSERT INTO {table} SELECT * FROM apod_kept ORDER BY rowid")
        connection.exec_driver_sql("DROP TABLE temp.apod_kept")


def overwrite(store: Store, erased_by: int, seconds: float) -> bool:
    """Leave no copy of deleted rows in the database's files; False where somebody still reads an older state."""
    with store.at_once(seconds) as connection:
        if store.dialect == "sqlite":
            connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")  # most of the work, and nobody waits for it
            return not connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]
        if connection.execute(_HELD, {"erased_by": erased_by}).scalar_one():
            return False
        before = _file_numbers(connection)
        for table in TABLES:
            connection.exec_driver_sql(f"VACUUM (FULL) {table}")
        return not before & _file_numbers(connection)  # a role that may not rewrite a table is only warned


def _file_numbers(connection: Connection) -> set[int]:
    query = text("SELECT pg_relation_filenode(CAST(:name AS regclass))")
    return {int(connection.execute(query, {"name": table}).scalar_one()) for table in TABLES}


PATIENCE = 0.25
"""Seconds for which an erasure may keep others waiting; a later call waits a fifth of it."""

AGAIN_SECONDS = 1.0


@dataclass(frozen=True)
class Erasure:
    """What was erased.

    backups      archives that hold it still: delete them, or erase there after restoring
    overwritten  no byte of it is left in the database's files; otherwise somebody still reads an older state, and it is
                 overwritten at one of the next calls after that
    """

    answers: int
    models: int
    overwritten: bool = False
    backups: tuple[str, ...] = ()


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


def erase(
    desk: Desk,
    models: Files,
    *,
    row: int | None,
    token: int | None,
    annotator: str | None,
    attribute: int | None = None,
) -> Erasure:
    """Erase the answers on a row, to one question, or of one annotator; or what they say of one attribute."""
    state = desk.state
    sweep(desk, models)
    hit = [given for given in state.answers.values() if _meant(given, row, token, annotator) and not given.erased]
    gold = [row] if row is not None and row in state.gold else []
    known = [row] if row is not None and row in state.known else []
    if not hit and not gold and not known:
        raise NotFound("There is no answer of that kind to erase.")
    about = {given.row for given in hit} | {*gold, *known} if row is not None else set()
    if attribute is None or len(state.group_counts) == 1:
        return _erase(desk, hit, gold, known, about)
    parts = _parts(desk, hit, [*gold, *known], attribute)
    whole = [given for given in hit if given.seq in parts.whole]
    gold, known = ([item for item in rows if item in parts.whole_rows] for rows in (gold, known))
    if not parts.texts and not whole and not gold and not known:
        raise NotFound("There is no answer of that kind to erase.")
    return _erase(desk, whole, gold, known, about, parts)


def expire(desk: Desk, models: Files, name: str, keep_until: str) -> dict[str, Any]:
    """Erase every answer, end the campaign, and note what became of it: the certificate of deletion.

    InputError before that day, by the database's clock.
    """
    state, now = desk.state, datetime.fromtimestamp(desk.at / 1000, UTC)
    if now.date() < date.fromisoformat(keep_until):
        raise InputError(f"Nothing is due: answers are kept until {keep_until}.")
    sweep(desk, models)
    hit = [given for given in state.answers.values() if not given.erased]
    gold = [row for row, seq in state.gold.items() if seq not in state.erased]
    known = [row for row, seq in state.known.items() if seq not in state.erased]
    done = Erasure(0, 0)
    if hit or gold or known:
        rows = {given.row for given in hit} | {*gold, *known}
        done = _erase(desk, hit, gold, known, rows)
    certificate = {
        "campaign": name,
        "keep_until": keep_until,
        "erased_at": now.isoformat(timespec="seconds"),
        "answers": done.answers,
        "models": done.models,
        "backups": list(done.backups),  # archives that hold answers still
    }
    proof = hashlib.sha256(canonical(certificate).encode()).hexdigest()
    desk.append("expired", {"certificate": certificate, "hash": proof})
    if not state.finished:
        desk.append("finished", {"finished": True})
    return certificate | {"hash": proof}


@dataclass(frozen=True)
class _Parts:
    """What is left of answers when one attribute is erased of them."""

    attribute: int
    texts: Mapping[int, str]  # event -> its value without the attribute
    rows: frozenset[int]  # that they are about
    whole: frozenset[int]  # answers that say nothing else: these go as a whole
    whole_rows: frozenset[int]  # the same of rows that were handed in
    answers: int = 0


def _parts(desk: Desk, hit: Sequence[Given], handed: Sequence[int], attribute: int) -> _Parts:
    """The values of these answers, and of rows handed in, without one attribute."""
    state = desk.state
    texts: dict[int, str] = {}
    rows, whole, whole_rows, answers = set(), set(), set(), 0
    for given in hit:
        own = desk.texts(given.values)
        tells = {place for text in own.values() for place in _told(text)}
        if tells == {attribute}:
            whole.add(given.seq)
            continue
        # a reviewer may have decided what the answer itself could not tell
        own |= desk.texts(state.reviews[given.number].values if given.number in state.reviews else ())
        hidden = {seq: without_part(text, [attribute]) for seq, text in own.items() if attribute in _told(text)}
        if not hidden:
            continue
        answers += attribute in tells or not hidden.keys() <= texts.keys()  # a decision counts once
        texts |= hidden
        rows.add(given.row)
    for row in handed:
        seq = state.gold[row] if row in state.gold else state.known[row]
        told = {place for text in desk.texts([seq]).values() for place in _told(text)}
        if told == {attribute}:
            whole_rows.add(row)
        elif attribute in told:
            texts[seq] = without_part(desk.texts([seq])[seq], [attribute])
            rows.add(row)
            answers += 1
    return _Parts(attribute, texts, frozenset(rows), frozenset(whole), frozenset(whole_rows), answers)


def _told(text: str) -> set[int]:
    """Which attributes a stored answer tells."""
    return {place for place, part in enumerate(stored_value(text)) if part is not None}


def _erase(
    desk: Desk,
    hit: Sequence[Given],
    gold: list[int],
    known: list[int],
    about: set[int],
    parts: _Parts | None = None,
) -> Erasure:
    """Delete these values and everything computed from them, and note it; `about`: rows whose reasons go too."""
    state = desk.state
    values = [seq for given in hit for seq in given.values] + [state.gold[item] for item in gold]
    values += [state.known[item] for item in known]
    decided = {given.number for given in hit} & state.reviews.keys()  # a decision rests on the opinions it saw
    values += [seq for number in decided for seq in state.reviews[number].values]
    texts = {} if parts is None else {seq: text for seq, text in parts.texts.items() if seq not in values}
    first = min([*values, *texts])
    spoiled = {model for model, seq in state.models.items() if seq > first}
    reasons = _reasons(state, spoiled, about) + [seq for seq in state.frozen if seq > first]
    for seq, left in texts.items():
        _replace(desk, seq, left)
    _delete(desk, schema.answers, values)
    _delete(desk, schema.reasons, reasons)
    _delete_models(desk, spoiled)
    forget_outcomes(desk.connection, desk.campaign, since=first)
    body: dict[str, object] = {
        "answers": [given.seq for given in hit],
        "gold": gold,
        "known": known,
        "sealed": sorted({*values, *reasons} - state.erased),
        "models": sorted(spoiled),
    }
    rows = {given.row for given in hit} | {*gold, *known}
    if parts is not None and texts:
        rows |= parts.rows
        body["parts"] = {"attribute": parts.attribute, "sealed": sorted(texts), "rows": sorted(parts.rows)}
    for held in [held for held in state.outstanding.values() if state.questions[held.number].row in rows]:
        desk.append("released", {"token": held.token, "cause": "erased"})  # nobody is shown this person any more
    note_due(desk, desk.append("erased", body))
    desk.publish([], None)  # proposals of a spoiled model go too
    there = tuple(copy.name for copy in state.backups if copy.seq > first)
    more = 0 if parts is None else parts.answers
    return Erasure(len(hit) + len(gold) + len(known) + more, len(spoiled), backups=there)


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


def _replace(desk: Desk, seq: int, text: str) -> None:
    """Write what is left of a value over it."""
    table = schema.answers
    desk.connection.execute(
        update(table).where(table.c.campaign == desk.campaign, table.c.seq == seq).values(value=text)
    )
    desk.sealed.pop(seq, None)


def _delete_models(desk: Desk, models: set[str]) -> None:
    table = schema.models
    for model in models:
        desk.connection.execute(delete(table).where(table.c.campaign == desk.campaign, table.c.model == model))
