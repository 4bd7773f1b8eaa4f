"""Server-sent events: one look at the campaign serves all who watch, however many tabs there are.

A stream tells the latest state, not every step: whoever is slow misses steps and holds nothing up, and nothing is
queued for anybody. While nobody watches, nobody looks.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace

from apod.campaign import Campaign
from apod.campaign.access import Visitor
from apod.campaign.errors import CampaignError
from apod.campaign.log import moment
from apod.campaign.outcomes import RefitNews
from apod.web.settings import Limits

log = logging.getLogger(__name__)


LOOK_SECONDS = 0.5
BEAT_SECONDS = 15.0
NOTHING_YET = RefitNews(None, None, 0, None)


@dataclass(frozen=True)
class Seen:
    """What the hub saw last."""

    seq: int = -1
    progress: Mapping[str, object] = field(default_factory=dict)
    refit: RefitNews | None = None
    access: tuple[int | None, ...] = ()  # what tells that links, sessions or tokens changed
    downloads: int = 0  # how often a download changed
    stale_since: str | None = None  # when looking began to fail: from then on this is what was seen before


class Hub:
    """Looks at the campaign while somebody watches, and tells them."""

    def __init__(self, campaign: Campaign, progress: Callable[[], Mapping[str, object]], limits: Limits) -> None:
        self._campaign, self._progress, self._limits = campaign, progress, limits
        self._seen = Seen()
        self._changed = asyncio.Event()
        self._watchers: Counter[str] = Counter()
        self._downloads = 0
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def download_changed(self) -> None:
        """A download was started or is done; may be called from any thread."""
        self._downloads += 1

    def full(self, who: Visitor) -> bool:
        """Whether this visitor, or everybody together, has as many streams as may be."""
        return self._watchers[who.id] >= self._limits.streams or self._watchers.total() >= self._limits.all_streams

    def stop(self) -> None:
        """End all streams."""
        self._stopped = True
        self._announce()
        if self._task is not None:
            self._task.cancel()

    async def stream(self, who: Visitor) -> AsyncIterator[bytes]:
        """The events for one visitor, until they leave or are no longer welcome."""
        self._watchers[who.id] += 1
        try:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._watch())
            yield b"retry: 2000\n\n"
            told, checked = Seen(), time.monotonic()
            while True:
                changed, seen = self._changed, self._seen
                due = seen.access != told.access or time.monotonic() - checked >= BEAT_SECONDS
                if self._stopped or (due and not await self._welcome(who)):
                    yield _message("bye", "{}")
                    return
                checked = time.monotonic() if due else checked
                for event, data in _news(told, seen, who.role == "owner"):
                    yield _message(event, data)
                told = seen
                try:
                    await asyncio.wait_for(changed.wait(), BEAT_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._watchers[who.id] -= 1
            if self._watchers[who.id] <= 0:
                del self._watchers[who.id]

    async def _welcome(self, who: Visitor) -> bool:
        try:
            return await asyncio.to_thread(self._campaign.owner.access.good, who.id)
        except CampaignError:
            return True  # the database is away: nobody is thrown out for that

    async def _watch(self) -> None:
        """Look while somebody watches."""
        while self._watchers and not self._stopped:
            try:
                seen = await asyncio.to_thread(self._look)
            except Exception as error:  # noqa: BLE001 whoever watches must hear of it, and of what comes after it
                log.warning("the campaign could not be looked at (%s)", type(error).__name__)
                since = self._seen.stale_since or moment(round(time.time() * 1000))
                seen = replace(self._seen, stale_since=since)
            if seen != self._seen:
                self._seen = seen
                self._announce()
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self) -> Seen:
        seq, progress = self._campaign.head(), self._seen.progress
        if seq != self._seen.seq:
            progress = self._progress()
        access = self._campaign.owner.access.marks()
        return Seen(seq, progress, self._campaign.owner.results.refit_news(), access, self._downloads)

    def _announce(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _news(told: Seen, seen: Seen, owner: bool) -> list[tuple[str, str]]:
    """What a visitor does not know yet. The number of events is the owner's: it tells when a model is fitted."""
    found = []
    if not owner:
        return [("progress", json.dumps(seen.progress))] if seen.progress != told.progress else []
    if seen.stale_since != told.stale_since:
        found.append(("stale", json.dumps({"since": seen.stale_since})))
    if seen.seq < 0:
        return found
    if seen.seq != told.seq:
        found.append(("progress", json.dumps({**seen.progress, "seq": seen.seq})))
    if seen.refit is not None and seen.refit != told.refit and seen.refit != NOTHING_YET:
        found.append(("refit", json.dumps({"answers": seen.refit.answers, "seq": seen.seq})))
    if told.seq >= 0 and seen.access != told.access:
        found.append(("access", "{}"))
    if told.seq >= 0 and seen.downloads != told.downloads:
        found.append(("download", "{}"))
    return found


def _message(event: str, data: str) -> bytes:
    return f"event: {event}\ndata: {data}\n\n".encode()
