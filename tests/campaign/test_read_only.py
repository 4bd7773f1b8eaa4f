"""A campaign that cannot be written, on a disc or by its rights, can be verified, shown and exported."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import standin

from apod.campaign import Campaign
from apod.campaign.errors import StoreError
from apod.testing import Place
from apod.testing.engines import Workshop, answer_all
from support.postgres import ThrowawayPostgres

NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can reach, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix="apod-read-only-"))
    made.chmod(0o755)
    yield made
    for path in [made, *made.rglob("*")]:
        path.chmod(0o700)
    shutil.rmtree(made)


def set_aside(folder: Path) -> None:
    """Nothing in it can be written any more, by an account that is not root."""
    for path in [*folder.rglob("*"), folder]:
        if os.geteuid() == 0:
            os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)
        path.chmod(0o500 if path.is_dir() else 0o400)


def as_nobody(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script that defines `act` as somebody whose rights count: root may write everything.

    It acts once before, elsewhere, so that everything is imported: the interpreter may be root's alone.
    """
    drop = f"""
        act(*sys.argv[1:3])
        if os.geteuid() == 0:
            os.setgid({NOBODY.pw_gid})
            os.setuid({NOBODY.pw_uid})
        act(*sys.argv[3:])
    """
    code = "import os, sys" + textwrap.dedent(script) + textwrap.dedent(drop)
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


COMMANDS = """
    from apod.cli import build_app
    from typer.testing import CliRunner

    def act(database, out):
        for command in (["log", "verify", database], ["export", database, out], ["status", database]):
            done = CliRunner().invoke(build_app(), command)
            print(done.output)
            if done.exit_code:
                sys.exit(f"{command}: {done.exception!r}")
"""


def made(folder: Path) -> Campaign:
    campaign = Workshop(Place(f"sqlite:///{folder}/trial.db", folder / "trial.db.files"), standin.build).create(
        budget=5
    )
    answer_all(campaign)
    campaign.owner.refit()
    return campaign


def copy(source: Path, target: Path) -> None:
    for path in source.glob("trial.db*"):
        if path.is_dir():
            shutil.copytree(path, target / path.name)
        else:
            shutil.copy(path, target / path.name)


def test_on_a_read_only_medium_a_campaign_is_verified_shown_and_exported(folder: Path, tmp_path: Path) -> None:
    campaign = made(folder)
    campaign.owner.export(tmp_path / "before.csv")
    head = campaign.owner.verify_log().head
    campaign.close()
    copy(folder, tmp_path)
    set_aside(folder)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in folder.rglob("*"))
    with tempfile.TemporaryDirectory(prefix="apod-out-") as out:
        os.chmod(out, 0o777)
        elsewhere = (f"{tmp_path}/trial.db", f"{tmp_path}/elsewhere.csv")
        done = as_nobody(COMMANDS, *elsewhere, f"{folder}/trial.db", f"{out}/after.csv")
        assert done.returncode == 0, done.stderr
        assert "The log is whole" in done.stdout
        assert f"head {head}" in done.stdout
        assert (Path(out) / "after.csv").read_bytes() == (tmp_path / "before.csv").read_bytes()
    assert sorted((path.name, path.stat().st_mtime_ns) for path in folder.rglob("*")) == before


def test_what_stands_in_the_write_ahead_log_alone_is_read_too(folder: Path, tmp_path: Path) -> None:
    """As a process leaves it that was killed: not everything is in the database's own file."""
    live = made(tmp_path)
    live.owner.export(tmp_path / "before.csv")
    assert (tmp_path / "trial.db-wal").stat().st_size > 0
    copy(tmp_path, folder)
    live.close()
    set_aside(folder)
    with tempfile.TemporaryDirectory(prefix="apod-out-") as out:
        os.chmod(out, 0o777)
        elsewhere = (f"{tmp_path}/trial.db", f"{tmp_path}/elsewhere.csv")
        done = as_nobody(COMMANDS, *elsewhere, f"{folder}/trial.db", f"{out}/after.csv")
        assert done.returncode == 0, done.stderr
        assert (Path(out) / "after.csv").read_bytes() == (tmp_path / "before.csv").read_bytes()


def test_an_answer_to_a_campaign_on_a_read_only_medium_is_refused(folder: Path, tmp_path: Path) -> None:
    campaign = made(folder)
    campaign.close()
    copy(folder, tmp_path)
    set_aside(folder)
    done = as_nobody(
        """
        from apod.campaign import Campaign
        from apod.errors import ApodError

        def act(database, paused):
            try:
                Campaign.open(database, refit="demand").owner.pause()
            except ApodError as error:
                sys.exit(f"{type(error).__name__}: {error}")
        """,
        *(f"{tmp_path}/trial.db", "", f"{folder}/trial.db", ""),
    )
    assert done.stderr.startswith("StoreError"), done.stderr
    assert "copy both from a read-only medium" in done.stderr
    assert "Nothing was recorded" in done.stderr


def test_with_rights_to_read_alone_a_campaign_on_postgresql_is_verified_and_exported(
    postgres: ThrowawayPostgres, tmp_path: Path
) -> None:
    url = postgres.fresh()
    workshop = Workshop(Place(url, tmp_path / "files"), standin.build)
    campaign = workshop.create(budget=5)
    answer_all(campaign)
    campaign.owner.export(tmp_path / "before.csv")
    name, space = f"reader{os.getpid()}", url.partition("search_path%3D")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
        connection.execute(f"ALTER ROLE {name} SET default_transaction_read_only = on")
        connection.execute(f'GRANT USAGE ON SCHEMA "{space}" TO {name}')
        connection.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{space}" TO {name}')
    theirs = url.replace(f"apod:{postgres.password}", f"{name}:x")
    with Campaign.open(theirs, "trial", files=tmp_path / "files", engine=standin.build, refit="demand") as reader:
        assert reader.owner.verify_log() == campaign.owner.verify_log()
        reader.owner.export(tmp_path / "after.csv")
        assert reader.status() == campaign.status()
        with pytest.raises(StoreError):
            reader.owner.pause()
    assert (tmp_path / "after.csv").read_bytes() == (tmp_path / "before.csv").read_bytes()
    campaign.close()
