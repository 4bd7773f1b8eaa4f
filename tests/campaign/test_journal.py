"""The line in front of the log: one commit for all who wait, and nobody is forgotten."""

from __future__ import annotations

import threading

import pytest

from apod.campaign.errors import StoreError
from apod.campaign.journal import Desk, _Slot
from apod.errors import ApodError, InputError, UnknownName
from apod.testing.engines import Workshop
from support.waiting import until


def test_commands_that_wait_together_share_one_commit(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create()
    journal, commits = campaign.journal, []
    writing = campaign.store.writing

    def counted() -> object:
        commits.append(1)
        return writing()

    campaign.store.writing = counted  # type: ignore[assignment, method-assign]
    enter = threading.Event()

    def slow(desk: Desk) -> int:
        enter.wait()
        return 0

    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(journal.submit(slow)))]
    threads[0].start()
    until(lambda: commits)
    for number in range(1, 31):
        threads.append(threading.Thread(target=lambda n=number: results.append(journal.submit(lambda desk: n))))
        threads[-1].start()
    until(lambda: len(journal._waiting) == 30)
    enter.set()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(31))
    assert len(commits) == 2


def test_one_wrong_command_does_not_spoil_those_it_shares_a_commit_with(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create()
    enter, outcomes = threading.Event(), []

    def act(number: int, desk: Desk) -> int:
        enter.wait()
        if number % 2:
            raise InputError("no")
        desk.append("budget", {"budget": 100 + number})
        return number

    def run(number: int) -> None:
        try:
            outcomes.append(campaign.journal.submit(lambda desk: act(number, desk)))
        except InputError:
            outcomes.append(-number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 11)]
    for thread in threads:
        thread.start()
    enter.set()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [-9, -7, -5, -3, -1, 2, 4, 6, 8, 10]
    assert campaign.owner.verify_log().events == 1 + 5


@pytest.mark.parametrize("error", [UnknownName("column", "agee", ["age"]), StoreError("full"), KeyError("x")], ids=repr)
def test_nobody_keeps_a_receipt_of_a_commit_that_was_rolled_back(on_sqlite: Workshop, error: Exception) -> None:
    journal = on_sqlite.create().journal
    enter, outcomes = threading.Event(), []

    def act(number: int, desk: Desk) -> int:
        seq = desk.append("budget", {"budget": 100 + number})
        if number == 5:
            raise error  # after it appended: the whole commit goes
        return seq

    def run(number: int) -> None:
        try:
            outcomes.append(journal.submit(lambda desk: act(number, desk)))
        except Exception as raised:  # noqa: BLE001 whatever it is, the test looks at it
            outcomes.append(raised)

    threads = [threading.Thread(target=lambda: journal.submit(lambda desk: enter.wait()))]
    threads += [threading.Thread(target=run, args=(number,)) for number in range(1, 11)]
    for thread in threads:
        thread.start()
    until(lambda: len(journal._waiting) == 10)
    enter.set()
    for thread in threads:
        thread.join()
    assert journal.head() == 1
    assert len(outcomes) == 10
    assert all(isinstance(raised, ApodError | KeyError) for raised in outcomes)
    assert len({id(raised) for raised in outcomes}) == 10
    if isinstance(error, ApodError):
        assert {(type(raised), str(raised)) for raised in outcomes} == {(type(error), str(error))}
    else:
        assert sorted(type(raised).__name__ for raised in outcomes) == ["KeyError", *["StoreError"] * 9]


def test_whoever_leaves_the_line_does_not_hold_up_the_others(on_sqlite: Workshop) -> None:
    journal = on_sqlite.create().journal
    enter, served = threading.Event(), []
    first = threading.Thread(target=lambda: journal.submit(lambda desk: enter.wait()))
    first.start()
    until(lambda: journal._serving and not journal._waiting)
    leaver: _Slot[int] = _Slot(lambda desk: served.append("leaver") or 0)
    leaver.called.acquire()
    journal._waiting.append(leaver)
    last = threading.Thread(target=lambda: served.append(journal.submit(lambda desk: "last")))
    last.start()
    until(lambda: len(journal._waiting) == 2)
    enter.set()
    first.join()  # calls the leaver to serve
    with pytest.raises(KeyboardInterrupt):
        _interrupted(journal, leaver)
    last.join()
    assert served == ["last"]
    assert journal.submit(lambda desk: 7) == 7


def _interrupted(journal: object, slot: _Slot[int]) -> None:
    """What `submit` does when Ctrl-C comes while it waits."""
    journal._leave(slot)  # type: ignore[attr-defined]
    raise KeyboardInterrupt
