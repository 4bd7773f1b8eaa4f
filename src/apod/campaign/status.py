"""Where a campaign stands, in numbers that name nobody's group, and which campaigns a database holds."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import cast

from sqlalchemy import Connection, select

from apod.campaign import schema
from apod.campaign.erasure import count_due
from apod.campaign.journal import Journal
from apod.campaign.json_types import AnnotatorJson, StatusJson
from apod.campaign.materials import BASE, Materials
from apod.campaign.schema import check_schema
from apod.campaign.settings import Attribute
from apod.campaign.state import CANNOT_TELL, DECLINED, GOLD, GROUP, Given, State
from apod.campaign.store import Store
from apod.campaign.verifying import SealedReason, sealed_reasons
from apod.campaign.votes import HANDED_IN, Collected, fleiss_kappa, pairwise_kappa


@dataclass(frozen=True)
class AttributeStatus:
    """One attribute that is asked about, and what came of it; names nobody's group."""

    name: str
    groups: tuple[str, ...] = field(repr=False)
    told: int  # people asked about whose group was told
    cannot_tell: int
    declined: int
    known: int  # handed in at the start, at no cost
    groups_seen: int  # how many different groups have an answer
    agreement: float | None  # Fleiss' kappa of perceived answers; None without overlap


@dataclass(frozen=True)
class Status:
    """Counts of a campaign. `answered` + `pending` never exceeds `budget`."""

    name: str
    groups: tuple[str, ...] = field(repr=False)  # of the first attribute, as answers must spell them
    attributes: tuple[AttributeStatus, ...] = field(repr=False)  # all that are asked about
    values_told: int  # groups that were told in counted answers, of all attributes together
    budget: int
    answered: int  # paid from the budget
    standing: int  # of those, not erased
    pending: int  # assigned to somebody now
    remaining: int
    questions: int  # rows asked about
    cannot_tell: int
    declined: int
    skipped: int
    late: int  # came after their lease had run out
    uncounted: int  # of those, recorded but without a part in the campaign
    withdrawn: tuple[
        int, ...
    ]  # rows that can be put to nobody: their picture lies outside its folder, or is not a file
    erased: int
    erasures_due: int  # whose bytes are still in the database's files, because somebody reads an older state
    gold_answered: int
    known: int  # groups that were handed in at the start, at no cost
    groups_seen: int  # how many different groups have an answer
    by_kind: Mapping[str, int]
    by_purpose: Mapping[str, int]
    annotators: int
    agreement: float | None  # Fleiss' kappa of perceived answers; None without overlap
    model_answers: int  # answers the latest model knows
    behind: int  # answers it does not know yet
    refitting: bool
    refit_failures: int
    refit_failure: str | None
    measuring_failure: str | None  # the type of the error with which measuring the latest model failed
    clock_moves: int  # times the database's clock was set back
    events: int
    finished: bool
    paused: bool
    paused_because: str | None  # "least gain" where it paused by itself
    preset: str | None  # of the package's own engine; another one has none
    selector: str | None
    model: str | None  # what is mitigated, in words; None while no model was fitted, or with another engine
    archived: bool
    kind: str
    guidelines: str | None
    legal_basis: str | None
    reminders: tuple[str, ...]

    def to_json(self) -> StatusJson:
        """As plain JSON."""
        return cast(StatusJson, asdict(self))  # tests/campaign/test_json_types.py compares their fields


@dataclass(frozen=True)
class AnnotatorReport:
    """One annotator's work. For the owner's eyes only."""

    name: str
    answered: int
    skipped: int
    late: int
    gold_answered: int
    accuracy: float | None  # by the one-coin model; None while nothing is known about it
    kappa: Mapping[str, float | None]  # Cohen's, with each colleague who answered the same questions
    by_attribute: Mapping[str, float | None]  # the accuracy about each of several attributes; the above is the first's

    def to_json(self) -> AnnotatorJson:
        """As plain JSON."""
        return cast(AnnotatorJson, asdict(self))


def mitigated(materials: Materials) -> str | None:
    """What a campaign mitigates, in words; None while no model was fitted, or where its engine is another."""
    method = materials.settings.method
    if method is None or method.corrects:
        facts = materials.facts(BASE)
        return None if facts is None else str(facts["name"])
    return f"heads on a body ({method.body})"


