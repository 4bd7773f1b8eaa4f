"""Rows that arrive while a campaign runs: checked against its table, stored beside the others, numbered on.

Nothing that was fitted on the first rows is fitted again: the base model scores the new ones as it is, a body embeds
them as it is. They come into the pool, the distances, the proposals and the audit with the next refit, wherever that
runs; answers stay as they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apod.campaign.attributes import Answer, Groups, joined, named_columns
from apod.campaign.audit_sample import held_out_later
from apod.campaign.contents import new_contents
from apod.campaign.create import Handed, Pool, Roles, check_features, coded
from apod.campaign.display import Display, Pictures, store_display
from apod.campaign.errors import CampaignFinished
from apod.campaign.files import Staged, staged
from apod.campaign.journal import Desk
from apod.campaign.materials import GivenScores, Materials, scores_from, store_features
from apod.campaign.matrix import embedding_pool, is_embedding
from apod.campaign.pool_rows import check_encodable
from apod.campaign.state import OPEN
from apod.data.columns import Labels, read_like
from apod.data.dataset import UNKNOWN, IntArray, category_codes
from apod.data.files import read_table
from apod.data.groups import read_groups
from apod.data.own import Problems, label_cells
from apod.data.text_files import RECOGNISED, Dialect
from apod.errors import InputError, TableProblems
from apod.files import write_private
from apod.randomness import generator

if TYPE_CHECKING:
    from apod.campaign.session import Session

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class AddReport:
    """What came of an addition."""

    rows: int
    first: int  # the number of the first of them
    total: int  # rows of the campaign now
    held_out: int  # of the new ones, kept for the audit
    known: int  # groups that came with them


@dataclass(frozen=True)
class AddOptions:
    """What must be said of a table where the campaign does not know it by itself: one of an earlier version."""

    label: str | None = None  # the column; of a .npy matrix, the .npy file of its labels
    known_groups: str | None = None  # the same of groups that are handed in
    id_column: str | None = None
    pictures: Path | None = None  # the folder or archive of new pictures, where the table names them
    dialect: Dialect = RECOGNISED
    progress: Progress = lambda done, total, text: None


def add_file(session: Session, path: Path, options: AddOptions) -> AddReport:
    """Add the rows of a file that has the columns of the campaign's table; TableProblems with all that is wrong."""
    materials = session.materials
    if materials.manifest.get("embedding") and is_embedding(path, {"body": "precomputed"}):
        return add(session, _embeddings(materials, path, options), path.name)
    if materials.manifest.get("embedding"):
        raise InputError(f"The campaign's rows are embeddings, and {path.name} is a table: pass a .npy matrix.")
    return add(session, _table(session, materials, path, options), path.name)


def add_text(session: Session, table: str) -> AddReport:
    """Add the rows of a CSV file's text, as a page sends it. It is written to a file of the owner's alone while it is
    read; so groups may not come with it: a server that is killed would leave them behind.
    """
    if (session.materials.manifest.get("table") or {}).get("known") is not None:
        raise InputError("Groups come with these rows: add them with `apod campaign add`.")
    with tempfile.TemporaryDirectory(dir=session.files.folder, prefix=".new-") as folder:
        path = Path(folder) / "rows.csv"
        write_private(path, table.encode(errors="replace"))
        return add_file(session, path, AddOptions())


def add_people(
    session: Session,
    features: Any,
    labels: Any,
    *,
    display: pd.DataFrame | None = None,
    ids: Sequence[str] | None = None,
    known_groups: Any = None,
    score: Any = None,
) -> AddReport:
    """Add rows as arrays or a table, as `Campaign.create` takes them; TableProblems with all that is wrong."""
    materials, problems = session.materials, Problems()
    if len(labels) != len(features):
        raise InputError(f"X has {len(features)} rows and y has {len(labels)}: pass one label per row.")
    column = score if isinstance(score, str) else materials.score_column
    scores = problems.collect(lambda: scores_from(column if column and score is None else score, features))
    seen = features.drop(columns=column, errors="ignore") if isinstance(features, pd.DataFrame) and column else features
    read = problems.collect(lambda: _as_stored(materials, seen, problems))
    coded = problems.collect(lambda: _coded_labels(materials, "y", pd.Series(np.asarray(labels).ravel())))
    named = known_groups if isinstance(known_groups, Mapping | pd.DataFrame) else {"known_groups": known_groups}
    columns = {str(name): list(named[name]) for name in named if named[name] is not None}
    for cells in columns.values():
        if len(cells) != len(features):
            raise InputError(f"known_groups has {len(cells)} rows and X has {len(features)}: pass one per row.")
    groups = pd.DataFrame(columns, dtype=object)
    known = problems.collect(lambda: _known(materials, list(groups.columns), groups))
    shown = display if display is not None else features if isinstance(features, pd.DataFrame) else None
    problems.settle("the new rows")
    assert coded is not None
    pool = Pool(read, coded.codes, shown, ids, coded=coded, known=known, scores=scores)
    return add(session, pool, "the new rows")


