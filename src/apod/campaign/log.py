"""The audit trail: who was asked what, when, why and by which model, and whether anybody tampered with it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Table, select

from apod.campaign import schema
from apod.campaign.events import GENESIS, canonical, commit, commitment_of, erased_parts, link
from apod.campaign.journal import read_events

if TYPE_CHECKING:
    from apod.campaign.materials import Materials
    from apod.campaign.store import Store


@dataclass(frozen=True)
class LogCheck:
    """The outcome of verifying a log. `head` is worth noting down elsewhere: it pins everything up to here."""

    ok: bool
    events: int
    erased: int  # values that are gone, each accounted for by an erasure in the log
    head: str
    problems: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()  # what the log of an earlier version says nothing about


def moment(at: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def verify_all(store: Store, campaign: int, pool: Callable[[], Materials], noted: str | None = None) -> LogCheck:
    """Verify the log and, where it is whole, every file it names."""
    with store.reading() as connection:
        found = verify(connection, campaign, noted)
    if not found.ok:  # which files there should be is uncertain then
        return found
    materials = pool()
    wrong, unverified = materials.computed_problems()
    problems = (*materials.problems(), *wrong)
    return replace(found, ok=not problems, problems=problems, unverified=tuple(unverified))


def verify(connection: Connection, campaign: int, noted: str | None = None) -> LogCheck:
    """Recompute the whole chain and open every commitment that can be opened.

    `noted` is a head that was written down earlier: the chain must contain it, or its end was cut off.
    """
    row = connection.execute(select(schema.campaigns).where(schema.campaigns.c.id == campaign)).one()
    table = schema.events
    found = connection.execute(select(table).where(table.c.campaign == campaign).order_by(table.c.seq)).all()
    problems: list[str] = []
    previous, heads = GENESIS, {GENESIS}
    for place, event in enumerate(found, start=1):
        if event.seq != place:
            problems.append(f"event {place} is missing")
            break
        if link(previous, event.seq, event.at, event.kind, event.body, event.commitment) != event.hash:
            problems.append(f"event {place} was changed, or one before it was put in or taken out")
            break
        previous = event.hash
        heads.add(previous)
    if not problems:
        if (row.last_seq, row.last_hash) != (len(found), previous):
            problems.append("the log does not end where the campaign's head says")
        if found and json.loads(found[0].body).get("settings") != json.loads(row.settings):
            problems.append("the campaign's settings are not those of its first event")
        if found and json.loads(found[0].body).get("materials") != json.loads(row.materials):
            problems.append("the campaign's list of files is not that of its first event")
        if noted is not None and noted not in heads:
            problems.append("the log does not contain the head that was noted: its end was cut off or replaced")
    erased, wrong = _verify_sealed(connection, campaign, found)
    problems.extend(wrong)
    problems.extend(_verify_certificates(connection, campaign, found))
    return LogCheck(not problems, len(found), erased, previous, tuple(problems))


def _verify_sealed(connection: Connection, campaign: int, found: Any) -> tuple[int, list[str]]:
    problems = []
    sealed = {**_sealed(connection, campaign, schema.answers), **_sealed(connection, campaign, schema.reasons)}
    accounted: set[int] = set()
    parts: dict[int, set[int]] = defaultdict(set)
    for event in found:
        if event.kind == "erased":
            body = json.loads(event.body)
            accounted.update(body["sealed"])
            for seq in body.get("parts", {}).get("sealed", ()):
                parts[seq].add(body["parts"]["attribute"])
    erased = 0
    for event in found:
        value = sealed.pop(event.seq, None)
        if event.commitment is None:
            if value is not None:
                problems.append(f"event {event.seq} has a value it did not commit to")
        elif value is None:
            erased += event.seq in accounted
            if event.seq not in accounted:
                problems.append(f"the value of event {event.seq} is gone and no erasure accounts for it")
        elif commitment_of(*value) != event.commitment:
            problems.append(f"the value of event {event.seq} was changed")
        elif erased_parts(value[1]) != parts[event.seq]:
            problems.append(f"the value of event {event.seq} has other parts than the log's erasures leave of it")
        else:
            erased += bool(parts[event.seq])
    problems.extend(f"there is a value for event {seq}, which does not exist" for seq in sorted(sealed))
    return erased, problems


def _verify_certificates(connection: Connection, campaign: int, found: Any) -> list[str]:
    """Certificates of deletion whose hash is another one, or that speak of values which are still there."""
    problems = []
    left = min(_sealed(connection, campaign, schema.answers), default=None)
    for event in found:
        if event.kind != "expired":
            continue
        body = json.loads(event.body)
        if hashlib.sha256(canonical(body["certificate"]).encode()).hexdigest() != body["hash"]:
            problems.append(f"the certificate of deletion of event {event.seq} has another hash")
        if left is not None and left < event.seq:
            problems.append(f"there is an answer that event {event.seq} says was erased")
    return problems


def _sealed(connection: Connection, campaign: int, table: Table) -> dict[int, tuple[bytes, str]]:
    rows = connection.execute(select(table).where(table.c.campaign == campaign))
    return {row.seq: (bytes(row.salt), row.value) for row in rows}


def sealed_hash(connection: Connection, campaign: int, seq: int) -> str | None:
    """The hash of a model that its event committed to; None where it was erased or is not that one."""
    sealed, events = schema.reasons, schema.events
    same = (sealed.c.campaign == events.c.campaign) & (sealed.c.seq == events.c.seq)
    query = select(sealed.c.salt, sealed.c.value, events.c.commitment).join(events, same)
    row = connection.execute(query.where(sealed.c.campaign == campaign, sealed.c.seq == seq)).first()
    right = row is not None and commit(bytes(row.salt), row.value) == row.commitment
    return str(json.loads(row.value)) if row is not None and right else None


def entries(connection: Connection, campaign: int) -> Iterator[dict[str, Any]]:
    """The log, one JSON-ready record per event (`what` it was, when, who, why); never an answered group.

    A question's record has its id, its reason and the hash of the model that chose it; these two are null once erased.
    """
    reasons = {seq: json.loads(value) for seq, (_, value) in _sealed(connection, campaign, schema.reasons).items()}
    hashes: dict[str, str | None] = {}
    places: Counter[str] = Counter()
    for event in read_events(connection, campaign):
        record = {"event": event.seq, "at": moment(event.at), "what": event.kind, **event.body}
        if event.kind == "refitted":
            hashes[event.body["model"]] = reasons.get(event.seq)
            record["model_hash"] = reasons.get(event.seq)
        if event.kind == "frozen":
            record["candidate_hash"] = (reasons.get(event.seq) or {}).get("fingerprint")
        if event.kind == "asked":
            places[event.body["annotator"]] += 1
            record["id"] = f"{places[event.body['annotator']]}-{event.seq}"
            record["reason"] = reasons.get(event.seq)
            sealed = record["reason"] or {}
            record |= {name: sealed[name] for name in ("purpose", "rule", "probability") if name in sealed}
            record["model_hash"] = hashes.get(event.body["model"])
        yield record
