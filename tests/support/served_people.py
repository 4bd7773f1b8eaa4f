"""`apod serve` in a process of its own, and annotators who work over HTTP while it is killed: what each was told."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from apod.randomness import generator
from support.waiting import PATIENCE


@contextmanager
def serving(
    database: str | Path, *options: str, command: tuple[str, ...] = (sys.executable, "-m", "apod")
) -> Iterator[tuple[str, str, subprocess.Popen[str]]]:
    """A server of its own process: its address, the owner's token, and the process."""
    process = subprocess.Popen(
        [*command, "serve", str(database), "--port", "0", *options],
        cwd=database.parent if isinstance(database, Path) else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    try:
        line = ""
        while not line.startswith("owner: "):
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
        found = re.fullmatch(r"owner: (http://\S+)/enter#(\S+)\n", line)
        assert found is not None
        yield found[1], found[2], process
    finally:
        process.kill()
        process.communicate()


@dataclass
class Allowance:
    """Acts that all annotators together may still do: answers must last until the last kill."""

    ready: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    over: threading.Event = field(default_factory=threading.Event)

    def grant(self, acts: int) -> None:
        self.ready.release(acts)

    def take(self) -> None:
        """Wait for one more, or for the end of all limits."""
        while not self.ready.acquire(timeout=0.1) and not self.over.is_set():
            pass


@dataclass
class Served:
    """Where the server is now; it moves with every life."""

    origin: str = ""


class Annotator(threading.Thread):
    """Answers, and at times skips, corrects or takes back; repeats every call with its key until it is acknowledged."""

    def __init__(self, name: str, token: str, groups: tuple[str, ...], served: Served, allowance: Allowance) -> None:
        super().__init__(name=name, daemon=True)
        self.groups, self.served, self.allowance = groups, served, allowance
        self.client = httpx2.Client(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE)
        self.chance = random.Random(int(generator(0, "served", name).integers(2**32)))
        self.kept: dict[str, tuple[str, str, bool]] = {}  # question -> person, group, counted
        self.repeated = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.allowance.take()
            while self.act():
                self.allowance.take()
        except BaseException as error:  # noqa: BLE001 whatever it is, the test wants to see it
            self.error = error
        finally:
            self.client.close()

    def act(self) -> bool:
        """One case; False where there is no more."""
        case = self.next_case()
        if case is None:
            return False
        if self.chance.random() < 0.05:
            self.call(f"questions/{case['id']}/skip")
            return True
        person = case["row_id"]
        group = self.groups[int(person.split()[-1]) % 2]
        receipt = self.call(f"questions/{case['id']}/answer", answer=group)["receipt"]
        assert receipt["question"] == case["id"]
        self.repeated += receipt["repeated"]
        self.kept[case["id"]] = person, group, receipt["counted"]
        if self.chance.random() < 0.05:
            self.call(f"questions/{case['id']}/correction", answer=self.groups[0])
            self.kept[case["id"]] = person, self.groups[0], receipt["counted"]
        if self.chance.random() < 0.05:
            back = self.call("undo")["question"]
            assert back is None or back["row_id"] == person
            del self.kept[case["id"]]
        return True

    def next_case(self) -> Any:
        while True:
            turn = self.call("turn", keyed=False)
            people = [case["row_id"] for case in turn["questions"]]
            assert len(people) == len(set(people)), "one person held twice"
            assert not set(people) & {person for person, *_ in self.kept.values()}, "asked about again"
            if turn["state"] == "question":
                return turn["questions"][0]
            if turn["state"] in ("done", "exhausted", "finished"):
                return None
            time.sleep(0.05)

    def call(self, path: str, keyed: bool = True, **body: Any) -> Any:
        """What the server says, however often it has to be asked: it may be killed before, during and after a call."""
        if keyed:
            body["key"] = uuid.UUID(int=self.chance.getrandbits(128)).hex
        while True:
            try:
                answer = self.client.post(f"{self.served.origin}/api/v1/{path}", json=body)
            except (httpx2.TransportError, httpx2.UnsupportedProtocol):
                time.sleep(0.05)
                continue
            assert answer.status_code == 200, (path, answer.status_code, answer.text)
            return answer.json()
