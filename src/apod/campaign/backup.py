"""A campaign in one archive, and back: its log, sealed values and files, consistent, checked by hash.

The tables are read in one transaction that holds nobody up, so the archive is a state the campaign had. Files of
materials never change. Models and waiting proposals are left out: they are computed again. Links, sessions and tokens
are left out too: a copy lets nobody in. The list of all members, with their hashes, comes last: half an archive has
none. What is under way lies in files without a name, so that nobody who is killed leaves answers behind.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from sqlalchemy import Connection, Table, func, insert, select, text

from apod.campaign import log, schema
from apod.campaign.errors import CampaignError, FileDamaged, StoreError
from apod.campaign.files import HashingFile, Staged, staged
from apod.campaign.journal import Desk
from apod.campaign.schema import upgrade
from apod.campaign.store import Store
from apod.errors import InputError
from apod.files import Unchecked, new_file, require_folder

if TYPE_CHECKING:
    from apod.campaign.session import Session

FORMAT = 1
MANIFEST = "manifest.json"
_TABLES = (schema.events, schema.answers, schema.reasons, schema.outcomes, schema.artifacts)
_ROWS = 5_000  # inserted at once
_ENDINGS = (".npy", ".txt", ".jsonl")


@dataclass(frozen=True)
class BackupReport:
    """An archive that was written: which state it holds, and what to recognise it by."""

    path: str
    sha256: str
    events: int
    head: str
    files: int


@dataclass(frozen=True)
class RestoreReport:
    """A campaign that was brought back from an archive."""

    name: str
    events: int
    head: str
    answers: int


def back_up(session: Session, path: Path) -> BackupReport:
    """Write the archive, readable by its owner alone, and note it in the log."""
    erased = session.journal.view(lambda connection, state, at: len(state.erased))
    members: dict[str, dict[str, object]] = {}
    try:
        with ExitStack() as under_way, _archive(path) as (tar, whole):
            head, tables = _dump(session, path.absolute().parent, under_way)
            for name, table in tables.items():
                members[name] = _add(tar, name, table)
            for name, suffix in session.materials.file_names():
                with session.files.check(name, suffix).open("rb") as file:
                    members[f"files/{name}{suffix}"] = _add(tar, f"files/{name}{suffix}", file)
            manifest = {"format": FORMAT, "schema": schema.HEAD_REVISION, "campaign": head, "members": members}
            _add(tar, MANIFEST, io.BytesIO(json.dumps(manifest).encode()))
    except OSError as error:
        raise StoreError(f"{path} could not be written ({error.strerror}): choose another place.") from None
    noted = {"name": path.name[:200], "sha256": whole.name, "events": head["last_seq"]}

    def note(desk: Desk) -> bool:
        same = len(desk.state.erased) == erased
        if same:
            desk.append("backup", noted)
        return same

    if not session.journal.submit(note):
        path.unlink(missing_ok=True)  # an erasure that did not know of the copy could not name it
        raise StoreError("Answers were erased while the backup was made: it was deleted. Make another.")
    return BackupReport(str(path), whole.name, head["last_seq"], head["last_hash"], len(members) - len(tables))


@contextmanager
def _archive(path: Path) -> Iterator[tuple[tarfile.TarFile, HashingFile]]:
    with new_file(path.absolute().parent, private=True) as new:
        whole = HashingFile(new.file)
        with tarfile.open(mode="w|", fileobj=cast("IO[bytes]", whole), format=tarfile.PAX_FORMAT) as tar:
            yield tar, whole
        whole.name = whole.digest()
        new.path = path.absolute()


def _add(tar: tarfile.TarFile, name: str, file: IO[bytes]) -> dict[str, object]:
    """Put a file into the archive; its hash and size."""
    file.seek(0)
    digest = hashlib.file_digest(cast("Any", file), "sha256").hexdigest()
    info = tarfile.TarInfo(name)
    info.size, info.mode = file.seek(0, io.SEEK_END), 0o600
    file.seek(0)
    tar.addfile(info, file)
    return {"sha256": digest, "bytes": info.size}


def _dump(session: Session, folder: Path, under_way: ExitStack) -> tuple[Unchecked, dict[str, IO[bytes]]]:
    """The campaign's own row, and its rows of all tables, as they are at one moment."""
    campaign, found = session.number, {}
    with session.store.reading() as connection:
        if session.store.dialect == "postgresql":
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        row = connection.execute(select(schema.campaigns).where(schema.campaigns.c.id == campaign)).one()
        for table in _TABLES:
            file = _nameless(folder, under_way)
            file.writelines(_lines(connection, table, campaign))
            found[f"tables/{table.name}.jsonl"] = file
    names = ("name", "settings", "materials", "last_seq", "last_hash")
    return {name: getattr(row, name) for name in names}, found


