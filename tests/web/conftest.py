"""Campaigns in the browser: see web_people.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import web_people

from apod.campaign import Campaign


@pytest.fixture
def new_campaign(tmp_path: Path) -> Iterator[Callable[..., Campaign]]:
    """Makes campaigns over `people` that are closed after the test."""
    made: list[Campaign] = []

    def make(**settings: Any) -> Campaign:
        folder = tmp_path / f"campaign-{len(made)}"
        folder.mkdir()
        made.append(web_people.make_campaign(folder, **settings))
        return made[-1]

    yield make
    for campaign in made:
        campaign.close()


@pytest.fixture
def house(new_campaign: Callable[..., Campaign]) -> Iterator[web_people.House]:
    """An application over a fresh campaign, without a socket."""
    with web_people.housed(new_campaign()) as found:
        yield found


@pytest.fixture
def server(new_campaign: Callable[..., Campaign]) -> Iterator[web_people.Live]:
    """A server over a fresh campaign on a free port of this machine."""
    with web_people.live(new_campaign()) as found:
        yield found


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The file of a campaign with the package's own engine, for a server in a process of its own."""
    web_people.make_campaign(
        tmp_path, engine=None, refit="demand", engine_options={"preset": "heads", "epochs": 1, "body_epochs": 1}
    ).close()
    return tmp_path / "trial.db"
