"""Refits beside the answers: fit the latest answers, publish the model and the proposals it makes.

A refit takes a snapshot, works on it without holding anything, and publishes under the campaign's lock: only if this
process still leads and every answer it used still stands as it was. Answers that came in meanwhile are taken by the
next refit, all at once. Until then questions come from the latest finished model.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from apod.campaign import schema
from apod.campaign.audit_sample import Progress, audit_proposals, mix, progress
from apod.campaign.engine import Engine, GroupAnswer, Hasty, Model, ModelState, Verifying
from apod.campaign.erasure import sweep
from apod.campaign.errors import CampaignError, FileDamaged
from apod.campaign.events import Sealed, canonical
from apod.campaign.files import Files, state_hash
from apod.campaign.journal import Desk, Journal, read_answers
from apod.campaign.json_types import OutcomeJson
from apod.campaign.log import sealed_hash
from apod.campaign.materials import Materials
from apod.campaign.outcomes import expected_by, forget_outcomes, measured, spent_enough, write_outcome
from apod.campaign.state import LEAST_GAIN, Proposal, State
from apod.campaign.verifying import VerificationProgress, freeze, share_of, verification_progress
from apod.campaign.votes import Collected, Inputs, checked_answers, collect
from apod.campaign.workers import LEAD_SECONDS, Background, Leadership
from apod.errors import CheckpointError
from apod.files import Unchecked

log = logging.getLogger(__name__)
RETRY_SECONDS = 60.0
AUDIT = "audit"
MOST_AHEAD = 2000  # proposals made at once, whatever the pace
_KEPT = 2  # models whose files stay: the latest, and the one another process may just be reading


@dataclass(frozen=True)
class Snapshot:
    """What a refit starts from."""

    collected: Collected
    unavailable: frozenset[int]  # rows asked about before, assigned, gold, or known
    model: str | None
    file: str | None
    meta: Unchecked
    content: str | None  # its hash, as the log says
    fitted: frozenset[tuple[int, int]]  # inputs of that model
    stock: Stock
    progress: Progress
    strength: float | None  # the operating point that the owner chose
    verifying: VerificationProgress | None  # None where the campaign verifies nothing


@dataclass(frozen=True)
class Stock:
    """How many proposals wait, and how many should."""

    queue: int  # generation
    waiting: int  # not asked about yet
    wanted: int
    asked: int  # rows asked about so far
    open: bool  # somebody may still be asked
    spent: int


class Refitter:
    """Refits and proposals of one campaign, from this process."""

    def __init__(
        self,
        journal: Journal,
        models: Files,
        materials: Materials,
        engine: Callable[[], Engine],
        lead_seconds: float = LEAD_SECONDS,
        ahead: int | None = None,
    ) -> None:
        self._journal, self._models, self._materials, self._engine = journal, models, materials, engine
        self.ahead = ahead  # proposals to keep ready, where not as many as the campaign's settings say
        self._lead = Leadership(journal.store, journal.campaign, lead_seconds)
        self._loaded: tuple[str, Model] | None = None
        self._tried: tuple[object, float] = (None, 0.0)  # answers that gave no model, and when
        self._settled: object = None  # what was looked through and needed no refit
        self._asked_before = 0  # rows asked about when proposals were last made
        self._measured: tuple[str | None, Inputs, float | None] = (None, (), None)  # model, audit answers, strength
        self._dry: tuple[int, int, int] | None = None  # asked, waiting and answered when no more could be made
        self._damaged: str | None = None  # a model whose file cannot be read: to be fitted again
        self._one_at_a_time = threading.Lock()

    def refit(self) -> bool:
        """Fit the answers that no model knows yet and publish; False where there is nothing to do or another leads."""
        with self._one_at_a_time:
            looked = self._journal.view(
                lambda connection, state, at: (
                    (state.changed, state.model, state.strength, self._damaged),
                    (state.budget, state.finished) if share_of(state) else None,  # they end a trial, or begin one
                )
            )
            if looked == self._settled:
                return False
            found = self.snapshot()
            if not self._due(found):
                if self._up_to_date(found) and self._measure_again(found):
                    self._settled = looked
                return False
            with self._lead.held() as fence:
                if fence is None:
                    return False
                found = self.snapshot()
                if not self._due(found):
                    return False
                try:
                    return self._refit(found, fence)
                except Exception as error:
                    self._lead.note(type(error).__name__)  # else the owner would never hear of it
                    raise

    def _up_to_date(self, found: Snapshot) -> bool:
        inputs = frozenset(found.collected.inputs())
        tried = None if found.verifying is None else found.verifying.version
        same = inputs == found.fitted and tried == found.meta.get("trial")
        return not inputs or (same and found.model != self._damaged)

    def _due(self, found: Snapshot) -> bool:
        tried, when = self._tried
        waited = tried != found.collected.inputs() or time.monotonic() - when > RETRY_SECONDS
        return waited and not self._up_to_date(found)

    def _refit(self, found: Snapshot, fence: int) -> bool:
        answers, inputs = found.collected.weigh(), found.collected.inputs()
        self._journal.view(lambda connection, state, at: checked_answers(connection, self._journal.campaign, state))
        try:
            self._materials.files.check_again()
            # an answer that was undone, corrected or erased must leave no trace: no warm start from a model that saw it
            warm = found.fitted <= set(inputs) and found.model != self._damaged
            model = self._fit(answers, self.load(found) if warm else None, found.verifying)
            if model is None:  # too few answers; not to be tried again before there are more
                self._tried = inputs, time.monotonic()
                return False
            latest = self.snapshot()
            proposals = self._propose(model, latest, answers)
            self._asked_before = latest.stock.asked
            result = measured(self._materials, self._engine(), model, found.collected, answers, found.strength)
        except CheckpointError as error:
            if found.model is not None and found.model != self._damaged:
                self._damaged = found.model
                return self._refit(found, fence)
            return self._failed(error, inputs)  # not the model: the materials
        except CampaignError:
            raise
        except Exception as error:  # noqa: BLE001 whatever the engine raises must not end the campaign
            return self._failed(error, inputs)
        published = self._journal.submit(
            lambda desk: self._publish(desk, found, fence, model, proposals, result.outcome)
        )
        if published is not None:
            self._loaded = published, model
            self._measured = published, found.collected.inputs(AUDIT), found.strength
            self._lead.note_fitted(result.failure)
        return published is not None

    def _fit(
        self, answers: Sequence[GroupAnswer], start: Model | None, verifying: VerificationProgress | None
    ) -> Model | None:
        """The next model to ask by; what the campaign ends with is fitted anew, canonically."""
        engine = self._engine()
        if verifying is not None and verifying.trial is not None and isinstance(engine, Verifying):
            kept: Model | None = engine.fit_frozen(answers, verifying.trial)
            return kept
        if start is None and isinstance(engine, Hasty):
            found: Model | None = engine.fit_in_haste(answers)
            return found
        return engine.fit(answers, start)

    def _measure_again(self, found: Snapshot) -> bool:
        """Measure the latest model again where audit answers came in after its refit, or the owner chose another
        operating point; False where another leads."""
        known = found.model, found.collected.inputs(AUDIT), found.strength
        if found.model is None or not self._materials.settings.audit_share or self._measured == known:
            return True
        with self._lead.held() as fence:
            if fence is None:
                return False
            try:
                model = self.load(found)
            except CheckpointError:  # whoever proposes with it will find out, and have it fitted again
                return True
            if model is None:
                return True
            answers = found.collected.weigh()
            result = measured(self._materials, self._engine(), model, found.collected, answers, found.strength)
            self._lead.note_fitted(result.failure)

            def replace(desk: Desk) -> None:
                if (
                    result.failure is None
                    and self._lead.still_holds(desk.connection, fence)
                    and desk.state.model == found.model
                ):
                    forget_outcomes(desk.connection, desk.campaign, [str(found.model)])
                    self._keep(desk, found, str(found.model), desk.state.seq, result.outcome)

            self._journal.submit(replace)
        self._measured = known
        return True

    def _keep(self, desk: Desk, found: Snapshot, model: str, seq: int, outcome: OutcomeJson | None) -> None:
        """Keep what a model achieved; without the audit where one of its answers was taken back meanwhile."""
        if outcome is None:
            return
        current = collect(desk.state, read_answers(desk.connection, desk.campaign))
        if not set(found.collected.inputs(AUDIT)) <= set(current.inputs(AUDIT)):
            outcome = {**outcome, "audit": None}
        answers = len(found.collected.inputs())
        write_outcome(desk.connection, desk.campaign, model, seq, desk.at, answers, outcome)

    def _failed(self, error: Exception, inputs: Inputs) -> bool:
        """Remember not to try the same at once again; only the error's type is told: its text may name a group."""
        self._tried = inputs, time.monotonic()
        log.warning("refit failed with %s; questions come from the last model", type(error).__name__)
        self._lead.note(type(error).__name__)
        return False

    def _publish(
        self,
        desk: Desk,
        found: Snapshot,
        fence: int,
        model: Model,
        proposals: list[Proposal],
        outcome: OutcomeJson | None,
    ) -> str | None:
        if not self._lead.still_holds(desk.connection, fence):
            return None
        current = collect(desk.state, read_answers(desk.connection, desk.campaign))
        inputs = found.collected.inputs()
        if not set(inputs) <= set(current.inputs()):  # one was erased, undone or corrected meanwhile
            return None
        sweep(desk, self._models)
        state, name = model.state(), uuid.uuid4().hex
        meta = canonical(state.meta)
        content = state_hash(state.arrays, meta)
        row = {
            "campaign": desk.campaign,
            "model": name,
            "seq": desk.state.seq + 1,
            "inputs": canonical(inputs),
            "file": self._models.put_arrays(state.arrays),
            "meta": meta,
        }
        _drop_old_models(desk)
        desk.connection.execute(insert(schema.models), row)
        body = {"model": name, "answers": len(inputs)}
        seq = desk.append("refitted", body, Sealed(content), schema.reasons)
        self._keep(desk, found, name, seq, outcome)
        if spent_enough(desk.state, self._materials.settings, expected_by(outcome)):
            desk.append("paused", {"paused": True, "because": LEAST_GAIN})
        desk.publish(proposals, name)
        return name

    def supply(self, queue: int | None = None) -> int:
        """Make proposals from the latest finished model and publish them; how many there are now.

        With `queue`: unless somebody has published others than that generation meanwhile.
        """
        stock = self._journal.view(self._count)
        if queue is not None and stock.queue != queue and stock.waiting:
            return stock.waiting
        found, model = self._latest()
        try:
            found, more = self._frozen(found)
            stock = found.stock
            proposals = self._propose(model, found, found.collected.weigh(), more)
        except CampaignError:
            raise
        except Exception as error:
            raise CampaignError(f"The next question could not be chosen ({type(error).__name__}).") from error
        if proposals:
            self._journal.submit(
                lambda desk: desk.publish(proposals, found.model) if desk.queue == stock.queue else None
            )
            self._asked_before = stock.asked
        return len(proposals)

    def _frozen(self, found: Snapshot) -> tuple[Snapshot, int]:
        """Freeze a correction where that is due; where there is none to verify, one more person is asked about."""
        if found.verifying is None or not found.verifying.due:
            return found, 0
        frozen = freeze(self._journal, self._engine(), found.verifying, found.collected, found.unavailable)
        return (self.snapshot(), 0) if frozen else (found, 1)

    def _propose(
        self, model: Model | None, found: Snapshot, answers: Sequence[GroupAnswer], more: int = 0
    ) -> list[Proposal]:
        """The engine's questions, those that verify its correction, and those of the audit in between."""
        engine, share, wanted = self._engine(), self._materials.settings.audit_share, found.stock.wanted
        verifying = found.verifying
        training_wanted = wanted if verifying is None else min(wanted, max(verifying.training, more))
        training = engine.propose(model, answers, found.unavailable, training_wanted) if training_wanted else []
        if verifying is not None:
            training = [*verifying.proposals, *training][:wanted]
        if not share:
            return training
        audits = wanted
        if verifying is not None:  # while others answer the last questions to train on, an audit must not take the rest
            audits = min(wanted, max(0, found.progress.planned - found.progress.audit))
        audit = audit_proposals(self._materials, engine, found.progress, found.unavailable, audits)
        return mix(training, audit, found.progress, share, wanted)

    def top_up(self) -> bool:
        """Make proposals before the last one is taken; whether it was necessary."""
        stock = self._journal.view(self._count)
        now = stock.asked, stock.waiting, stock.spent
        if not stock.open or stock.waiting > stock.wanted // 2 or self._dry == now:
            return False
        if self.supply(stock.queue) > stock.waiting:
            return True
        self._dry = now  # the pool has no more: not to be looked through again
        return False

    def background(self) -> Background:
        """Threads that refit whenever there is something new and keep proposals ready from the latest model."""
        return Background({"apod-refit": self.refit, "apod-propose": self.top_up})

    def _latest(self) -> tuple[Snapshot, Model | None]:
        """The latest finished model; fitted again where its file is damaged."""
        found = self.snapshot()
        try:
            return found, self.load(found)
        except CheckpointError:
            now = self.snapshot()
            if now.model == found.model:  # not just replaced by a newer one
                self._damaged = found.model
                if not self.refit():
                    raise
            now = self.snapshot()
            return now, self.load(now)

    def load(self, found: Snapshot) -> Model | None:
        """The latest finished model."""
        if found.model is None or found.file is None:
            return None
        if self._loaded is None or self._loaded[0] != found.model:
            state = ModelState(self._models.arrays(found.file), found.meta)
            if state_hash(state.arrays, canonical(state.meta)) != found.content:
                raise FileDamaged("A saved model is not the one that was published: it will be fitted again.")
            self._loaded = found.model, self._engine().load(state)
        return self._loaded[1]

    def snapshot(self) -> Snapshot:
        """The latest answers, the latest finished model, and who cannot be asked about."""
        return self._journal.view(self._look)

    def _look(self, connection: Connection, state: State, at: int) -> Snapshot:
        campaign = self._journal.campaign
        query = select(schema.models).where(schema.models.c.campaign == campaign, schema.models.c.model == state.model)
        row = connection.execute(query).first() if state.model is not None else None
        return Snapshot(
            collected=collect(state, read_answers(connection, campaign)),
            unavailable=frozenset(state.rows) | frozenset(state.gold) | frozenset(state.known) | state.retired,
            model=state.model if row is not None else None,
            file=row.file if row is not None else None,
            content=sealed_hash(connection, campaign, state.models[row.model]) if row is not None else None,
            meta=json.loads(row.meta) if row is not None else {},
            fitted=frozenset((a, b) for a, b in json.loads(row.inputs)) if row is not None else frozenset(),
            stock=self._count(connection, state, at),
            progress=progress(state),
            strength=state.strength,
            verifying=verification_progress(connection, campaign, state, at),
        )

    def _count(self, connection: Connection, state: State, at: int) -> Stock:
        """Twice as many as were asked about since proposals were last made are enough until the next time."""
        campaign = self._journal.campaign
        query = select(schema.campaigns.c.queue).where(schema.campaigns.c.id == campaign)
        queue = int(connection.execute(query).scalar_one())
        waiting = sum(item.row not in state.rows for item in self._journal.queued(connection, queue))
        asked = len(state.rows)
        pace = 2 * (asked - self._asked_before) if self._asked_before else 0
        usual = int(state.settings["lookahead"])
        ahead = max(usual if self.ahead is None else min(self.ahead, usual), pace) + len(state.outstanding)
        wanted = max(1, min(ahead, MOST_AHEAD, state.budget - state.spent))
        return Stock(queue, waiting, wanted, asked, not state.finished and state.spent < state.budget, state.spent)


def _drop_old_models(desk: Desk) -> None:
    table = schema.models
    query = select(table.c.model).where(table.c.campaign == desk.campaign).order_by(table.c.seq.desc())
    for old in list(desk.connection.execute(query).scalars())[_KEPT - 1 :]:
        desk.connection.execute(delete(table).where(table.c.campaign == desk.campaign, table.c.model == old))
