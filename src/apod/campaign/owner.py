"""The owner's side of a campaign: what may be asked, who may come in, what the answers are and what became of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apod.campaign import log, transfer
from apod.campaign.access import Access
from apod.campaign.answering import ImportReport
from apod.campaign.asking import Question
from apod.campaign.backup import BackupReport, back_up
from apod.campaign.dashboard import Results
from apod.campaign.engine import GroupAnswer, Model, Verifying
from apod.campaign.erasure import Erasure, erase, expire
from apod.campaign.formats import format_of
from apod.campaign.growth import AddOptions, AddReport, add_file, add_people, add_text
from apod.campaign.journal import Desk, read_answers
from apod.campaign.label_studio import labelling_config
from apod.campaign.log import LogCheck
from apod.campaign.operating_point import forget_noted
from apod.campaign.self_reports import SelfReports
from apod.campaign.settings import CampaignSettings, checked_changes, clean_name
from apod.campaign.status import AnnotatorReport, annotators_of
from apod.campaign.transfer import ExportReport
from apod.campaign.votes import collect
from apod.errors import BudgetError, InputError
from apod.files import write_private

if TYPE_CHECKING:
    import pandas as pd

    from apod.audit import Audit
    from apod.campaign.session import Session
    from apod.classifier import APODClassifier


class Owner:
    """What only the owner of a campaign does: `campaign.owner`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @cached_property
    def access(self) -> Access:
        """Who may come in over the web."""
        return Access(self._session.store, self._session.number)

    @cached_property
    def results(self) -> Results:
        """What the answers achieved so far."""
        return Results(self._session)

    @cached_property
    def self_reports(self) -> SelfReports:
        """Links for the people concerned, and what they answer."""
        return SelfReports(self._session, self.access)

    def withdraw(self, code: str, attribute: str | None = None) -> Erasure:
        """Withdraw a self-report by its receipt's code: the answer and all that was computed from it are erased.

        With an attribute, what it says of that one alone.
        """
        return self.erase(question=self.self_reports.find(code), attribute=attribute)

    def note_address(self, origin: str) -> None:
        """Remember where the campaign is served, so that links lead there."""
        write_private(self._served_at, origin.encode())

    def address(self) -> str | None:
        """Where the campaign was served last; None where it never was."""
        try:
            return self._served_at.read_text(encoding="utf-8")
        except OSError:
            return None

    @property
    def _served_at(self) -> Path:
        return self._session.files.folder / f"served-at-{self._session.number}.txt"

    def pause(self, paused: bool = True) -> None:
        """Ask nothing for now; answers to open questions are still taken. False resumes."""

        def command(desk: Desk) -> None:
            if desk.state.paused != paused:
                desk.append("paused", {"paused": paused})

        self._session.journal.submit(command)

    def extend(self, budget: int) -> None:
        """Set another budget, the new total; never below what is spent or assigned, nor beyond what the rows allow."""
        rows = len(self._session.materials)

        def command(desk: Desk) -> None:
            state = desk.state
            taken = state.spent + state.pending(desk.now)
            if isinstance(budget, bool) or not isinstance(budget, int) or budget < max(1, taken):
                raise BudgetError(f"{taken} answers are spent or under way: the budget cannot be {budget!r}.")
            most = state.overlap * (rows - len(state.known.keys() - state.known_partly))
            if budget > most:
                raise BudgetError(f"A budget of {budget} does not fit: at most {most} answers can be asked for.")
            if budget != state.budget:
                desk.append("budget", {"budget": budget})

        self._session.journal.submit(command)
        self._session.wake()

    def add(
        self,
        rows: Any,
        labels: Any = None,
        *,
        display: pd.DataFrame | None = None,
        ids: Sequence[str] | None = None,
        known_groups: Any = None,
        score: Any = None,
        options: AddOptions | None = None,
    ) -> AddReport:
        """Add rows: a file with the columns of the campaign's table, or X and y as `Campaign.create` takes them.

        They are numbered on; ids that the campaign has are refused. The base model is not fitted again; pool, proposals
        and audit grow with the next refit, whoever runs it, and answers stay as they are.
        """
        if labels is None:
            if not isinstance(rows, str | os.PathLike):
                raise InputError("Pass a file, or X and y.")
            return add_file(self._session, Path(rows), options or AddOptions())
        return add_people(self._session, rows, labels, display=display, ids=ids, known_groups=known_groups, score=score)

    def add_text(self, table: str) -> AddReport:
        """Add the rows of a CSV file's text, as `add` does those of a file."""
        return add_text(self._session, table)

    def revise(self, *, reason: str | None = None, **changes: Any) -> CampaignSettings:
        """Change guidelines, question, legal_basis, kind, descriptions, criterion or keep_until; the log keeps all.

        Answers given before keep their kind. An empty text means none. A criterion changes only with a reason, which
        stands in the log beside it. Returns the settings as they are now.
        """
        settings = self._session.settings
        wanted = checked_changes(settings, changes)

        def command(desk: Desk) -> CampaignSettings:
            now = settings.with_changes(desk.state.revised)
            fresh = {name: value for name, value in wanted.items() if getattr(now, name) != value}
            if "criterion" in fresh and not (reason or "").strip():
                raise InputError("A criterion changes only with a reason, which stands in the log: say why.")
            if "criterion" in fresh and fresh["criterion"] is None:
                raise InputError("A criterion can be replaced, with a reason, but not withdrawn.")
            if fresh:
                desk.append("revised", {"settings": fresh} | ({"reason": reason} if reason else {}))
            return now.with_changes(fresh)

        return self._session.journal.submit(command)

    def archive(self, archived: bool = True) -> None:
        """End the campaign, end everybody's access, and leave it out of lists; False lists it again, still ended."""

        def command(desk: Desk) -> None:
            if archived and not desk.state.finished:
                desk.append("finished", {"finished": True})
            if desk.state.archived != archived:
                desk.append("archived", {"archived": archived})

        self._session.journal.submit(command)
        if archived:
            self.access.revoke_all()

    def finish(self, finished: bool = True) -> None:
        """End the campaign: it asks nothing more, and still takes answers to open questions. False reopens it."""
        self._session.journal.submit(
            lambda desk: desk.append("finished", {"finished": finished}) if desk.state.finished != finished else 0
        )

    def choose(self, strength: float | None) -> None:
        """Set the operating point of `classifier()`: one of its strengths, or None to leave the choice to it."""
        known = self.results.strengths()
        if strength is not None and strength not in known:
            listed = ", ".join(f"{value:g}" for value in known)
            raise InputError(f"There is no strength {strength!r}: choose one of {listed}.")

        def command(desk: Desk) -> None:
            if desk.state.strength != strength:
                desk.append("chosen", {"strength": strength})

        self._session.journal.submit(command)

    def chosen(self) -> float | None:
        """The operating point the owner chose."""
        return self._session.journal.view(lambda connection, state, at: state.strength)

    def refit(self) -> bool:
        """Fit what no model knows yet, now; False where there is nothing new or another process is at it."""
        return self._session.refitter.refit()

    def canonical_model(self) -> Model | None:
        """The model of the answers alone: fitted from the pre-trained head, in the order of the questions."""
        engine, trial = self._session.engine(), self._session.trial()
        if trial is not None and isinstance(engine, Verifying):
            found: Model | None = engine.fit_frozen(self.answers(), trial)
            return found
        return engine.fit(self.answers(), None)

    def audit(self, classifier: APODClassifier | None = None, attribute: str | None = None) -> Audit | None:
        """What the audit answers say, with intervals; None while there are none.

        With several attributes, what they say of one of them: the first, or the one that is named.

        Of the latest base model and, where that is corrected, its operating point; or of a fitted classifier, as
        `classifier()` gives it, before and after mitigation.
        """
        from apod.campaign.audit_sample import audit_campaign

        found = self._session.refitter.snapshot()
        model = self._session.refitter.load(found)
        engine, materials = self._session.numerics()
        place = 0 if attribute is None else self._session.settings.place_of(attribute)
        return audit_campaign(materials, engine, model, found.collected, classifier, found.strength, place)

    def annotators(self) -> list[AnnotatorReport]:
        """Each annotator's work and estimated accuracy: for the owner, not for annotators."""
        number = self._session.number
        return self._session.reader.view(
            lambda c, state, _: annotators_of(state, collect(state, read_answers(c, number)))
        )

    def answers(self, purpose: str = "training") -> tuple[GroupAnswer, ...]:
        """The groups known so far for a purpose ("training" or "audit"), in the order of their questions."""
        return self._session.collected().weigh(purpose)

    def probabilities(self, purpose: str = "audit") -> dict[int, float | None]:
        """With which probability each row asked about for a purpose was drawn."""
        return self._session.reader.view(
            lambda c, state, at: {
                asked.row: asked.probability for asked in state.questions.values() if asked.purpose == purpose
            }
        )

    def export(
        self, path: str | os.PathLike[str], format: str | None = None, *, tasks: int = 0, task_days: float = 14
    ) -> ExportReport:
        """Write all answers that stand (CSV, Parquet, JSON Lines, Label Studio JSON by the ending).

        For Label Studio, `tasks` hands out so many open questions along with them, for `task_days`.
        """
        return transfer.export(self._session, Path(path), format, tasks, task_days)

    def label_studio_config(self) -> str:
        """The XML that sets up a Label Studio project for this campaign's tasks."""
        rules = self._session.rules()
        return labelling_config(rules.asked, rules.guidelines)

    def exported(self, format: str) -> bytes:
        """All answers that stand, as the content of a file: csv, parquet, jsonl or label-studio."""
        return transfer.packed(self._session, format_of(Path(), format))[0]

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
        report = transfer.import_(self._session, Path(path), format, annotator, kind)
        self._session.wake()
        return report

    def erase(
        self,
        *,
        row: int | None = None,
        question: Question | str | None = None,
        annotator: str | None = None,
        attribute: str | None = None,
    ) -> Erasure:
        """Erase the answers about a row, to a question, or of an annotator, and all that was computed from them.

        With an attribute, what they say of that one: the others stay as they were told.
        """
        if sum(item is not None for item in (row, question, annotator)) != 1:
            raise InputError("Say what to erase: a row, a question or an annotator.")
        token = self._session.lease_of(question, None)[0] if question is not None else None
        name = None if annotator is None else clean_name("annotator's name", annotator)
        place = None if attribute is None else self._session.settings.place_of(attribute)

        def command(desk: Desk) -> Erasure:
            which = token(desk.state) if token is not None else None
            forget_noted(self._session)  # whoever is killed after the commit must not leave it
            return erase(desk, self._session.models, row=row, token=which, annotator=name, attribute=place)

        done = replace(self._session.journal.submit(command), overwritten=self._session.overwriting.attempt())
        forget_noted(self._session)  # of a classifier that was fitted meanwhile
        self._session.wake()
        return done

    def backup(self, path: str | os.PathLike[str]) -> BackupReport:
        """Write database and files of this campaign into one archive, taken while others work; the log notes it.

        Readable by its owner alone. Nothing that is erased later is erased from it: `erase` names it.
        """
        return back_up(self._session, Path(path))

    def note_evidence(self, manifest: str) -> None:
        """Note in the log the hash of a manifest of evidence: whoever verifies it later finds it there."""
        self._session.journal.submit(lambda desk: desk.append("evidence", {"manifest": manifest}))

    def expire(self) -> dict[str, Any]:
        """Erase all answers once their time is over, end the campaign, and give the certificate of deletion.

        Its hash stands in the log, and `verify_log` checks that nothing it speaks of is left.
        """
        keep_until = self._session.rules().keep_until
        if keep_until is None:
            raise InputError("No day was set for the answers to be erased: apod campaign set --keep-until 2027-06-30.")

        def command(desk: Desk) -> dict[str, Any]:
            forget_noted(self._session)
            return expire(desk, self._session.models, self._session.settings.name, keep_until)

        certificate = self._session.journal.submit(command)
        self._session.overwriting.attempt()
        forget_noted(self._session)
        return certificate

    def log(self) -> list[dict[str, Any]]:
        """Who was asked what, when, why and by which model: one record per event, no answered group."""
        with self._session.store.reading() as connection:
            return list(log.entries(connection, self._session.number))

    def verify_log(self, noted: str | None = None) -> LogCheck:
        """Whether anybody tampered with the log, or with the files it names; `noted` is a `head` written down earlier.

        All files are read: what is shown, what is learnt from, and what was computed from that.
        """
        return log.verify_all(self._session.store, self._session.number, lambda: self._session.materials, noted)
