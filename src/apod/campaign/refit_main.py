"""`python -m apod.campaign.refit_main`: refit one campaign until standard input closes.

The first line of standard input is the job as JSON; every further line says that there is something new.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO

from apod.campaign.campaign import Campaign
from apod.campaign.engine import find_engine
from apod.processes import be_nice


def main(stdin: IO[str]) -> None:
    """Refit the campaign named in the first line until standard input closes."""
    job = json.loads(stdin.readline())
    engine = find_engine(job["engine"], job["path"])
    campaign = Campaign.open(job["url"], job["name"], files=job["files"], engine=engine, refit="demand")
    campaign.refitter.ahead = None
    background = campaign.refitter.background()

    be_nice()
    background.start()
    while stdin.readline():
        background.wake()
    os._exit(0)  # the parent is gone; nothing here is worth finishing


if __name__ == "__main__":
    main(sys.stdin)
