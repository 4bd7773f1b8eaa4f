"""What every store must do: questions and answers, concurrency, time, refits, tampering and erasure."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import text

from apod.campaign import Campaign, GroupAnswer, Store, campaigns
from apod.campaign.errors import Conflict, NotFound, SchemaError, StoreError
from apod.campaign.journal import Journal
from apod.campaign.state import State
from apod.errors import InputError
from apod.testing.engines import GROUPS, Contract, Workshop, answer_all, group_of
from support.store_asking import AskingContract
from support.waiting import PATIENCE

TAMPERING = {
    "an answer was changed": "UPDATE apod_answers SET value = CASE value WHEN '0' THEN '1' ELSE '0' END WHERE seq = 3",
    "an answer was deleted": "DELETE FROM apod_answers WHERE seq = 3",
    "a reason was changed": "UPDATE apod_reasons SET value = '{}' WHERE seq = 2",
    "an event was changed": "UPDATE apod_events SET body = replace(body, 'perceived', 'records') WHERE seq = 3",
    "an event's time was changed": "UPDATE apod_events SET at = at - 1 WHERE seq = 2",
    "an event was deleted": "DELETE FROM apod_events WHERE seq = 2",
    "the last event was deleted": "DELETE FROM apod_events WHERE seq = (SELECT MAX(seq) FROM apod_events)",
    "the settings were changed": """UPDATE apod_campaigns SET settings = replace(settings, '"seed":0', '"seed":1')""",
}

_COPY = "SELECT campaign, {seq}, at, 'x', body, commitment, hash FROM apod_events WHERE seq = 2"
_COLUMNS = "campaign, seq, at, kind, body, commitment, hash"

REFUSED = {
    "sqlite": (
        f"INSERT OR REPLACE INTO apod_events ({_COLUMNS}) {_COPY.format(seq='seq')}",
        f"REPLACE INTO apod_events (rowid, {_COLUMNS}) {_COPY.format(seq='9999').replace('SELECT', 'SELECT rowid,')}",
        "UPDATE OR REPLACE apod_events SET seq = 1 WHERE seq = 2",
    ),
    "postgresql": (
        "TRUNCATE apod_events",
        "TRUNCATE apod_campaigns CASCADE",
        "SET LOCAL session_replication_role = replica; DELETE FROM apod_events",
        "SET LOCAL session_replication_role = replica; TRUNCATE apod_events",
    ),
    "both": (
        "UPDATE apod_events SET kind = 'x'",
        "DELETE FROM apod_events",
        f"INSERT INTO apod_events ({_COLUMNS}) {_COPY.format(seq='seq')} "
        "ON CONFLICT (campaign, seq) DO UPDATE SET kind = 'x'",
    ),
}
"""Ways to change the log that its guards must refuse."""


@contextmanager
def tampering(store: Store) -> Iterator[None]:
    """Run the block with the log's guards taken off, as somebody with the database's password could."""
    guards = {
        "sqlite": ["DROP TRIGGER apod_events_no_update", "DROP TRIGGER apod_events_no_delete"],
        "postgresql": ["DROP TRIGGER apod_events_only_grows ON apod_events"],
    }
    with store.writing() as connection:
        for guard in guards[store.dialect]:
            connection.execute(text(guard))
    yield


def _answer_without_refit(campaign: Campaign) -> list[int]:
    """Spend the budget and leave the last answer unknown to the model."""
    rows = []
    for _ in range(campaign.settings.budget):
        question = campaign.ask()
        assert question is not None
        campaign.tell(question, group_of(question.row))
        rows.append(question.row)
    return rows


class SafetyContract(Contract):
    """What must hold whatever happens at the same time, before and afterwards."""

    def test_many_annotators_at_once_get_no_row_twice_and_spend_the_budget_exactly(self, workshop: Workshop) -> None:
        campaign = workshop.create(rows=300, budget=120, refit="thread", lookahead=32)
        rows: list[int] = []
        errors: list[BaseException] = []

        def annotate(name: str) -> None:
            try:
                while True:
                    turn = campaign.annotator(name).turn()
                    if turn.question is not None:
                        campaign.tell(turn.question, group_of(turn.question.row))
                        rows.append(turn.question.row)
                    elif turn.why != "wait":
                        return
            except BaseException as error:  # noqa: BLE001 a thread's errors must reach the test
                errors.append(error)

        people = [threading.Thread(target=annotate, args=(f"annotator {i}",)) for i in range(50)]
        for person in people:
            person.start()
        for person in people:
            person.join()
        assert errors == []
        assert len(rows) == len(set(rows)) == 120
        status = campaign.status()
        assert (status.answered, status.pending) == (120, 0)
        assert campaign.owner.verify_log().ok

    def test_fifty_annotators_of_two_attributes_get_no_row_twice_and_lose_no_value(self, workshop: Workshop) -> None:
        both = {"sex": ["x", "y"], "race": ["a", "b", "c"]}
        campaign = workshop.create(rows=200, budget=80, groups=both, refit="thread", lookahead=32)
        told: dict[int, tuple[str, str | None]] = {}
        errors: list[BaseException] = []

        def annotate(name: str) -> None:
            try:
                while (turn := campaign.annotator(name).turn()).question is not None or turn.why == "wait":
                    if turn.question is None:
                        continue
                    row = turn.question.row
                    assert row not in told
                    told[row] = both["sex"][row % 2], both["race"][row % 3] if row % 5 else None
                    campaign.tell(turn.question, dict(zip(both, told[row], strict=True)))
            except BaseException as error:  # noqa: BLE001 a thread's errors must reach the test
                errors.append(error)

        people = [threading.Thread(target=annotate, args=(f"annotator {i}",)) for i in range(50)]
        for person in people:
            person.start()
        for person in people:
            person.join()
        assert errors == []
        status = campaign.status()
        assert (len(told), status.answered, status.pending) == (80, 80, 0)
        assert status.values_told == sum(part is not None for pair in told.values() for part in pair)
        stored = {(answer.row, answer.attribute): answer.group for answer in campaign.owner.answers()}
        given = {(row, at): pair[at] for row, pair in told.items() for at in (0, 1) if pair[at] is not None}
        names = list(both.values())
        assert {(row, at): names[at][group] for (row, at), group in stored.items()} == given
        assert campaign.owner.verify_log().ok

    def test_the_state_is_the_fold_of_the_events(self, workshop: Workshop) -> None:
        campaign = workshop.create(overlap=2, budget=8, lease_seconds=30)
        for step, name in enumerate("abcabcab"):
            question = campaign.ask(name)
            if question is None:
                break
            if step == 1:
                campaign.annotator().skip(question)
            elif step == 2:
                workshop.pass_time(40)
            else:
                campaign.tell(question, group_of(question.row))
        campaign.annotator("a").undo()
        campaign.owner.erase(row=campaign.owner.answers()[0].row)
        used = campaign.journal.view(lambda c, state, at: replace(state))
        fresh = Journal(campaign.store, campaign.materials.campaign).view(lambda c, state, at: state)
        assert isinstance(fresh, State)
        assert fresh == used

    def test_nobody_can_change_the_log_through_the_front_door(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        answer_all(campaign)
        before = campaign.owner.verify_log()
        for statement in (*REFUSED["both"], *REFUSED[campaign.store.dialect]):
            with pytest.raises(StoreError), campaign.store.writing() as connection:
                connection.exec_driver_sql(statement)
        assert campaign.owner.verify_log() == before
        assert before.ok

    @pytest.mark.parametrize("what", TAMPERING)
    def test_tampering_shows(self, workshop: Workshop, what: str) -> None:
        campaign = workshop.create(budget=3)
        answer_all(campaign)
        assert campaign.owner.verify_log().ok
        with tampering(campaign.store), campaign.store.writing() as connection:
            connection.exec_driver_sql(TAMPERING[what])
        assert not workshop.open().owner.verify_log().ok

    def test_a_log_that_was_cut_shows_against_a_noted_head(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        campaign.tell(campaign.ask(), GROUPS[0])  # type: ignore[arg-type]
        before = campaign.owner.verify_log()
        answer_all(campaign)
        noted = campaign.owner.verify_log().head
        assert campaign.owner.verify_log(before.head).ok
        with tampering(campaign.store), campaign.store.writing() as connection:
            for table in ("apod_answers", "apod_reasons", "apod_events"):
                connection.execute(text(f"DELETE FROM {table} WHERE seq > {before.events}"))
            move = f"UPDATE apod_campaigns SET last_seq = {before.events}, last_hash = '{before.head}'"
            connection.execute(text(move))
        assert workshop.open().owner.verify_log().ok  # nothing inside can tell: that is what noting a head is for
        assert not workshop.open().owner.verify_log(noted).ok

    def test_erasing_leaves_no_value_no_salt_and_no_model_and_the_chain_whole(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        rows = answer_all(campaign)
        campaign.owner.refit()
        with campaign.store.reading() as connection:
            salt = connection.execute(text("SELECT salt FROM apod_answers WHERE seq = 3")).scalar_one()
        campaign.owner.erase(row=rows[0])
        assert rows[0] not in {answer.row for answer in campaign.owner.answers()}
        with campaign.store.reading() as connection:
            left = connection.execute(text("SELECT salt FROM apod_answers")).scalars().all()
            assert salt not in left
            assert connection.execute(text("SELECT COUNT(*) FROM apod_models")).scalar() == 0
        assert list((campaign.files.folder / "models-1").iterdir()) == []
        check = campaign.owner.verify_log()
        assert (check.ok, check.erased > 0) == (True, True)
        assert campaign.owner.refit()
        with pytest.raises(NotFound):
            campaign.owner.erase(row=rows[0])
        assert campaign.status().answered == 10
        assert rows[0] not in answer_all(campaign)

    def test_a_row_that_was_erased_is_put_to_nobody_else(self, workshop: Workshop) -> None:
        campaign = workshop.create(overlap=2)
        question = campaign.ask("a")
        assert question is not None
        campaign.tell(question, GROUPS[0])
        campaign.owner.erase(row=question.row)
        assert question.row not in [*answer_all(campaign, "b"), *answer_all(campaign, "c")]
        assert campaign.status().answered == 10

    def test_a_question_about_an_erased_row_is_taken_back_from_whoever_holds_it(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=6, overlap=2)
        first = campaign.ask("a")
        assert first is not None
        second = campaign.ask("b")
        assert second is not None
        assert second.row == first.row
        campaign.tell(first, group_of(first.row))
        campaign.owner.erase(row=first.row)
        for annotator in "abc":
            following = campaign.ask(annotator)
            assert following is not None
            assert following.row != first.row
        with pytest.raises(Conflict, match="was erased"):
            campaign.tell(second, GROUPS[0])
        assert campaign.status().answered == 1  # what was erased stays paid for
        assert campaign.owner.verify_log().ok

    def test_a_model_fitted_on_an_erased_answer_is_never_published(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        rows = _answer_without_refit(campaign)
        engine = campaign.engine()
        fit = engine.fit

        def fit_while_erasing(answers: list[GroupAnswer], start: object) -> object:
            workshop.open().owner.erase(row=rows[0])
            return fit(answers, start)  # type: ignore[arg-type]

        engine.fit = fit_while_erasing  # type: ignore[assignment, method-assign]
        assert not campaign.owner.refit()
        engine.fit = fit  # type: ignore[method-assign]
        assert campaign.owner.refit()
        assert campaign.owner.verify_log().ok

    def test_a_dead_leader_is_replaced_and_publishes_nothing_when_it_wakes(self, workshop: Workshop) -> None:
        asleep = workshop.create()
        _answer_without_refit(asleep)
        other = workshop.open()
        engine = asleep.engine()
        fit = engine.fit

        def fit_too_long(answers: list[GroupAnswer], start: object) -> object:
            assert not other.owner.refit()  # led by another
            workshop.pass_time(100)
            assert other.owner.refit()
            return fit(answers, start)  # type: ignore[arg-type]

        engine.fit = fit_too_long  # type: ignore[assignment, method-assign]
        before = len([entry for entry in asleep.owner.log() if entry["what"] == "refitted"])
        assert not asleep.owner.refit()
        assert len([entry for entry in asleep.owner.log() if entry["what"] == "refitted"]) == before + 1

    def test_an_answer_does_not_wait_for_the_refit(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=40, refit="thread")
        engine, running, go_on, over = campaign.engine(), threading.Event(), threading.Event(), threading.Event()
        fit = engine.fit

        def fit_slowly(answers: list[GroupAnswer], start: object) -> object:
            running.set()
            go_on.wait(PATIENCE)
            over.set()
            return fit(answers, start)  # type: ignore[arg-type]

        engine.fit = fit_slowly  # type: ignore[assignment, method-assign]
        campaign.tell(campaign.ask(), GROUPS[0])  # type: ignore[arg-type]
        assert running.wait(PATIENCE)
        for _ in range(10):
            question = campaign.ask()
            campaign.tell(question, group_of(question.row))  # type: ignore[arg-type, union-attr]
        assert campaign.status().answered == 11
        assert not over.is_set()  # the refit still waits
        go_on.set()

    def test_a_failing_engine_stops_no_answers_and_is_reported_without_its_words(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        engine = campaign.engine()

        def fail(answers: object, start: object) -> object:
            raise ZeroDivisionError(f"{GROUPS[0]} is empty")

        engine.fit = fail  # type: ignore[assignment, method-assign]
        assert len(answer_all(campaign)) == 10
        status = campaign.status()
        assert status.refit_failure == "ZeroDivisionError"
        assert status.refit_failures > 0

    def test_a_clock_set_back_is_noted_and_leases_still_run_out(self, workshop: Workshop) -> None:
        campaign = workshop.create(lease_seconds=60)
        question = campaign.ask("a")
        workshop.pass_time(-365 * 24 * 3600)
        assert campaign.ask("a").row == question.row  # type: ignore[union-attr]
        assert campaign.status().clock_moves == 1
        workshop.pass_time(61)
        assert campaign.ask("b").row == question.row  # type: ignore[union-attr]

    def test_a_clock_set_forward_loses_no_answer(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=3)
        question = campaign.ask("a")
        workshop.pass_time(365 * 24 * 3600)
        assert campaign.tell(question, GROUPS[0]).counted  # type: ignore[arg-type]
        workshop.pass_time(-365 * 24 * 3600)
        answer_all(campaign)
        assert campaign.status().answered == 3
        assert campaign.owner.verify_log().ok

    def test_only_the_databases_clock_counts(self, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        campaign = workshop.create()
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: 0.0)
            question = campaign.ask("a")
        assert question is not None
        assert question.expires_at > "2020"
        assert campaign.ask("a") == question

    def test_several_campaigns_share_a_database_and_nothing_else(self, workshop: Workshop) -> None:
        first, second = workshop.create(name="first", budget=3), workshop.create(name="second", budget=4)
        question = first.ask("annotator")
        with pytest.raises(NotFound):
            second.tell(question, GROUPS[0])  # type: ignore[arg-type]
        answer_all(first)
        assert (first.status().answered, second.status().answered) == (3, 0)
        found = campaigns(workshop.place.url)
        assert [(item.name, item.answered, item.budget) for item in found] == [("first", 3, 3), ("second", 0, 4)]
        with pytest.raises(NotFound):
            Campaign.open(workshop.place.url)
        with pytest.raises(InputError, match="already"):
            workshop.create(name="first")

    def test_a_database_of_a_newer_version_is_refused_untouched(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        with campaign.store.writing() as connection:
            connection.execute(text("UPDATE apod_version SET version_num = '9999'"))
        with pytest.raises(SchemaError, match="newer"):
            Campaign.open(workshop.place.url)
        with pytest.raises(SchemaError, match="newer"):
            workshop.create(name="second")
        with campaign.store.reading() as connection:
            assert connection.execute(text("SELECT COUNT(*) FROM apod_campaigns")).scalar() == 1


class StoreContract(AskingContract, SafetyContract):
    """Ask and tell on one database behave the same whatever the database is."""
