"""The owner's endpoints: the dashboard, the operating point, who may come in, pausing, exports and downloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from fastapi import Path as PathParameter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from apod.audit.estimate import ENOUGH
from apod.campaign import CampaignSettings
from apod.campaign.access import OWNER
from apod.campaign.dashboard import Dashboard
from apod.campaign.outcomes import Achieved
from apod.campaign.settings import TEXT_LIMIT
from apod.web.annotator_routes import Empty, Text
from apod.web.context import Server
from apod.web.downloads import FILES, Download, What
from apod.web.errors import Refused
from apod.web.security import Owner

LongText = Annotated[str, StringConstraints(max_length=TEXT_LIMIT)]
AccessId = Annotated[str, PathParameter(pattern=r"^[0-9a-f]{16}$")]


class StateBody(BaseModel):
    """Whether the campaign asks. `finished` ends it; `archived` also ends everybody's access, one's own included."""

    model_config = ConfigDict(extra="forbid", strict=True)
    state: Literal["open", "paused", "finished", "archived"]


class BudgetBody(BaseModel):
    """How many answers may be asked for in all: the new total."""

    model_config = ConfigDict(extra="forbid", strict=True)
    budget: int = Field(ge=1, le=1_000_000_000)


class RulesBody(BaseModel):
    """What to change of what annotators are told; what is left out stays, an empty text means none."""

    model_config = ConfigDict(extra="forbid", strict=True)
    guidelines: LongText | None = None
    question: LongText | None = None
    legal_basis: LongText | None = None
    purpose: LongText | None = None
    kind: Literal["self_reported", "records", "perceived"] | None = None
    descriptions: dict[str, LongText] | None = None


class RulesSeen(BaseModel):
    """What annotators are told."""

    guidelines: str | None
    question: str | None
    legal_basis: str | None
    purpose: str | None
    kind: str
    descriptions: dict[str, str]
    columns: list[str]


class RowsBody(BaseModel):
    """New rows: the text of a CSV file with the columns of the campaign's table."""

    model_config = ConfigDict(extra="forbid", strict=True)
    csv: Annotated[str, StringConstraints(min_length=1)]


class RowsAdded(BaseModel):
    """What came of it; `first` is the number of the first of them."""

    rows: int
    first: int
    total: int
    held_out: int
    known: int


class LinksBody(BaseModel):
    """Whom to ask for a self-report, by the numbers of their rows, and how long their links work."""

    model_config = ConfigDict(extra="forbid", strict=True)
    rows: list[Annotated[int, Field(ge=0, le=10**12)]] = Field(min_length=1, max_length=1000)
    days: float = Field(default=30.0, gt=0, le=366)


class StateSeen(BaseModel):
    """Whether the campaign asks, and if not, why."""

    state: Literal["open", "paused", "done", "finished"]


class OperatingPoint(BaseModel):
    """The strength of the head to use; null leaves the choice to the classifier."""

    model_config = ConfigDict(extra="forbid", strict=True)
    strength: float | None


class Chosen(BaseModel):
    """The operating point."""

    chosen: float | None


class Invitation(BaseModel):
    """Whom to let in, how, and for how long."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: Text
    role: Literal["owner", "annotator", "reviewer"] = "annotator"
    what: Literal["link", "token"] = "link"
    days: float = Field(default=7.0, gt=0, le=366)


class Invited(BaseModel):
    """A link, or a program's token; it can be seen this once."""

    id: str
    link: str | None
    token: str | None
    expires_at: str


class Entry(BaseModel):
    """A link, session or token."""

    id: str
    what: Literal["link", "session", "token"]
    role: Literal["owner", "annotator", "reviewer", "person"]
    name: str
    created_at: str
    expires_at: str
    used_at: str | None
    state: Literal["active", "used", "expired", "revoked"]
    current: bool


class Entries(BaseModel):
    """All links, sessions and tokens."""

    access: list[Entry]


