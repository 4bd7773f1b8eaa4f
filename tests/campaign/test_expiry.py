"""A criterion changes only with a reason; answers go when their day has come, and the log proves it. Both databases."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from apod.errors import InputError
from apod.testing.engines import Workshop, answer_all
from support.database_bytes import holders, salt_of

pytestmark = pytest.mark.xdist_group("overwriting")
DAY_MS = 86_400_000


def in_days(days: int) -> str:
    return (datetime.now(UTC).date() + timedelta(days=days)).isoformat()


def test_a_criterion_stands_in_the_first_event_and_changes_only_with_a_reason(workshop: Workshop) -> None:
    campaign = workshop.create(budget=3, criterion="gap<=.05")
    assert campaign.rules().criterion == "gap <= 0.05"
    assert campaign.owner.log()[0]["settings"]["criterion"] == "gap <= 0.05"
    for reason in (None, "  "):
        with pytest.raises(InputError, match="only with a reason"):
            campaign.owner.revise(criterion="gap <= 0.1", reason=reason)
    campaign.owner.revise(criterion="gap <= 0.1", reason="The board asked for it")
    changed = [entry for entry in campaign.owner.log() if entry["what"] == "revised"]
    assert [(one["settings"]["criterion"], one["reason"]) for one in changed] == [
        ("gap <= 0.1", "The board asked for it")
    ]
    assert campaign.owner.verify_log().ok


@pytest.mark.parametrize("wrong", [{"criterion": "gap < 1"}, {"keep_until": "soon"}, {"keep_until": "2001-01-01"}])
def test_what_cannot_be_meant_is_refused_in_a_line(on_sqlite: Workshop, wrong: dict[str, str]) -> None:
    with pytest.raises(InputError) as error:
        on_sqlite.create(**wrong)
    assert "\n" not in str(error.value)
    campaign = on_sqlite.create()
    with pytest.raises(InputError):
        campaign.owner.revise(reason="because", **wrong)


def test_nothing_expires_before_its_day_and_status_warns_before_it(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(budget=3, keep_until=in_days(30))
    answer_all(campaign)
    with pytest.raises(InputError, match="Nothing is due"):
        campaign.owner.expire()
    assert not any("erased" in said for said in campaign.status().reminders)
    campaign.owner.revise(keep_until=in_days(5))
    assert any(f"on {in_days(5)}, in 5 days" in said for said in campaign.status().reminders)
    campaign.owner.revise(keep_until="")
    with pytest.raises(InputError, match="No day was set"):
        campaign.owner.expire()


def test_expiry_leaves_nothing_readable_and_a_certificate_that_the_log_proves(workshop: Workshop) -> None:
    campaign = workshop.create(budget=6, keep_until=in_days(2))
    rows = answer_all(campaign)
    campaign.owner.refit()
    salts = [salt_of(campaign, row) for row in rows]
    workshop.shift_ms += 3 * DAY_MS
    certificate = campaign.owner.expire()
    assert (certificate["answers"], certificate["keep_until"]) == (6, in_days(2))
    for salt in salts:
        assert holders(campaign, salt) == []
    assert [path for path in campaign.models.folder.rglob("*") if path.is_file()] == []
    found = campaign.owner.verify_log()
    assert found.ok, found.problems
    (event,) = [entry for entry in campaign.owner.log() if entry["what"] == "expired"]
    assert event["hash"] == certificate["hash"]
    status = workshop.open().status()
    assert (status.standing, status.finished) == (0, True)


def test_an_answer_that_comes_back_after_its_deletion_is_found(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create(budget=3, keep_until=in_days(1))
    answer_all(campaign)
    with campaign.store.reading() as connection:
        kept = connection.execute(text("SELECT campaign, seq, salt, value FROM apod_answers")).first()
    on_sqlite.shift_ms += 2 * DAY_MS
    campaign.owner.expire()
    with campaign.store.writing() as connection:
        connection.execute(
            text("INSERT INTO apod_answers (campaign, seq, salt, value) VALUES (:c, :s, :t, :v)"),
            dict(zip("cstv", kept, strict=True)),
        )
    assert any("says was erased" in said for said in campaign.owner.verify_log().problems)


def test_a_certificate_holds_nobodys_group(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(budget=3, keep_until=in_days(1))
    answer_all(campaign)
    on_sqlite.shift_ms += 2 * DAY_MS
    told = json.dumps(campaign.owner.expire())
    assert not any(group in told for group in campaign.settings.groups)
