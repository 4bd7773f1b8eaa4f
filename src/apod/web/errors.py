"""Every failure as a status and one sentence, in the same shape; never what was sent, never a group."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from apod.campaign.errors import (
    CampaignFinished,
    Conflict,
    FileDamaged,
    NotFound,
    NotYours,
    StoreError,
    UnknownQuestion,
)
from apod.errors import ApodError, BudgetError, InputError
from apod.text import printable

log = logging.getLogger(__name__)

_CODES = {
    400: "malformed", 401: "unauthenticated", 403: "forbidden", 404: "not_found", 405: "not_allowed", 409: "conflict",
    413: "too_large", 415: "unsupported", 421: "misdirected", 422: "invalid", 429: "too_many", 500: "internal",
    503: "unavailable",
}  # fmt: skip

_STATUS: tuple[tuple[type[ApodError], int], ...] = (
    (NotYours, 404),  # whether there is such a question is nobody else's business: the text is the same
    (NotFound, 404),
    (StoreError, 503),
    (FileDamaged, 500),
    (Conflict, 409),
    (CampaignFinished, 409),
    (BudgetError, 409),
    (InputError, 422),
)
_NO_QUESTION = "There is no such question among yours."


class Trouble(BaseModel):
    """What went wrong."""

    code: str
    message: str  # one sentence, safe to show


class Problem(BaseModel):
    """The body of every error."""

    error: Trouble


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Errors for the API's description: those every endpoint has, and these."""
    return {status: {"model": Problem} for status in sorted({400, 401, 403, 413, 422, 429, 500, 503, *statuses})}


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, *, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after
        self.code = code or _CODES[status]


def problem(status: int, message: str, code: str | None = None, retry_after: float | None = None) -> JSONResponse:
    """An error as it goes out."""
    headers = {} if retry_after is None else {"Retry-After": str(max(1, round(retry_after + 0.5)))}
    return JSONResponse({"error": {"code": code or _CODES.get(status, "error"), "message": message}}, status, headers)


def add_handlers(app: FastAPI) -> None:
    """Turn the errors of campaigns, of this package and of the framework into answers."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(ApodError, _apod_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)


async def _refused(request: Request, error: Any) -> Response:
    return problem(error.status, error.message, error.code, error.retry_after)


async def _apod_error(request: Request, error: Any) -> Response:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    if status == 500:
        log.error("a request failed with %s", type(error).__name__)
        return problem(500, "The server could not do this; its log says more.")
    message = _NO_QUESTION if isinstance(error, NotYours | UnknownQuestion) else str(error)
    if isinstance(error, StoreError):  # its text names paths and servers
        log.error("%s", printable(error))
        message = "The database cannot be used at the moment: nothing is lost, repeat in a while."
    return problem(status, message, retry_after=2.0 if status == 503 else None)


async def _invalid(request: Request, error: Any) -> Response:
    """Where a request is wrong, but not what stood there: it may be a group."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return problem(400, "The body is not JSON.")
    place = ".".join(str(part) for part in first["loc"][1:] if isinstance(part, int) or str(part).isidentifier())
    return problem(422, f"{place or 'The body'} is missing or not as the API describes it.")


async def _http(request: Request, error: Any) -> Response:
    messages = {404: "There is nothing here.", 405: "That cannot be done here."}
    answer = problem(error.status_code, messages.get(error.status_code, "The request was refused."))
    answer.headers.update(error.headers or {})
    return answer


async def _unforeseen(request: Request, error: Exception) -> Response:
    log.error("a request failed with %s", type(error).__name__)
    return problem(500, "The server could not do this; its log says more.")
