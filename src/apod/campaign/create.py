"""Creating a campaign: check everything, write the files, then make it exist in one transaction."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pandas as pd
from sqlalchemy import func, insert, select
from sqlalchemy.exc import IntegrityError

from apod.campaign import schema
from apod.campaign.attributes import (
    Answer,
    Groups,
    Value,
    attributes_of,
    known_of,
    named_columns,
    told_groups,
    value_of,
)
from apod.campaign.audit_sample import held_out_rows
from apod.campaign.contents import ContentOptions, embed_pool, store_contents
from apod.campaign.display import DisplayFiles, Pictures, shown_columns, store_display
from apod.campaign.errors import NotFound, UnknownGroup
from apod.campaign.events import GENESIS, canonical
from apod.campaign.files import Files, Staged, staged
from apod.campaign.journal import Journal
from apod.campaign.materials import GivenScores, scores_from, store_features
from apod.campaign.schema import check_schema, upgrade
from apod.campaign.settings import (
    GROUP_NAME,
    Attribute,
    CampaignSettings,
    Shape,
    checked,
)
from apod.campaign.state import CANNOT_TELL, DECLINED, GROUP, OPEN
from apod.campaign.store import Store
from apod.data.columns import Labels, binary_labels, looks_like_person_names
from apod.data.dataset import IntArray
from apod.data.encode import check_numbers
from apod.data.files import read_table
from apod.data.groups import refuse_copies
from apod.data.own import FileColumns, require_column, understand
from apod.data.text_files import RECOGNISED, Dialect
from apod.errors import InputError
from apod.files import require_folder
from apod.method.group_knowledge import columns_named
from apod.randomness import generator

if TYPE_CHECKING:
    from apod.models.content_columns import ContentColumns

DRAWN = 150_000
"""Of a pool above `blocks.LARGE` rows so many people are drawn to learn from and to ask about, as `apod run` does."""
LARGEST = 1e30  # of a large pool's numbers: their squares must be numbers too


class Roles(TypedDict, total=False):
    """Which column of a campaign's table is what: a table of rows that arrive later is read by it."""

    label: str
    id: str | None
    known: str | None  # groups that are handed in
    drop: Sequence[str]
    all: Sequence[str]  # every column of the table


@dataclass(frozen=True)
class Pool:
    """What a campaign is created from, before anything is checked."""

    features: Any  # (n, columns) table or matrix of numbers
    labels: Any  # (n,) two values
    display: pd.DataFrame | None = None
    ids: Sequence[str] | None = None
    show: Sequence[str] | None = None
    positive: object = None
    gold: Mapping[int, Answer] | None = None
    coded: Labels | None = None  # where a file's labels were read already
    known: Mapping[int, Answer] | None = None  # row -> group, as handed in: answers that cost nothing
    attributes: tuple[Attribute, ...] = ()  # what is asked about, their groups in the order of their keys
    scores: GivenScores | None = None
    embedding: bool = False  # whether the features are embeddings, rather than columns of a table
    contents: ContentColumns | None = None  # what embedded pictures and texts among the features
    image: tuple[str, str] | None = None  # the column of pictures to show, and the folder that it goes from
    roles: Roles | None = None  # of a table: which column is what

    @property
    def shape(self) -> Shape:
        """What of it decides which methods are possible."""
        columns, scored = np.shape(self.features)[-1], self.scores is not None
        cells = math.prod(len(one.groups) for one in self.attributes)
        several = len(self.attributes), cells
        return Shape(len(self.features), columns, len(self.groups), self.embedding, scored, *several)

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the first attribute's groups, in the order of their keys."""
        return self.attributes[0].groups if self.attributes else ()

    @property
    def named(self) -> tuple[Attribute, ...]:
        """The attributes, unless there is one that nobody named."""
        return () if [one.name for one in self.attributes] == [GROUP_NAME] else self.attributes


def create(store: Store, pool: Pool, settings: CampaignSettings, folder: Path) -> int:
    """Make the campaign; return its number in the database. Nothing exists of it unless all of it does."""
    if store.path is not None:
        require_folder(store.path)
    rows = len(pool.features)
    if len(pool.labels) != rows:
        raise InputError(f"X has {rows} rows and y has {len(pool.labels)}: pass one label per row.")
    known = {row: group for row, group in (pool.known or {}).items() if row not in (pool.gold or {})}
    several = len(pool.attributes) > 1
    full = sum(
        not several or (not isinstance(group, str) and len(group) == len(pool.attributes)) for group in known.values()
    )
    settings = checked(settings, rows - full)
    handed = Handed(coded(pool.gold or {}, "gold answer", settings, rows), coded(known, "known group", settings, rows))
    if store.exists() and _has_schema(store):
        check_schema(store)
        _refuse_taken(store, settings.name)
    with staged(folder) as files:
        return _write(store, pool, settings, handed, files)