def add(session: Session, pool: Pool, what: str) -> AddReport:
    """Write the files of new rows, then make all of them part of the campaign in one transaction, or none."""
    problems = Problems()
    _check(session, session.materials, pool, problems)
    problems.settle(what)
    with staged(session.files.folder) as files:
        manifest = _written(session.materials, files, pool)
        while True:
            materials = session.materials
            _check_ids(materials, pool)
            done = session.journal.submit(
                partial(_append, files=files, materials=materials, pool=pool, manifest=manifest)
            )
            if done is not None:  # nobody else added rows meanwhile
                break
    session.wake()
    return done


def _append(
    desk: Desk, files: Staged, materials: Materials, pool: Pool, manifest: Mapping[str, object]
) -> AddReport | None:
    if desk.state.finished:
        raise CampaignFinished("The campaign is finished: it takes no more rows.")
    if len(desk.state.added) != len(materials.added):
        return None
    first, own = len(materials), dict(manifest)
    held_out = held_out_later(pool.labels, materials.settings, len(materials.batches))
    if len(held_out):
        own["held_out"] = files.put_array(held_out)
    if materials.drawn is not None:
        own["drawn"] = files.put_array(_drawn(materials, len(pool.labels), held_out, pool.known or {}))
    files.settle()
    desk.append("added", {"materials": own, "queue": desk.queue})
    reserved = set(held_out.tolist())
    for row, value in coded(pool.known or {}, "known group", materials.settings, len(pool.labels)).items():
        body = {"row": first + row, "purpose": "audit" if row in reserved else "training"}
        desk.append("known", body | ({"partly": True} if OPEN in value.outcomes else {}), value.seal())
    rows = len(pool.labels)
    return AddReport(rows, first, first + rows, len(held_out), len(pool.known or {}))


def _drawn(materials: Materials, rows: int, held_out: IntArray, known: Iterable[int]) -> IntArray:
    """Of new rows of a large pool: the share that was drawn of the first ones, and those whose group is known."""
    first = materials.original
    share = (first.drawn or 0) / max(1, len(first) - len(first.held_out()))
    free = np.delete(np.arange(rows), held_out)
    rng = generator(materials.settings.seed, "part of a large pool", "added", len(materials.batches))
    drawn = rng.choice(free, min(len(free), int(share * len(free) + rng.random())), replace=False)
    return np.union1d(drawn, np.intersect1d(free, sorted(known))).astype(np.int64)


def _written(materials: Materials, files: Staged, pool: Pool) -> dict[str, object]:
    manifest: dict[str, object] = {
        "rows": len(pool.labels),
        "labels": files.put_array(np.asarray(pool.labels).astype(np.int8)),
        "features": store_features(files, pool.features, ()),
        "display": None,
    }
    display = materials.manifest["display"]
    if display is not None:
        frame = pool.display if pool.display is not None else pd.DataFrame(index=range(len(pool.labels)))
        manifest["display"] = store_display(files, frame.rename(columns=str), display["columns"], pool.ids)
    if pool.scores is not None:
        manifest["scores"] = {"column": pool.scores.column, "file": files.put_array(pool.scores.values)}
    handed = Handed({}, coded(pool.known or {}, "known group", materials.settings, len(pool.labels)))
    if handed.fully_known:
        manifest["known"] = files.put_array(np.array(sorted(handed.fully_known), dtype=np.int64))
    return manifest


