"""The database behind a campaign: one SQLite file, or PostgreSQL by URL, through the same code.

SQLite lets writers that wait try again after ever longer pauses, so on a busy file one of them may be passed over for
half a minute. Here everybody draws a number first, from a file beside the database, keeps the byte of that number
locked, and waits until all bytes below it are free. The system frees the byte of whoever dies. It decides about the
order alone: SQLite's own locks keep the data right with and without it.

`Store.writing()` is one durable transaction that holds the write lock from its start (SQLite: BEGIN IMMEDIATE in WAL
mode with synchronous=FULL; PostgreSQL: synchronous_commit on, the campaign's row locked by the caller).
`Store.reading()` never blocks a writer. Every failure of the database becomes a `StoreError` that says what to do and
holds no value that was being written.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, literal_column
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool
from sqlalchemy.sql.elements import ColumnClause

from apod.campaign.errors import NotFound, StoreError
from apod.errors import InputError

_DRAWING = 0  # the byte that is locked for the moment in which somebody draws a number
_NUMBER = struct.Struct("<q")


class Turns:
    """The line of those who want to write to one database."""

    def __init__(self, database: Path | None) -> None:
        self._path = None if database is None else database.with_name(database.name + "-turn")

    @contextmanager
    def taken(self, seconds: float) -> Iterator[bool]:
        """Have one's turn for the length of the block; False where it did not come within so many seconds."""
        handle = self._open()
        if handle is None:
            yield True
            return
        place = _Place(handle)
        try:
            yield place.reached(seconds)
        finally:
            place.leave()

    def _open(self) -> int | None:
        """The file to draw from; None where there is none to be had, as on a read-only medium."""
        if self._path is None or sys.platform != "linux":  # elsewhere: SQLite's own order
            return None
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None


class _Place:
    """One place in the line. The system's locks know no deadline: where one must wait, a thread of its own does."""

    def __init__(self, handle: int) -> None:
        self._handle, self._lock = handle, threading.Lock()
        self._number: int | None = None
        self._left = self._over = False
        self._turn = threading.Event()

    def reached(self, seconds: float) -> bool:
        """Wait for one's turn; whether it came."""
        try:
            self._line_up(wait=False)
        except BlockingIOError:
            threading.Thread(target=self._wait, name="apod-turn", daemon=True).start()
            return self._turn.wait(seconds)
        except OSError:  # a file system without such locks: SQLite's own order
            pass
        self._over = True
        return True

    def leave(self) -> None:
        """Let the next one in, now or when one's own turn would have come."""
        with self._lock:
            self._left = True
            if self._over:
                os.close(self._handle)

    def _wait(self) -> None:
        with suppress(OSError):
            self._line_up(wait=True)
        with self._lock:
            self._over = True
            if self._left:
                os.close(self._handle)
        self._turn.set()

    def _line_up(self, wait: bool) -> None:
        if self._number is None:
            self._lock_bytes(_DRAWING, 1, wait)
            drawn = os.pread(self._handle, _NUMBER.size, 0).ljust(_NUMBER.size, b"\0")
            number = max(0, _NUMBER.unpack(drawn)[0]) + 1
            os.pwrite(self._handle, _NUMBER.pack(number), 0)
            self._lock_bytes(number, 1, wait)
            self._lock_bytes(_DRAWING, 1, wait, free=True)
            self._number = number
        if self._number > 1:
            self._lock_bytes(1, self._number - 1, wait)

    def _lock_bytes(self, start: int, length: int, wait: bool, free: bool = False) -> None:
        """Lock or free bytes on behalf of this very opening of the file: threads of a process do not share locks."""
        import fcntl

        kind = fcntl.F_UNLCK if free else fcntl.F_WRLCK
        request = struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)
        fcntl.fcntl(self._handle, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, request)


BUSY_SECONDS = 60
"""How long a writer waits for the others before it gives up."""

_CLOCK = {
    "sqlite": "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
}

_SQLITE_REMEDY = {
    "SQLITE_FULL": "the disk is full. Free some space and repeat",
    "SQLITE_READONLY": "the database may not be written. Check who owns the file and its folder, or copy both from a "
    "read-only medium, and repeat",
    "SQLITE_PERM": "the database may not be opened. Check who owns the file and its folder, and repeat",
    "SQLITE_CANTOPEN": "the database cannot be opened. Check that the file is there and who owns it, or copy it with "
    "its -wal file from a read-only medium, and repeat",
    "SQLITE_BUSY": "other writers held the database for too long. Stop one of them, or use PostgreSQL where many "
    "processes write, and repeat",
    "SQLITE_CORRUPT": "the file is damaged. Restore a backup",
    "SQLITE_NOTADB": "the file is not a SQLite database. Check the path",
    "SQLITE_IOERR": "the disk could not be read or written. Check it and repeat",
}


