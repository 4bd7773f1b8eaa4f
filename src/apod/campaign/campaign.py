"""A campaign: ask people about rows, keep every answer, refit beside it. One method per command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from sqlalchemy import select

from apod.campaign import answering, asking, log, schema, transfer
from apod.campaign.annotator import Handing
from apod.campaign.answering import ImportReport, Receipt
from apod.campaign.asking import Question, Turn
from apod.campaign.create import Pool, array_pool, create, table_pool
from apod.campaign.engine import EngineFactory, GroupAnswer, Model
from apod.campaign.erasure import Erasure, erase
from apod.campaign.errors import CampaignError, NotFound
from apod.campaign.formats import format_of
from apod.campaign.journal import Desk, read_answers
from apod.campaign.log import LogCheck
from apod.campaign.operating_point import fit_and_note, forget_noted
from apod.campaign.owner import Owning
from apod.campaign.schema import check_schema
from apod.campaign.session import Refits, clean_key, default_folder
from apod.campaign.settings import CampaignSettings, clean_name, composed, own_options
from apod.campaign.status import AnnotatorReport, Status, annotators_of, mitigated, status_of
from apod.campaign.store import Store
from apod.campaign.transfer import ExportReport
from apod.campaign.votes import collect
from apod.data.text_files import RECOGNISED, Dialect
from apod.errors import BudgetError, InputError

if TYPE_CHECKING:
    from apod.audit import Audit
    from apod.classifier import APODClassifier

DEFAULT_ANNOTATOR = "annotator-1"


class Campaign(Handing, Owning):
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
        groups: Sequence[str] | None = None,
        budget: int,
        known_groups: Any = None,
        name: str | None = None,
        display: pd.DataFrame | None = None,
        ids: Sequence[str] | None = None,
        show: Sequence[str] | None = None,
        positive: object = None,
        gold: Mapping[int, str] | None = None,
        score: Any = None,
        files: str | os.PathLike[str] | None = None,
        engine: EngineFactory | None = None,
        engine_options: Mapping[str, Any] | None = None,
        refit: Refits = "thread",
        **settings: Any,
    ) -> Campaign:
        """A new campaign over rows X with labels y. Further settings are those of `CampaignSettings`.

        `known_groups` (n,) are groups as far as they are on record: answers that cost nothing; who has none (NaN, None)
        may be asked about. Without `groups`, their names are taken from it. `score`: probabilities by the model to
        correct, one per row or a column of X; by default a standard model is fitted.
        """
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
        groups: Sequence[str] | None = None,
        budget: int,
        name: str | None = None,
        sensitive: str | None = None,
        known_groups: str | None = None,
        drop: Sequence[str] = (),
        id_column: str | None = None,
        show: Sequence[str] | None = None,
        positive: str | None = None,
        gold: Mapping[int, str] | None = None,
        score: str | None = None,
        dialect: Dialect = RECOGNISED,
        files: str | os.PathLike[str] | None = None,
        engine: EngineFactory | None = None,
        engine_options: Mapping[str, Any] | None = None,
        refit: Refits = "thread",
        **settings: Any,
    ) -> Campaign:
        """A new campaign over a table's file (or a folder of Parquet) with a label column, or over a .npy matrix.

        For a matrix, `label` is the .npy file of its labels, and its columns are the embedding.
        `known_groups` names the column of groups that are handed in, `score` that of the model's scores; see `create`.
        """
        from apod.campaign.matrix import embedding_pool, is_embedding

        columns: dict[str, Any] = {"sensitive": sensitive, "drop": drop, "id_column": id_column, "show": show}
        columns |= {"positive": positive, "gold": gold, "known_groups": known_groups}
        if is_embedding(Path(table), engine_options or {}):
            if score is not None:
                raise InputError("Embeddings have no column of scores: pass a table, or Campaign.create(score=...).")
            pool = embedding_pool(Path(table), label, groups, **columns)
        else:
            pool = table_pool(table, label, groups, **columns, score=score, how=dialect)
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
        options: Mapping[str, Any] | None,
        refit: Refits,
        settings: Mapping[str, Any],
    ) -> Campaign:
        if engine is None:
            options = own_options(options or {}, settings.get("least_gain", 0.0), pool.shape)
        elif pool.scores is not None:
            raise InputError("Scores are for the package's own engine: leave out one of score and engine.")
        store = Store(url)
        folder = Path(files).absolute() if files is not None else default_folder(store)
        if folder is None:
            raise InputError("Matrices live in a folder that all machines can reach: pass files= (or APOD_FILES).")
        chosen = name or (store.path.stem if store.path is not None else "campaign")
        try:
            wanted = CampaignSettings(chosen, pool.groups, budget, engine=dict(options or {}), **settings)
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

    def turn(self, annotator: str = DEFAULT_ANNOTATOR) -> Turn:
        """The annotator's question, or why there is none."""
        annotator = clean_name("annotator's name", annotator)
        if self._mode == "demand":
            self.refitter.refit()
        for _ in range(20):  # others may take what was proposed, again and again
            found = self.journal.submit(partial(asking.ask, annotator=annotator))
            while isinstance(found, asking.Leased):
                self._wake()
                question = self._usable(found)
                if question is not None:
                    return Turn(question, "question")
                found = self.journal.submit(partial(asking.ask, annotator=annotator))
            if isinstance(found, asking.Nothing):
                return Turn(None, found.why, found.retry_after, found.with_others)
            if not self.refitter.supply(found.queue):
                return Turn(None, "exhausted")
        raise CampaignError("Other annotators took every proposal: ask again.")

    def ask(self, annotator: str = DEFAULT_ANNOTATOR) -> Question | None:
        """The annotator's question: the one they hold already, or the next; None where there is none (see `turn`)."""
        return self.turn(annotator).question

    def tell(
        self,
        question: Question | str,
        answer: str,
        *,
        kind: str | None = None,
        annotator: str | None = None,
        key: str | None = None,
    ) -> Receipt:
        """Record an answer: a group's name, "cannot_tell" or "declined". Durable when this returns.

        The same answer twice is recorded once; a different one is a `Conflict`. `key` makes a repeat recognisable
        whatever happened in between.
        """
        token, annotator = self._token(question, annotator)
        value, kind, key = self._value(answer), self._kind(kind), clean_key(key)
        receipt = self.journal.submit(lambda desk: answering.tell(desk, token(desk.state), value, kind, annotator, key))
        self._wake()
        return receipt

    def skip(self, question: Question | str, *, annotator: str | None = None, key: str | None = None) -> bool:
        """Give a question back for somebody else; it costs nothing. False where it was given back before."""
        token, annotator = self._token(question, annotator)
        checked = clean_key(key)
        return self.journal.submit(lambda desk: asking.skip(desk, token(desk.state), annotator, checked))

    def undo(self, annotator: str = DEFAULT_ANNOTATOR, *, key: str | None = None) -> Question | None:
        """Take back the annotator's last answer or skip; the question, if it is theirs again."""
        annotator, checked = clean_name("annotator's name", annotator), clean_key(key)
        found = self.journal.submit(lambda desk: asking.undo(desk, annotator, checked))
        self._wake()
        return self._usable(found) if found is not None else None

    def correct(
        self,
        question: Question | str,
        answer: str,
        *,
        kind: str | None = None,
        annotator: str | None = None,
        key: str | None = None,
    ) -> Receipt:
        """Replace a recorded answer; the log keeps both. Without `kind` the answer keeps its own."""
        token, annotator = self._token(question, annotator)
        value, checked = self._value(answer), clean_key(key)
        kept = None if kind is None else self._kind(kind)
        receipt = self.journal.submit(
            lambda desk: answering.correct(desk, token(desk.state), value, kept, annotator, checked)
        )
        self._wake()
        return receipt

    def status(self) -> Status:
        """Counts that name nobody's group and nobody's accuracy."""
        self._overwriting.retry()
        number, model = self.materials.campaign, mitigated(self.materials)
        return self.reader.view(
            lambda c, state, at: status_of(c, self.materials, state, model, collect(state, read_answers(c, number)), at)
        )

    def annotators(self) -> list[AnnotatorReport]:
        """Each annotator's work and estimated accuracy: for the owner, not for annotators."""
        number = self.materials.campaign
        return self.reader.view(lambda c, state, _: annotators_of(state, collect(state, read_answers(c, number))))

    def answers(self, purpose: str = "training") -> tuple[GroupAnswer, ...]:
        """The groups known so far for a purpose ("training" or "audit"), in the order of their questions."""
        return self.collected().weigh(purpose)

    def probabilities(self, purpose: str = "audit") -> dict[int, float | None]:
        """With which probability each row asked about for a purpose was drawn."""
        return self.reader.view(
            lambda c, state, at: {
                asked.row: asked.probability for asked in state.questions.values() if asked.purpose == purpose
            }
        )

    def canonical_model(self) -> Model | None:
        """The model of the answers alone: fitted from the pre-trained head, in the order of the questions."""
        return self.engine().fit(self.answers(), None)

    def classifier(self) -> APODClassifier:
        """The fitted classifier of all training answers; it depends on them and on the operating point chosen alone."""
        return fit_and_note(self)

    def audit(self, classifier: APODClassifier | None = None) -> Audit | None:
        """What the audit answers say, with intervals; None while there are none.

        Of the latest base model and, where that is corrected, its operating point; or of a fitted classifier, as
        `classifier()` gives it, before and after mitigation.
        """
        from apod.campaign.audit_sample import audit_campaign

        found = self.refitter.snapshot()
        model = self.refitter.load(found)
        return audit_campaign(self.materials, self.engine(), model, found.collected, classifier, found.strength)

    def refit(self) -> bool:
        """Fit what no model knows yet, now; False where there is nothing new or another process is at it."""
        return self.refitter.refit()

    def export(
        self, path: str | os.PathLike[str], format: str | None = None, *, tasks: int = 0, task_days: float = 14
    ) -> ExportReport:
        """Write all answers that stand (CSV, Parquet, JSON Lines, Label Studio JSON by the ending).

        For Label Studio, `tasks` hands out so many open questions along with them, for `task_days`.
        """
        return transfer.export(self, Path(path), format, tasks, task_days)

    def exported(self, format: str) -> bytes:
        """All answers that stand, as the content of a file: csv, parquet, jsonl or label-studio."""
        return transfer.packed(self, format_of(Path(), format))[0]

    def import_(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        *,
        annotator: str | None = None,
        kind: str | None = None,
    ) -> ImportReport:
        """Take in answers given elsewhere, all or none; a second import of the same file adds nothing.

        `annotator` and `kind` stand in where the file does not say.
        """
        report = transfer.import_(self, Path(path), format, annotator, kind)
        self._wake()
        return report

    def erase(
        self, *, row: int | None = None, question: Question | str | None = None, annotator: str | None = None
    ) -> Erasure:
        """Erase the answers about a row, to a question, or of an annotator, and all that was computed from them."""
        if sum(item is not None for item in (row, question, annotator)) != 1:
            raise InputError("Say what to erase: a row, a question or an annotator.")
        token = self._token(question, None)[0] if question is not None else None
        name = None if annotator is None else clean_name("annotator's name", annotator)

        def command(desk: Desk) -> Erasure:
            which = token(desk.state) if token is not None else None
            forget_noted(self)  # whoever is killed after the commit must not leave it
            return erase(desk, self._models, row=row, token=which, annotator=name)

        done = replace(self.journal.submit(command), overwritten=self._overwriting.attempt())
        forget_noted(self)  # of a classifier that was fitted meanwhile
        self._wake()
        return done

    def extend(self, budget: int) -> None:
        """Set another budget; never below what is spent or assigned."""

        def command(desk: Desk) -> None:
            taken = desk.state.spent + desk.state.pending(desk.now)
            if isinstance(budget, bool) or not isinstance(budget, int) or budget < max(1, taken):
                raise BudgetError(f"{taken} answers are spent or under way: the budget cannot be {budget!r}.")
            desk.append("budget", {"budget": budget})

        self.journal.submit(command)

    def finish(self, finished: bool = True) -> None:
        """End the campaign: it asks nothing more, and still takes answers to open questions. False reopens it."""
        self.journal.submit(
            lambda desk: desk.append("finished", {"finished": finished}) if desk.state.finished != finished else 0
        )

    def log(self) -> list[dict[str, Any]]:
        """Who was asked what, when, why and by which model: one record per event, no answered group."""
        with self.store.reading() as connection:
            return list(log.entries(connection, self.materials.campaign))

    def verify_log(self, noted: str | None = None) -> LogCheck:
        """Whether anybody tampered with the log, or with the files it names; `noted` is a `head` written down earlier.

        All files are read: what is shown, what is learnt from, and what was computed from that.
        """
        return log.verify_all(self.materials, noted)
