"""The owner's dashboard over HTTP, and what can be downloaded."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel
from starlette.background import BackgroundTask

from apod.audit.estimate import ENOUGH
from apod.campaign.achieved import Achieved
from apod.campaign.watching import Dashboard
from apod.web.annotating import Empty
from apod.web.building import FILES, Built, What
from apod.web.desk import Served, Server
from apod.web.errors import Refused
from apod.web.guard import Owner

_BOUND = ("bound", "observed", "sampling_term", "covering_term", "epsilon")
_COUNTS = (
    "name", "budget", "answered", "pending", "remaining", "questions", "cannot_tell", "declined", "skipped", "late",
    "uncounted", "withdrawn", "erased", "erasures_due", "gold_answered", "agreement", "behind", "refitting",
    "refit_failures", "measuring_failure", "reminders", "by_purpose", "model_answers",
)  # fmt: skip
_EXPORTS = {
    "csv": (".csv", "text/csv; charset=utf-8"),
    "jsonl": (".jsonl", "application/x-ndjson"),
    "parquet": (".parquet", "application/vnd.apache.parquet"),
    "label-studio": (".json", "application/json"),
}

Export = Literal["csv", "jsonl", "parquet", "label-studio"]


class Download(BaseModel):
    """How a download stands. `stale`: answers or the operating point changed since."""

    what: str
    state: Literal["none", "running", "ready", "failed"]
    answers: int | None
    stale: bool
    message: str | None


router = APIRouter(tags=["owner"])


@router.get("/dashboard", response_class=Response, responses={200: {"content": {"application/json": {}}}})
def dashboard(server: Served, who: Owner) -> Response:
    """Everything the dashboard shows but the map."""
    look = server.looks.get("dashboard", lambda: dashboard_body(server.campaign.dashboard()))
    return Response(look, media_type="application/json")


@router.get("/dashboard/map", response_class=Response, responses={200: {"content": {"application/json": {}}}})
def pool_map(server: Served, who: Owner) -> Response:
    """The pool in two dimensions, and whom we asked."""
    look = server.looks.get("map", server.campaign.pool_map)
    if look == b"null":
        raise Refused(404, "The map comes with the first model.")
    return Response(look, media_type="application/json")


@router.get("/export/{format}", response_class=FileResponse)
def export(server: Served, who: Owner, format: Export) -> FileResponse:
    """All answers that stand, as a file. It holds people's groups."""
    ending, kind = _EXPORTS[format]
    handle, name = tempfile.mkstemp(suffix=ending)  # for this user alone
    path = Path(name)
    with open(handle, "wb"):
        pass
    try:
        server.campaign.export(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    sent = BackgroundTask(_forget, path)
    return FileResponse(path, media_type=kind, filename=f"answers{ending}", background=sent)


@router.get("/downloads/{what}")
def download(server: Served, who: Owner, what: What) -> Download:
    """How a download stands."""
    return _download(server, what, server.builds.look(what))


@router.post("/downloads/{what}", status_code=202)
def build(server: Served, who: Owner, what: What, body: Empty) -> Download:
    """Have it built from what is there now; `download` events tell when it is ready."""
    return _download(server, what, server.builds.start(what))


@router.get("/downloads/{what}/file", response_class=FileResponse)
def file(server: Served, who: Owner, what: What) -> FileResponse:
    """The file, once it is ready."""
    found = server.builds.look(what)
    if found.path is None:
        raise Refused(404, "It is not built yet.")
    name, kind = FILES[what]
    return FileResponse(found.path, media_type=kind, filename=name)


def dashboard_body(found: Dashboard) -> dict[str, Any]:
    """The dashboard as it goes out; only the newest outcome in full."""
    status = found.status
    history = [_outcome(item, item is found.history[-1]) for item in found.history]
    return {
        "seq": found.event,
        "campaign": {
            **{name: getattr(status, name) for name in _COUNTS},
            "groups": status.groups,
            "labels": found.labels,
            "rows": found.rows,
            "state": found.phase,
            "audit_planned": found.audit_planned,
            "audit_needed": ENOUGH,
        },
        "pace": {"per_hour": found.per_hour, "seconds_left": found.seconds_left},
        "strengths": [point["strength"] for point in history[-1]["curve"]] if history else [],
        "chosen": found.strength,
        "operating": found.operating,
        "history": history,
        "subgroups": found.subgroups,
        "asked": found.asked,
        "annotators": found.annotators,
    }


def _outcome(item: Achieved, full: bool) -> dict[str, Any]:
    outcome = dict(item.outcome)
    if not full:
        outcome.pop("note", None)
        outcome.pop("outlook", None)
        outcome.pop("outlook_withheld", None)
        if outcome.get("audit") is not None:
            audit = outcome["audit"]
            gap = {name: value for name, value in audit["before"].items() if name != "groups"}
            outcome["audit"] = {"answers": audit["answers"], "before": gap}
        if outcome.get("bound") is not None:
            outcome["bound"] = {name: outcome["bound"][name] for name in _BOUND}
    return {"answers": item.answers, "at": item.at, **outcome}


def _download(server: Server, what: What, found: Built) -> Download:
    stale = found.of is not None and found.of != server.campaign.version()
    return Download(what=what, state=found.state, answers=found.answers, stale=stale, message=found.message)


def _forget(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