def _check(session: Session, materials: Materials, pool: Pool, problems: Problems) -> None:
    """Collect everything that is wrong with new rows, whatever they came in."""
    settings, display = session.settings, materials.manifest["display"]
    if not len(pool.labels):
        problems.add("There are no rows in it.")
        return
    shown = [] if display is None else display["columns"]
    frame = pool.display
    if shown and frame is None:
        problems.add("Annotators see columns of a table: pass it (display=).")
    elif frame is not None and len(frame) != len(pool.labels):
        problems.add(f"display has {len(frame)} rows and there are {len(pool.labels)}: pass one per row.")
    elif frame is not None:
        lost = [name for name in shown if name not in map(str, frame.columns)]
        problems.found += [f"There is no column {name!r}, which annotators see: add it." for name in lost]
        if settings.image_column in shown and not lost:
            cells = frame[settings.image_column]
            problems.collect(lambda: Pictures(settings.image_root).check(str(settings.image_column), cells))
    if (materials.manifest.get("scores") is None) != (pool.scores is None):
        problems.add(
            "The campaign has no scores: leave them out."
            if pool.scores is not None
            else "The campaign corrects given scores: pass those of the new rows, by the same model."
        )
    if not problems.found:
        problems.collect(lambda: check_features(pool.features, np.empty(0, dtype=np.int64), gaps=True))
        problems.collect(lambda: check_encodable(materials, pool.features))


def _check_ids(materials: Materials, pool: Pool) -> None:
    known: set[str] = set()
    for batch in materials.batches:
        if batch["display"] is not None:
            known.update(Display(materials.files, batch["display"]).ids())
    if not known:
        if pool.ids is not None:
            raise InputError("The campaign numbers its rows: leave the ids out.")
        return
    if pool.ids is None:
        raise InputError("The campaign's rows have ids: pass those of the new rows (ids=, --id-column).")
    taken = [row for row, one in enumerate(pool.ids) if str(one) in known]
    if taken:
        raise InputError(
            f"{len(taken)} ids are in the campaign already, the first in row {taken[0]} (counting from 0): leave those "
            "rows out."
        )


def _as_stored(materials: Materials, features: Any, problems: Problems) -> Any:
    """Features of the form that the campaign's have, columns in their order."""
    columns = materials.columns()
    if not columns:
        stored, given = materials.batch_features(0), np.asarray(features)
        if given.ndim != 2 or given.dtype.kind not in "fiub" or given.shape[1] != stored.shape[1]:
            raise InputError(
                f"X is of shape {given.shape} and type {given.dtype}: pass numbers in {stored.shape[1]} columns."
            )
        return given
    if not isinstance(features, pd.DataFrame):
        raise InputError(f"The campaign's rows are a table of {len(columns)} columns: pass a DataFrame.")
    frame = features.rename(columns=str)
    names = [str(column["name"]) for column in columns]
    _same_columns(frame, names, names, problems)
    found: dict[str, Any] = {}
    for column in columns:
        name = str(column["name"])
        if name not in frame:
            continue
        numbers = pd.api.types.is_numeric_dtype(frame[name])
        if column["kind"] == "number" and not numbers and frame[name].notna().any():
            problems.add(f"Column {name!r} holds numbers in the campaign, and here it does not: mend it.")
        elif column["kind"] == "number":
            found[name] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            found[name] = frame[name].astype(object).to_numpy()
    return pd.DataFrame(found)


def _same_columns(frame: pd.DataFrame, needed: Sequence[str], known: Sequence[str], problems: Problems) -> None:
    """Collect columns that are missing, and those that the campaign's table does not have."""
    lost = [name for name in dict.fromkeys(needed) if name not in frame.columns]
    strange = [str(name) for name in frame.columns if str(name) not in known] if known else []
    problems.found += [f"There is no column {name!r}, which the campaign's table has: add it." for name in lost]
    problems.found += [f"Column {name!r} is not in the campaign's table: leave it out." for name in strange]
    if frame.columns.duplicated().any():
        problems.add("Two columns have the same name: rename one.")


def _coded_labels(materials: Materials, what: str, column: pd.Series[Any]) -> Labels:
    """Codes of labels by the names that the campaign has for them."""
    names = materials.settings.label_names
    codes, found = category_codes(what, label_cells(what, column))
    place = {name: code for code, name in enumerate(names)}
    strange = [name for name in found if name not in place]
    if strange:
        raise InputError(f"{what} has labels other than {names[0]} and {names[1]}: correct them.")
    return Labels(np.array([place[name] for name in found], dtype=np.int64)[codes], names, names)


