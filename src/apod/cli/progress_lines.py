"""How far a long command is: bars in a terminal, and a line every half minute where the output is a file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from apod.text import printable

EVERY = 30.0  # seconds
Show = Callable[[int, int, str], None]
"""Takes how much is done, of how much, and what is being worked on."""


class ProgressLines:
    """Says now and then what is being done, how far it is, how long it took and how much longer it takes.

    Within a `with` block it speaks even while nothing moves. Nothing is said where other lines come often enough.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        what: str,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._say, self._clock = say, clock
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._wait = wait or self._ended.wait  # gives True when the work is over
        self._thread = threading.Thread(target=self._speak, name="apod-progress", daemon=True)
        self._spoke = clock()
        self.begin(what)

    def __enter__(self) -> ProgressLines:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def begin(self, what: str) -> None:
        """A new part of the work begins."""
        with self._lock:
            self._what, self._detail, self._began = what, "", self._clock()
            self._done, self._total = 0, 0
            self._first: tuple[float, int] | None = None  # when it was first heard how much is done, and how much

    def update(self, done: int, total: int, detail: str = "") -> None:
        """The part has come so far."""
        with self._lock:
            self._done, self._total, self._detail = done, total, detail
            if self._first is None:
                self._first = self._clock(), done

    def spoke(self) -> None:
        """A line was written anyway."""
        self._spoke = self._clock()

    def look(self) -> None:
        """Write a line if it is time."""
        now = self._clock()
        if now - self._spoke < EVERY:
            return
        self._spoke = now
        self._say(self._line(now))

    def _line(self, now: float) -> str:
        with self._lock:
            parts = [f"{duration(now - self._began)} so far"]
            if self._total:
                parts.insert(0, f"{self._done} of {self._total}")
            left = self._left(now)
            if left is not None:
                parts.append(f"about {duration(left)} left")
            return f"{self._what}: {', '.join(parts)}{f' ({self._detail})' if self._detail else ''}"

    def _left(self, now: float) -> float | None:
        """Seconds, at the pace since the first news; None where there is none."""
        since, before = self._first or (now, self._done)
        if self._done <= before or self._done >= self._total:
            return None
        return (now - since) / (self._done - before) * (self._total - self._done)

    def _speak(self) -> None:
        while not self._wait(max(0.0, self._spoke + EVERY - self._clock())):
            self.look()


@contextmanager
def shown_progress(
    what: str,
    at_once: bool = False,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], bool] | None = None,
) -> Iterator[Show]:
    """What shows the progress of a command on standard error; a bar is seen `at_once`, or with the first news."""
    console = Console(stderr=True)
    if not console.is_terminal:
        with ProgressLines(lambda line: show_line(console, line), what, clock, wait) as lines:
            yield lines.update
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bars = Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console)
    task = bars.add_task(what, total=None)

    def show(done: int, total: int, detail: str) -> None:
        bars.start()
        bars.update(task, completed=done, total=total, description=printable(detail or what))

    try:
        if at_once:
            bars.start()
        yield show
    finally:
        bars.stop()


def duration(seconds: float) -> str:
    """A time span in the units people would use."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def plain(text: object, style: str = "") -> Text:
    """The text for rich's consoles and tables: markup, links and emoji codes in it mean nothing."""
    return Text(printable(text), style)


def show_line(console: Console, text: object, style: str = "") -> None:
    """Print a line on rich's console."""
    console.print(plain(text, style), soft_wrap=True)
