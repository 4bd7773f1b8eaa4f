"""What a campaign holds on to in one process: the log, the files, the engine, and whoever refits."""

from __future__ import annotations

import importlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from sqlalchemy import Connection, select

from apod.campaign import schema
from apod.campaign.asking import Leased, Question, parse_id, withdraw
from apod.campaign.attributes import Value, value_of
from apod.campaign.display import Display, Pictures
from apod.campaign.engine import Engine, EngineFactory, Trial, engine_folders, engine_name
from apod.campaign.erasure import Overwriting
from apod.campaign.errors import NotFound, PictureUnusable, UnknownQuestion
from apod.campaign.files import Files
from apod.campaign.journal import Journal
from apod.campaign.log import moment
from apod.campaign.materials import Materials
from apod.campaign.refit import Refitter
from apod.campaign.settings import CampaignSettings, clean_name, composed, settings_of
from apod.campaign.state import State
from apod.campaign.store import Store
from apod.campaign.verifying import verification_progress
from apod.campaign.votes import Collected, checked_answers, collect
from apod.campaign.workers import LEAD_SECONDS, Background
from apod.errors import InputError
from apod.processes import Worker

ON_DEMAND = 4  # proposals made where every question may wait for a refit of its own

Refits = Literal["thread", "process", "demand"]


def default_engine(materials: Materials) -> Engine:
    """The numerics of this package, by the method that the campaign was created with."""
    corrects = settings_of(materials.settings.engine).corrects
    module, name = ("correction_engine", "CorrectionEngine") if corrects else ("heads_engine", "MitigationEngine")
    if len(materials.settings.asked) > 1:
        module, name = "attributes_engine", "AttributesEngine"
    engine: Engine = getattr(importlib.import_module(f"apod.campaign.{module}"), name)(materials)
    return engine


def default_folder(store: Store) -> Path | None:
    """Where a database's files lie unless told otherwise; None where nothing says so."""
    if store.path is not None:
        return store.path.with_name(store.path.name + ".files")
    named = os.environ.get("APOD_FILES")
    return Path(named).absolute() if named else None


def _created(connection: Connection, row: Any) -> dict[str, Any]:
    """What the campaign was created with, as its log's first event says; the copy in its row decides nothing."""
    table = schema.events
    query = select(table.c.body).where(table.c.campaign == row.id, table.c.seq == 1)
    body: dict[str, Any] = json.loads(connection.execute(query).scalar() or "{}")
    copies = {"settings": json.loads(row.settings), "materials": json.loads(row.materials)}
    return copies | body  # the copies only so that a log without its beginning can still be looked at


@dataclass(frozen=True)
class Seen:
    """What may be seen of a row: nothing of what a model or others think."""

    row_id: str
    display: dict[str, object] = field(repr=False)
    label: str | None = field(repr=False)
    image: str | None  # where its picture lies