class Whose(BaseModel):
    """Whose access."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: Text


class Revoked(BaseModel):
    """How many links, sessions and tokens were ended."""

    revoked: int


router = APIRouter(tags=["owner"])


@router.put("/state")
def state(server: Server, who: Owner, body: StateBody) -> StateSeen:
    """Pause the campaign, resume, end or archive it."""
    owner = server.campaign.owner
    if body.state == "archived":
        owner.archive()
    elif body.state == "finished":
        owner.finish()
    else:
        owner.pause(body.state == "paused")
    return StateSeen(state=server.campaign.progress().phase)


@router.put("/budget")
def budget(server: Server, who: Owner, body: BudgetBody) -> BudgetBody:
    """Set another budget."""
    server.campaign.owner.extend(body.budget)
    return body


@router.post("/rows", status_code=201)
def add_rows(server: Server, who: Owner, body: RowsBody) -> RowsAdded:
    """Add rows that arrived later, all of them or none."""
    return RowsAdded(**vars(server.campaign.owner.add_text(body.csv)))


@router.post("/links", response_class=Response, responses={200: {"content": {"text/csv": {}}}})
def links(request: Request, server: Server, who: Owner, body: LinksBody) -> Response:
    """Links for self-reports of the people concerned, as a CSV file for a mail merge; it can be had this once."""
    origin = server.settings.origin_for(request.headers.get("host"))
    merged = server.campaign.owner.self_reports.merged(list(dict.fromkeys(body.rows)), origin, body.days)
    return _attachment(merged, "text/csv; charset=utf-8", "links.csv")


@router.get("/settings")
def rules(server: Server, who: Owner) -> RulesSeen:
    """What annotators are told, as it is now."""
    return _rules(server.campaign.rules())


@router.put("/settings")
def revise(server: Server, who: Owner, body: RulesBody) -> RulesSeen:
    """Change what annotators are told; earlier versions stay in the log."""
    return _rules(server.campaign.owner.revise(**body.model_dump(exclude_none=True)))


def _rules(now: CampaignSettings) -> RulesSeen:
    names = ("guidelines", "question", "legal_basis", "purpose", "kind")
    told = {name: getattr(now, name) for name in names}
    return RulesSeen(**told, descriptions=dict(now.descriptions), columns=list(now.show))


@router.put("/operating-point")
def operating_point(server: Server, who: Owner, body: OperatingPoint) -> Chosen:
    """Choose the point on the curve at which the classifier decides."""
    server.campaign.owner.choose(body.strength)
    return Chosen(chosen=server.campaign.owner.chosen())


@router.get("/access")
def access(server: Server, who: Owner) -> Entries:
    """Links, sessions and tokens; secrets are not among them."""
    found = server.campaign.owner.access.entries()
    return Entries(access=[Entry(**vars(entry), current=entry.id == who.id) for entry in found])


@router.post("/access", status_code=201)
def invite(request: Request, server: Server, who: Owner, body: Invitation) -> Invited:
    """Make a link for a person, or a token for a program."""
    name = OWNER if body.role == "owner" else body.name
    made = server.campaign.owner.access.grant(name, body.role, body.what, body.days)
    is_link = body.what == "link"
    link = f"{server.settings.origin_for(request.headers.get('host'))}/enter#{made.token}"
    return Invited(
        id=made.id,
        link=link if is_link else None,
        token=None if is_link else made.token,
        expires_at=made.expires_at,
    )


@router.post("/access/revoke")
def revoke_name(server: Server, who: Owner, body: Whose) -> Revoked:
    """End everything somebody has."""
    count = server.campaign.owner.access.revoke_name(body.name)
    return Revoked(revoked=count)


@router.delete("/access/{id}", status_code=204)
def revoke(server: Server, who: Owner, id: AccessId) -> None:
    """End a link, a session or a token."""
    server.campaign.owner.access.revoke(id)


_BOUND = ("bound", "observed", "sampling_term", "covering_term", "epsilon")
_POINT = ("strength", "accuracy", "gap")
_COUNTS = (
    "name", "budget", "answered", "pending", "remaining", "questions", "cannot_tell", "declined", "skipped", "late",
    "uncounted", "withdrawn", "erased", "erasures_due", "gold_answered", "known", "agreement", "behind", "refitting",
    "refit_failures", "measuring_failure", "reminders", "by_purpose", "model_answers",
)  # fmt: skip
_EXPORTS = {
    "csv": (".csv", "text/csv; charset=utf-8"),
    "jsonl": (".jsonl", "application/x-ndjson"),
    "parquet": (".parquet", "application/vnd.apache.parquet"),
    "label-studio": (".json", "application/json"),
}

Export = Literal["csv", "jsonl", "parquet", "label-studio"]


class DownloadBody(BaseModel):
    """The state of a download. `stale`: answers or the operating point changed since."""

    what: str
    state: Literal["none", "running", "ready", "failed"]
    answers: int | None
    stale: bool
    message: str | None


@router.get("/dashboard", response_class=Response, responses={200: {"content": {"application/json": {}}}})
def dashboard(server: Server, who: Owner) -> Response:
    """Everything the dashboard shows but the map."""
    body = server.responses.get("dashboard", lambda: dashboard_body(server.campaign.owner.results.dashboard()))
    return Response(body, media_type="application/json")


@router.get("/dashboard/map", response_class=Response, responses={200: {"content": {"application/json": {}}}})
def pool_map(server: Server, who: Owner) -> Response:
    """The pool in two dimensions, and whom we asked."""
    body = server.responses.get("map", server.campaign.owner.results.pool_map)
    if body == b"null":
        raise Refused(404, "The map comes with the first model.")
    return Response(body, media_type="application/json")


@router.get("/export/{format}", response_class=Response)
def export(server: Server, who: Owner, format: Export) -> Response:
    """All answers that stand, as a file. It holds people's groups."""
    ending, kind = _EXPORTS[format]
    return _attachment(server.campaign.owner.exported(format), kind, f"answers{ending}")


