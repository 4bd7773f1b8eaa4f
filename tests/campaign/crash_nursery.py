"""Runs annotators that are killed in the middle of their work. Started by test_crash.py, in a process of its own.

The nursery imports everything once, without starting a thread, then forks annotator after annotator and kills each
with SIGKILL after a random time or number of answers. What an annotator saw acknowledged it appends to a file, one
write per line.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from typing import Any

import standin

from apod.campaign import Campaign, Store


def annotate(job: dict[str, str]) -> None:
    """Ask and tell until there is nothing left; every acknowledged answer becomes a line."""
    acknowledged = os.open(job["acknowledged"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    campaign = Campaign(
        Store(job["url"]), "trial", files=job["files"], engine=standin.build, refit="thread", lead_seconds=0.3
    )
    while (question := campaign.ask("worker")) is not None:
        group = standin.group_of(question.row)
        campaign.tell(question, group)
        os.write(acknowledged, f"{question.id} {question.row} {group}\n".encode())


def wait_for_a_moment(job: dict[str, Any], chance: random.Random) -> None:
    """Until a random time has passed, or, on a fast machine, a random number of answers; then a little longer.

    All lives together must not spend the budget before the last kill, so each may take its share of it at most.
    """
    until = time.monotonic() + chance.uniform(0.01, job["longest"])
    enough = lines(job["acknowledged"]) + chance.uniform(0, job["budget"] / job["kills"])
    while time.monotonic() < until and lines(job["acknowledged"]) < enough:
        time.sleep(0.0005)
    time.sleep(chance.uniform(0, 0.003))  # anywhere in the next question or answer


def lines(path: str) -> int:
    """How many answers were acknowledged so far."""
    try:
        with open(path, "rb") as file:
            return file.read().count(b"\n")
    except FileNotFoundError:
        return 0


def main() -> None:
    job = json.loads(sys.argv[1])
    chance = random.Random(job["seed"])
    kills = 0
    while kills < job["kills"]:
        child = os.fork()
        if child == 0:
            annotate(job)
            os._exit(0)
        wait_for_a_moment(job, chance)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):  # it was through with everything: nothing left to disturb
            break
        kills += 1
    sys.stdout.write(f"{kills}\n")
    sys.stdout.flush()
    child = os.fork()  # the last one is left in peace
    if child == 0:
        annotate(job)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
