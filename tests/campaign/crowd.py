"""Several processes with several annotators each, on one database. Started by test_processes.py."""

from __future__ import annotations

import json
import os
import sys
import threading

import standin

from apod.campaign import Campaign, Store


def annotate(job: dict[str, object], name: str, campaign: Campaign, out: int) -> None:
    try:
        while True:
            turn = campaign.turn(name)
            if turn.question is not None:
                campaign.tell(turn.question, standin.group_of(turn.question.row))
                os.write(out, f"{turn.question.row}\n".encode())
            elif turn.why != "wait":
                return
    except BaseException as error:  # noqa: BLE001 whatever it is, the test wants to see it
        os.write(out, f"error {type(error).__name__}: {error}\n".encode())


def work(job: dict[str, object], process: int) -> None:
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
            work(job, process)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
