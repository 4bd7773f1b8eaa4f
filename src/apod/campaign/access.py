"""Who may come in over the web: one-time links, the sessions they open, tokens for programs.

A token is `<id>.<secret>`: the id finds the row, the secret (256 random bits) proves the right to it and is stored as
its SHA-256 only. All comparisons take the same time whatever they find; times are the database's.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from sqlalchemy import Connection, delete, func, insert, select, update

from apod.campaign import schema
from apod.campaign.errors import NotFound
from apod.campaign.log import moment
from apod.campaign.settings import clean_name
from apod.campaign.store import Store
from apod.errors import InputError

Role = Literal["owner", "annotator", "reviewer", "person"]
What = Literal["link", "session", "token"]

OWNER = "owner"
PERSON = "self-report"
DAY = 86_400_000  # ms
SESSION_DAYS = {"owner": 1.0, "annotator": 30.0, "reviewer": 30.0}
LONGEST_DAYS = 366.0
_NOBODY = "0" * 64  # compared with where there is no such id, so that a miss takes as long as a hit
_KEPT = 30 * DAY  # entries that ran out stay in the list for so long


@dataclass(frozen=True)
class Granted:
    """A fresh link, session or token; `token` is shown once and stored nowhere."""

    id: str
    role: Role
    name: str
    token: str = field(repr=False)
    expires_at: str
    seconds: int  # until then


@dataclass(frozen=True)
class Visitor:
    """Somebody who proved who they are."""

    id: str
    what: What
    role: Role
    name: str
    expires_at: str


@dataclass(frozen=True)
class AccessEntry:
    """A line of the owner's list."""

    id: str
    what: What
    role: Role
    name: str
    created_at: str
    expires_at: str
    used_at: str | None
    state: Literal["active", "used", "expired", "revoked"]


