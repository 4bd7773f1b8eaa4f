"""A small population to annotate, an engine that is quick and deterministic, and servers over them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fastapi.testclient import TestClient

from apod.campaign import Campaign, GroupAnswer, Materials, ModelState, Proposal
from apod.campaign.materials import PLANE
from apod.randomness import generator
from apod.web.app import create_app
from apod.web.server import listen, make_runner
from apod.web.settings import ServeSettings
from support.waiting import PATIENCE, until

GROUPS = ("Zwergelin", "Riesenhaft")
"""Names that stand nowhere else, so that a search for them finds only leaks."""

STRENGTHS = (0.0, 0.5, 1.0)


@dataclass(frozen=True, eq=False)
class Told:
    """A model that knows how many answers it was fitted on."""

    answers: int

    def state(self) -> ModelState:
        return ModelState({"answers": np.array(self.answers)})


class QuickEngine:
    """Asks in a fixed random order; its curve moves with every answer."""

    def __init__(self, materials: Materials) -> None:
        self.materials, self.size = materials, len(materials)
        order = generator(materials.settings.seed, "order").permutation(self.size)
        self.order = [int(row) for row in order]

    def fit(self, answers: Sequence[GroupAnswer], start: Told | None) -> Told | None:
        return Told(len(answers)) if answers else None

    def load(self, state: ModelState) -> Told:
        return Told(int(state.arrays["answers"]))

    def propose(
        self, model: Told | None, answers: Sequence[GroupAnswer], unavailable: AbstractSet[int], k: int
    ) -> list[Proposal]:
        free = [row for row in self.order if row not in unavailable][:k]
        names = self.materials.settings
        reason = {"rule": "quick", "group": names.groups[0], "label": names.label_names[1], "distance": 1.5}
        return [Proposal(row, reason) for row in free]

    def measure(self, model: Told, answers: Sequence[GroupAnswer]) -> dict[str, Any]:
        points = np.stack([np.arange(self.size), np.arange(self.size) % 7], axis=1).astype(np.float32)
        self.materials.remember(PLANE, lambda: {"points": points, "share": np.array([0.6, 0.3])})
        names, n = self.materials.settings.groups, model.answers
        groups = {name: {"n": n, "mean_loss": 0.5, "delta": 1.0} for name in names}
        curve = [
            {
                "strength": strength,
                "accuracy": 0.85 - 0.02 * strength,
                "selected": 0.4,
                "gap": 0.3 / (1 + n * strength),
            }
            for strength in STRENGTHS
        ]
        return {
            "round": n,
            "basis": "proxy",
            "note": "A stand-in.",
            "curve": curve,
            "bound": {
                "strength": 0.5, "epsilon": 0.4, "sampling_term": 1.0, "covering_term": 2.0, "bound": 1.4,
                "observed": 0.1, "worst_group": names[0], "groups": groups,
            },
        }  # fmt: skip


def build_quick(materials: Materials) -> QuickEngine:
    return QuickEngine(materials)


def people(rows: int = 60) -> tuple[pd.DataFrame, np.ndarray]:
    """A table to show, and labels."""
    rng = generator(0, "web people")
    frame = pd.DataFrame(
        {
            "age (years)": rng.integers(18, 70, rows),
            "hours_per_week (h)": rng.integers(5, 60, rows),
            "education": rng.choice(["school", "college", "doctorate"], rows),
            "cover_letter": [f"I have worked with care for years. Letter {row}. " * 4 for row in range(rows)],
        }
    )
    labels = (frame["age (years)"] + frame["hours_per_week (h)"] > 70).to_numpy().astype(int)
    labels[:2] = [0, 1]
    return frame, labels


def make_campaign(folder: Path, rows: int = 60, refit: Any = "thread", **settings: Any) -> Campaign:
    """A campaign over `people`; everything else as in `Campaign.create`."""
    frame, labels = people(rows)
    defaults: dict[str, Any] = {
        "groups": GROUPS,
        "budget": 20,
        "name": "hiring",
        "guidelines": "Decide by the application alone.",
        "legal_basis": "Consent, Art. 9(2)(a)",
        "display": frame,
        "ids": [f"person {row}" for row in range(rows)],
        "engine": build_quick,
        "refit": refit,
    }
    numbers = frame.select_dtypes("number")
    return Campaign.create(folder / "trial.db", numbers, labels, **{**defaults, **settings})


@dataclass
class House:
    """An application, and visitors to it, without a socket."""

    campaign: Campaign
    app: Any
    origin: str = "http://127.0.0.1:8000"

    def link(self, name: str = "maria", role: str = "annotator") -> str:
        """The token of a fresh one-time link."""
        return self.campaign.owner.access.grant(name, role).token

    def stranger(self) -> TestClient:
        """Somebody without a session."""
        return TestClient(self.app, base_url=self.origin, raise_server_exceptions=False)

    def enter(self, name: str = "maria", role: str = "annotator") -> TestClient:
        """Somebody with a session in a browser."""
        client = self.stranger()
        client.headers["X-Apod"] = "1"
        answer = client.post("/api/v1/session", json={"token": self.link(name, role)})
        assert answer.status_code == 200, answer.text
        return client

    def owner(self) -> TestClient:
        """The owner in a browser."""
        return self.enter("owner", "owner")

    def program(self, name: str = "robot", role: str = "annotator") -> TestClient:
        """A program with a token."""
        client = self.stranger()
        client.headers["Authorization"] = f"Bearer {self.campaign.owner.access.grant(name, role, 'token').token}"
        return client


@contextmanager
def housed(campaign: Campaign, settings: ServeSettings | None = None) -> Iterator[House]:
    """The application of a campaign for the length of a test."""
    app = create_app(campaign, settings or ServeSettings())
    with TestClient(app, base_url="http://127.0.0.1:8000"):
        yield House(campaign, app)


@dataclass
class Live:
    """A server with a socket, in a thread of this process."""

    campaign: Campaign
    origin: str

    def link(self, name: str = "maria", role: str = "annotator") -> str:
        """A fresh one-time link."""
        name = "owner" if role == "owner" else name
        return f"{self.origin}/enter#{self.campaign.owner.access.grant(name, role).token}"


@contextmanager
def live(campaign: Campaign, settings: ServeSettings | None = None, port: int = 0) -> Iterator[Live]:
    """Serve a campaign on a free port, or this one."""
    wanted = replace(settings or ServeSettings(), port=port)
    listening = listen(wanted)
    wanted = replace(wanted, port=listening.getsockname()[1])
    runner = make_runner(campaign, wanted)
    thread = threading.Thread(target=runner.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        until(lambda: runner.started or not thread.is_alive())
        assert thread.is_alive()
        yield Live(campaign, wanted.origin)
    finally:
        runner.should_exit = True
        thread.join(PATIENCE)
        listening.close()
        assert not thread.is_alive()


def turn(client: Any, state: str = "question") -> Any:
    """The visitor's turn, once it is in a state."""

    def look() -> Any:
        found = client.post("/api/v1/turn", json={}).json()
        assert found["state"] in (state, "preparing"), found["state"]
        return found if found["state"] == state else None

    return until(look)


