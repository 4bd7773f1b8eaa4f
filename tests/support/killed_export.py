"""Exports a campaign's answers and stops in the middle. Started by test_killed_exports.py, which kills it there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import web_people

from support.waiting import until

WAYS = ("web", "file", "classifier", "report")


def midway() -> None:
    """Say so, and wait for the end."""
    os.write(1, b"midway\n")
    sys.stdin.read()


def over_the_web(campaign: web_people.Campaign, address: str) -> None:
    """Stop when the first byte of the answer is about to be sent."""
    with web_people.housed(campaign) as house:
        owner, application = house.owner(), house.app
        if address.startswith("/api/v1/downloads"):
            owner.post(address.removesuffix("/file"), json={})
            state = until(lambda: _ended(owner, address.removesuffix("/file")))
            assert state == "ready"

        async def held(scope: Any, receive: Any, send: Any) -> None:
            async def sending(message: Any) -> None:
                midway()
                await send(message)

            await application(scope, receive, sending)

        house.app = held
        visitor = house.stranger()
        visitor.cookies = owner.cookies
        visitor.get(address)


def _ended(owner: Any, address: str) -> str | None:
    state = str(owner.get(address).json()["state"])
    return None if state == "running" else state


def into_a_file(campaign: web_people.Campaign, path: Path) -> None:
    """Stop when all is written and is about to be made durable."""
    os.fsync = lambda handle: midway()
    campaign.owner.export(path)


def main(way: str, folder: Path, target: Path) -> None:
    folder.mkdir()
    campaign = (
        web_people.make_campaign(folder, engine=None) if way == "classifier" else web_people.make_campaign(folder)
    )
    for _ in range(12):
        question = until(campaign.ask)
        campaign.tell(question, web_people.GROUPS[question.row % 2])
    if way == "file":
        into_a_file(campaign, target / "answers.csv")
    else:
        over_the_web(campaign, "/api/v1/export/csv" if way == "web" else f"/api/v1/downloads/{way}/file")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