def _nameless(folder: Path, under_way: ExitStack) -> IO[bytes]:
    return cast("IO[bytes]", under_way.enter_context(tempfile.TemporaryFile(dir=folder)))


def _lines(connection: Connection, table: Table, campaign: int) -> Iterator[bytes]:
    columns = [column for column in table.c if column.name != "campaign"]
    query = select(*columns).where(table.c.campaign == campaign).order_by(*table.primary_key.columns)
    for row in connection.execute(query, execution_options={"yield_per": _ROWS}):
        values = dict(row._mapping)
        if "salt" in values:
            values["salt"] = bytes(values["salt"]).hex()
        yield json.dumps(values).encode() + b"\n"


def restore(path: Path, url: str | os.PathLike[str], files: Path) -> RestoreReport:
    """Bring a campaign back into a database that has none of its name. All of it, or nothing at all."""
    store = Store(url)
    try:
        if store.path is not None:
            require_folder(store.path)
        with ExitStack() as under_way, staged(files) as there:
            manifest, tables = _unpack(path, there, under_way)
            upgrade(store)
            return _put(store, manifest["campaign"], tables, there)
    except OSError as error:
        raise StoreError(f"{path} could not be restored ({error.strerror}): check the place and repeat.") from None
    finally:
        store.dispose()


def _unpack(path: Path, there: Staged, under_way: ExitStack) -> tuple[Unchecked, dict[str, IO[bytes]]]:
    """The list of the members, and the tables; every hash is checked, and files are staged."""
    hashes: dict[str, str] = {}
    tables: dict[str, IO[bytes]] = {}
    manifest: Any = None
    try:
        with tarfile.open(path, "r|") as tar:
            for info in tar:
                content = tar.extractfile(info) if info.isreg() else None
                kind, _, name = info.name.rpartition("/")
                if content is None or manifest is not None:
                    raise _broken(path)
                if info.name == MANIFEST:
                    manifest = json.loads(content.read())
                elif kind == "tables":
                    tables[name] = _nameless(there.target.parent, under_way)
                    hashes[info.name] = _copy(content, tables[name])
                elif kind == "files" and Path(name).suffix in _ENDINGS:
                    with there.writer(Path(name).suffix) as file:
                        _copy(content, cast("IO[bytes]", file))
                    hashes[info.name] = file.name
                else:
                    raise _broken(path)
        listed = {name: value["sha256"] for name, value in manifest["members"].items()}
    except (tarfile.TarError, EOFError, ValueError, TypeError, KeyError):
        raise _broken(path) from None
    if manifest.get("format") != FORMAT or listed != hashes or len(tables) != len(_TABLES):
        raise _broken(path)
    return manifest, tables


def _copy(content: IO[bytes], to: IO[bytes]) -> str:
    digest = hashlib.sha256()
    for block in iter(lambda: content.read(1 << 20), b""):
        digest.update(block)
        to.write(block)
    return digest.hexdigest()


def _broken(path: Path) -> FileDamaged:
    return FileDamaged(f"{path} is not a whole backup: nothing was restored. Use another one.")


def _put(store: Store, head: Unchecked, tables: dict[str, IO[bytes]], there: Staged) -> RestoreReport:
    table = schema.campaigns
    with store.writing() as connection:
        if connection.execute(select(func.count()).select_from(table).where(table.c.name == head["name"])).scalar():
            raise InputError(f"{store.label} has a campaign {head['name']!r} already: restore into another database.")
        values = {**head, "folder": str(there.target), "queue": 0}
        campaign = int(connection.execute(insert(table).values(**values).returning(table.c.id)).scalar_one())
        fresh = {"campaign": campaign, "fence": 0, "expires": 0, "failures": 0, "running": False}
        connection.execute(insert(schema.refits), fresh)
        counts = {item.name: _load(connection, item, campaign, tables[f"{item.name}.jsonl"]) for item in _TABLES}
        checked = log.verify(connection, campaign)
        if not checked.ok:
            raise CampaignError(f"The archive's log does not verify ({checked.problems[0]}): nothing was restored.")
        there.settle()
    return RestoreReport(head["name"], checked.events, checked.head, counts[schema.answers.name])


def _load(connection: Connection, table: Table, campaign: int, lines: IO[bytes]) -> int:
    lines.seek(0)
    count = 0
    while part := list(islice(lines, _ROWS)):
        rows = [{"campaign": campaign, **json.loads(line)} for line in part]
        for row in rows:
            if "salt" in row:
                row["salt"] = bytes.fromhex(row["salt"])
        connection.execute(insert(table), rows)
        count += len(rows)
    return count