def status_of(
    connection: Connection, materials: Materials, state: State, model: str | None, collected: Collected, at: int
) -> Status:
    """The counts of a state; `model` is what is mitigated."""
    campaign, settings = materials.campaign, materials.settings.with_changes(state.revised)
    standing = [given for given in state.current() if not given.erased]
    ordinary = [given for given in standing if state.questions[given.number].purpose != GOLD]
    counted = [given for given in ordinary if given.counted]
    pending = state.pending(state.now(at))
    refit = connection.execute(select(schema.refits).where(schema.refits.c.campaign == campaign)).one()
    used = len(collected.inputs())
    attributes = tuple(_attribute(one, counted, own) for one, own in zip(settings.asked, collected.each, strict=True))
    sealed = sealed_reasons(connection, campaign, state)
    return Status(
        name=settings.name,
        groups=settings.groups,
        attributes=attributes,
        values_told=sum(one.told for one in attributes),
        budget=state.budget,
        answered=state.spent,
        standing=state.standing,
        pending=pending,
        remaining=max(0, state.budget - state.spent - pending),
        questions=len(state.rows),
        cannot_tell=sum(given.outcome == CANNOT_TELL for given in counted),
        declined=sum(given.outcome == DECLINED for given in counted),
        skipped=sum(len(asked.skipped) for asked in state.questions.values()),
        late=sum(given.late for given in standing),
        uncounted=sum(not given.counted for given in standing),
        withdrawn=tuple(state.withdrawn),
        erased=sum(given.erased for given in state.answers.values()),
        erasures_due=count_due(connection, campaign),
        gold_answered=len(standing) - len(ordinary),
        known=len(state.known),
        groups_seen=attributes[0].groups_seen,
        by_kind=dict(Counter(given.kind for given in counted)),
        by_purpose=dict(Counter(_purpose(state, sealed, given.number) for given in counted)),
        annotators=len({given.annotator for given in standing}),
        agreement=attributes[0].agreement,
        model_answers=state.model_answers,
        behind=max(0, used - state.model_answers),
        refitting=bool(refit.running),
        refit_failures=refit.failures,
        refit_failure=refit.failure if refit.failures else None,
        measuring_failure=None if refit.failures else refit.failure,
        clock_moves=state.clock_moves,
        events=state.seq,
        finished=state.finished,
        paused=state.paused,
        paused_because=state.paused_because,
        preset=settings.preset,
        selector=settings.selector,
        model=model,
        archived=state.archived,
        kind=settings.kind,
        guidelines=settings.guidelines,
        legal_basis=settings.legal_basis,
        reminders=settings.reminders(),
    )


def _purpose(state: State, sealed: Mapping[int, SealedReason], number: int) -> str:
    """What a question is for; that one verifies is sealed."""
    return sealed.get(number, {}).get("purpose") or state.questions[number].purpose


def _attribute(attribute: Attribute, counted: Sequence[Given], own: Collected) -> AttributeStatus:
    """What came of asking about one attribute."""
    outcomes = Counter(given.outcome_of(own.attribute) for given in counted)
    kappa = fleiss_kappa(own.votes, own.groups)
    return AttributeStatus(
        attribute.name,
        attribute.groups,
        told=outcomes[GROUP],
        cannot_tell=outcomes[CANNOT_TELL],
        declined=outcomes[DECLINED],
        known=sum(item.annotator == HANDED_IN for item in own.known),
        groups_seen=len({item.group for item in own.known if item.purpose != GOLD}),
        agreement=None if math.isnan(kappa) else kappa,
    )


def annotators_of(state: State, collected: Collected) -> list[AnnotatorReport]:
    """Each annotator's work and accuracy."""
    model, names = collected.noise_model(), [one["name"] for one in state.settings.get("attributes", ())]
    models = [one.noise_model() for one in collected.each] if len(names) > 1 else []
    kappas = pairwise_kappa(collected.votes)
    found = []
    for name in sorted(state.tokens_of):
        mine = [given for given in state.current() if given.annotator == name and not given.erased]
        with_others: dict[str, float | None] = {}
        for (first, second), value in kappas.items():
            if name in (first, second):
                with_others[second if name == first else first] = None if math.isnan(value) else value
        found.append(
            AnnotatorReport(
                name=name,
                answered=sum(given.counted for given in mine),
                skipped=sum(name in asked.skipped for asked in state.questions.values()),
                late=sum(given.late for given in mine),
                gold_answered=sum(state.questions[given.number].purpose == GOLD for given in mine),
                accuracy=None if model is None else model.accuracy.get(name),
                kappa=with_others,
                by_attribute={
                    attribute: None if own is None else own.accuracy.get(name)
                    for attribute, own in zip(names, models, strict=False)
                },
            )
        )
    return found


@dataclass(frozen=True)
class CampaignInfo:
    """A line of the list of campaigns."""

    name: str
    answered: int
    pending: int
    budget: int
    finished: bool
    archived: bool = False


def campaigns(url: str | os.PathLike[str], archived: bool = True) -> list[CampaignInfo]:
    """The campaigns of a database, with or without archived ones."""
    store = Store(url)
    try:
        check_schema(store)
        with store.reading() as connection:
            rows = connection.execute(select(schema.campaigns.c.id, schema.campaigns.c.name).order_by("id")).all()
        found = [
            Journal(store, row.id).view(
                lambda c, state, at, name=row.name: CampaignInfo(  # type: ignore[misc]
                    name, state.standing, state.pending(state.now(at)), state.budget, state.finished, state.archived
                )
            )
            for row in rows
        ]
        return [info for info in found if archived or not info.archived]
    finally:
        store.dispose()
