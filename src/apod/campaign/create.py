"""Creating a campaign: check everything, write the files, then make it exist in one transaction."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import func, insert, select
from sqlalchemy.exc import IntegrityError

from apod.campaign import schema
from apod.campaign.display import looks_like_person_names, shown_columns, store_display
from apod.campaign.errors import NotFound, UnknownGroup
from apod.campaign.events import GENESIS, Sealed, canonical
from apod.campaign.files import Files, Staged, staged
from apod.campaign.journal import Journal
from apod.campaign.materials import store_features
from apod.campaign.pictures import Pictures
from apod.campaign.reserve import held_out_rows
from apod.campaign.settings import CampaignSettings, checked, composed
from apod.campaign.store import Store
from apod.campaign.upgrade import check_schema, upgrade
from apod.data.dataset import IntArray
from apod.data.encode import check_numbers
from apod.data.files import read_table
from apod.data.labels import Labels, binary_labels
from apod.data.own import FileColumns, load_file, refuse_copies
from apod.errors import InputError

LARGEST = 1e30  # of a large pool's numbers: their squares must be numbers too


@dataclass(frozen=True)
class Pool:
    """What a campaign is created from, before anything is checked."""

    features: Any  # (n, columns) table or matrix of numbers
    labels: Any  # (n,) two values
    display: pd.DataFrame | None = None
    ids: Sequence[str] | None = None
    show: Sequence[str] | None = None
    positive: object = None
    gold: Mapping[int, str] | None = None
    coded: Labels | None = None  # where a file's labels were read already


def create(store: Store, pool: Pool, settings: CampaignSettings, folder: Path) -> int:
    """Make the campaign; return its number in the database. Nothing exists of it unless all of it does."""
    rows = len(pool.features)
    if len(pool.labels) != rows:
        raise InputError(f"X has {rows} rows and y has {len(pool.labels)}: pass one label per row.")
    settings = checked(settings, rows)
    gold = _gold(pool.gold or {}, settings, rows)
    if store.exists() and _has_schema(store):
        check_schema(store)
        _refuse_taken(store, settings.name)
    with staged(folder) as files:
        return _write(store, pool, settings, gold, files)


def _write(store: Store, pool: Pool, settings: CampaignSettings, gold: dict[int, int], files: Staged) -> int:
    labels = _labels(pool)
    held_out = held_out_rows(labels.codes, settings, set(gold))
    shown, display = _display(files, pool, settings)
    settings = replace(settings, label_names=labels.names, label_values=labels.values, show=shown)
    manifest = {
        "rows": len(pool.features),
        "labels": files.put_array(labels.codes.astype(np.int8)),
        "features": store_features(files, pool.features, settings.groups),
        "display": display,
    }
    _check_features(pool.features, held_out, gaps=settings.engine.get("body") != "precomputed")
    if len(held_out):
        manifest["held_out"] = files.put_array(held_out)
    upgrade(store)
    return _insert(store, settings, manifest, files, gold)


def check_options(options: Mapping[str, Any], settings: Mapping[str, Any], pool: Pool, groups: int) -> None:
    """Refuse what the package's own engine could not be built with or do, before anything is written."""
    from apod.campaign.adapter import settings_of
    from apod.method.settings import check_posterior_size

    chosen = settings_of(options)
    if chosen.body == "precomputed" and chosen.proxy == "laplace":
        check_posterior_size(np.shape(pool.features)[-1], groups)
    if not chosen.looks_ahead and settings.get("least_gain"):
        raise InputError("A least gain needs the default preset's proxy and choice of the head: they look ahead.")


def _check_features(features: Any, held_out: IntArray, gaps: bool) -> None:
    """Refuse, with its column and row, a number that no engine could standardise: nothing would ever be asked."""
    from apod.data.blocks import blocks, is_large  # loads torch: a server starts without it

    if isinstance(features, pd.DataFrame) or not is_large(len(features)):
        check_numbers(features, np.delete(np.arange(len(features)), held_out), gaps)
        return
    for here, block in blocks(np.asarray(features)):
        bad = ~(np.abs(block) <= LARGEST)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise InputError(
                f"Column 'x{column}' has a number that is not finite, or beyond {LARGEST:g}, in row {here.start + row} "
                "(counting from 0): repair or remove that row."
            )


def _labels(pool: Pool) -> Labels:
    if pool.coded is not None:
        return pool.coded
    column = pool.labels if isinstance(pool.labels, pd.Series) else pd.Series(np.asarray(pool.labels).ravel())
    if column.isna().any():
        raise InputError(f"{int(column.isna().sum())} labels are missing: every row needs one.")
    return binary_labels("y", column, pool.positive)


