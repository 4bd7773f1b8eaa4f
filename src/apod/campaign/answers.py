"""From the answers that stand to what an engine is fitted on: one entry per row and group, with weights."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from apod.campaign import schema
from apod.campaign.engine import GroupAnswer
from apod.campaign.errors import StoreError
from apod.campaign.events import commit
from apod.campaign.noise import OneCoin, Vote, fit_one_coin
from apod.campaign.settings import KINDS
from apod.campaign.state import GOLD, GROUP, State

Inputs = tuple[tuple[int, int], ...]
"""Which answers a model was fitted on: pairs of an answer's event and the event of its present value."""

HANDED_IN = ""
"""In place of the annotator, where a group was handed in with the table."""

_NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Known:
    """A counted answer that names a group, stands, and is not erased; or a group that was handed in."""

    row: int
    annotator: str
    group: int = field(repr=False)
    kind: str
    purpose: str
    seq: int  # its event
    value: int  # the event of its present value


@dataclass(frozen=True)
class Collected:
    """All answers of a campaign that can be used, and its gold rows: first those handed in, then by their questions."""

    known: tuple[Known, ...]
    gold: Mapping[int, int] = field(repr=False)  # row -> group
    gold_events: tuple[int, ...]
    groups: int

    @property
    def votes(self) -> list[Vote]:
        """What annotators perceived, gold questions included."""
        return [Vote(item.row, item.annotator, item.group) for item in self.known if item.kind == "perceived"]

    @property
    def informative(self) -> bool:
        """Whether overlap or gold questions say anything about the annotators."""
        seen = Counter(item.row for item in self.known if item.kind == "perceived")
        return max(seen.values(), default=0) > 1 or any(item.purpose == GOLD for item in self.known)

    def inputs(self, purpose: str = "training") -> Inputs:
        """The answers that `weigh` depends on."""
        everything = self.informative
        used = {(item.seq, item.value) for item in self.known if everything or item.purpose == purpose}
        if everything:
            used.update((seq, seq) for seq in self.gold_events)
        return tuple(sorted(used))

    def noise_model(self) -> OneCoin | None:
        """The annotators' accuracies; None while nothing is known about them."""
        return fit_one_coin(self.votes, self.groups, self.gold) if self.informative else None

    def weigh(self, purpose: str = "training") -> tuple[GroupAnswer, ...]:
        """The groups known so far, in the order of their questions.

        Of several kinds on one row the most trustworthy counts: what the person reported, then records, then what
        annotators perceive. Perceived answers are weighted by the one-coin model wherever anything can be learnt
        about the annotators: from overlap or from gold questions.
        """
        model = self.noise_model()
        by_row: dict[int, list[Known]] = defaultdict(list)
        for item in self.known:
            if item.purpose == purpose:
                by_row[item.row].append(item)
        found: list[GroupAnswer] = []
        for row, here in by_row.items():
            best = next(kind for kind in KINDS if any(item.kind == kind for item in here))
            chosen = [item for item in here if item.kind == best]
            found.extend(GroupAnswer(row, group, weight) for group, weight in _weights(chosen, model))
        return tuple(found)


def _weights(chosen: list[Known], model: OneCoin | None) -> list[tuple[int, float]]:
    if chosen[0].kind == "perceived" and model is not None:
        posterior = model.posterior[chosen[0].row]
        return [(group, float(p)) for group, p in enumerate(posterior) if p > _NEGLIGIBLE]
    counts = Counter(item.group for item in chosen)
    return [(group, count / len(chosen)) for group, count in sorted(counts.items())]


def checked_answers(connection: Connection, campaign: int, state: State) -> dict[int, Any]:
    """Sealed answers by event, each against the commitment in the log; an error where one was changed or is gone."""
    sealed, events = schema.answers, schema.events
    same = (sealed.c.campaign == events.c.campaign) & (sealed.c.seq == events.c.seq)
    query = select(sealed.c.seq, sealed.c.salt, sealed.c.value, events.c.commitment).join(events, same)
    rows = connection.execute(query.where(sealed.c.campaign == campaign)).all()
    found = {row.seq: json.loads(row.value) for row in rows if commit(bytes(row.salt), row.value) == row.commitment}
    wanted = {given.values[-1] for given in state.current() if given.outcome == GROUP and not given.erased}
    missing = (wanted | set(state.gold.values()) | set(state.known.values())) - set(found)
    if missing:
        raise StoreError(
            f"{len(missing)} answers are not the ones that were given: run `apod log verify` and restore a backup."
        )
    return found


def collect(state: State, values: Mapping[int, int]) -> Collected:
    """The usable answers; `values` are the sealed group codes by event."""
    handed_in = tuple(
        Known(row, HANDED_IN, values[seq], "records", "audit" if row in state.known_audit else "training", seq, seq)
        for row, seq in state.known.items()
        if seq in values
    )
    told = tuple(
        Known(
            given.row,
            given.annotator,
            values[given.values[-1]],
            given.kind,
            state.questions[given.number].purpose,
            given.seq,
            given.values[-1],
        )
        for given in state.current()
        if given.counted and given.outcome == GROUP and not given.erased and given.values[-1] in values
    )
    gold = {row: values[seq] for row, seq in state.gold.items() if seq in values}
    events = tuple(seq for seq in state.gold.values() if seq in values)
    return Collected(handed_in + told, gold, events, len(state.settings["groups"]))
