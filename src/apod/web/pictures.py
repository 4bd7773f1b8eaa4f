"""Pictures of one's own questions: found through the question, never by a path, and only what truly is a picture."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from apod.campaign.pictures import read_picture
from apod.web.annotating import QuestionId, name_of
from apod.web.desk import Served
from apod.web.errors import Refused
from apod.web.guard import Anybody

_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_TYPES: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind: {} for kind in ("image/png", "image/jpeg", "image/gif", "image/webp")}}
}

router = APIRouter(tags=["annotator"])


@router.get("/questions/{question}/picture", response_class=Response, responses=_TYPES)
def picture(server: Served, who: Anybody, question: QuestionId) -> Response:
    """The picture of one's own question."""
    found = server.campaign.own_question(question, name_of(who))
    if found.image is None:
        raise Refused(404, "This question has no picture.")
    data = _read(found.image, server.campaign.settings.image_root, server.settings.limits.picture_bytes)
    kind = content_type(data)
    if kind is None:
        raise Refused(415, "This file is no PNG, JPEG, GIF or WebP picture.")
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


def content_type(data: bytes) -> str | None:
    """The type by what the file begins with; its name says nothing."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _STARTS if data.startswith(start)), None)


def _read(path: str, root: str | None, most: int) -> bytes:
    try:
        data = read_picture(path, root, most)
    except (OSError, ValueError):
        raise Refused(404, "The picture of this question is missing.") from None
    if len(data) > most:
        raise Refused(413, "The picture of this question is too large.")
    return data
