"""Backups: taken under load, restored elsewhere, and refused where they are not whole. On both databases."""

from __future__ import annotations

import io
import stat
import tarfile
import threading
from pathlib import Path

import pytest
import standin

from apod.campaign import Campaign
from apod.campaign.errors import FileDamaged
from apod.errors import InputError
from apod.testing.engines import GROUPS, Workshop, answer_all
from support.postgres import ThrowawayPostgres


def restored(archive: Path, folder: Path) -> Campaign:
    return Campaign.restore(archive, folder / "new.db", engine=standin.build, refit="demand")


def test_a_backup_holds_a_state_the_campaign_had_and_goes_on_elsewhere(workshop: Workshop, tmp_path: Path) -> None:
    campaign = workshop.create(budget=6, known_groups=[GROUPS[0], *[None] * 199])
    for _ in range(3):
        question = campaign.ask()
        assert question is not None
        campaign.tell(question, GROUPS[question.row % 2])
    report = campaign.owner.backup(tmp_path / "copy.tar")
    assert stat.S_IMODE((tmp_path / "copy.tar").stat().st_mode) == 0o600
    with restored(tmp_path / "copy.tar", tmp_path) as copy:
        check = copy.owner.verify_log()
        assert (check.ok, check.events, check.head) == (True, report.events, report.head)
        assert copy.owner.answers() == campaign.owner.answers()
        answer_all(copy)
        assert copy.status().answered == 6
    assert campaign.owner.verify_log(report.head).ok
    assert campaign.owner.log()[-1]["sha256"] == report.sha256
    assert campaign.status().answered == 3


def test_a_backup_of_sqlite_is_restored_to_postgresql(
    on_sqlite: Workshop, postgres: ThrowawayPostgres, tmp_path: Path
) -> None:
    campaign = on_sqlite.create(budget=4)
    first = campaign.ask()
    assert first is not None
    campaign.tell(first, GROUPS[0])
    report = campaign.owner.backup(tmp_path / "copy.tar")
    files = tmp_path / "restored"
    with Campaign.restore(
        tmp_path / "copy.tar", postgres.fresh(), files=files, engine=standin.build, refit="demand"
    ) as copy:
        assert copy.owner.verify_log(report.head).ok
        assert copy.owner.answers() == campaign.owner.answers()
        answer_all(copy)
        assert copy.status().answered == 4


def test_a_backup_under_load_is_a_state_the_campaign_had(workshop: Workshop, tmp_path: Path) -> None:
    campaign = workshop.create(budget=60)
    campaign.ask()
    stop = threading.Event()

    def work(name: str) -> None:
        while not stop.is_set() and (question := campaign.ask(name)) is not None:
            campaign.tell(question, GROUPS[question.row % 2])

    people = [threading.Thread(target=work, args=(f"a{number}",)) for number in range(3)]
    for person in people:
        person.start()
    reports = [campaign.owner.backup(tmp_path / f"{number}.tar") for number in range(2)]
    stop.set()
    for person in people:
        person.join()
    for number, report in enumerate(reports):
        (tmp_path / str(number)).mkdir()
        with restored(tmp_path / f"{number}.tar", tmp_path / str(number)) as copy:
            assert copy.owner.verify_log().head == report.head
        assert campaign.owner.verify_log(report.head).ok


@pytest.mark.parametrize("what", ["half", "changed", "without its list", "not an archive", "empty"])
def test_an_archive_that_is_not_whole_restores_nothing(on_sqlite: Workshop, tmp_path: Path, what: str) -> None:
    campaign = on_sqlite.create(budget=3)
    answer_all(campaign)
    path = tmp_path / "copy.tar"
    campaign.owner.backup(path)
    data = path.read_bytes()
    if what == "half":
        data = data[: len(data) // 2]
    elif what == "changed":
        place = data.index(b'"kind": "answered"')
        data = data[:place] + data[place:].replace(b"answered", b"anzwered", 1)
    elif what == "without its list":
        out = io.BytesIO()
        with tarfile.open(path) as old, tarfile.open(fileobj=out, mode="w") as new:
            for info in old:
                if info.name != "manifest.json":
                    new.addfile(info, old.extractfile(info))
        data = out.getvalue()
    else:
        data = b"" if what == "empty" else b"no tar at all"
    path.write_bytes(data)
    with pytest.raises(FileDamaged, match="not a whole backup"):
        restored(path, tmp_path)
    assert not (tmp_path / "new.db").exists()
    assert not (tmp_path / "new.db.files").exists()


def test_a_database_that_has_the_campaign_keeps_its_own(workshop: Workshop, tmp_path: Path) -> None:
    campaign = workshop.create(budget=3)
    campaign.owner.backup(tmp_path / "copy.tar")
    before = campaign.head()
    with pytest.raises(InputError, match="already"):
        Campaign.restore(tmp_path / "copy.tar", workshop.place.url, files=tmp_path / "others")
    assert campaign.head() == before


def test_an_erasure_names_the_backups_it_cannot_reach(workshop: Workshop, tmp_path: Path) -> None:
    campaign = workshop.create(budget=3)
    campaign.owner.backup(tmp_path / "before.tar")
    question = campaign.ask()
    assert question is not None
    campaign.tell(question, GROUPS[0])
    campaign.owner.backup(tmp_path / "after.tar")
    assert campaign.owner.erase(row=question.row).backups == ("after.tar",)
