"""Runs annotators that are killed in the middle of their work. Started by test_crash.py, in a process of its own.

The nursery imports everything once, without starting a thread, then forks annotator after annotator and kills each
with SIGKILL: a quarter of them anywhere, a quarter while a refit is being published, half shortly after one was. What
an annotator saw acknowledged it appends to a file, one write per line; other files have a line for every refit that is
being published, for every one that was, and for the event at which each life began.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import standin

from apod.campaign import Campaign, GroupAnswer, ModelState, Store

MOMENTS = ("published", "anywhere", "published", "publishing")


class Announced(standin.MeanModel):
    """Says that it is being published: its state is taken in the very transaction."""

    def state(self) -> ModelState:
        append(os.environ["PUBLISHING"], "")
        return super().state()


class Announcing(standin.StandIn):
    def fit(self, answers: Sequence[GroupAnswer], start: standin.MeanModel | None) -> standin.MeanModel | None:
        found = super().fit(answers, start)
        return None if found is None else Announced(found.means, found.fits)


def annotate(job: dict[str, Any], most: float, pause: float) -> None:
    """Ask and tell until there is nothing left, and after so many answers only ask; what is acknowledged is a line."""
    campaign = Campaign(
        Store(job["url"]), "trial", files=job["files"], engine=Announcing, refit="thread", lead_seconds=0.3
    )
    append(job["lives"], str(campaign.head()))
    model = campaign.journal.view(lambda connection, state, at: state.model)
    while (question := campaign.ask("worker")) is not None:
        if most > 0:
            group = standin.group_of(question.row)
            campaign.tell(question, group)
            append(job["acknowledged"], f"{question.id} {question.row} {group}")
            most -= 1
        known, model = model, campaign.journal.view(lambda connection, state, at: state.model)
        if model != known:
            append(job["published"], "")
        time.sleep(pause)


def wait_for_a_moment(job: dict[str, Any], when: str, chance: random.Random) -> None:
    """Until a random time has passed or a random number of answers, or until a refit is published; a little longer."""
    watched = job["acknowledged" if when == "anywhere" else when]
    enough = lines(watched) + (chance.uniform(0, job["share"]) if when == "anywhere" else 1)
    until = time.monotonic() + (chance.uniform(0.01, 0.6) if when == "anywhere" else 20.0)
    while time.monotonic() < until and lines(watched) < enough:
        time.sleep(0.0005)
    time.sleep(chance.uniform(0, 0.006))


def append(path: str, line: str) -> None:
    """One write, so that a kill leaves a whole line or none."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def lines(path: str) -> int:
    """How many lines were written so far."""
    try:
        with open(path, "rb") as file:
            return file.read().count(b"\n")
    except FileNotFoundError:
        return 0


def erase(job: dict[str, Any]) -> None:
    """Erase row after row, the first in peace; each other by an owner who is killed within about the time that took."""
    chance, longest = random.Random(job["seed"]), 0.0
    for row in job["rows"]:
        begun, begin = os.pipe()
        child = os.fork()
        if child == 0:
            campaign = Campaign(
                Store(job["url"]), "trial", files=job["files"], engine=standin.build, refit="demand", lead_seconds=0.3
            )
            os.write(begin, b".")
            campaign.owner.erase(row=row)
            os._exit(0)
        os.read(begun, 1)
        started = time.monotonic()
        if longest:
            time.sleep(chance.uniform(0, longest))
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        longest = longest or 1.2 * (time.monotonic() - started)


def main() -> None:
    job = json.loads(sys.argv[1])
    if "rows" in job:
        erase(job)
        return
    os.environ["PUBLISHING"] = job["publishing"]
    chance = random.Random(job["seed"])
    for _, when in zip(range(job["kills"]), itertools.cycle(MOMENTS), strict=False):
        child = os.fork()
        if child == 0:
            annotate(job, job["share"], pause=0.01)
            os._exit(0)
        wait_for_a_moment(job, when, chance)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit("an annotator ended before it was killed")
    child = os.fork()  # the last one is left in peace
    if child == 0:
        annotate(job, math.inf, pause=0.0)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
