"""What the owner watches: counts over time, whom we asked and why, who answers how fast. Nothing is fitted here.

What the models achieved was measured when they were fitted (`achieved`); this reads it and the log's fold.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, select

from apod.campaign import schema
from apod.campaign.annotator import Phase, phase_of
from apod.campaign.audit_sample import planned
from apod.campaign.journal import read_answers
from apod.campaign.json_types import (
    AskedJson,
    CoordinatesJson,
    MapJson,
    OperatingPointJson,
    OutlookShownJson,
    PacedAnnotatorJson,
    ReasonJson,
    SubgroupCountsJson,
    SubgroupsJson,
    VerificationJson,
)
from apod.campaign.log import moment
from apod.campaign.materials import PLANE, Materials
from apod.campaign.operating_point import OperatingPoint, noted_at, operating_point, version_of
from apod.campaign.outcomes import Achieved, RefitNews, read_history, read_refit_news, thinned
from apod.campaign.state import GOLD, Asked, State
from apod.campaign.status import Status, annotators_of, mitigated, status_of
from apod.campaign.votes import Collected, collect
from apod.method.outlook import CorrectionOutlookJson, OutlookJson
from apod.randomness import generator

if TYPE_CHECKING:
    from apod.campaign.session import Session


UNVERIFIED: VerificationJson = {
    "verdict": "not verified",
    "asked": 0,
    "favourable": 0,
    "needed": None,
    "words": "Not verified: no correction was put to the test of fresh answers yet.",
}

HISTORY = 200  # outcomes, points of the counts, questions listed
MAP_POINTS, MAP_ASKED = 2000, 1000
PACE_ANSWERS = 50  # the pace is that of the last so many
BREAK_MS = 300_000  # a longer pause between two answers is no work


@dataclass(frozen=True)
class Dashboard:
    """Everything an owner sees but the map; plain JSON inside."""

    event: int
    rows: int  # size of the pool
    status: Status
    phase: Phase
    audit_planned: int  # audit questions that the budget allows
    labels: tuple[str, str]
    strength: float | None  # the operating point that the owner chose
    operating: OperatingPointJson | None = field(repr=False)  # whoever chose it; None: not chosen yet
    per_hour: float | None
    seconds_left: float | None
    history: tuple[Achieved, ...] = field(repr=False)
    subgroups: SubgroupsJson = field(repr=False)
    asked: tuple[AskedJson, ...] = field(repr=False)
    annotators: tuple[PacedAnnotatorJson, ...] = field(repr=False)


Explained = tuple[Asked, ReasonJson | None, int]
"""A question, its reason (None where that was erased), and after which refit it was asked."""


@dataclass(frozen=True)
class _Glance:
    """What one look at the log finds."""

    event: int
    rows: int
    status: Status
    phase: Phase
    pace: tuple[float | None, float | None]
    history: tuple[Achieved, ...]
    subgroups: SubgroupsJson
    annotators: tuple[PacedAnnotatorJson, ...]
    asked: list[Explained]
    version: tuple[int, float | None]  # of the answers and the owner's choice


class Results:
    """What the answers achieved so far, for the owner: `campaign.owner.results`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def operating_point(self) -> OperatingPoint | None:
        """The strength the classifier of these answers decides at, and why; None until it was chosen or built."""
        return operating_point(self._session, self.version())

    def strengths(self) -> tuple[float, ...]:
        """The strengths of the latest model's heads, 0 for the one nobody penalises; none before the first model."""
        found = self.history(1)
        return tuple(float(point["strength"]) for point in found[-1].outcome["curve"]) if found else ()

    def verification(self) -> VerificationJson | None:
        """What fresh answers say of the correction; None where the campaign verifies nothing."""
        if not self._session.settings.verify_share:
            return None
        latest = self.history(1)
        return (latest[-1].outcome.get("verification") if latest else None) or UNVERIFIED

    def outlook(self) -> list[OutlookJson] | CorrectionOutlookJson | None:
        """What more answers would bring: what would be told from none and what would confirm the leading correction.

        Of heads the gap to expect by the latest model, now and after more answers; None where nothing covers.
        """
        return self.outlook_shown()["outlook"]

    def outlook_shown(self) -> OutlookShownJson:
        """The outlook, and why it is withheld where it is."""
        found = self.history(1)
        if not found:
            return {"outlook": None, "outlook_withheld": None}
        outcome = found[-1].outcome
        return {"outlook": outcome["outlook"], "outlook_withheld": outcome["outlook_withheld"]}

    def history(self, most: int = HISTORY) -> list[Achieved]:
        """What the models achieved one after the other, the oldest first; evenly thinned where there are many."""
        with self._session.store.reading() as connection:
            return read_history(connection, self._session.number, most)

    def dashboard(self) -> Dashboard:
        """Counts over time, what the models achieved, whom we asked and why, who answers how fast."""
        return dashboard(self._session)

    def pool_map(self) -> MapJson | None:
        """The pool in two dimensions with those we asked; None until the first model was measured."""
        return pool_map(self._session)

    def version(self) -> tuple[int, float | None]:
        """What the classifier depends on: the last event that changed what the answers say, and the operating point."""
        return version_of(self._session)

    def erased_values(self) -> int:
        """How many values were erased so far: what was computed when there were fewer may rest on one of them."""
        return self._session.journal.view(lambda connection, state, at: len(state.erased))

    def noted_at(self) -> int:
        """When a classifier was built last, in nanoseconds; -1: never."""
        return noted_at(self._session)

    def refit_news(self) -> RefitNews:
        """What was measured last, and how refits go."""
        with self._session.store.reading() as connection:
            return read_refit_news(connection, self._session.number)


