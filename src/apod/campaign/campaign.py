"""A campaign: ask people about rows, keep every answer, refit beside it.

`Campaign` is the core: create, open, ask, tell, status, classifier, close. What one annotator does is
`campaign.annotator(name)`, what the owner does `campaign.owner`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from sqlalchemy import select

from apod.campaign import schema
from apod.campaign.annotator import DEFAULT_ANNOTATOR, Annotator, Progress, progress_of
from apod.campaign.answering import Receipt
from apod.campaign.asking import Question
from apod.campaign.attributes import Answer, Groups
from apod.campaign.backup import restore
from apod.campaign.contents import ContentOptions
from apod.campaign.create import Pool, create, table_pool
from apod.campaign.engine import EngineFactory
from apod.campaign.errors import NotFound
from apod.campaign.journal import read_answers
from apod.campaign.operating_point import fit_and_note
from apod.campaign.owner import Owner
from apod.campaign.reviews import Reviews
from apod.campaign.schema import check_schema
from apod.campaign.session import Refits, Session, default_folder
from apod.campaign.settings import CampaignSettings, clean_name, composed, own_options
from apod.campaign.status import Status, mitigated, status_of
from apod.campaign.store import Store
from apod.campaign.votes import collect
from apod.data.text_files import RECOGNISED, Dialect
from apod.errors import InputError

if TYPE_CHECKING:
    from apod.classifier import APODClassifier


class Campaign(Session):
    """Durable ask and tell over one database. Threads may share it; processes open their own.

    Parameters
    ----------
    refit : {"thread", "process", "demand"}
        Where models are fitted: in the background of this process; in a niced process of its own; before a question
        that needs it, in the caller (for commands that live briefly).
    engine : callable
        Builds the numerics from the campaign's materials; by default the package's own.
    """

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str],
        X: Any,
        y: Any,
        *,
        groups: Groups | None = None,
        budget: int,
        known_groups: Any = None,
        name: str | None = None,
        display: pd.DataFrame | None = None,
        ids: Sequence[str] | None = None,
        show: Sequence[str] | None = None,
        positive: object = None,
        gold: Mapping[int, Answer] | None = None,
        score: Any = None,
        files: str | os.PathLike[str] | None = None,
        engine: EngineFactory | None = None,
        engine_options: Mapping[str, object] | None = None,
        refit: Refits = "thread",
        **settings: Any,
    ) -> Campaign:
        """A new campaign over rows X with labels y. Further settings are those of `CampaignSettings`.

        `known_groups` (n,) are groups as far as they are on record: answers that cost nothing; who has none (NaN, None)
        may be asked about. Without `groups`, their names are taken from it. `score`: probabilities by the model to
        correct, one per row or a column of X; by default a standard model is fitted.

        Several attributes: `groups={"sex": ["female", "male"], "race": [...]}`; `known_groups`, `gold` and answers
        go by attribute then. One question asks about all of them, and the budget counts people asked about.
        """
        from apod.campaign.matrix import array_pool

        shown: dict[str, Any] = {"display": display, "ids": ids, "show": show, "positive": positive, "gold": gold}
        pool = array_pool(X, y, groups, known_groups, score, **shown)
        return cls._create(url, pool, budget, name, files, engine, engine_options, refit, settings)

    @classmethod
    def create_from_table(
        cls,
        url: str | os.PathLike[str],
        table: str | os.PathLike[str],
        *,
        label: str,
        groups: Groups | None = None,
        budget: int,
        name: str | None = None,
        sensitive: str | None = None,
        known_groups: str | None = None,
        drop: Sequence[str] = (),
        id_column: str | None = None,
        show: Sequence[str] | None = None,
        positive: str | None = None,
        gold: Mapping[int, Answer] | None = None,
        score: str | None = None,
        dialect: Dialect = RECOGNISED,
        contents: ContentOptions | None = None,
        files: str | os.PathLike[str] | None = None,
        engine: EngineFactory | None = None,
        engine_options: Mapping[str, object] | None = None,
        refit: Refits = "thread",
        **settings: Any,
    ) -> Campaign:
        """A new campaign over a table's file (or a folder of Parquet) with a label column, or over a .npy matrix.

        For a matrix, `label` is the .npy file of its labels, and its columns are the embedding.
        `known_groups` names the column of groups that are handed in, `score` that of the model's scores; see `create`.
        With several attributes, `sensitive` and `known_groups` may name several columns, comma-separated.
        `contents` says what of the table is pictures and text; with its `labels`, the campaign is over a folder, tar or
        zip of pictures.
        """
        from apod.campaign.matrix import embedding_pool, is_embedding

        columns: dict[str, Any] = {"sensitive": sensitive, "drop": drop, "id_column": id_column, "show": show}
        columns |= {"positive": positive, "gold": gold, "known_groups": known_groups}
        if contents is None and is_embedding(Path(table), engine_options or {}):
            if score is not None:
                raise InputError("Embeddings have no column of scores: pass a table, or Campaign.create(score=...).")
            pool = embedding_pool(Path(table), label, groups, **columns)
        else:
            pool = table_pool(table, label, groups, **columns, score=score, how=dialect, contents=contents)
        if pool.image is not None and settings.get("image_column") is None:
            settings = {**settings, "image_column": pool.image[0], "image_root": pool.image[1]}
        return cls._create(url, pool, budget, name, files, engine, engine_options, refit, settings)

    @classmethod
    def _create(
        cls,
        url: str | os.PathLike[str],
        pool: Pool,
        budget: int,
        name: str | None,
        files: str | os.PathLike[str] | None,
        engine: EngineFactory | None,
        options: Mapping[str, object] | None,
        refit: Refits,
        settings: Mapping[str, Any],
    ) -> Campaign:
        if engine is None:
            told = settings.get("least_gain", 0.0), pool.shape, settings.get("verify_share", 0.0)
            options = own_options(options or {}, *told)
        elif settings.get("verify_share"):
            raise InputError("Verification is of the package's own engine: leave out one of verify_share and engine.")
        elif pool.scores is not None:
            raise InputError("Scores are for the package's own engine: leave out one of score and engine.")
        store = Store(url)
        folder = Path(files).absolute() if files is not None else default_folder(store)
        if folder is None:
            raise InputError("Matrices live in a folder that all machines can reach: pass files= (or APOD_FILES).")
        chosen = name or (store.path.stem if store.path is not None else "campaign")
        try:
            options, attributes = dict(options or {}), pool.named
            wanted = CampaignSettings(chosen, pool.groups, budget, engine=options, attributes=attributes, **settings)
        except TypeError:
            unknown = sorted(set(settings) - set(CampaignSettings.__dataclass_fields__))
            raise InputError(f"There is no setting {', '.join(unknown)}.") from None
        with store.disposed_on_error():
            create(store, pool, wanted, folder)
            return cls(store, clean_name("campaign name", chosen), files=folder, engine=engine, refit=refit)

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        name: str | None = None,
        *,
        files: str | os.PathLike[str] | None = None,
        engine: EngineFactory | None = None,
        refit: Refits = "thread",
    ) -> Campaign:
        """An existing campaign; its name is needed only where a database holds several."""
        with Store(url).disposed_on_error() as store:
            check_schema(store)
            with store.reading() as connection:
                names = list(connection.execute(select(schema.campaigns.c.name).order_by("id")).scalars())
            if name is None and len(names) == 1:
                name = names[0]
            name = None if name is None else composed(name)
            if name not in names:
                known = ", ".join(map(repr, names)) or "none"
                raise NotFound(f"Name one of the campaigns in {store.label}: {known}.")
            return cls(store, str(name), files=files, engine=engine, refit=refit)

    @classmethod
    def restore(
        cls,
        backup: str | os.PathLike[str],
        url: str | os.PathLike[str],
        *,
        files: str | os.PathLike[str] | None = None,
        engine: EngineFactory | None = None,
        refit: Refits = "thread",
    ) -> Campaign:
        """The campaign of a backup, in a database that has none of its name: all of it, or nothing."""
        with Store(url).disposed_on_error() as store:
            folder = Path(files).absolute() if files is not None else default_folder(store)
            if folder is None:
                raise InputError("Matrices live in a folder that all machines can reach: pass files= (or APOD_FILES).")
        name = restore(Path(backup), url, folder).name
        return cls.open(url, name, files=folder, engine=engine, refit=refit)

    @cached_property
    def owner(self) -> Owner:
        """What only the owner does: extend, pause, invite, watch, export, erase, ..."""
        return Owner(self)

    @cached_property
    def reviews(self) -> Reviews:
        """Second looks at answers that disagree or say nothing."""
        return Reviews(self)

    def annotator(self, name: str | None = None) -> Annotator:
        """What one annotator does: questions for a page, skip, undo, correct; see `Annotator`."""
        return Annotator(self, name)

    def ask(self, annotator: str = DEFAULT_ANNOTATOR) -> Question | None:
        """The annotator's question: the one they hold already, or the next; None where there is none.

        `annotator(name).turn()` says why there is none.
        """
        return self.annotator(clean_name("annotator's name", annotator)).turn().question

    def tell(
        self,
        question: Question | str,
        answer: Answer,
        *,
        kind: str | None = None,
        annotator: str | None = None,
        key: str | None = None,
    ) -> Receipt:
        """Record an answer: a group's name, "cannot_tell" or "declined". Durable when this returns.

        With several attributes one of these for each, as {"sex": "female", "race": None}; None: it cannot be told.
        The same answer twice is recorded once; a different one is a `Conflict`. `key` makes a repeat recognisable
        whatever happened in between.
        """
        return self.annotator(annotator).tell(question, answer, kind=kind, key=key)

    def progress(self) -> Progress:
        """How far the campaign is, as annotators may see it."""
        return self.journal.view(lambda c, state, at: progress_of(state, state.now(at), None))

    def status(self) -> Status:
        """Counts that name nobody's group and nobody's accuracy."""
        self.overwriting.retry()
        number, materials = self.number, self.materials
        model = mitigated(materials)
        return self.reader.view(
            lambda c, state, at: status_of(
                c, materials.as_of(state), state, model, collect(state, read_answers(c, number)), at
            )
        )

    def classifier(self) -> APODClassifier:
        """The fitted classifier of all training answers; it depends on them and on the operating point chosen alone."""
        return fit_and_note(self)
