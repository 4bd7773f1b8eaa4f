"""Schema versions: what the migrations build is what the code reads, and an upgrade keeps everything."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from apod.campaign import Campaign, Store, campaigns, schema, upgrade
from apod.campaign.errors import SchemaError, StoreError
from apod.campaign.schema import migrations
from apod.testing import Place
from apod.testing.engines import GROUPS, Workshop, answer_all, pool

LATER = '''"""A later version."""
import sqlalchemy as sa
from alembic import op
revision, down_revision, branch_labels, depends_on = "{version}", "{before}", None, None
def upgrade():
    op.add_column("apod_campaigns", sa.Column("colour", sa.String(20)))
    {more}
'''


NOW = schema.HEAD_REVISION
NEXT = f"{int(NOW) + 1:04}"


def scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(migrations())


def test_the_migrations_build_what_the_code_reads(place: Place) -> None:
    store = Store(place.url)
    assert upgrade(store) == schema.HEAD_REVISION
    with store.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": schema.VERSION_TABLE})
        assert compare_metadata(context, schema.metadata) == []
    assert upgrade(store) == schema.HEAD_REVISION
    store.dispose()


def test_the_version_the_code_expects_is_the_last_one_shipped() -> None:
    assert scripts().get_heads() == [schema.HEAD_REVISION]


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Turns this package into one with another schema version."""

    def release(more: str) -> None:
        folder = tmp_path / "later"
        folder.mkdir()
        (folder / f"v{NEXT}_later.py").write_text(LATER.format(version=NEXT, before=schema.HEAD_REVISION, more=more))

        def both() -> Config:
            config = migrations()
            config.set_main_option("version_locations", f"{scripts().versions}\n{folder}")
            config.set_main_option("path_separator", "newline")
            return config

        monkeypatch.setattr(schema, "HEAD_REVISION", NEXT)
        monkeypatch.setattr(schema, "migrations", both)

    return release


def test_an_upgrade_keeps_every_answer(workshop: Workshop, later: Callable[[str], None]) -> None:
    campaign = workshop.create(budget=4)
    answer_all(campaign)
    before = campaign.owner.verify_log()
    later("pass")
    with pytest.raises(SchemaError, match="apod campaign upgrade"):
        Campaign.open(workshop.place.url)
    assert upgrade(campaign.store) == NEXT
    with campaign.store.reading() as connection:
        assert connection.execute(text("SELECT colour FROM apod_campaigns")).all() == [(None,)]
    again = workshop.open()
    assert again.owner.verify_log() == before
    assert again.status().answered == 4


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(workshop: Workshop, later: Callable[[str], None]) -> None:
    campaign = workshop.create(budget=4)
    later("op.execute('SELECT nonsense FROM nowhere')")
    with pytest.raises(StoreError):
        upgrade(campaign.store)
    with campaign.store.reading() as connection:
        assert connection.execute(text("SELECT version_num FROM apod_version")).scalar() == NOW
    with pytest.raises(StoreError), campaign.store.reading() as connection:
        connection.execute(text("SELECT colour FROM apod_campaigns"))


def test_several_may_create_in_an_empty_database_at_once(place: Place) -> None:
    features, labels = pool()
    errors: list[BaseException] = []

    def create(name: str) -> None:
        try:
            Campaign.create(place.url, features, labels, groups=GROUPS, budget=3, name=name, files=place.files).close()
        except BaseException as error:  # noqa: BLE001 a thread's errors must reach the test
            errors.append(error)

    threads = [threading.Thread(target=create, args=(f"campaign {i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(campaigns(place.url)) == 4


@pytest.mark.parametrize("old", ["0003", "0004"])
def test_a_live_campaign_of_an_earlier_schema_goes_on_after_the_upgrade(workshop: Workshop, old: str) -> None:
    campaign = workshop.create(budget=4)
    question = campaign.ask()
    assert question is not None
    before = campaign.owner.verify_log()
    with campaign.store.writing() as connection:
        connection.execute(text('ALTER TABLE apod_access DROP COLUMN "row"'))
        connection.execute(text("UPDATE apod_version SET version_num = :old"), {"old": old})
    with pytest.raises(SchemaError, match="apod campaign upgrade"):
        Campaign.open(workshop.place.url)
    assert upgrade(campaign.store) == schema.HEAD_REVISION
    again = workshop.open()
    assert again.owner.verify_log() == before
    again.tell(question.id, GROUPS[0])  # a question held across the upgrade
    answer_all(again)
    again.owner.extend(5)
    assert (again.status().answered, again.status().budget) == (4, 5)
