"""Erased means erased: searched for byte by byte in the database's files, beside readers and after them."""

from __future__ import annotations

import json
import logging
import os
import random
import secrets
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import standin
from sqlalchemy import delete, insert, select, text
from typer.testing import CliRunner

from apod.campaign import Campaign, Store, schema, upgrade
from apod.campaign.erasure import rewrite
from apod.cli import build_app
from apod.testing import Place
from apod.testing.engines import GROUPS, Workshop, answer_all
from support import SUPPORT
from support.database_bytes import holders, salt_of
from support.postgres import ThrowawayPostgres
from support.waiting import until

pytestmark = pytest.mark.xdist_group("overwriting")
log = logging.getLogger(__name__)


@contextmanager
def old_reader(campaign: Campaign, table: str) -> Iterator[None]:
    """Somebody with a transaction open over what the database held when it began."""
    if campaign.store.path is not None:
        reader: Any = closing(sqlite3.connect(campaign.store.path, isolation_level=None))
    else:
        reader = psycopg.connect(campaign.store.url, autocommit=True)
    with reader as connection:
        connection.execute("BEGIN" if campaign.store.path is not None else "BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        yield


@pytest.mark.parametrize("table", ["apod_campaigns", "apod_answers"])
def test_beside_an_open_reader_the_erasure_says_what_is_due_and_the_next_call_after_it_does_it(
    workshop: Workshop, table: str
) -> None:
    campaign = workshop.create(budget=12)
    for _ in range(3):
        campaign.tell(campaign.ask(), GROUPS[0])  # type: ignore[arg-type]
    rows = [answer.row for answer in campaign.owner.answers()]
    salt = salt_of(campaign, rows[0])
    assert holders(campaign, salt)
    with old_reader(campaign, table):
        started = time.monotonic()
        done = campaign.owner.erase(row=rows[0])
        assert time.monotonic() - started < 150  # it used to be five waits of a minute each
        assert (done.answers, done.overwritten) == (1, False)
        assert holders(campaign, salt)
        assert campaign.status().erasures_due == 1
        assert workshop.open().status().erasures_due == 1  # another process sees it, and could not do it either
        campaign.overwriting.retry()
        assert holders(campaign, salt)
    pass_a_second(campaign)
    question = campaign.ask()
    assert question is not None
    assert campaign.status().erasures_due == 0
    assert holders(campaign, salt) == []
    assert campaign.owner.verify_log().ok


def pass_a_second(campaign: Campaign) -> None:
    """Calls try again once a second; a test need not wait for it."""
    campaign.overwriting._tried = float("-inf")


def test_what_is_due_is_done_when_the_campaign_is_opened(workshop: Workshop) -> None:
    campaign = workshop.create(budget=6)
    rows = answer_all(campaign)
    salt = salt_of(campaign, rows[2])
    with old_reader(campaign, "apod_answers"):
        assert not campaign.owner.erase(row=rows[2]).overwritten
    campaign.close()
    assert workshop.open().status().erasures_due == 0
    assert holders(campaign, salt) == []


def test_an_erasure_that_nobody_disturbs_is_overwritten_when_it_returns(workshop: Workshop) -> None:
    campaign = workshop.create(budget=8)
    rows = answer_all(campaign)
    salts = [salt_of(campaign, row) for row in rows]
    done = campaign.owner.erase(row=rows[4])
    assert done.overwritten
    assert campaign.status().erasures_due == 0
    for row, salt in zip(rows, salts, strict=True):
        assert bool(holders(campaign, salt)) == (row != rows[4])


def test_an_erasure_that_is_killed_is_done_whole_or_not_at_all(workshop: Workshop) -> None:
    kills = int(os.environ.get("APOD_KILLS", "8"))
    campaign = workshop.create(budget=kills + 5)
    rows = answer_all(campaign)
    campaign.owner.refit()
    salts = {row: salt_of(campaign, row) for row in rows}
    campaign.close()
    job: dict[str, Any] = {"url": workshop.place.url, "files": str(workshop.place.files), "seed": 7}
    job["rows"] = rows[: kills + 1]  # the first is left in peace
    nursery = SUPPORT / "crash_nursery.py"
    subprocess.run([sys.executable, str(nursery), json.dumps(job)], check=True)
    campaign = workshop.open()
    until(lambda: campaign.status().erasures_due == 0)  # PostgreSQL may need a moment to notice who is gone
    assert campaign.owner.verify_log().ok
    left = {answer.row for answer in campaign.owner.answers()}
    assert left >= set(rows[kills + 1 :])
    assert rows[0] not in left
    log.info("%d kills, %d erased all the same", kills, len(rows) - len(left) - 1)
    for row, salt in salts.items():
        assert bool(holders(campaign, salt)) == (row in left)
    with campaign.store.reading() as connection:
        kept = set(connection.execute(select(schema.models.c.file)).scalars())
    assert {path.stem for path in (campaign.files.folder / "models-1").iterdir()} <= kept
    assert campaign.owner.refit()


def sample(campaign: Campaign) -> None:
    """Have the database sample its tables for its planner, as PostgreSQL does by itself now and then."""
    with campaign.store.at_once(60) as connection:
        connection.exec_driver_sql("ANALYZE")


def test_no_answer_is_left_in_what_the_database_samples_for_its_planner(workshop: Workshop) -> None:
    campaign = workshop.create(budget=12)
    rows = answer_all(campaign)
    salts = {row: salt_of(campaign, row) for row in rows}
    sample(campaign)
    for row in rows[:4]:
        assert campaign.owner.erase(row=row).overwritten
        assert holders(campaign, salts[row]) == []


def test_an_upgrade_overwrites_what_postgresql_has_sampled(postgres: ThrowawayPostgres, tmp_path: Path) -> None:
    workshop = Workshop(Place(postgres.fresh(), tmp_path / "files"), standin.build)
    campaign = workshop.create(budget=12)
    rows = answer_all(campaign)
    salts = {row: salt_of(campaign, row) for row in rows}
    with campaign.store.writing() as connection:  # as an earlier version had it
        connection.execute(text("ALTER TABLE apod_answers ALTER COLUMN salt SET STATISTICS -1"))
        connection.execute(text('ALTER TABLE apod_access DROP COLUMN "row"'))
        connection.execute(text("UPDATE apod_version SET version_num = '0003'"))
    sample(campaign)
    campaign.owner.erase(row=rows[0])
    assert holders(campaign, salts[rows[0]])
    upgrade(campaign.store)
    assert holders(campaign, salts[rows[0]]) == []
    assert campaign.owner.verify_log().ok
    campaign.close()


def test_the_command_line_says_what_is_due_in_words_and_in_json(workshop: Workshop) -> None:
    campaign = workshop.create(budget=6)
    rows = answer_all(campaign)
    where = [campaign.store.url, "--files", str(workshop.place.files)]

    def apod(*arguments: str) -> str:
        found = CliRunner().invoke(build_app(), [arguments[0], *where, *arguments[1:]])
        assert found.exit_code == 0, found.output
        return found.stdout

    with old_reader(campaign, "apod_answers"):
        assert "still in the database's files" in apod("erase", "--row", str(rows[0]))
        assert not json.loads(apod("erase", "--row", str(rows[1]), "--json"))["overwritten"]
        assert "2 erasures are still to be overwritten" in apod("status")
        assert json.loads(apod("status", "--json"))["erasures_due"] == 2
    assert json.loads(apod("status", "--json"))["erasures_due"] == 0
    assert "overwritten" not in apod("status")
    assert json.loads(apod("erase", "--row", str(rows[2]), "--json"))["overwritten"]


def test_others_ask_and_answer_while_an_erasure_waits_for_a_reader(workshop: Workshop) -> None:
    campaign = workshop.create(budget=60, rows=300)
    for _ in range(5):
        campaign.tell(campaign.ask("first"), GROUPS[0])  # type: ignore[arg-type]
    other = workshop.open()
    longest, errors, told, stop = [0.0], [], [0], threading.Event()

    def annotate() -> None:
        try:
            while not stop.is_set() and (question := other.ask("second")) is not None:
                started = time.monotonic()
                other.tell(question, GROUPS[1])
                longest[0] = max(longest[0], time.monotonic() - started)
                told[0] += 1
                time.sleep(0.02)
        except BaseException as error:  # noqa: BLE001 a thread's errors must reach the test
            errors.append(error)

    with old_reader(campaign, "apod_answers"):
        person = threading.Thread(target=annotate)
        person.start()
        while told[0] < 3 and person.is_alive():
            time.sleep(0.01)
        before = told[0]
        for row in [answer.row for answer in campaign.owner.answers()][:3]:
            assert not campaign.owner.erase(row=row).overwritten
        while told[0] < before + 5 and person.is_alive() and not errors:
            time.sleep(0.01)
        stop.set()
        person.join()
    assert errors == []
    assert told[0] >= before + 5
    assert longest[0] < 300  # seconds; three erasures used to hold the database for fifteen minutes


def test_a_table_rewritten_holds_no_piece_of_what_was_ever_deleted_from_it(tmp_path: Path) -> None:
    """SQLite's secure_delete alone leaves a copy now and then, where it moves rows between pages."""
    store = Store(f"sqlite:///{tmp_path}/trial.db")
    upgrade(store)
    chance, live, dead = random.Random(1), {}, []
    with store.writing() as connection:
        connection.exec_driver_sql("PRAGMA defer_foreign_keys=ON")
        head = {"id": 1, "name": "n", "settings": "{}", "materials": "{}", "folder": "", "last_seq": 0}
        connection.execute(insert(schema.campaigns), head | {"last_hash": "", "queue": 0})
        for seq in range(1, 5000):
            live[seq] = secrets.token_bytes(32)
            row = {"campaign": 1, "seq": seq, "salt": live[seq], "value": "x" * chance.randrange(20, 900)}
            connection.execute(insert(schema.reasons), row)
            for gone in chance.sample(sorted(live), k=len(live) // 2) if seq % 250 == 0 else []:
                connection.execute(delete(schema.reasons).where(schema.reasons.c.seq == gone))
                dead.append(live.pop(gone))
        rewrite(connection)
    store.dispose()
    data = (tmp_path / "trial.db").read_bytes()
    assert [salt for salt in dead if salt[:12] in data or salt[-12:] in data] == []
    assert all(salt in data for salt in live.values())


def test_a_role_that_may_not_rewrite_the_tables_learns_that_the_erasure_is_due(
    postgres: ThrowawayPostgres, tmp_path: Path
) -> None:
    """PostgreSQL answers a VACUUM by somebody else than the owner with a warning, and does nothing."""

    url = postgres.fresh()
    workshop = Workshop(Place(url, tmp_path / "files"), standin.build)
    campaign = workshop.create(budget=4)
    rows = answer_all(campaign)
    salt = salt_of(campaign, rows[0])
    name, folder = f"other{os.getpid()}", url.partition("search_path%3D")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
        connection.execute(f'GRANT USAGE ON SCHEMA "{folder}" TO {name}')
        connection.execute(f'GRANT ALL ON ALL TABLES IN SCHEMA "{folder}" TO {name}')
    theirs = url.replace(f"apod:{postgres.password}", f"{name}:x")
    with Campaign.open(theirs, "trial", files=workshop.place.files, engine=standin.build, refit="demand") as other:
        assert not other.owner.erase(row=rows[0]).overwritten
        assert other.status().erasures_due == 1
    assert holders(campaign, salt)
    pass_a_second(campaign)
    assert campaign.status().erasures_due == 0
    assert holders(campaign, salt) == []
    campaign.close()