def dashboard(session: Session) -> Dashboard:
    """Look at a campaign."""
    materials = session.materials
    model = mitigated(materials)

    def look(connection: Connection, state: State, at: int) -> _Glance:
        collected, pool = collect(state, read_answers(connection, materials.campaign)), materials.as_of(state)
        status = status_of(connection, pool, state, model, collected, at)
        newest = list(islice(reversed(state.questions.values()), HISTORY))
        return _Glance(
            event=state.seq,
            rows=len(pool),
            status=status,
            phase=phase_of(state),
            pace=_pace(state, at),
            history=tuple(read_history(connection, materials.campaign, HISTORY)),
            subgroups=_subgroups(pool, collected),
            annotators=tuple(_annotators(state, collected, at)),
            asked=_with_reasons(connection, materials.campaign, state, newest),
            version=(state.changed, state.strength),
        )

    glance = session.reader.view(look)
    point, rules = operating_point(session, glance.version), session.settings
    return Dashboard(
        event=glance.event,
        rows=glance.rows,
        status=glance.status,
        phase=glance.phase,
        audit_planned=planned(rules.audit_share, glance.status.budget, rules.overlap),
        labels=rules.label_names,
        strength=glance.version[1],
        operating=None if point is None else point.to_json(),
        per_hour=glance.pace[0],
        seconds_left=glance.pace[1],
        history=glance.history,
        subgroups=glance.subgroups,
        asked=tuple(_asked_entry(session, *item) for item in glance.asked),
        annotators=glance.annotators,
    )


def pool_map(session: Session) -> MapJson | None:
    """The pool in two dimensions, a bounded sample of it, and whom we asked; None until it was computed."""
    materials = session.materials
    plane = materials.recall(PLANE)
    if plane is None:
        return None
    points = np.concatenate([plane["points"], *_points_later(materials)])
    size = len(points)
    shown = materials.placed_rows()
    shown = shown[shown < size]
    if len(shown) > MAP_POINTS:
        shown = np.sort(generator(0, "map", materials.campaign).choice(shown, MAP_POINTS, replace=False))
    labels = materials.labels()

    def look(connection: Connection, state: State, at: int) -> tuple[list[Explained], dict[int, int]]:
        newest = list(islice(reversed(state.questions.values()), MAP_ASKED))
        known = collect(state, read_answers(connection, materials.campaign)).known
        return _with_reasons(connection, materials.campaign, state, newest), {item.row: item.group for item in known}

    asked, told = session.reader.view(look)
    entries = [entry for item in asked if (entry := _asked_entry(session, *item))["row"] < size]
    names = session.settings.groups
    where = [entry["row"] for entry in entries]
    return {
        "method": "pca",
        "rows": size,
        "shown": len(shown),
        "variance": [round(float(value), 4) for value in plane["share"]],
        "points": {**_coordinates(points[shown]), "label": labels[shown].tolist()},
        "asked": {
            **_coordinates(points[where] if where else np.empty((0, 2), dtype=np.float32)),
            "row_id": [entry["row_id"] for entry in entries],
            "rule": [entry["rule"] for entry in entries],
            "group": [entry["group"] for entry in entries],
            "label": [entry["label"] for entry in entries],
            "number": [entry["question"] for entry in entries],
            "answer": [names[told[row]] if row in told else None for row in where],
        },
    }