@dataclass(frozen=True)
class Handed:
    """Groups by row that a campaign is created with: to check annotators by, and to learn from."""

    gold: dict[int, Value]
    known: dict[int, Value]

    @property
    def fully_known(self) -> set[int]:
        """Rows whose groups are known in every attribute: nobody is asked about them."""
        return {row for row, value in self.known.items() if OPEN not in value.outcomes}


def _write(store: Store, pool: Pool, settings: CampaignSettings, handed: Handed, files: Staged) -> int:
    labels = _labels(pool)
    held_out = held_out_rows(labels.codes, settings, handed.gold.keys(), handed.fully_known)
    shown, display = _display(files, pool, settings)
    (zero, one), (first, second) = labels.names, labels.values
    settings = replace(settings, label_names=(zero, one), label_values=(first, second), show=shown)
    manifest = {
        "rows": len(pool.features),
        "labels": files.put_array(labels.codes.astype(np.int8)),
        "features": store_features(files, pool.features, [one.groups for one in settings.asked]),
        "display": display,
    }
    if pool.scores is not None:
        manifest["scores"] = {"column": pool.scores.column, "file": files.put_array(pool.scores.values)}
    if pool.embedding:
        manifest["embedding"] = True
    if pool.roles is not None:
        manifest["table"] = pool.roles
    if pool.contents is not None:
        manifest["contents"] = store_contents(files, pool.contents)
    embedded = pool.embedding or settings.engine.get("body") == "precomputed"
    check_features(pool.features, held_out, gaps=not embedded)
    if len(held_out):
        manifest["held_out"] = files.put_array(held_out)
    drawn = drawn_rows(len(pool.features), settings, held_out, handed.fully_known)
    if drawn is not None:
        manifest["drawn"] = files.put_array(drawn)
    if handed.fully_known:
        manifest["known"] = files.put_array(np.array(sorted(handed.fully_known), dtype=np.int64))
    upgrade(store)
    return _insert(store, settings, manifest, files, handed, set(held_out.tolist()))


def drawn_rows(rows: int, settings: CampaignSettings, held_out: IntArray, known: AbstractSet[int]) -> IntArray | None:
    """Of a large pool, whom a correction learns from and asks about, with those whose group is known; None: all."""
    from apod.data.blocks import is_large

    if not is_large(rows) or settings.method is None or not settings.method.corrects:
        return None
    free = np.delete(np.arange(rows), held_out)
    if len(free) <= DRAWN:
        return None
    rng = generator(settings.seed, "part of a large pool", "training", settings.name)
    drawn = rng.choice(free, DRAWN, replace=False)
    return np.union1d(drawn, np.intersect1d(free, sorted(known))).astype(np.int64)


def check_features(features: Any, held_out: IntArray, gaps: bool) -> None:
    """Refuse, with its column and row, a number that no engine could standardise: nothing would ever be asked."""
    from apod.data.blocks import blocks, is_large

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
        if len(pool.coded.names) > 2:
            raise InputError(
                f"A campaign compares two labels, and these are {len(pool.coded.names)}: use `apod run`, or one label "
                "against the rest."
            )
        return pool.coded
    column = pool.labels if isinstance(pool.labels, pd.Series) else pd.Series(np.asarray(pool.labels).ravel())
    if column.isna().any():
        raise InputError(f"{int(column.isna().sum())} labels are missing: every row needs one.")
    return binary_labels("y", column, pool.positive)


