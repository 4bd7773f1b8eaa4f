# ruff: noqa: D102 (a test's name is its claim)
"""What every engine must do, whatever its numerics."""

from __future__ import annotations

from pathlib import Path

import pytest

from apod.campaign import EngineFactory, GroupAnswer, ModelState
from apod.campaign.events import canonical
from apod.campaign.files import Files, state_hash
from apod.testing.contract import Contract, Place, Workshop

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
