"""Everything that goes wrong around a campaign: a clear error, nothing lost, nothing half-written."""

from __future__ import annotations

import os
import pwd
import resource
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import standin
from sqlalchemy import event, text

from apod.campaign import Campaign, Store
from apod.campaign.erasure import overwrite
from apod.campaign.errors import CampaignError, FileDamaged, NotFound, SchemaError, StoreError
from apod.errors import ApodError, BudgetError, InputError
from apod.testing import Place
from apod.testing.engines import GROUPS, Workshop, answer_all, group_of, pool
from support import SUPPORT
from support.postgres import ThrowawayPostgres

NOBODY = pwd.getpwnam("nobody")


def one_line(error: BaseException) -> bool:
    return "\n" not in str(error) and len(str(error)) < 500


def test_a_full_disk_is_said_and_loses_nothing(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(budget=40)
    question = campaign.ask()
    assert question is not None
    engine = campaign.store._engine

    def limit(connection: object, record: object) -> None:
        cursor = connection.cursor()  # type: ignore[attr-defined]
        pages = cursor.execute("PRAGMA page_count").fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count={pages}")
        cursor.close()

    event.listen(engine, "connect", limit)
    engine.dispose()
    answered = 0
    with pytest.raises(StoreError, match="disk is full") as caught:  # noqa: PT012 which of them fails is chance
        while question is not None:
            campaign.tell(question, group_of(question.row))
            answered += 1
            question = campaign.ask()
    assert one_line(caught.value)
    event.remove(engine, "connect", limit)
    engine.dispose()
    assert campaign.status().answered == answered
    assert campaign.owner.verify_log().ok
    assert len(answer_all(campaign, "annotator-1")) == 40 - answered


def test_no_room_for_the_matrices_leaves_no_campaign_and_no_file(tmp_path: Path) -> None:
    script = f"""
        import resource, sys
        sys.path.insert(0, {str(SUPPORT)!r})
        import numpy as np
        from apod.campaign import Campaign
        from apod.errors import ApodError
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        try:
            Campaign.create({str(tmp_path / "full.db")!r}, np.ones((50_000, 4)), np.arange(50_000) % 2,
                            groups=["a", "b"], budget=5)
        except ApodError as error:
            sys.exit(f"{{type(error).__name__}}: {{error}}")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("StoreError")
    assert "nothing was recorded" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 200_000


@pytest.mark.parametrize("folder_mode", [0o555, 0o777], ids=["read-only folder", "read-only file"])
def test_a_database_that_may_not_be_written_is_said_and_the_answer_can_be_repeated(folder_mode: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="apod-readonly-"))
    workshop = Workshop(Place(f"sqlite:///{folder}/trial.db", folder / "files"), standin.build)
    campaign = workshop.create()
    question = campaign.ask()
    assert question is not None
    campaign.close()
    os.chmod(folder / "trial.db", 0o444)
    os.chmod(folder, folder_mode)
    script = f"""
        import os, sys
        sys.path.insert(0, {str(SUPPORT)!r})
        import standin
        from apod.campaign import Campaign
        from apod.errors import ApodError
        if os.geteuid() == 0:  # root may write everything
            os.setgid({NOBODY.pw_gid})
            os.setuid({NOBODY.pw_uid})
        try:
            campaign = Campaign.open("{folder}/trial.db", engine=standin.build, refit="demand")
            campaign.tell({question.id!r}, {GROUPS[0]!r})
        except ApodError as error:
            sys.exit(f"{{type(error).__name__}}: {{error}}")
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, cwd="/"
        )
        assert done.returncode == 1
        assert done.stderr.startswith("StoreError"), done.stderr
        assert "Check who owns the file" in done.stderr or "who owns it" in done.stderr
        assert "Nothing was recorded" in done.stderr
        assert GROUPS[0] not in done.stderr
        os.chmod(folder, 0o755)
        os.chmod(folder / "trial.db", 0o600)
        again = workshop.open()
        assert again.status().answered == 0
        assert again.tell(question, GROUPS[0]).counted
        again.close()
    finally:
        os.chmod(folder, 0o755)
        shutil.rmtree(folder)


def test_a_database_that_was_deleted_in_the_middle_takes_no_answer_into_the_void(
    on_sqlite: Workshop, tmp_path: Path
) -> None:
    campaign = on_sqlite.create()
    question = campaign.ask()
    assert question is not None
    names = [path for path in tmp_path.glob("trial.db*") if path.is_file()]
    kept = {path: path.with_suffix(".kept") for path in names}
    for path, aside in kept.items():
        path.rename(aside.with_name(path.name + ".kept"))
    with pytest.raises(StoreError, match="moved, replaced or deleted"):
        campaign.tell(question, GROUPS[0])
    with pytest.raises(StoreError):
        campaign.tell(question, GROUPS[0])
    assert not (tmp_path / "trial.db").exists()
    for path in names:
        path.with_name(path.name + ".kept").rename(path)
    assert campaign.tell(question, GROUPS[0]).counted
    assert campaign.owner.verify_log().ok


