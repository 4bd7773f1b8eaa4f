"""Several processes with several annotators each, on one database. Started by test_processes.py.

Everybody works as the page does, with two questions at hand, and at times changes their mind. What each was told is
written down as one line: the answers that stand, by question.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

import standin

from apod.campaign import Campaign, Store
from apod.randomness import generator


def annotate(job: dict[str, Any], name: str, campaign: Campaign, out: int) -> None:
    kept: dict[str, Any] = {}
    try:
        work(job, name, campaign, kept)
        line = {"who": name, "answers": list(kept.values())}
    except BaseException as error:  # noqa: BLE001 whatever it is, the test wants to see it
        line = {"who": name, "error": f"{type(error).__name__}: {error}"}
    os.write(out, (json.dumps(line) + "\n").encode())


def work(job: dict[str, Any], name: str, campaign: Campaign, kept: dict[str, Any]) -> None:
    rng = generator(0, "crowd", name)
    while True:
        hand = campaign.annotator(name).hand(2)
        rows = [question.row for question in hand.questions]
        assert len(set(rows)) == len(rows), "held twice"
        assert not set(rows) & {row for row, *_ in kept.values()}, "asked again"
        if hand.why in ("done", "exhausted"):
            return
        if not hand.questions:
            time.sleep(0.01)
            continue
        question = hand.questions[0]
        if rng.random() < job["skips"]:
            campaign.annotator().skip(question)
            continue
        group = standin.group_of(question.row)
        receipt = campaign.tell(question, group)
        kept[question.id] = [question.row, name, group, receipt.counted]
        if rng.random() < job["corrects"]:
            campaign.annotator().correct(question, standin.GROUPS[0])
            kept[question.id][2] = standin.GROUPS[0]
        if rng.random() < job["undoes"]:
            campaign.annotator(name).undo()
            del kept[question.id]


def serve(job: dict[str, Any], process: int) -> None:
    out = os.open(str(job["out"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    campaign = Campaign(Store(str(job["url"])), "trial", files=str(job["files"]), engine=standin.build, refit="thread")
    people = [
        threading.Thread(target=annotate, args=(job, f"annotator {process}.{person}", campaign, out))
        for person in range(int(str(job["people"])))
    ]
    for person in people:
        person.start()
    for person in people:
        person.join()
    campaign.close()


def main() -> None:
    job = json.loads(sys.argv[1])
    children = []
    for process in range(job["processes"]):
        child = os.fork()
        if child == 0:
            serve(job, process)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
