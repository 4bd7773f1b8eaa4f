"""Where there is no terminal, a line says every half minute how far the work is, and how much longer it takes."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from apod.cli import progress_lines
from apod.cli.progress import TerminalListener
from apod.cli.progress_lines import ProgressLines, duration, shown_progress


class Clock:
    """A time that passes when it is waited for: what a busy machine does to real time changes nothing."""

    def __init__(self, ends: float = 0.0) -> None:
        self.now, self.ends = 0.0, ends
        self.may_pass, self.done = threading.Event(), threading.Event()

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        """Pass the time; True once the work is over."""
        assert self.may_pass.wait(60)
        self.now += seconds
        if self.now > self.ends:
            self.done.set()
        return self.done.is_set()


def test_a_line_comes_every_thirty_seconds_though_nothing_moves() -> None:
    clock, said = Clock(ends=100), []
    with ProgressLines(said.append, "Pre-training the body", clock, clock.wait):
        clock.may_pass.set()
        assert clock.done.wait(60)
    assert said == [
        "Pre-training the body: 30 s so far",
        "Pre-training the body: 1 min 00 s so far",
        "Pre-training the body: 1 min 30 s so far",
    ]


def test_a_line_says_how_far_the_work_is_and_how_much_longer_it_takes() -> None:
    clock, said = Clock(), []
    lines = ProgressLines(said.append, "Banks of heads", clock)
    lines.update(0, 40, "adult, seed 0: body 1/10")
    clock.now = 60.0
    lines.update(8, 40, "adult, seed 1: body 2/10")
    lines.look()
    assert said == ["Banks of heads: 8 of 40, 1 min 00 s so far, about 4 min 00 s left (adult, seed 1: body 2/10)"]


def test_what_was_done_before_is_not_taken_for_speed() -> None:
    clock, said = Clock(), []
    lines = ProgressLines(said.append, "Asking and refitting", clock)
    lines.update(20, 40)  # resumed
    clock.now = 50.0
    lines.update(25, 40)
    lines.look()
    assert said == ["Asking and refitting: 25 of 40, 50 s so far, about 2 min 30 s left"]


def test_nothing_is_said_about_the_time_left_while_it_cannot_be_known_or_is_none() -> None:
    clock, said = Clock(), []
    lines = ProgressLines(said.append, "A", clock)
    lines.update(0, 5)
    clock.now = 30.0
    lines.look()
    lines.update(5, 5)
    clock.now = 60.0
    lines.look()
    assert said == ["A: 0 of 5, 30 s so far", "A: 5 of 5, 1 min 00 s so far"]


def test_lines_that_come_anyway_are_enough() -> None:
    clock, said = Clock(), []
    lines = ProgressLines(said.append, "A", clock)
    for clock.now in (20.0, 45.0, 70.0):
        lines.spoke()
        lines.look()
    assert said == []
    clock.now = 99.0
    lines.look()
    assert said == []
    clock.now = 100.0
    lines.look()
    assert said == ["A: 1 min 40 s so far"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (3599.9, "1 h 00 min"), (3900, "1 h 05 min")],
)
def test_a_duration_is_written_as_people_say_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_command_shows_bars_in_a_terminal_and_lines_in_a_log(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    clock, shown = Clock(ends=30), console(terminal)
    monkeypatch.setattr(progress_lines, "Console", lambda stderr: shown)
    with shown_progress("Drawing", clock=clock, wait=clock.wait) as show:
        show(1, 4, "overview")
        clock.may_pass.set()
        assert terminal or clock.done.wait(60)
    text = shown.file.getvalue()  # type: ignore[attr-defined]
    assert ("1/4" in text) == terminal
    assert ("Drawing: 1 of 4, 30 s so far (overview)\n" in text) != terminal


def test_pre_training_writes_into_a_log_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, clock = console(terminal=False), Clock()
    monkeypatch.setattr("apod.cli.progress.Console", lambda stderr: shown)
    listener = TerminalListener(clock=clock)
    listener.stage("Pre-training the body")
    listener.body(0, 20, "body, contrastive")
    clock.now = 40.0
    listener.body(5, 20, "body, contrastive")
    listener.lines.look()
    assert shown.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "Pre-training the body ...",
        "Pre-training the body: 5 of 20, 40 s so far, about 2 min 00 s left (body, contrastive)",
    ]
