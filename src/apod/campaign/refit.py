"""Refits beside the answers: fit the latest answers, publish the model and the proposals it makes, then measure it.

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
from collections.abc import Callable

from sqlalchemy import Connection, delete, insert, select

from apod.campaign import schema
from apod.campaign.audit_sample import progress
from apod.campaign.engine import Engine, Measuring, Model, ModelState
from apod.campaign.erasure import sweep
from apod.campaign.errors import CampaignError, FileDamaged
from apod.campaign.events import Sealed, canonical
from apod.campaign.files import Files, state_hash
from apod.campaign.journal import Desk, Journal, read_answers
from apod.campaign.json_types import OutcomeJson
from apod.campaign.log import sealed_hash
from apod.campaign.materials import Materials
from apod.campaign.outcomes import forget_outcomes, is_measured, measured, spent_enough, write_outcome
from apod.campaign.proposals import Snapshot, Stock, fit_next, propose_next
from apod.campaign.settings import CampaignSettings
from apod.campaign.state import LEAST_GAIN, Proposal, State
from apod.campaign.verifying import freeze, share_of, verification_progress
from apod.campaign.votes import Inputs, checked_answers, collect
from apod.campaign.workers import LEAD_SECONDS, Background, Leadership
from apod.errors import CheckpointError

log = logging.getLogger(__name__)
RETRY_SECONDS = 60.0
AUDIT = "audit"
MOST_AHEAD = 2000  # proposals made at once, whatever the pace
_KEPT = 2  # models whose files stay: the latest, and the one another process may just be reading


class Refitter:
    """Refits and proposals of one campaign, from this process."""

    def __init__(
        self,
        journal: Journal,
        models: Files,
        settings: CampaignSettings,
        numerics: Callable[[], tuple[Engine, Materials]],
        lead_seconds: float = LEAD_SECONDS,
        ahead: int | None = None,
    ) -> None:
        self._journal, self._models, self._settings = journal, models, settings
        self._numerics = numerics  # the engine, and the rows it knows: built anew once more arrive
        self.ahead = ahead  # proposals to keep ready, where not as many as the campaign's settings say
        self._lead = Leadership(journal.store, journal.campaign, lead_seconds)
        self._loaded: tuple[tuple[str, int], Model] | None = None  # by its name and the additions of rows known
        self._tried: tuple[object, float] = (None, 0.0)  # answers that gave no model, and when
        self._settled: object = None  # what was looked through and needed no refit
        self._asked_before = 0  # rows asked about when proposals were last made
        self._measured: tuple[str | None, Inputs, float | None] = (None, (), None)  # model, audit answers, strength
        self._dry: tuple[int, ...] | None = None  # what there was when no more could be made
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
        same = inputs == found.fitted and found.known_rows and tried == found.meta.get("trial")
        return not inputs or (same and found.model != self._damaged)

    def _due(self, found: Snapshot) -> bool:
        tried, when = self._tried
        waited = tried != found.attempt or time.monotonic() - when > RETRY_SECONDS
        return waited and not self._up_to_date(found)

    def _refit(self, found: Snapshot, fence: int) -> bool:
        answers, inputs = found.collected.weigh(), found.collected.inputs()
        self._journal.view(lambda connection, state, at: checked_answers(connection, self._journal.campaign, state))
        engine, materials = self._numerics()
        try:
            materials.files.check_again()
            # an answer that was undone, corrected or erased must leave no trace: no warm start from a model that saw it
            warm = found.fitted <= set(inputs) and found.model != self._damaged
            model = fit_next(engine, answers, self.load(found) if warm else None, found.verifying)
            if model is None:  # too few answers; not to be tried again before there are more
                self._tried = found.attempt, time.monotonic()
                return False
            latest = self.snapshot()
            proposals = propose_next(engine, materials, model, latest, answers)
            self._asked_before = latest.stock.asked
        except CheckpointError as error:
            if found.model is not None and found.model != self._damaged:
                self._damaged = found.model
                return self._refit(found, fence)
            return self._failed(error, found)  # not the model: the materials
        except CampaignError:
            raise
        except Exception as error:  # noqa: BLE001 whatever the engine raises must not end the campaign
            return self._failed(error, found)
        published = self._journal.submit(lambda desk: self._publish(desk, found, fence, materials, model, proposals))
        if published is None:
            return False
        name, seq = published
        self._loaded = (name, len(materials.added)), model
        self._measure(found, fence, (engine, materials), name, model, seq)
        return True

    def _measure(
        self, found: Snapshot, fence: int, numerics: tuple[Engine, Materials], name: str, model: Model, seq: int | None
    ) -> None:
        """Keep what a published model achieves, under the event that published it or, where `seq` is None, the latest:
        nobody who asks waits for it. The campaign pauses where the rest of the budget is not worth it."""
        engine, materials = numerics
        answers = found.collected.weigh()
        result = measured(materials, engine, model, found.collected, answers, found.strength)

        def keep(desk: Desk) -> None:
            if self._lead.still_holds(desk.connection, fence) and desk.state.model == name:
                self._keep(desk, found, name, desk.state.seq if seq is None else seq, result.outcome)

        if result.outcome is not None:
            self._journal.submit(keep)
        self._measured = name, found.collected.inputs(AUDIT), found.strength
        self._lead.note_fitted(result.failure)

    def _measure_again(self, found: Snapshot) -> bool:
        """Measure the latest model again where audit answers came in after its refit, the owner chose another operating
        point, or whoever published it ended before; False where another leads."""
        known = found.model, found.collected.inputs(AUDIT), found.strength
        settled = found.measured and not self._settings.audit_share
        if found.model is None or settled or self._measured == known:
            return True
        numerics = self._numerics()
        if not isinstance(numerics[0], Measuring):
            return True
        with self._lead.held() as fence:
            if fence is None:
                return False
            try:
                model = self.load(found)
            except CheckpointError:  # whoever proposes with it will find out, and have it fitted again
                return True
            if model is not None:
                self._measure(found, fence, numerics, found.model, model, None)
        return True

    def _keep(self, desk: Desk, found: Snapshot, model: str, seq: int, outcome: OutcomeJson | None) -> None:
        """Keep what a model achieved; without the audit where one of its answers was taken back meanwhile."""
        if outcome is None:
            return
        current = collect(desk.state, read_answers(desk.connection, desk.campaign))
        if not set(found.collected.inputs(AUDIT)) <= set(current.inputs(AUDIT)):
            outcome = {**outcome, "audit": None}
        answers = len(found.collected.inputs())
        forget_outcomes(desk.connection, desk.campaign, [model])
        write_outcome(desk.connection, desk.campaign, model, seq, desk.at, answers, outcome)
        if spent_enough(desk.state, self._settings, outcome):
            desk.append("paused", {"paused": True, "because": LEAST_GAIN})

    def _failed(self, error: Exception, found: Snapshot) -> bool:
        """Remember not to try the same at once again; only the error's type is told: its text may name a group."""
        self._tried = found.attempt, time.monotonic()
        log.warning("refit failed with %s; questions come from the last model", type(error).__name__)
        self._lead.note(type(error).__name__)
        return False

    def _publish(
        self,
        desk: Desk,
        found: Snapshot,
        fence: int,
        materials: Materials,
        model: Model,
        proposals: list[Proposal],
    ) -> tuple[str, int] | None:
        """The name of the model and the event that published it; None where it must not be."""
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
        body = {"model": name, "answers": len(inputs)} | ({"added": len(materials.added)} if materials.added else {})
        seq = desk.append("refitted", body, Sealed(content), schema.reasons)
        desk.publish(proposals, name)
        return name, seq

    def supply(self, queue: int | None = None) -> int:
        """Make proposals from the latest finished model and publish them; how many there are now.

        With `queue`: unless somebody has published others than that generation meanwhile.
        """
        stock = self._journal.view(self._count)
        if queue is not None and stock.queue != queue and stock.waiting:
            return stock.waiting
        found, model = self._latest()
        try:
            engine, materials = self._numerics()
            found, more = self._frozen(engine, found)
            stock = found.stock
            proposals = propose_next(engine, materials, model, found, found.collected.weigh(), more)
        except CampaignError:
            raise
        except Exception as error:
            raise CampaignError(f"The next question could not be chosen ({type(error).__name__}).") from error
        if proposals:

            def publish(desk: Desk) -> None:
                if desk.queue == stock.queue and len(desk.state.added) == len(materials.added):
                    desk.publish(proposals, found.model)

            self._journal.submit(publish)
            self._asked_before = stock.asked
        return len(proposals)

    def _frozen(self, engine: Engine, found: Snapshot) -> tuple[Snapshot, int]:
        """Freeze a correction where that is due; where there is none to verify, one more person is asked about."""
        if found.verifying is None or not found.verifying.due:
            return found, 0
        frozen = freeze(self._journal, engine, found.verifying, found.collected, found.unavailable)
        return (self.snapshot(), 0) if frozen else (found, 1)

    def top_up(self) -> bool:
        """Make proposals before the last one is taken; whether it was necessary."""
        stock = self._journal.view(self._count)
        now = stock.asked, stock.waiting, stock.spent, stock.added
        enough = stock.waiting > stock.wanted // 2 and not stock.stale
        if not stock.open or enough or self._dry == now:
            return False
        if self.supply(stock.queue) > (0 if stock.stale else stock.waiting):
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
        engine, materials = self._numerics()
        key = found.model, len(materials.added)
        if self._loaded is None or self._loaded[0] != key:
            state = ModelState(self._models.arrays(found.file), found.meta)
            if state_hash(state.arrays, canonical(state.meta)) != found.content:
                raise FileDamaged("A saved model is not the one that was published: it will be fitted again.")
            self._loaded = key, engine.load(state)
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
            unavailable=state.unavailable,
            model=state.model if row is not None else None,
            file=row.file if row is not None else None,
            content=sealed_hash(connection, campaign, state.models[row.model]) if row is not None else None,
            meta=json.loads(row.meta) if row is not None else {},
            fitted=frozenset(map(tuple, json.loads(row.inputs))) if row is not None else frozenset(),
            stock=self._count(connection, state, at),
            progress=progress(state),
            strength=state.strength,
            verifying=verification_progress(connection, campaign, state, at),
            known_rows=state.model_added == len(state.added),
            measured=row is not None and is_measured(connection, campaign, row.model),
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
        open_ = not state.finished and state.spent < state.budget
        added = len(state.added), queue <= state.added_queue
        return Stock(queue, waiting, wanted, asked, open_, state.spent, *added)


def _drop_old_models(desk: Desk) -> None:
    table = schema.models
    query = select(table.c.model).where(table.c.campaign == desk.campaign).order_by(table.c.seq.desc())
    for old in list(desk.connection.execute(query).scalars())[_KEPT - 1 :]:
        desk.connection.execute(delete(table).where(table.c.campaign == desk.campaign, table.c.model == old))
