"""Whose turn it is to write to a SQLite file: first come, first served, between threads and between processes.

SQLite lets writers that wait try again after ever longer pauses, so on a busy file one of them may be passed over for
half a minute. Here everybody draws a number first, from a file beside the database, keeps the byte of that number
locked, and waits until all bytes below it are free. The system frees the byte of whoever dies. It decides about the
order alone: SQLite's own locks keep the data right with and without it.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
