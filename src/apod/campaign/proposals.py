"""What a refit starts from and what it makes: a look at the campaign, the next model, the next proposals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apod.campaign.audit_sample import Progress, audit_proposals, mix
from apod.campaign.engine import Engine, GroupAnswer, Hasty, Model, Verifying
from apod.campaign.materials import Materials
from apod.campaign.state import Proposal
from apod.campaign.verifying import VerificationProgress
from apod.campaign.votes import Collected, Inputs
from apod.files import Unchecked


@dataclass(frozen=True)
class Snapshot:
    """What a refit starts from."""

    collected: Collected
    unavailable: frozenset[int]  # rows asked about before, assigned, gold, or known
    model: str | None
    file: str | None
    meta: Unchecked
    content: str | None  # its hash, as the log says
    fitted: frozenset[tuple[int, ...]]  # inputs of that model
    stock: Stock
    progress: Progress
    strength: float | None  # the operating point that the owner chose
    verifying: VerificationProgress | None  # None where the campaign verifies nothing
    measured: bool  # whether what the model achieved is kept
    known_rows: bool  # whether the model knows all rows, those that arrived later included

    @property
    def attempt(self) -> tuple[Inputs, int]:
        """What a refit is made from: answers, and additions of rows."""
        return self.collected.inputs(), self.stock.added


@dataclass(frozen=True)
class Stock:
    """How many proposals wait, and how many should."""

    queue: int  # generation
    waiting: int  # not asked about yet
    wanted: int
    asked: int  # rows asked about so far
    open: bool  # somebody may still be asked
    spent: int
    added: int = 0  # how often rows arrived
    stale: bool = False  # rows arrived since the proposals were made


def fit_next(
    engine: Engine, answers: Sequence[GroupAnswer], start: Model | None, verifying: VerificationProgress | None
) -> Model | None:
    """The next model to ask by; what the campaign ends with is fitted anew, canonically."""
    if verifying is not None and verifying.trial is not None and isinstance(engine, Verifying):
        kept: Model | None = engine.fit_frozen(answers, verifying.trial)
        return kept
    if start is None and isinstance(engine, Hasty):
        found: Model | None = engine.fit_in_haste(answers)
        return found
    return engine.fit(answers, start)


def propose_next(
    engine: Engine,
    materials: Materials,
    model: Model | None,
    found: Snapshot,
    answers: Sequence[GroupAnswer],
    more: int = 0,
) -> list[Proposal]:
    """The engine's questions, those that verify its correction, and those of the audit in between."""
    share, wanted, unavailable = materials.settings.audit_share, found.stock.wanted, found.unavailable
    if found.stock.added > len(materials.added):  # rows arrived since the engine was built
        unavailable = frozenset(row for row in unavailable if row < len(materials))
    verifying = found.verifying
    training_wanted = wanted if verifying is None else min(wanted, max(verifying.training, more))
    training = engine.propose(model, answers, unavailable, training_wanted) if training_wanted else []
    if verifying is not None:
        training = [*verifying.proposals, *training][:wanted]
    if not share:
        return training
    audits = wanted
    if verifying is not None:  # while others answer the last questions to train on, an audit must not take the rest
        audits = min(wanted, max(0, found.progress.planned - found.progress.audit))
    audit = audit_proposals(materials, engine, found.progress, unavailable, audits)
    return mix(training, audit, found.progress, share, wanted)
