"""What the contract suites share: places, pools and campaigns that are closed after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apod.campaign import Campaign, EngineFactory, Store
from apod.campaign.session import Refits
from apod.randomness import generator

GROUPS = ("Zwergelin", "Riesenhaft")
"""Names that stand nowhere else, so that a search for them finds only leaks."""


@dataclass(frozen=True)
class Place:
    """Where a test's database and its files are."""

    url: str
    files: Path


@dataclass
class Workshop:
    """Makes campaigns at one place, with a clock that can be moved."""

    place: Place
    engine: EngineFactory
    shift_ms: int = 0
    opened: list[Campaign] = field(default_factory=list)

    def create(self, rows: int = 200, **settings: Any) -> Campaign:
        """A new campaign over a generated pool, refitting on demand unless told otherwise."""
        features, labels = pool(rows)
        defaults: dict[str, Any] = {"groups": GROUPS, "budget": 10, "name": "trial", "refit": "demand"}
        settings = {**defaults, **settings}
        made = Campaign.create(self.place.url, features, labels, files=self.place.files, engine=self.engine, **settings)
        made.close()
        return self.open(settings["name"], refit=settings["refit"])

    def open(self, name: str = "trial", refit: Refits = "demand", lead_seconds: float = 15.0) -> Campaign:
        """Another hold on a campaign, as another process would have it; its clock is the workshop's."""
        store = Store(self.place.url, skew=lambda: self.shift_ms)
        found = Campaign(
            store, name, files=self.place.files, engine=self.engine, refit=refit, lead_seconds=lead_seconds
        )
        self.opened.append(found)
        return found

    def pass_time(self, seconds: float) -> None:
        """Move the database's clock."""
        self.shift_ms += round(1000 * seconds)


class Contract:
    """Fixtures of a contract; `engine` and `place` are the implementer's."""

    @pytest.fixture
    def engine(self) -> EngineFactory:
        """The engine to run campaigns with."""
        raise NotImplementedError("define the fixture `engine`")

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        """An empty database for one test."""
        raise NotImplementedError("define the fixture `place`")

    @pytest.fixture
    def workshop(self, place: Place, engine: EngineFactory) -> Iterator[Workshop]:
        """Campaigns that are closed after the test."""
        found = Workshop(place, engine)
        yield found
        for campaign in found.opened:
            campaign.close()


def pool(rows: int = 200, seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Features and labels without any meaning."""
    rng = generator(seed, "contract pool")
    features = rng.normal(size=(rows, 4))
    labels = (features[:, 0] + rng.normal(size=rows) > 0).astype(int)
    labels[:2] = [0, 1]
    return features, labels


def group_of(row: int) -> str:
    """The group an honest annotator would name."""
    return GROUPS[row % 2]


def answer_all(campaign: Campaign, annotator: str = "annotator", group: Callable[[int], str] = group_of) -> list[int]:
    """Ask and tell until there is nothing left; the rows in order."""
    rows = []
    while (question := campaign.ask(annotator)) is not None:
        rows.append(question.row)
        campaign.tell(question, group(question.row))
    return rows