def annotate(client, count: int) -> None:
    for _ in range(count):
        question = turn(client)["questions"][0]
        group = GROUPS[int(question["row_id"].split()[1]) % 2]
        body = {"answer": group, "key": question["id"]}
        assert client.post(f"/api/v1/questions/{question['id']}/answer", json=body).status_code == 200


def fitted(house: House, answers: int) -> None:
    """Wait until a model of so many answers is published and measured: a model asks before it is measured."""
    until(lambda: (found := house.campaign.status()).model_answers == answers and not found.refitting)


XSS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "';alert(1)//",
    "</textarea><svg onload=alert(1)>",
    "{{7*7}}${7*7}",
    "\u202etxt.exe\u202c",
]


def nasty(new_campaign: Callable[..., Campaign]) -> Campaign:
    frame, _ = people(60)
    for number, text in enumerate(XSS):
        frame[f"{text} column"] = [f"{text} {row}" for row in range(len(frame))]
        frame = frame.rename(columns={"education": XSS[0]}) if number == 0 else frame
    return new_campaign(
        groups=XSS[:3],
        display=frame,
        ids=[f"{XSS[row % len(XSS)]} {row}" for row in range(60)],
        guidelines="\n".join(XSS),
        legal_basis=XSS[1],
        name=XSS[0],
    )
