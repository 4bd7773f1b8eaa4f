"""Downloads that have to be computed: each in a niced process of its own, so that no request waits for it.

The child is this module (`python -m apod.web.downloads`); its job goes through standard input as JSON, as for refits.
"""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import IO, BinaryIO, Literal

from apod.campaign import Campaign
from apod.campaign.engine import find_engine
from apod.errors import ApodError
from apod.processes import as_line, be_nice, start

log = logging.getLogger(__name__)


What = Literal["classifier", "report"]
FILES: dict[What, tuple[str, str]] = {
    "classifier": ("classifier.apod", "application/octet-stream"),
    "report": ("report.html", "text/html; charset=utf-8"),
}
REFUSED = 2  # exit status of a build that says on its output why it cannot be done


@dataclass(frozen=True)
class Download:
    """The state of a download."""

    state: Literal["none", "running", "ready", "failed"] = "none"
    of: tuple[int, float | None] | None = None  # which answers and operating point it is made from
    erased: int = 0  # values that were erased before: it may be made from any that is erased later
    answers: int | None = None
    message: str | None = None
    content: bytes | None = field(default=None, repr=False)  # in memory: a killed server leaves no file behind


class Downloads:
    """The downloads of one server."""

    def __init__(self, campaign: Campaign, changed: Callable[[], None]) -> None:
        self._campaign, self._changed = campaign, changed
        self._lock = threading.Lock()
        self._found: dict[What, Download] = {}
        self._running: list[subprocess.Popen[bytes]] = []

    def state(self, what: What) -> Download:
        """The state of a download; one that may hold an answer erased since is gone."""
        with self._lock:
            return self._state(what)

    def _state(self, what: What) -> Download:
        found = self._found.get(what, Download())
        if found.content is not None and found.erased != self._campaign.owner.results.erased_values():
            found = self._found[what] = Download()
        return found

    def start(self, what: What) -> Download:
        """Build it from what is there now, unless it is being built."""
        with self._lock:
            if self._state(what).state == "running":
                return self._state(what)
            erased = self._campaign.owner.results.erased_values()
            of, answers = self._campaign.owner.results.version(), self._campaign.status().answered
            self._found[what] = begun = Download("running", of, erased, answers)
        threading.Thread(target=self._build, args=(what, begun), name=f"apod-{what}", daemon=True).start()
        self._changed()
        return begun

    def stop(self) -> None:
        """End what is being built."""
        with self._lock:
            for process in self._running:
                process.kill()

    def _build(self, what: What, begun: Download) -> None:
        content, message = self._run({**self._campaign.job(), "what": what})
        state: Literal["ready", "failed"] = "failed" if content is None else "ready"
        with self._lock:
            self._found[what] = replace(begun, state=state, message=message, content=content)
        self._changed()

    def _run(self, job: dict[str, object]) -> tuple[bytes | None, str | None]:
        """Run a job; what came of it, or else a sentence why nothing did."""
        process = start("apod.web.downloads", output=subprocess.PIPE, errors=subprocess.DEVNULL)
        with self._lock:
            self._running.append(process)
        said, _ = process.communicate(as_line(job))
        with self._lock:
            self._running.remove(process)
        if process.returncode == 0:
            return said, None
        if process.returncode == REFUSED:
            return None, said.decode(errors="replace").strip()[:500]
        log.warning("a download could not be built (status %s)", process.returncode)
        return None, "It could not be built; try again when there are more answers."


def main(stdin: IO[str], output: BinaryIO) -> int:
    """Build what is asked for and write it, or why not, to `output`; the exit status."""
    job = json.loads(stdin.readline())
    be_nice()
    try:
        engine = find_engine(job["engine"], job["path"])
        with Campaign.open(job["url"], job["name"], files=job["files"], engine=engine, refit="demand") as campaign:
            output.write(build(campaign, job["what"]))
    except ApodError as error:
        output.write(str(error).encode())
        return REFUSED
    return 0


def build(campaign: Campaign, what: str) -> bytes:
    """The content of one download."""
    if what == "classifier":
        content = io.BytesIO()
        campaign.classifier().save(content)
        return content.getvalue()
    from apod.report.campaign_facts import campaign_facts
    from apod.report.campaign_page import render_campaign

    return render_campaign(campaign_facts(campaign)).encode()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # what a library prints is no part of the file
        status = main(sys.stdin, output)
    sys.exit(status)