def test_a_database_that_was_replaced_in_the_middle_is_noticed(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create()
    question = campaign.ask()
    assert question is not None
    assert overwrite(campaign.store, 0, seconds=1)  # all of it is in the file
    shutil.copy(tmp_path / "trial.db", tmp_path / "copy.db")
    os.replace(tmp_path / "copy.db", tmp_path / "trial.db")
    with pytest.raises(StoreError, match="moved, replaced or deleted"):
        campaign.tell(question, GROUPS[0])


def test_a_server_that_goes_away_is_said_and_found_again(postgres: ThrowawayPostgres, tmp_path: Path) -> None:
    workshop = Workshop(Place(postgres.fresh(), tmp_path / "files"), standin.build)
    campaign = workshop.create()
    question = campaign.ask()
    assert question is not None
    postgres.stop()
    try:
        with pytest.raises(StoreError, match="does not answer") as caught:
            campaign.tell(question, GROUPS[0])
        assert one_line(caught.value)
        assert postgres.password not in str(caught.value)
        with pytest.raises(StoreError):
            campaign.status()
    finally:
        postgres.start()
    assert campaign.tell(question, GROUPS[0]).counted
    assert campaign.status().answered == 1
    assert campaign.owner.verify_log().ok
    campaign.close()


def test_a_server_that_is_not_there_is_said_without_the_password(tmp_path: Path) -> None:
    features, labels = pool()
    with pytest.raises(StoreError) as caught:
        Campaign.create(
            "postgresql://apod:sesame@127.0.0.1:9/none", features, labels, groups=GROUPS, budget=3, files=tmp_path
        )
    assert "sesame" not in str(caught.value)
    assert one_line(caught.value)


@pytest.mark.parametrize("damage", [b"", b"not a database at all, but long enough to be read as one" * 40])
def test_a_file_that_is_no_database_is_said(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "odd.db"
    path.write_bytes(damage)
    with pytest.raises(CampaignError) as caught:
        Campaign.open(path)
    assert one_line(caught.value)
    assert path.read_bytes() == damage


def test_a_path_with_no_campaign_is_said_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="apod campaign new"):
        Campaign.open(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


def test_an_older_schema_asks_for_the_upgrade_command(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create()
    with campaign.store.writing() as connection:
        connection.execute(text("UPDATE apod_version SET version_num = '0000'"))
    with pytest.raises(SchemaError, match="apod campaign upgrade"):
        Campaign.open(on_sqlite.place.url)


@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_a_damaged_matrix_is_said_and_answers_go_on(on_sqlite: Workshop, how: str) -> None:
    campaign = on_sqlite.create(display=None)
    answer = campaign.ask()
    assert answer is not None
    path = campaign.files.path(campaign.materials.manifest["features"]["array"], ".npy")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.unlink() if how == "gone" else path.write_bytes(data if how == "flipped" else data[:-8])
    fresh = on_sqlite.open()
    with pytest.raises(FileDamaged, match="backup"):
        fresh.ask("somebody else")
    assert fresh.tell(answer.id, GROUPS[0]).counted
    assert fresh.status().answered == 1


def test_a_damaged_row_is_never_shown(on_sqlite: Workshop) -> None:
    frame = pd.DataFrame({"age": np.arange(200), "town": ["somewhere"] * 200})
    campaign = on_sqlite.create(display=frame)
    path = campaign.files.path(campaign.materials.manifest["display"]["rows"], ".jsonl")
    path.write_bytes(path.read_bytes().replace(b"somewhere", b"elsewhere"))
    with pytest.raises(FileDamaged):
        on_sqlite.open().ask()


@pytest.mark.parametrize("more", [0, 1], ids=["no new answer", "a new answer"])
def test_a_damaged_model_is_fitted_again(on_sqlite: Workshop, more: int) -> None:
    campaign = on_sqlite.create()
    rows = answer_all(campaign)
    for path in (campaign.files.folder / "models-1").iterdir():
        path.write_bytes(b"x")
    other = on_sqlite.open()
    other.owner.extend(40)
    for _ in range(more):
        other.tell(other.ask(), GROUPS[0])  # type: ignore[arg-type]
    assert len(set(rows) | set(answer_all(other))) == 40 - more
    assert other.status().behind == 0
    assert other.owner.verify_log().ok


@pytest.mark.parametrize("name", ["NUL\x00", "line\nbreak", "half \ud83d", "", "   ", "x" * 10_000_000, 7, None])
def test_names_that_cannot_be_kept_are_refused_on_every_store(on_sqlite: Workshop, name: object) -> None:
    campaign = on_sqlite.create()
    question = campaign.ask("a")
    assert question is not None
    for act in (
        lambda: campaign.ask(name),  # type: ignore[arg-type]
        lambda: campaign.annotator("" if name is None else name).undo(),  # type: ignore[arg-type]  # None is anybody
        lambda: campaign.tell(question, GROUPS[0], key=name if name is not None else ""),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError) as caught:
            act()
        assert one_line(caught.value)
    assert campaign.status().answered == 0
    assert campaign.ask("a") == question


def test_emoji_and_quotes_in_names_and_ids_come_back_unchanged(workshop: Workshop) -> None:
    odd = 'Zoë 👩🏽‍🚀 O\'Brien; DROP TABLE "x" --\\ %s :y {z}'
    ids = [f"{row} 🦄'\"" for row in range(200)]
    campaign = workshop.create(name=odd, ids=ids, guidelines="Think. 🤔\nThen answer.")
    question = campaign.ask(odd)
    assert question is not None
    assert (question.annotator, question.row_id) == (odd, ids[question.row])
    campaign.tell(question, GROUPS[0], key="clé 🔑")
    again = workshop.open(odd)
    assert again.settings.guidelines == "Think. 🤔\nThen answer."
    assert again.owner.annotators()[0].name == odd
    assert again.owner.verify_log().ok


def test_two_spellings_of_one_name_are_one_annotator(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create()
    assert campaign.ask("Zoe\u0308") == campaign.ask("Zo\u00eb")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"display": pd.DataFrame({"text": ["x" * 10_000_000] + ["y"] * 199})}, "10000000 characters"),
        ({"guidelines": "x" * 10_000_000}, "10000000 characters"),
        ({"ids": ["a\x00"] + [str(row) for row in range(199)]}, "NUL"),
        ({"ids": ["same"] * 200}, "same id"),
        ({"ids": ["a"]}, "1 ids for 200 rows"),
        ({"groups": ["a"]}, "two groups"),
        ({"groups": ["a", "a"]}, "two groups"),
        ({"groups": ["a", "declined"]}, "answers of their own"),
        ({"lease_seconds": 0}, "lease_seconds is 0: give seconds from"),
        ({"kind": "guessed"}, "kind of answer"),
        ({"nonsense": 1}, "no setting nonsense"),
        ({"refit": "tomorrow"}, "no way to refit"),
        ({"gold": {999: GROUPS[0]}}, "no row 999"),
        ({"show": ["none"]}, "pass display="),
        ({"display": pd.DataFrame({"a": [1]})}, "1 rows"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_written(
    on_sqlite: Workshop, tmp_path: Path, settings: dict[str, object], says: str
) -> None:
    with pytest.raises(InputError, match=says) as caught:
        on_sqlite.create(**settings)  # type: ignore[arg-type]
    assert one_line(caught.value)
    if "refit" not in settings:
        assert not (tmp_path / "trial.db").exists()


@pytest.mark.parametrize("budget", [0, -1, 2.5, True, 201, "ten"])
def test_budgets_that_cannot_be_are_refused(on_sqlite: Workshop, budget: object) -> None:
    with pytest.raises(BudgetError):
        on_sqlite.create(budget=budget)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://x/y", "://", "postgresql+nonsense:://"])
def test_urls_that_cannot_hold_a_campaign_are_refused(url: str) -> None:
    with pytest.raises(ApodError) as caught:
        Store(url)
    assert one_line(caught.value)


def test_a_batch_fails_alone_when_one_of_its_commands_is_wrong(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create()
    question = campaign.ask()
    with pytest.raises(NotFound):
        campaign.tell("9-9", GROUPS[0])
    with pytest.raises(ZeroDivisionError):
        campaign.journal.submit(lambda desk: 1 // 0)
    assert campaign.tell(question, GROUPS[0]).counted  # type: ignore[arg-type]


def test_half_a_command_is_never_kept(workshop: Workshop) -> None:
    campaign = workshop.create()
    before = campaign.status()

    def half(desk: object) -> None:
        desk.append("budget", {"budget": 99})  # type: ignore[attr-defined]
        raise InputError("changed my mind")

    with pytest.raises(ApodError):
        campaign.journal.submit(half)
    assert campaign.status() == before
    assert workshop.open().status() == before
