"""Downloads that have to be computed: each in a niced process of its own, so that no request waits for it.

The child is this module (`python -m apod.web.downloads`); its job goes through standard input as JSON, as for refits.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from apod.campaign import Campaign
from apod.campaign.engine import find_engine
from apod.errors import ApodError
from apod.files import write_private
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
    answers: int | None = None
    message: str | None = None
    path: Path | None = None


class Downloads:
    """The downloads of one server."""

    def __init__(self, campaign: Campaign, changed: Callable[[], None]) -> None:
        self._campaign, self._changed = campaign, changed
        self._lock = threading.Lock()
        self._found: dict[What, Download] = {}
        self._folder: Path | None = None
        self._running: list[subprocess.Popen[bytes]] = []

    def state(self, what: What) -> Download:
        """The state of a download."""
        return self._found.get(what, Download())

    def start(self, what: What) -> Download:
        """Build it from what is there now, unless it is being built."""
        with self._lock:
            if self.state(what).state == "running":
                return self.state(what)
            of, answers = self._campaign.version(), self._campaign.status().answered
            self._found[what] = begun = Download("running", of, answers)
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="apod-serve-"))  # for this user alone
        threading.Thread(target=self._build, args=(what, begun), name=f"apod-{what}", daemon=True).start()
        self._changed()
        return begun

    def stop(self) -> None:
        """End what is being built, and delete what was."""
        with self._lock:
            for process in self._running:
                process.kill()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _build(self, what: What, begun: Download) -> None:
        name = FILES[what][0]
        path = Path(str(self._folder)) / f"{begun.of}-{name}"
        message = self._run({**self._campaign.job(), "what": what, "out": str(path)})
        with self._lock:
            done = path if message is None else None
            state: Literal["ready", "failed"] = "ready" if message is None else "failed"
            self._found[what] = Download(state, begun.of, begun.answers, message, done)
        self._changed()

    def _run(self, job: dict[str, object]) -> str | None:
        """Run a job; None, or a sentence why nothing came of it."""
        process = start("apod.web.downloads", output=subprocess.PIPE, errors=subprocess.DEVNULL)
        with self._lock:
            self._running.append(process)
        said, _ = process.communicate(as_line(job))
        with self._lock:
            self._running.remove(process)
        if process.returncode == 0:
            return None
        if process.returncode == REFUSED:
            return said.decode(errors="replace").strip()[:500]
        log.warning("a download could not be built (status %s)", process.returncode)
        return "It could not be built; try again when there are more answers."


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