def _points_later(materials: Materials) -> Iterator[npt.NDArray[np.float32]]:
    """Of rows that arrived later, up to the first ones that no model knows yet."""
    for batch in range(1, len(materials.batches)):
        found = materials.recall(f"{PLANE} {batch}")
        if found is None:
            return
        yield found["points"]


def _coordinates(points: npt.NDArray[np.float32]) -> CoordinatesJson:
    x, y = ([round(float(value), 4) for value in points[:, place]] for place in (0, 1))
    return {"x": x, "y": y}


def _pace(state: State, at: int) -> tuple[float | None, float | None]:
    """Answers per hour lately, all annotators together, and the seconds the rest takes at that pace."""
    times = sorted(given.at for given in state.answers.values() if state.costs(given))[-PACE_ANSWERS:]
    if len(times) < 3 or at <= times[0]:
        return None, None
    per_hour = (len(times) - 1) / (at - times[0]) * 3_600_000
    left = max(0, state.budget - state.spent) / per_hour * 3600
    return round(per_hour, 2), round(left, 1)


def _subgroups(materials: Materials, collected: Collected) -> SubgroupsJson:
    """How many answers each group and label has after each answer, at most so many points."""
    names, labels = materials.settings.groups, materials.settings.label_names
    known = sorted((item for item in collected.known if item.purpose != GOLD), key=lambda item: item.seq)
    taken = np.zeros((len(names), 2), dtype=np.int64)
    steps = []
    for item in known:
        taken[item.group, materials.label(item.row)] += 1
        steps.append(taken.copy())
    places = thinned(len(steps), HISTORY)
    counts: list[SubgroupCountsJson] = [
        {"group": group, "label": label, "counts": [int(steps[place][a, c]) for place in places]}
        for a, group in enumerate(names)
        for c, label in enumerate(labels)
    ]
    return {"answers": [place + 1 for place in places], "counts": counts}


def _annotators(state: State, collected: Collected, at: int) -> list[PacedAnnotatorJson]:
    """Each annotator's work, accuracy, agreement and pace."""
    holding = dict.fromkeys(state.tokens_of, 0)
    for held in state.outstanding.values():
        holding[held.annotator] += state.live(held, state.now(at))
    times: dict[str, list[int]] = {name: [] for name in state.tokens_of}
    for given in state.answers.values():
        times[given.annotator].append(given.at)
    found: list[PacedAnnotatorJson] = []
    for report in annotators_of(state, collected):
        seconds = [(b - a) / 1000 for a, b in pairwise(sorted(times[report.name])) if b - a <= BREAK_MS]
        mean = statistics.fmean(seconds) if seconds else 0.0
        found.append(
            {
                **report.to_json(),
                "per_hour": round(3600 / mean, 1) if mean > 0 else None,
                "median_seconds": round(statistics.median(seconds), 1) if seconds else None,
                "last_at": moment(max(times[report.name])) if times[report.name] else None,
                "holding": holding[report.name],
            }
        )
    return found


def _with_reasons(connection: Connection, campaign: int, state: State, asked: Sequence[Asked]) -> list[Explained]:
    """Questions with why they were asked (None where that was erased) and after which refit."""
    table = schema.reasons
    query = select(table.c.seq, table.c.value).where(table.c.campaign == campaign)
    rows = connection.execute(query.where(table.c.seq.in_([item.seq for item in asked])))
    reasons = {row.seq: json.loads(row.value) for row in rows}
    rounds = {model: place for place, model in enumerate(state.models, start=1)}
    return [(item, reasons.get(item.seq), rounds.get(item.model or "", 0)) for item in asked]


def _asked_entry(session: Session, asked: Asked, reason: ReasonJson | None, round_: int) -> AskedJson:
    """A line of the list of questions: the subgroup is the one it was chosen for, not the answer."""
    why: ReasonJson = {} if reason is None else reason
    return {
        "question": asked.number,
        "row": asked.row,
        "row_id": session.shown(asked.row)[0],
        "round": round_,
        "rule": GOLD if asked.purpose == GOLD else asked.rule or why.get("rule"),
        "group": why.get("group"),
        "label": why.get("label"),
        "distance": why.get("distance"),
        "answered": bool(asked.given),
        "at": moment(asked.at),
    }
