"""`python -m apod.web.build_main`: build one download; the job stands on standard input as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import IO

from apod.campaign import Campaign
from apod.campaign.engine import find_engine
from apod.errors import ApodError
from apod.files import write_private
from apod.processes import be_nice
from apod.web.building import REFUSED


def main(stdin: IO[str], stdout: IO[str]) -> int:
    """Build what is asked for; the exit status."""
    job = json.loads(stdin.readline())
    be_nice()
    try:
        engine = find_engine(job["engine"], job["path"])
        with Campaign.open(job["url"], job["name"], files=job["files"], engine=engine, refit="demand") as campaign:
            build(campaign, job["what"], Path(job["out"]))
    except ApodError as error:
        stdout.write(str(error))
        return REFUSED
    return 0


def build(campaign: Campaign, what: str, path: Path) -> None:
    """Write one download."""
    if what == "classifier":
        campaign.classifier().save(path)
    else:
        from apod.report.campaign import render_campaign
        from apod.report.campaign_facts import campaign_facts

        write_private(path, render_campaign(campaign_facts(campaign)).encode())


if __name__ == "__main__":
    sys.exit(main(sys.stdin, sys.stdout))
