"""What every engine must do, whatever its numerics; pools and campaigns to try it on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apod.campaign import Campaign, EngineFactory, GroupAnswer, ModelState, Store
from apod.campaign.events import canonical
from apod.campaign.files import Files, state_hash
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


# ruff: noqa: D102 (a test's name is its claim)


K = 5


def _answers(rows: range) -> list[GroupAnswer]:
    return [GroupAnswer(row, (row // 2) % 2) for row in rows]


class EngineContract(Contract):
    """An engine is a function of its arguments: it changes nothing and remembers nothing."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        """Engines do not meet the database; any will do."""
        return Place(f"sqlite:///{tmp_path}/engine.db", tmp_path / "files")

    def test_first_questions_are_different_and_available(self, workshop: Workshop, engine: EngineFactory) -> None:
        found = engine(workshop.create().materials).propose(None, [], set(range(50)), K)
        rows = [proposal.row for proposal in found]
        assert len(set(rows)) == len(rows) == K
        assert not set(rows) & set(range(50))

    def test_proposals_are_different_and_available(self, workshop: Workshop, engine: EngineFactory) -> None:
        made = engine(workshop.create().materials)
        model = made.fit(_answers(range(12)), None)
        assert model is not None
        rows = [proposal.row for proposal in made.propose(model, _answers(range(12)), set(range(50)), K)]
        assert len(set(rows)) == len(rows) == K
        assert not set(rows) & set(range(50))

    def test_reasons_are_json_and_name_their_rule(self, workshop: Workshop, engine: EngineFactory) -> None:
        made = engine(workshop.create().materials)
        for proposal in made.propose(made.fit(_answers(range(12)), None), _answers(range(12)), set(range(12)), K):
            assert isinstance(proposal.reason["rule"], str)
            assert canonical(proposal.reason)
            assert proposal.probability is None or 0 < proposal.probability <= 1

    def test_an_exhausted_pool_gives_what_is_left(self, workshop: Workshop, engine: EngineFactory) -> None:
        made = engine(workshop.create().materials)
        model = made.fit(_answers(range(12)), None)
        assert [p.row for p in made.propose(model, _answers(range(12)), set(range(199)), K)] == [199]
        assert made.propose(model, _answers(range(12)), set(range(200)), K) == []

    def test_too_few_answers_give_no_model_and_no_error(self, workshop: Workshop, engine: EngineFactory) -> None:
        made = engine(workshop.create().materials)
        assert made.fit([], None) is None
        assert made.fit([GroupAnswer(0, 0)], None) is None

    def test_the_canonical_fit_depends_on_the_answers_alone(self, workshop: Workshop, engine: EngineFactory) -> None:
        materials = workshop.create().materials
        busy, fresh = engine(materials), engine(materials)
        warm = busy.fit(_answers(range(8)), None)
        busy.fit(_answers(range(10)), warm)
        busy.propose(warm, _answers(range(8)), set(range(8)), K)
        assert _hash(busy.fit(_answers(range(12)), None)) == _hash(fresh.fit(_answers(range(12)), None))

    def test_a_loaded_model_proposes_and_continues_like_the_original(
        self, workshop: Workshop, engine: EngineFactory, tmp_path: Path
    ) -> None:
        made = engine(workshop.create().materials)
        model = made.fit(_answers(range(12)), None)
        assert model is not None
        state, files = model.state(), Files(tmp_path / "models")
        again = made.load(ModelState(files.arrays(files.put_arrays(state.arrays)), state.meta))  # as another process
        first = made.propose(model, _answers(range(12)), set(range(12)), K)
        assert first == made.propose(again, _answers(range(12)), set(range(12)), K)
        assert _hash(made.fit(_answers(range(14)), model)) == _hash(made.fit(_answers(range(14)), again))

    def test_a_row_may_belong_to_both_groups_in_part(self, workshop: Workshop, engine: EngineFactory) -> None:
        made = engine(workshop.create().materials)
        unsure = [*_answers(range(12)), GroupAnswer(20, 0, 0.3), GroupAnswer(20, 1, 0.7)]
        other = [*_answers(range(12)), GroupAnswer(20, 0, 0.7), GroupAnswer(20, 1, 0.3)]
        assert _hash(made.fit(unsure, None)) != _hash(made.fit(other, None))


def _hash(model: object) -> str:
    state = model.state()  # type: ignore[attr-defined]
    return state_hash(state.arrays, canonical(state.meta))