@router.get("/downloads/{what}")
def download(server: Server, who: Owner, what: What) -> DownloadBody:
    """The state of a download."""
    return _download(server, what, server.downloads.state(what))


@router.post("/downloads/{what}", status_code=202)
def build(server: Server, who: Owner, what: What, body: Empty) -> DownloadBody:
    """Have it built from what is there now; `download` events tell when it is ready."""
    return _download(server, what, server.downloads.start(what))


@router.get("/downloads/{what}/file", response_class=Response)
def file(server: Server, who: Owner, what: What) -> Response:
    """The file, once it is ready."""
    found = server.downloads.state(what)
    if found.content is None:
        raise Refused(404, "It is not built yet.")
    name, kind = FILES[what]
    return _attachment(found.content, kind, name)


def _attachment(content: bytes, kind: str, name: str) -> Response:
    """A file from memory: on disc it would outlive a server that is killed, and it may hold people's groups."""
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def dashboard_body(found: Dashboard) -> dict[str, object]:
    """The dashboard as it goes out; only the newest outcome in full."""
    status = found.status
    history = [_outcome(item, item is found.history[-1]) for item in found.history]
    return {
        "seq": found.event,
        "campaign": {
            **{name: getattr(status, name) for name in _COUNTS},
            "groups": status.groups,
            "attributes": status.to_json()["attributes"],
            "values_told": status.values_told,
            "labels": found.labels,
            "rows": found.rows,
            "state": found.phase,
            "audit_planned": found.audit_planned,
            "audit_needed": ENOUGH,
        },
        "pace": {"per_hour": found.per_hour, "seconds_left": found.seconds_left},
        "strengths": [point["strength"] for point in found.history[-1].outcome["curve"]] if found.history else [],
        "chosen": found.strength,
        "operating": found.operating,
        "history": history,
        "subgroups": found.subgroups,
        "asked": found.asked,
        "annotators": found.annotators,
    }


def _outcome(item: Achieved, full: bool) -> dict[str, object]:
    found: dict[str, object] = {"answers": item.answers, "at": item.at, **item.outcome}
    if full:
        return found
    for name in ("note", "outlook", "outlook_withheld"):
        found.pop(name, None)
    found["curve"] = [_picked(point, _POINT) for point in item.outcome["curve"]]
    audit, bound = item.outcome.get("audit"), item.outcome.get("bound")
    if audit is not None:
        gap = {name: value for name, value in audit.get("before", {}).items() if name != "groups"}
        found["audit"] = {"answers": audit["answers"], "before": gap} if gap else None
    if bound is not None:
        found["bound"] = _picked(bound, _BOUND)
    return found


def _picked(entry: Mapping[str, object], names: Sequence[str]) -> dict[str, object]:
    return {name: entry[name] for name in names}


def _download(server: Server, what: What, found: Download) -> DownloadBody:
    stale = found.of is not None and found.of != server.campaign.owner.results.version()
    return DownloadBody(what=what, state=found.state, answers=found.answers, stale=stale, message=found.message)