def _known(materials: Materials, columns: Sequence[str], frame: pd.DataFrame) -> dict[int, Answer]:
    """Groups that come with the rows, as far as they do; of several attributes, in columns of their names."""
    asked, found = materials.settings.asked, {}
    for name in columns:
        attribute = asked[0] if len(asked) == 1 else asked[materials.settings.place_of(name)]
        codes, names = read_groups(name, frame, None, attribute.groups, partly=True)
        found[attribute.name] = {int(row): names[codes[row]] for row in np.flatnonzero(codes != UNKNOWN)}
    return joined(found) if len(asked) > 1 else dict(found.get(asked[0].name, {}))


def _roles(materials: Materials, options: AddOptions) -> Roles:
    """Which column is what, as the campaign knows it, or as it is said of one of an earlier version."""
    roles: Roles = {**(materials.manifest.get("table") or {})}  # type: ignore[typeddict-item]
    if options.label is not None:
        roles["label"] = options.label
    if options.known_groups is not None:
        roles["known"] = options.known_groups
    if options.id_column is not None:
        roles["id"] = options.id_column
    if roles.get("label") is None:
        raise InputError("The campaign does not know which column is the label: name it (--label).")
    return roles


def _embeddings(materials: Materials, path: Path, options: AddOptions) -> Pool:
    roles = _roles(materials, options)
    settings = materials.settings
    groups: Groups = {one.name: one.groups for one in settings.attributes} or settings.groups
    pool = embedding_pool(
        path, str(roles["label"]), groups, known_groups=roles.get("known"), drop=roles.get("drop", ())
    )
    assert pool.coded is not None
    if pool.coded.names != settings.label_names:
        own = " and ".join(settings.label_names)
        raise InputError(
            f"The labels are {' and '.join(pool.coded.names)}, those of the campaign {own}: write them so."
        )
    _as_stored(materials, pool.features, Problems())
    return pool


def _table(session: Session, materials: Materials, path: Path, options: AddOptions) -> Pool:
    """The rows of a table, read as the campaign's table was."""
    frame, roles, problems = read_table(path, options.dialect), _roles(materials, options), Problems()
    contents = (materials.manifest.get("contents") or {}).get("columns", [])
    embedded = tuple(f"{one['column']}." for one in contents)
    columns = [one for one in materials.columns() if not (embedded and str(one["name"]).startswith(embedded))]
    display, score = materials.manifest["display"] or {"columns": []}, materials.score_column
    recorded = named_columns(roles.get("known"), list(map(str, frame.columns)))
    named = [roles["label"], roles.get("id"), *recorded, score, *(one["column"] for one in contents)]
    needed = [*(str(name) for name in named if name), *(str(one["name"]) for one in columns), *display["columns"]]
    _same_columns(frame, needed, roles.get("all", ()), problems)
    there = [one for one in columns if one["name"] in frame.columns]
    numbers, texts = ([str(one["name"]) for one in there if one["kind"] == kind] for kind in ("number", "category"))
    features = _features(frame, numbers, texts, path.name, problems)
    label = roles["label"] if roles["label"] in frame.columns else None
    coded = None if label is None else problems.collect(lambda: _coded_labels(materials, str(label), frame[label]))
    own, there_too = roles.get("id"), [name for name in recorded if name in frame.columns]
    known = problems.collect(lambda: _known(materials, there_too, frame))
    scores: GivenScores | None = None
    if score in frame.columns:
        scores = problems.collect(lambda: scores_from(score, frame))
    problems.settle(path.name)
    assert features is not None
    assert coded is not None
    ordered = features[[str(one["name"]) for one in columns]]
    shown = frame
    if contents:
        ordered, shown = new_contents(session, ordered, frame, path, options.pictures, options.progress)
        ordered = ordered[[str(one["name"]) for one in materials.columns()]]
    ids = frame[own].astype(str).tolist() if own is not None else None
    return Pool(ordered, coded.codes, shown, ids, coded=coded, known=known, scores=scores)


def _features(
    frame: pd.DataFrame, numbers: Sequence[str], texts: Sequence[str], what: str, problems: Problems
) -> pd.DataFrame | None:
    try:
        return read_like(frame, numbers, texts, what, "the campaign")
    except TableProblems as wrong:
        problems.found += wrong.problems
        return None
