"""A PostgreSQL server for the length of a test run: own cluster, own user, loopback only, gone afterwards."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PROGRAMS = ("initdb", "pg_ctl", "postgres")
_DEBIAN = Path("/usr/lib/postgresql")


class PostgresMissing(RuntimeError):
    """There is no PostgreSQL on this machine."""


def find_postgres() -> Path | None:
    """The folder with initdb, pg_ctl and postgres: from PATH, or the newest of Debian's; None where there is none."""
    for program in PROGRAMS:
        found = shutil.which(program)
        if found is not None and _complete(Path(found).resolve().parent):
            return Path(found).resolve().parent
    versions = sorted(_DEBIAN.glob("*/bin"), key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))])
    return next((path for path in reversed(versions) if _complete(path)), None)


def _complete(folder: Path) -> bool:
    return all((folder / program).exists() for program in PROGRAMS)


@dataclass(frozen=True)
class ThrowawayPostgres:
    """A running server."""

    binaries: Path
    folder: Path
    port: int
    password: str
    account: dict[str, Any]  # how to run its programs when the tests run as root

    def url(self, database: str = "postgres") -> str:
        """Where a database of it is."""
        return f"postgresql://apod:{self.password}@127.0.0.1:{self.port}/{database}"

    def fresh(self) -> str:
        """The URL of an empty place in it: a schema of its own, which is quicker to make than a database."""
        import psycopg

        name = f"t{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{name}"')
        return f"{self.url()}?options=-csearch_path%3D{name}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c max_connections=200"
        options += f" -c unix_socket_directories={self.folder} -c logging_collector=off"
        options += " -c fsync=off"  # tests end programs, never the machine: what was written stays readable
        self._pg_ctl("start", "-w", "-l", str(self.folder / "log"), "-o", options)

    def stop(self) -> None:
        """Stop the server at once, as if its machine had gone."""
        self._pg_ctl("stop", "-m", "immediate", "-w")

    def _pg_ctl(self, *arguments: str) -> None:
        command = [str(self.binaries / "pg_ctl"), "-D", str(self.folder / "data"), *arguments]
        # no pipes: the server inherits them and would keep the reader waiting for as long as it lives
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **self.account
        )


@contextmanager
def throwaway_postgres() -> Iterator[ThrowawayPostgres]:
    """A server of one's own; `PostgresMissing` where the machine has none."""
    binaries = find_postgres()
    if binaries is None:
        raise PostgresMissing("no PostgreSQL here: initdb, pg_ctl and postgres are neither on PATH nor Debian's")
    if find_spec("psycopg") is None:
        raise PostgresMissing("no driver for PostgreSQL here: pip install 'psycopg[binary]'")
    account = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="apod-pg-"))
    server = ThrowawayPostgres(binaries, folder, _free_port(), secrets.token_hex(16), account)
    try:
        _initialise(server)
        server.start()
        yield server
    finally:
        subprocess.run(
            [str(binaries / "pg_ctl"), "-D", str(folder / "data"), "stop", "-m", "immediate", "-w"],
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **account,
        )
        shutil.rmtree(folder, ignore_errors=True)


def _initialise(server: ThrowawayPostgres) -> None:
    passwords = server.folder / "password"
    passwords.write_text(server.password)
    if server.account:
        for path in (server.folder, passwords):
            os.chown(path, server.account["user"], server.account["group"])
    command = [str(server.binaries / "initdb"), "-D", str(server.folder / "data"), "-U", "apod", "-N", "-E", "UTF8"]
    command += ["-A", "scram-sha-256", f"--pwfile={passwords}", "--locale=C"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd="/", **server.account)
    if done.returncode:
        raise PostgresMissing(f"initdb failed: {done.stderr.strip()[-300:]}")


def _unprivileged() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: another account for it, where the tests do."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise PostgresMissing("PostgreSQL does not run as root, and there is neither a postgres nor a nobody account")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
