"""No group value in any log line, exception text, traceback, printed object or file name."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest
from sqlalchemy import text

from apod.campaign.errors import CampaignError
from apod.errors import ApodError
from apod.testing.engines import GROUPS, Workshop, answer_all, group_of


def test_no_group_appears_in_logs_errors_reprs_or_file_names(
    workshop: Workshop, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("sqlalchemy", "sqlalchemy.engine", "sqlalchemy.engine.Engine", "sqlalchemy.pool", "psycopg", "apod"):
        caplog.set_level(logging.DEBUG, logger=name)
    said: list[str] = []

    def wrong(act: object, *arguments: object, **options: object) -> None:
        with pytest.raises(Exception) as caught:
            act(*arguments, **options)  # type: ignore[operator]
        said.extend(traceback.format_exception(caught.value))
        said.append(repr(caught.value))

    campaign = workshop.create(refit="thread", overlap=2, budget=12, gold={5: GROUPS[0]}, gold_every=2)
    question = campaign.ask("a")
    assert question is not None
    said.append(repr(campaign.tell(question, GROUPS[0], key="k")))
    wrong(campaign.tell, question, GROUPS[1])
    wrong(campaign.tell, question, GROUPS[1], key="k")
    wrong(campaign.tell, question, GROUPS[0] + GROUPS[1])
    wrong(campaign.tell, question.id, GROUPS[0], annotator="b")
    wrong(campaign.tell, "9-9", GROUPS[0])
    wrong(campaign.annotator().correct, "9-9", GROUPS[0])
    wrong(campaign.tell, question, GROUPS[0], kind=GROUPS[0][:3])
    wrong(workshop.create, name="other", gold={1: "Mittelmass"})
    wrong(workshop.create, name="other", gold={999: GROUPS[0]})
    for name in "abc":
        answer_all(campaign, name)
    said.extend(
        map(
            repr,
            (
                question,
                campaign.annotator("a").turn(),
                campaign.status(),
                campaign.owner.annotators(),
                campaign.owner.answers(),
            ),
        )
    )
    said.extend(map(repr, campaign.collected().known))

    for suffix in ("csv", "parquet", "jsonl", "json"):
        path = tmp_path / f"answers.{suffix}"
        campaign.owner.export(path)
        if suffix != "parquet":
            path.write_text(path.read_text().replace(GROUPS[1], "Mittelmass"))
            wrong(campaign.owner.import_, path)
    with campaign.store.writing() as connection:
        connection.execute(text("UPDATE apod_answers SET value = '9'"))
    wrong(campaign.owner.canonical_model)
    said.append(repr(campaign.owner.verify_log()))

    def broken(desk: object) -> None:
        desk.connection.execute(text("INSERT INTO apod_answers (value) VALUES (:g)"), {"g": GROUPS[0]})  # type: ignore[attr-defined]

    wrong(campaign.journal.submit, broken)
    campaign.close()
    out = capfd.readouterr()
    said += [out.out, out.err, caplog.text]
    said += [str(path) for path in tmp_path.rglob("*")]
    assert len(caplog.records) > 0
    for group in (*GROUPS, "Mittelmass"):
        assert not [line for line in said if group in line]


def test_an_annotator_sees_neither_reason_nor_prediction_nor_purpose(workshop: Workshop) -> None:
    campaign = workshop.create(gold={7: GROUPS[0]}, gold_every=1)
    seen = campaign.ask("a")
    assert seen is not None
    assert seen.row == 7
    ordinary = workshop.create(name="plain").ask("a")
    assert ordinary is not None
    assert seen.to_json().keys() == ordinary.to_json().keys()
    assert not {"purpose", "reason", "model", "gold", "probability"} & seen.to_json().keys()


def test_errors_of_a_campaign_are_errors_of_the_package() -> None:
    assert issubclass(CampaignError, ApodError)


def test_files_of_a_campaign_are_its_owners_alone(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create()
    campaign.tell(campaign.ask(), group_of(0))  # type: ignore[arg-type]
    campaign.owner.export(tmp_path / "out.csv")
    for path in [
        tmp_path / "trial.db",
        tmp_path / "trial.db.files",
        tmp_path / "out.csv",
        *tmp_path.glob("trial.db-*"),
    ]:
        assert path.stat().st_mode & 0o077 == 0, path.name


def test_an_erased_answers_salt_stands_nowhere_in_the_files(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create()
    rows = answer_all(campaign)
    with campaign.store.reading() as connection:
        salt = bytes(connection.execute(text("SELECT salt FROM apod_answers WHERE seq = 3")).scalar_one())
    found = [path for path in tmp_path.glob("trial.db*") if path.is_file() and salt in path.read_bytes()]
    assert found
    campaign.owner.erase(row=rows[0])
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and salt in path.read_bytes()]


def test_no_model_hash_that_depends_on_an_erased_answer_is_left(workshop: Workshop) -> None:
    """Whoever has the other answers could refit with either group and compare hashes."""
    campaign = workshop.create(budget=6)
    rows = answer_all(campaign)
    hashes = [entry["model_hash"] for entry in campaign.owner.log() if entry["what"] == "refitted"]
    assert all(hashes)
    campaign.owner.erase(row=rows[2])
    entries = campaign.owner.log()
    place = next(
        e["event"] for e in entries if e["what"] == "answered" and e["event"] > 1 and _row(entries, e) == rows[2]
    )
    for entry in entries:
        if entry["what"] in ("refitted", "asked") and entry["event"] > place:
            assert entry.get("model_hash") is None
            if entry["what"] == "asked" and entry["model"] is not None and _after(entries, entry["model"], place):
                assert entry["reason"] is None
    assert campaign.owner.verify_log().ok


def _row(entries: list[dict[str, object]], answered: dict[str, object]) -> object:
    return next(e["row"] for e in entries if e["what"] == "asked" and e["event"] == answered["token"])


def _after(entries: list[dict[str, object]], model: object, place: int) -> bool:
    return any(e["what"] == "refitted" and e["model"] == model and int(str(e["event"])) > place for e in entries)
