"""Writers of one SQLite file are served in the order in which they came, whoever dies or gives up on the way."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from apod.campaign import Store, upgrade
from apod.campaign.errors import StoreError
from apod.campaign.store import Turns
from support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the order is the system's own elsewhere")


def drawn(database: Path) -> int:
    """How many numbers were drawn so far."""
    return int.from_bytes(database.with_name(database.name + "-turn").read_bytes()[:8], "little")


def test_those_who_wait_are_served_in_the_order_they_came_and_nobody_comes_back_before_them(tmp_path: Path) -> None:
    database, served = tmp_path / "trial.db", []

    def wait(name: int) -> None:
        with Turns(database).taken(600) as come:
            served.append((name, come))

    people = []
    with Turns(database).taken(600):
        for name in range(12):
            people.append(threading.Thread(target=wait, args=(name,)))
            people[-1].start()
            until(lambda name=name: drawn(database) == name + 2)  # type: ignore[misc]
        assert served == []
    wait(12)  # the one who just had a turn, at once again
    for person in people:
        person.join()
    assert served == [(name, True) for name in range(13)]


def forked(database: Path) -> int:
    """A process that takes its turn, or waits for it, until it is killed."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException), Turns(database).taken(600):
            signal.pause()
        os._exit(0)
    return child


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_turn_ends_with_the_process_that_has_it(tmp_path: Path) -> None:
    database = tmp_path / "trial.db"
    child = forked(database)
    until(lambda: (tmp_path / "trial.db-turn").exists() and drawn(database) == 1)
    with Turns(database).taken(0.05) as come:
        assert not come
    kill(child)
    with Turns(database).taken(600) as come:
        assert come


def test_whoever_is_killed_in_the_line_lets_nobody_overtake(tmp_path: Path) -> None:
    database, served = tmp_path / "trial.db", threading.Event()

    def wait() -> None:
        with Turns(database).taken(600):
            served.set()

    with Turns(database).taken(600):
        child = forked(database)
        until(lambda: drawn(database) == 2)
        person = threading.Thread(target=wait)
        person.start()
        until(lambda: drawn(database) == 3)
        kill(child)
        assert not served.wait(0.3)
    person.join()
    assert served.is_set()


def test_a_turn_that_does_not_come_is_an_error_that_names_a_way_out(tmp_path: Path) -> None:
    holder, other = Store(tmp_path / "trial.db"), Store(tmp_path / "trial.db", busy_seconds=0.1)
    upgrade(holder)
    with holder.writing():
        for _ in range(2):
            with pytest.raises(StoreError, match="use PostgreSQL where many processes write") as caught:
                other.writing().__enter__()
            assert "Nothing was recorded" in str(caught.value)
    with other.writing():
        pass
    holder.dispose()
    other.dispose()