def table_pool(
    table: str | os.PathLike[str],
    label: str,
    groups: Groups | None,
    *,
    sensitive: str | None = None,
    known_groups: str | None = None,
    drop: Sequence[str] = (),
    id_column: str | None = None,
    show: Sequence[str] | None = None,
    positive: str | None = None,
    gold: Mapping[int, Answer] | None = None,
    score: str | None = None,
    how: Dialect = RECOGNISED,
    contents: ContentOptions | None = None,
) -> Pool:
    """The pool of a file: features and labels by the rules of the user's own tables.

    Persons' names and ids are no features. A recorded group (`sensitive`, `known_groups`) is neither a feature nor
    shown; the known ones are handed in. The same goes for the model's scores (`score`). `contents` says what of the
    table is pictures and text.
    """
    options = contents or ContentOptions()
    path = options.labels or Path(table)
    frame = read_table(path, how)
    recorded, known = (named_columns(text, frame.columns) for text in (sensitive, known_groups))
    for column in (*recorded, *known):
        if column in (show or ()):
            raise InputError(f"{column!r} is the recorded group: leave it out of the columns that annotators see.")
    told = {*options.text, options.picture}
    named = [name for name in frame.columns if name not in told and looks_like_person_names(name, frame[name])]
    scores = scores_from(score, frame, show)
    out = dict.fromkeys([*drop, *named, *recorded, *(name for name in (id_column, score) if name)])
    for used in (label, *known):
        out.pop(used, None)
    said = FileColumns(
        label=label, positive=positive, drop=tuple(out), known=known_groups, dialect=how, **told_groups(groups)
    )
    roles: Roles = {"label": label, "id": id_column, "known": known_groups, "drop": list(drop)}
    roles["all"] = [str(name) for name in frame.columns]
    dataset = understand(frame, path, options.said(said, Path(table))).dataset()
    found = embed_pool(dataset, frame, options) if dataset.contents else None
    if found is not None:
        if scores is not None:
            scores = replace(scores, values=scores.values[found.dataset.rows])
        dataset, frame = found.dataset, found.shown
    for column in recorded:
        if column in frame:
            refuse_copies(dataset.features, repr(column), pd.factorize(frame[column])[0].astype(np.int64))
    hidden = [label, *drop, *recorded, *known, *([score] if score else [])] if show is None else []
    return Pool(
        features=dataset.features,
        labels=dataset.labels,
        coded=Labels(dataset.labels, dataset.label_names, dataset.label_values),
        display=frame.drop(columns=list(dict.fromkeys(hidden))),
        ids=frame[id_column].astype(str).tolist() if id_column else None,
        show=show,
        gold=gold,
        known=known_of(dataset),
        attributes=attributes_of(dataset, groups),
        scores=scores,
        contents=None if found is None else found.made,
        image=None if found is None else found.image,
        roles=roles,
    )


def _display(files: Files, pool: Pool, settings: CampaignSettings) -> tuple[tuple[str, ...], DisplayFiles | None]:
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
    if pool.show is None:  # a probability of the group would sway whoever answers
        named = settings.engine.get("group_probability")
        frame = frame.drop(columns=columns_named(named if isinstance(named, str) else None), errors="ignore")
    groups = [one.groups for one in settings.asked]
    shown = shown_columns(frame, pool.show, labels, groups, settings.show_label)
    if settings.image_column is not None:
        require_column(settings.image_column, list(frame.columns), "the table to show")
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


def coded(given: Mapping[int, Answer], what: str, settings: CampaignSettings, rows: int) -> dict[int, Value]:
    """Groups that are handed in by row, as they are stored; an error where one is none of the campaign's."""
    found = {}
    for row, group in given.items():
        if not 0 <= int(row) < rows:
            raise InputError(f"There is no row {row} for a {what}: rows go from 0 to {rows - 1}.")
        told = {name: part for name, part in group.items() if part is not None} if isinstance(group, Mapping) else group
        try:
            found[int(row)] = value_of(settings.asked, told if isinstance(told, Mapping) else str(told), partial=True)
        except UnknownGroup:
            raise UnknownGroup(f"The {what} for row {row} is none of the campaign's groups.") from None
        if found[int(row)].outcome != GROUP or {CANNOT_TELL, DECLINED} & set(found[int(row)].outcomes):
            raise UnknownGroup(f"The {what} for row {row} is none of the campaign's groups.")
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
    store: Store,
    settings: CampaignSettings,
    manifest: Mapping[str, object],
    files: Staged,
    handed: Handed,
    held_out: set[int],
) -> int:
    data, table = settings.to_json(), schema.campaigns
    with store.writing() as connection:
        head: dict[str, object] = {"name": settings.name, "settings": canonical(data), "materials": canonical(manifest)}
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
        for row, value in handed.gold.items():
            desk.append("gold", {"row": row}, value.seal())
        for row, value in handed.known.items():
            partly = {"partly": True} if OPEN in value.outcomes else {}
            purpose = "audit" if row in held_out else "training"
            desk.append("known", {"row": row, "purpose": purpose, **partly}, value.seal())
        desk.flush()
        files.settle()
    return campaign