def table_pool(
    table: str | os.PathLike[str],
    label: str,
    groups: Sequence[str],
    *,
    sensitive: str | None = None,
    drop: Sequence[str] = (),
    id_column: str | None = None,
    show: Sequence[str] | None = None,
    positive: str | None = None,
    gold: Mapping[int, str] | None = None,
) -> Pool:
    """The pool of a CSV or Parquet file: features and labels by the rules of the user's own tables.

    Persons' names and ids are no features. A recorded group (`sensitive`) is neither a feature nor shown.
    """
    if sensitive is not None and sensitive in (show or ()):
        raise InputError(f"{sensitive!r} is the recorded group: leave it out of the columns that annotators see.")
    path = Path(table)
    frame = read_table(path).rename(columns=str)
    named = [column for column in frame.columns if looks_like_person_names(column, frame[column])]
    out = dict.fromkeys([*drop, *named, *([sensitive] if sensitive else []), *([id_column] if id_column else [])])
    out.pop(label, None)
    said = FileColumns(label=label, group_names=tuple(groups), positive=positive, drop=tuple(out))
    dataset = load_file(path, said)
    if sensitive is not None and sensitive in frame:
        refuse_copies(dataset.features, repr(sensitive), pd.factorize(frame[sensitive])[0].astype(np.int64))
    hidden = [label, *drop, *([sensitive] if sensitive else [])] if show is None else []
    return Pool(
        features=dataset.features,
        labels=dataset.labels,
        coded=Labels(dataset.labels, dataset.label_names, dataset.label_values),
        display=frame.drop(columns=list(dict.fromkeys(hidden))),
        ids=frame[id_column].astype(str).tolist() if id_column else None,
        show=show,
        gold=gold,
    )


def _display(files: Files, pool: Pool, settings: CampaignSettings) -> tuple[tuple[str, ...], dict[str, Any] | None]:
    frame = pool.display
    if frame is None and isinstance(pool.features, pd.DataFrame):
        frame = pool.features
    if frame is None:
        if pool.show is not None or settings.image_column is not None:
            raise InputError("There is no table to show columns of: pass display=.")
        if pool.ids is None:
            return (), None
        frame = pd.DataFrame(np.asarray(pool.features)).add_prefix("x")
    if len(frame) != len(pool.features):
        raise InputError(f"display has {len(frame)} rows and X has {len(pool.features)}: pass one per row.")
    if frame.columns.duplicated().any():
        raise InputError("Two columns of display have the same name: rename one.")
    frame = frame.rename(columns=str)
    labels = {column for column in frame.columns if _is_label(frame[column], pool.labels)}
    shown = shown_columns(frame, pool.show, labels, settings.groups, settings.show_label)
    if settings.image_column is not None and settings.image_column not in frame.columns:
        raise InputError(f"There is no column {settings.image_column!r} with paths of pictures in display.")
    if settings.image_column is not None:
        Pictures(settings.image_root).check(settings.image_column, frame[settings.image_column])
    stored = dict.fromkeys([*shown, *([settings.image_column] if settings.image_column else [])])
    return shown, store_display(files, frame, list(stored), pool.ids)


def _is_label(values: pd.Series[Any], labels: Any) -> bool:
    """Whether a column says the label in other words: two values, one for each label."""
    plain = pd.Series(np.asarray(labels).ravel())
    if values.nunique(dropna=False) != 2:
        return False
    pairs = pd.DataFrame({"a": values.reset_index(drop=True).astype(str), "b": plain.astype(str)}).drop_duplicates()
    return len(pairs) == 2


def _gold(gold: Mapping[int, str], settings: CampaignSettings, rows: int) -> dict[int, int]:
    found = {}
    for row, group in gold.items():
        if not 0 <= int(row) < rows:
            raise InputError(f"There is no row {row} for a gold question: rows go from 0 to {rows - 1}.")
        if composed(str(group)) not in settings.groups:
            raise UnknownGroup(f"The gold answer for row {row} is none of the campaign's groups.")
        found[int(row)] = settings.groups.index(composed(str(group)))
    return found


def _has_schema(store: Store) -> bool:
    try:
        check_schema(store)
    except NotFound:
        return False
    return True


def _refuse_taken(store: Store, name: str) -> None:
    with store.reading() as connection:
        query = select(func.count()).select_from(schema.campaigns).where(schema.campaigns.c.name == name)
        if connection.execute(query).scalar():
            raise _taken(store, name)


def _taken(store: Store, name: str) -> InputError:
    return InputError(f"{store.label} has a campaign {name!r} already: open it, or choose another name.")


def _insert(
    store: Store, settings: CampaignSettings, manifest: dict[str, Any], files: Staged, gold: dict[int, int]
) -> int:
    data, table = settings.to_json(), schema.campaigns
    with store.writing() as connection:
        head: dict[str, Any] = {"name": settings.name, "settings": canonical(data), "materials": canonical(manifest)}
        head |= {"folder": str(files.target), "last_seq": 0, "last_hash": GENESIS, "queue": 0}
        try:
            campaign = int(connection.execute(insert(table).values(**head).returning(table.c.id)).scalar_one())
        except IntegrityError:
            raise _taken(store, settings.name) from None
        fresh = {"campaign": campaign, "fence": 0, "expires": 0, "failures": 0, "running": False}
        connection.execute(insert(schema.refits), fresh)
        desk = Journal(store, campaign).desk(connection)
        body = {"id": uuid.uuid4().hex, "settings": data, "materials": manifest, "computed": "logged"}
        desk.append("created", body)
        for row, group in gold.items():
            desk.append("gold", {"row": row}, Sealed(group))
        desk.flush()
        files.settle()
    return campaign