class Access:
    """The web's door to one campaign."""

    def __init__(self, store: Store, campaign: int) -> None:
        self._store, self._campaign = store, campaign
        self.granted = 0  # links, sessions and tokens made by this object
        self._query = select(schema.access, store.clock.label("now"))

    def grant(self, name: str, role: str = "annotator", what: str = "link", days: float = 7.0) -> Granted:
        """A new link or program token for somebody."""
        if role not in SESSION_DAYS or what not in ("link", "token"):
            raise InputError("Access is a link or a token, for an owner, an annotator or a reviewer.")
        _check_days(days)
        name = clean_name("annotator's name", name)
        if role != "owner" and name in (OWNER, PERSON):
            raise InputError(f"{name!r} is a name of the campaign's own: give the {role} another one.")
        with self._store.writing() as connection:
            now = self._now(connection)
            table = schema.access
            old = (table.c.campaign == self._campaign) & (table.c.expires < now - _KEPT)
            connection.execute(delete(table).where(old))
            return self._add(connection, now, what, role, name, days)

    def redeem(self, token: str) -> Granted | None:
        """The session that a link opens, once; None where it opens none."""
        with self._store.reading() as connection:  # wrong ones must not hold up those who answer
            if self._find(connection, token) is None:
                return None
        with self._store.writing() as connection:
            row = self._find(connection, token)
            if row is None or row.what != "link" or row.role == "person":
                return None
            now = self._now(connection)
            unused = (schema.access.c.id == row.id) & schema.access.c.used.is_(None)
            if not connection.execute(update(schema.access).where(unused).values(used=now)).rowcount:
                return None  # somebody else opened it in this moment
            return self._add(connection, now, "session", row.role, row.name, SESSION_DAYS[row.role], row.id)

    def visitor(self, token: str, what: What) -> Visitor | None:
        """Who comes with this session or program token; None where it is not good (any more)."""
        with self._store.reading() as connection:
            row = self._find(connection, token)
        if row is None or row.what != what:
            return None
        return Visitor(row.id, row.what, row.role, row.name, moment(row.expires))

    def recognises(self, token: str) -> bool:
        """Whether a token is one of ours, be it used up, out of time or revoked."""
        with self._store.reading() as connection:
            return self._holder(connection, token) is not None

    def role_of(self, token: str) -> Role | None:
        """Whom a token is or was for, be it used up, out of time or revoked; None where it is none of ours."""
        with self._store.reading() as connection:
            row = self._holder(connection, token)
        return None if row is None else cast(Role, row.role)

    def ids(self) -> frozenset[str]:
        """The ids of all links, sessions and tokens; they prove nothing."""
        table = schema.access
        with self._store.reading() as connection:
            return frozenset(connection.execute(select(table.c.id).where(table.c.campaign == self._campaign)).scalars())

    def good(self, id_: str) -> bool:
        """Whether a link, session or token is still good."""
        table = schema.access
        with self._store.reading() as connection:
            row = connection.execute(self._query.where(table.c.campaign == self._campaign, table.c.id == id_)).first()
        return row is not None and _entry(row, row.now + self._store.skew()).state == "active"

    def revoke(self, id_: str) -> None:
        """End a link, with the session it opened, a session, or a token."""
        table = schema.access
        with self._store.writing() as connection:
            hit = (table.c.campaign == self._campaign) & ((table.c.id == id_) | (table.c.link == id_))
            if connection.execute(select(table.c.id).where(hit)).first() is None:
                raise NotFound("There is no such link, session or token: see the list.")
            self._end(connection, hit)

    def revoke_name(self, name: str) -> int:
        """End everything somebody has; how many were still good."""
        table, name = schema.access, clean_name("annotator's name", name)
        with self._store.writing() as connection:
            return self._end(connection, (table.c.campaign == self._campaign) & (table.c.name == name))

    def grant_rows(self, rows: Sequence[int], days: float) -> list[tuple[int, Granted]]:
        """A self-report link for each of these rows."""
        _check_days(days)
        with self._store.writing() as connection:
            now = self._now(connection)
            return [(row, self._add(connection, now, "link", "person", PERSON, days, row=row)) for row in rows]

    def person(self, token: str) -> Any:
        """The entry of a self-report link that is good, with its row; None where it is not."""
        with self._store.reading() as connection:
            return self.person_in(connection, token)

    def person_in(self, connection: Connection, token: str) -> Any:
        """The same within a transaction."""
        found = self._find(connection, token)
        return found if found is not None and found.role == "person" else None

    def revoke_all(self) -> int:
        """End everybody's access; how many links, sessions and tokens were still good."""
        with self._store.writing() as connection:
            return self._end(connection, schema.access.c.campaign == self._campaign)

    def marks(self) -> tuple[int | None, ...]:
        """Numbers that change with everything that is granted, used or revoked, or runs out, by whatever process."""
        table = schema.access
        good = table.c.revoked.is_(None) & (table.c.expires > self._store.clock + self._store.skew())
        times = (func.max(table.c.created), func.max(table.c.used), func.max(table.c.revoked))
        query = select(func.count().filter(good), func.count(table.c.revoked), *times)
        with self._store.reading() as connection:
            return tuple(connection.execute(query.where(table.c.campaign == self._campaign)).one())

    def entries(self) -> list[AccessEntry]:
        """All links, sessions and tokens, the newest first."""
        table = schema.access
        query = self._query.where(table.c.campaign == self._campaign).order_by(table.c.created.desc(), table.c.id)
        with self._store.reading() as connection:
            rows = connection.execute(query).all()
        return [_entry(row, row.now + self._store.skew()) for row in rows]

    def _end(self, connection: Connection, which: Any) -> int:
        table, now = schema.access, self._now(connection)
        open_ = which & table.c.revoked.is_(None)
        spent = (table.c.what == "link") & table.c.used.is_not(None)
        good = connection.execute(select(table.c.id).where(open_ & (table.c.expires > now) & ~spent)).all()
        connection.execute(update(table).where(open_).values(revoked=now))
        return len(good)

    def _add(
        self,
        connection: Connection,
        now: int,
        what: str,
        role: str,
        name: str,
        days: float,
        link: str | None = None,
        row: int | None = None,
    ) -> Granted:
        id_, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        self.granted += 1
        expires = now + round(days * DAY)
        entry = {"id": id_, "campaign": self._campaign, "what": what, "role": role, "name": name, "hash": _hash(secret)}
        entry |= {"created": now, "expires": expires, "link": link, "row": row}
        connection.execute(insert(schema.access), entry)
        return Granted(id_, cast(Role, role), name, f"{id_}.{secret}", moment(expires), round(days * DAY / 1000))

    def _find(self, connection: Connection, token: str) -> Any:
        """The row of a token that is good: its secret is right, and it is not used up, out of time or revoked."""
        row = self._holder(connection, token)
        return row if row is not None and _entry(row, row.now + self._store.skew()).state == "active" else None

    def _holder(self, connection: Connection, token: str) -> Any:
        """The row of a token whose secret is right."""
        id_, _, secret = token[:200].partition(".")
        if not (id_.isascii() and id_.isprintable()):
            return None  # no id of ours, and PostgreSQL refuses a text with NUL
        table = schema.access
        row = connection.execute(self._query.where(table.c.campaign == self._campaign, table.c.id == id_)).first()
        return row if _right(secret, _NOBODY if row is None else row.hash) else None

    def _now(self, connection: Connection) -> int:
        return int(connection.execute(select(self._store.clock)).scalar_one()) + self._store.skew()


def _check_days(days: float) -> None:
    if not 0 < days <= LONGEST_DAYS:
        raise InputError(f"Access lasts more than 0 and at most {LONGEST_DAYS:.0f} days.")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _right(secret: str, stored: str) -> bool:
    """Whether the secret is the stored one, in a time that does not tell how much of it was right."""
    return hmac.compare_digest(_hash(secret), stored)


def _entry(row: Any, now: int) -> AccessEntry:
    if row.revoked is not None:
        state = "revoked"
    elif row.what == "link" and row.used is not None:
        state = "used"
    else:
        state = "expired" if now >= row.expires else "active"
    used = None if row.used is None else moment(row.used)
    return AccessEntry(
        row.id, row.what, row.role, row.name, moment(row.created), moment(row.expires), used, cast(Any, state)
    )
