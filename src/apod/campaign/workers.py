"""Who refits: one process at a time, by a row in the database with an expiry and a fence, in threads of its own.

A leader renews its lease while it works. One that was killed stops renewing and is replaced; one that was only asleep
finds that the fence has moved on and publishes nothing.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, select, update

from apod.campaign import schema
from apod.campaign.errors import StoreError
from apod.campaign.store import Store
from apod.processes import be_nice
from apod.text import printable

log = logging.getLogger(__name__)

LEAD_SECONDS = 15.0
STOP_SECONDS = 30.0
_LONGEST = 3_600_000  # ms; a lease that ends later than this was written by a clock that has been set back


class Leadership:
    """This process's claim to refit one campaign."""

    def __init__(self, store: Store, campaign: int, seconds: float = LEAD_SECONDS) -> None:
        self.me = uuid.uuid4().hex
        self._store, self._campaign, self._seconds = store, campaign, seconds
        self._outcome: dict[str, object] = {}

    @contextmanager
    def held(self) -> Iterator[int | None]:
        """The fence under which this process leads, or None where another does; renewed until the block ends."""
        self._outcome = {}
        fence = self._take()
        if fence is None:
            yield None
            return
        stop = threading.Event()
        renewer = threading.Thread(target=self._renew, args=(stop, fence), name="apod-lead", daemon=True)
        renewer.start()
        try:
            yield fence
        finally:
            stop.set()
            renewer.join()
            with suppress(StoreError):
                self._set(fence, leader=None, running=False, **self._outcome)

    def still_holds(self, connection: Connection, fence: int) -> bool:
        """Whether nobody else has taken the lead; the row stays locked until the transaction ends."""
        query = select(schema.refits.c.fence).where(schema.refits.c.campaign == self._campaign).with_for_update()
        return bool(connection.execute(query).scalar() == fence)

    def note(self, failure: str | None) -> None:
        """How the refit went, for `status`: the type of its error, or that it went well; written at its end."""
        failures = schema.refits.c.failures + 1 if failure is not None else 0
        self._outcome = {"failure": failure, "failures": failures}

    def note_fitted(self, unmeasured: str | None) -> None:
        """The refit went well; with the type of an error where the model could not be measured."""
        self._outcome = {"failure": unmeasured, "failures": 0}

    def _take(self) -> int | None:
        table = schema.refits
        query = select(table, self._store.clock.label("now")).where(table.c.campaign == self._campaign)
        with self._store.reading() as connection:
            if self._taken(connection.execute(query).one()):
                return None
        with self._store.writing() as connection:
            row = connection.execute(query.with_for_update(skip_locked=True)).first()
            if row is None or self._taken(row):  # somebody is taking it this very moment, or has
                return None
            fence = int(row.fence) + 1
            values = {"leader": self.me, "fence": fence, "running": True, "expires": self._until(row)}
            connection.execute(update(table).where(table.c.campaign == self._campaign).values(**values))
        return fence

    def _taken(self, row: Any) -> bool:
        now = row.now + self._store.skew()
        return row.leader is not None and now < row.expires <= now + _LONGEST

    def _until(self, row: Any) -> int:
        return int(row.now + self._store.skew() + 1000 * self._seconds)

    def _renew(self, stop: threading.Event, fence: int) -> None:
        while not stop.wait(self._seconds / 3):
            with suppress(StoreError):  # the fence decides; a renewal that fails only makes replacement likelier
                with self._store.reading() as connection:
                    row = connection.execute(select(self._store.clock.label("now"))).one()
                self._set(fence, expires=self._until(row))

    def _set(self, fence: int, **values: Any) -> None:
        table = schema.refits
        mine = (table.c.campaign == self._campaign) & (table.c.fence == fence)
        with self._store.writing() as connection:
            connection.execute(update(table).where(mine).values(**values))


class Background:
    """A thread for each step, which is taken again and again while it finds something to do.

    Niced where the system allows it for a thread.
    """

    def __init__(self, steps: Mapping[str, Callable[[], bool]], poll_seconds: float = 1.0) -> None:
        self._poll, self._stop = poll_seconds, threading.Event()
        self._wakes = [threading.Event() for _ in steps]
        self._threads = [
            threading.Thread(target=self._loop, args=(step, wake), name=name, daemon=True)
            for (name, step), wake in zip(steps.items(), self._wakes, strict=True)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """There is something new."""
        for event in self._wakes:
            event.set()

    def stop(self) -> None:
        """Start nothing more, and wait a while for what is under way; a refit that takes longer is left behind."""
        self._stop.set()
        self.wake()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(STOP_SECONDS)

    def _loop(self, step: Callable[[], bool], wake: threading.Event) -> None:
        be_nice()
        while not self._stop.is_set():
            try:
                busy = step()
            except StoreError as error:  # the database is away: answers cannot come in either
                log.warning("refit waits: %s", printable(error))
                busy = False
            except Exception as error:  # noqa: BLE001 the loop must outlive whatever happens in one round
                log.warning("refit failed with %s; it is tried again", type(error).__name__)
                busy = False
            if not busy:
                wake.wait(self._poll)
                wake.clear()