class Store:
    """Connections to one database.

    url   "hiring.db", "sqlite:///hiring.db" or "postgresql://user@host/database"
    skew  milliseconds added to the database's clock; for tests of clocks that jump
    busy_seconds  how long a writer waits for its turn on a SQLite file
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        skew: Callable[[], int] | None = None,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.url = os.fspath(url)
        self.path, target = _locate(self.url)
        self.dialect = "sqlite" if self.path is not None else "postgresql"
        self.label = str(self.path) if self.path is not None else target.render_as_string(hide_password=True)
        self.skew = skew or (lambda: 0)
        self._turns, self._busy_seconds = Turns(self.path), busy_seconds
        _quiet()
        self._engine = _sqlite_engine(self.path) if self.path is not None else _postgres_engine(target)
        self._writer = self._engine.execution_options(apod_write=True)

    @property
    def clock(self) -> ColumnClause[Any]:
        """SQL for the database's time in milliseconds since 1970."""
        return literal_column(_CLOCK[self.dialect])

    def exists(self) -> bool:
        """Whether there is a file with something in it (a server is taken to be there)."""
        return self.path is None or (self.path.exists() and self.path.stat().st_size > 0)

    def make(self) -> None:
        """Create the SQLite file, readable by its owner alone; nothing to do for a server."""
        if self.path is not None and not self.path.exists():
            try:
                with suppress(FileExistsError):
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except OSError as error:
                raise StoreError(f"{self.path} cannot be created ({error.strerror}): choose another.") from None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One durable transaction: all of it is kept when the block ends, nothing of it when it raises."""
        committing = False
        try:
            with self._turn(), self._writer.connect() as connection:
                transaction = connection.begin()
                try:
                    self._check_still_there(connection)
                    yield connection
                    committing = True
                    transaction.commit()
                    self._check_still_there(connection)
                except BaseException:
                    with suppress(SQLAlchemyError):
                        transaction.rollback()
                    raise
        except (DBAPIError, PoolTimeout) as error:
            raise self._explain(error, committing) from None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One's turn among all who write to a SQLite file."""
        with self._turns.taken(self._busy_seconds) as come:
            if not come:
                raise StoreError(f"{self.label}: {_SQLITE_REMEDY['SQLITE_BUSY']}. Nothing was recorded.")
            yield

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only looks."""
        try:
            with self._engine.connect() as connection, connection.begin():
                self._check_still_there(connection)
                yield connection
        except (DBAPIError, PoolTimeout) as error:
            raise self._explain(error, committing=False) from None

    @contextmanager
    def at_once(self, seconds: float) -> Iterator[Connection]:
        """A connection outside of any transaction, whose statements wait for others no longer than so many seconds."""
        try:
            outside = self._engine.execution_options(isolation_level="AUTOCOMMIT")
            with self._turn(), outside.connect() as connection:
                self._check_still_there(connection)
                connection.exec_driver_sql(self._patience(seconds))
                try:
                    yield connection
                finally:
                    connection.exec_driver_sql(self._patience(BUSY_SECONDS))
        except (DBAPIError, PoolTimeout) as error:
            raise self._explain(error, committing=False) from None

    def _patience(self, seconds: float) -> str:
        ms = round(1000 * seconds)
        return f"PRAGMA busy_timeout={ms}" if self.path is not None else f"SET SESSION lock_timeout TO '{ms}ms'"

    @contextmanager
    def disposed_on_error(self) -> Iterator[Store]:
        """Close all connections where the block raises."""
        try:
            yield self
        except BaseException:
            self.dispose()
            raise

    def dispose(self) -> None:
        """Close all connections; the store can be used again."""
        self._engine.dispose()

    def _check_still_there(self, connection: Connection) -> None:
        """A deleted SQLite file goes on taking writes that nobody will ever read: refuse those."""
        if self.path is None:
            return
        opened = connection.connection.info
        if opened.get("identity") != _identity(self.path):
            connection.invalidate()
            self._engine.dispose()
            raise StoreError(
                f"{self.path} was moved, replaced or deleted while in use: this call is not recorded there. "
                "Put the file back and repeat."
            )

    def _explain(self, error: SQLAlchemyError, committing: bool) -> StoreError:
        cause = error.orig if isinstance(error, DBAPIError) else None
        if isinstance(cause, sqlite3.Error):
            code = getattr(cause, "sqlite_errorname", "") or "SQLITE_ERROR"
            remedy = next((words for name, words in _SQLITE_REMEDY.items() if code.startswith(name)), None)
            what = remedy or f"SQLite refused ({code}). Check the file and repeat"
        elif isinstance(error, DBAPIError):
            state = getattr(cause, "sqlstate", None)
            what = f"the database does not answer or refused ({state or type(cause).__name__}). Check it and repeat"
        else:
            what = f"the database could not be used ({type(error).__name__}). Check it and repeat"
        certain = "It is uncertain whether this call was recorded: a repeat is recognised"
        return StoreError(f"{self.label}: {what}. {certain if committing else 'Nothing was recorded'}.")


def _locate(url: str) -> tuple[Path | None, URL]:
    """The SQLite file, or None and the URL of a server."""
    if "://" not in url:
        url = f"sqlite:///{url}"
    try:
        target = make_url(url)
    except ArgumentError:
        raise InputError("The database URL cannot be read: use a path or postgresql://user@host/name.") from None
    backend = target.get_backend_name()
    if backend == "sqlite":
        if not target.database or target.database == ":memory:" or "\x00" in target.database:
            raise InputError("A campaign must outlive the process: name a file, e.g. sqlite:///hiring.db.")
        return Path(target.database).absolute(), target
    if backend in ("postgresql", "postgres"):
        return None, target.set(drivername="postgresql+psycopg")
    raise InputError(f"There is no store for {backend!r}: use a SQLite file or a postgresql:// URL.")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


_WRITABLE = "mode=rw"  # without c: a file that went away must not come back empty


def _mode(path: Path) -> str:
    """How to open the file: where it cannot be written, as on a read-only medium, without any file beside it."""
    real = {"effective_ids": os.access in os.supports_effective_ids}
    if not path.exists() or (os.access(path, os.W_OK, **real) and os.access(path.parent, os.W_OK, **real)):
        return _WRITABLE
    log = path.with_name(path.name + "-wal")
    pending = log.exists() and log.stat().st_size > 0  # committed, and not in the file yet: SQLite must read both
    return "mode=ro" if pending else "mode=ro&immutable=1"


_DISCREET: dict[str, Any] = {"hide_parameters": True, "logging_name": "apod"}
"""Answers are parameters and result rows: neither may reach a log, not even one set to DEBUG."""


def _quiet() -> None:
    logging.getLogger("sqlalchemy.engine.Engine.apod").setLevel(logging.WARNING)


def _sqlite_engine(path: Path) -> Engine:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{quote(str(path))}?{_mode(path)}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,  # the driver must not begin transactions of its own
            check_same_thread=False,
        )

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_size=4, max_overflow=60, **_DISCREET)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, record: Any) -> None:
        record.info["identity"] = _identity(path)
        cursor = connection.cursor()
        if _mode(path) == _WRITABLE:
            cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")  # WAL's NORMAL loses the last commits when the power goes
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA cache_size=-512")  # KiB a connection; the system caches the file for all of them
        cursor.execute("PRAGMA secure_delete=ON")  # an erased answer is overwritten, not merely forgotten
        cursor.execute("PRAGMA temp_store=MEMORY")  # nor does a copy of it go into a file for sorting
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get("isolation_level") != "AUTOCOMMIT":
            connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("apod_write") else "BEGIN")

    return engine


def _postgres_engine(target: URL) -> Engine:
    try:
        engine = create_engine(
            target,
            **_DISCREET,
            pool_size=4,
            max_overflow=60,
            pool_pre_ping=True,  # a restarted server is found again
            connect_args={"connect_timeout": 10, "application_name": "apod"},
        )
    except ModuleNotFoundError:
        raise NotFound("psycopg (PostgreSQL) is not installed: pip install 'apod-fairness[postgres]'.") from None

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION synchronous_commit TO on")
            cursor.execute(f"SET SESSION lock_timeout TO '{BUSY_SECONDS}s'")
            cursor.execute("SET SESSION timezone TO 'UTC'")
        connection.commit()

    return engine