class Session:
    """The part of a campaign that is no command."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        files: str | os.PathLike[str] | None = None,
        engine: EngineFactory | None = None,
        refit: Refits = "thread",
        lead_seconds: float = LEAD_SECONDS,
    ) -> None:
        if refit not in ("thread", "process", "demand"):
            raise InputError(f"{str(refit)[:40]!r} is no way to refit: use thread, process or demand.")
        name = composed(name)
        with store.reading() as connection:
            row = connection.execute(select(schema.campaigns).where(schema.campaigns.c.name == name)).one()
            created = _created(connection, row)
        self.store, self.name = store, name
        self.settings = CampaignSettings.from_json(created["settings"])
        self.files = Files(Path(files) if files is not None else default_folder(store) or Path(row.folder))
        self.journal = Journal(store, row.id)
        self.reader = Journal(store, row.id)  # looking through all answers must not hold up those who ask and tell
        logged = created.get("computed") == "logged"
        self._materials = Materials(self.settings, self.files, created["materials"], self.reader, logged)
        self.number: int = row.id
        self._factory, self.mode = engine or default_engine, refit
        self.models = Files(self.files.folder / f"models-{row.id}")
        self._numerics: tuple[Engine, Materials] | None = None
        self._building, self._starting = threading.Lock(), threading.Lock()
        ahead = ON_DEMAND if refit == "demand" else None
        self.refitter = Refitter(self.reader, self.models, self.settings, self.numerics, lead_seconds, ahead)
        self._background: Background | Worker | None = None
        self.overwriting = Overwriting(self.journal, self.models)
        self.overwriting.attempt()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database and stop refitting; the campaign goes on. (`finish` ends it.)"""
        with self._starting:
            background, self._background = self._background, None
        if background is not None:
            background.stop()
        self.store.dispose()

    @property
    def materials(self) -> Materials:
        """The pool as it is now: rows may have arrived by another process."""
        self._materials = self.reader.view(lambda connection, state, at: self._materials.as_of(state))
        return self._materials

    def _materials_of(self, row: int) -> Materials:
        """A pool that has this row, without a look into the database where that is known."""
        return self._materials if row < len(self._materials) else self.materials

    def numerics(self) -> tuple[Engine, Materials]:
        """The engine and the rows it knows: built when first needed, and again once rows have arrived."""
        materials = self.materials
        with self._building:
            if self._numerics is None or self._numerics[1].added != materials.added:
                self._numerics = self._factory(materials), materials
            return self._numerics

    def engine(self) -> Engine:
        """The numerics for all rows there are now."""
        return self.numerics()[0]

    def collected(self) -> Collected:
        """All answers that stand, one by one, checked against the log."""
        return self.reader.view(lambda c, state, at: collect(state, checked_answers(c, self.number, state)))

    def trial(self) -> Trial | None:
        """The frozen correction that is kept, and how far its verification is; None where there is none."""
        found = self.reader.view(lambda c, state, at: verification_progress(c, self.number, state, at))
        return None if found is None else found.trial

    def shown(self, row: int) -> tuple[str, dict[str, object]]:
        """A row's id and what an annotator may see of it."""
        materials = self._materials_of(row)
        batch, place = materials.place(row)
        manifest = materials.batches[batch]["display"]
        if manifest is not None:
            row_id, values = Display(self.files, manifest).row(place)
            return row_id or str(row), values
        features = np.asarray(materials.batch_features(batch))
        return str(row), {f"x{index}": value for index, value in enumerate(features[place].tolist())}

    def _start(self) -> None:
        """Start whoever refits in the background, once."""
        if self.mode == "demand" or self._background is not None:
            return
        with self._starting:
            if self._background is None:
                if self.mode == "thread":
                    self._background = self.refitter.background()
                    self._background.start()
                else:
                    self._background = Worker("apod.campaign.refit_main", self.job())

    def wake(self) -> None:
        """Tell whoever refits that there is something new; questions are prepared before anybody asks."""
        self.overwriting.retry()
        self._start()
        if self._background is not None:
            self._background.wake()

    def head(self) -> int:
        """The number of the latest event, without reading any."""
        return self.journal.head()

    def job(self) -> dict[str, object]:
        """How another process opens the same campaign."""
        engine = engine_name(self._factory)
        return {
            "url": self.store.url,
            "name": self.name,
            "files": str(self.files.folder),
            "engine": engine,
            "path": engine_folders(engine),
        }

    def seen(self, row: int) -> Seen:
        """What whoever is asked about a row sees of it; PictureUnusable where its picture cannot be shown."""
        row_id, values = self.shown(row)
        settings = self.settings
        image = None
        if settings.image_column is not None:
            named = values.get(settings.image_column)
            image = None if named is None else Pictures(settings.image_root).path(str(named))
            values = {name: value for name, value in values.items() if name in settings.show}
            values.pop(settings.image_column, None)
        label = settings.label_names[self._materials_of(row).label(row)] if settings.show_label else None
        return Seen(row_id, values, label, image)

    def case(self, held: Leased) -> Question:
        """The question of a lease, with what its annotator may see."""
        seen = self.seen(held.row)
        return Question(
            id=held.id,
            campaign=self.name,
            annotator=held.annotator,
            row=held.row,
            row_id=seen.row_id,
            display=seen.display,
            groups=self.settings.groups,
            attributes=self.settings.asked,
            expires_at=moment(held.expires_at),
            label=seen.label,
            image=seen.image,
        )

    def usable(self, held: Leased) -> Question | None:
        """The question; None where its picture cannot be shown: then it is withdrawn, from everybody."""
        try:
            return self.case(held)
        except PictureUnusable:
            self.journal.submit(partial(withdraw, row=held.row, cause="picture"))
            return None

    def lease_of(self, question: Question | str, annotator: str | None) -> tuple[Callable[[State], int], str | None]:
        """How to find the lease, and whose it must be (None: whoever has the id)."""
        if isinstance(question, Question):
            if question.campaign != self.name:
                raise NotFound("This question belongs to another campaign.")
            annotator = question.annotator if annotator is None else annotator
        place, token = parse_id(question.id if isinstance(question, Question) else question)

        def find(state: State) -> int:
            if token not in state.leases or state.id_of(token) != f"{place}-{token}":
                raise UnknownQuestion
            return token

        return find, None if annotator is None else clean_name("annotator's name", annotator)

    def value_of(self, answer: object, partial: bool = False) -> Value:
        """What an answer says; `UnknownGroup` where it is none of the campaign's."""
        return value_of(self.settings.asked, answer, partial)

    def rules(self) -> CampaignSettings:
        """The settings with what the owner changed since."""
        return self.settings.with_changes(self.journal.view(lambda connection, state, at: dict(state.revised)))

    def revision(self) -> int:
        """How often the owner changed the settings: whoever read an earlier version is shown the new one."""
        return self.journal.view(lambda connection, state, at: state.revisions)

    def kind_in(self, state: State, kind: str | None) -> str:
        """Where an answer comes from: as said, or as the campaign's answers do now."""
        return kind or str(state.revised.get("kind", self.settings.kind))
