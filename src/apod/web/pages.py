"""Pages, scripts, styles: files of this package, known when the server starts, and plotly's own script.

Pages hold no data: they are the same for everybody, and their scripts ask the API.
"""

from __future__ import annotations

import hashlib
import importlib.util
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response

from apod.errors import InputError
from apod.web.errors import Refused

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
_PAGES = {"/": "annotate.html", "/enter": "enter.html", "/dashboard": "dashboard.html"}
_REVALIDATE, _A_DAY = "no-cache", "public, max-age=86400"


def page_routes() -> APIRouter:
    """Routes of all files there are."""
    router = APIRouter(include_in_schema=False)
    folder = Path(str(files("apod.web")))
    statics = _files_in(folder / "static")
    statics["plotly.min.js"] = plotly_script()

    for path, name in _PAGES.items():
        _add(router, path, folder / "pages" / name)
    if "favicon.svg" in statics:
        _add(router, "/favicon.ico", statics["favicon.svg"])

    @router.get("/static/{name:path}")
    def static(request: Request, name: str) -> Response:
        found = statics.get(name)  # only what was there at the start: no path can lead anywhere else
        if found is None:
            raise Refused(404, "There is nothing here.")
        return _send(request, found, _A_DAY if name == "plotly.min.js" else _REVALIDATE)

    return router


def plotly_script() -> Path:
    """plotly.min.js of the installed package, which is not imported for it."""
    spec = importlib.util.find_spec("plotly")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path
    raise InputError("plotly is not installed: pip install 'apod-fairness[serve]'.")


def _files_in(folder: Path) -> dict[str, Path]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in CONTENT_TYPES)
    return {path.relative_to(folder).as_posix(): path for path in found}


def _add(router: APIRouter, path: str, file: Path) -> None:
    def page(request: Request) -> Response:
        return _send(request, file, _REVALIDATE)

    router.add_api_route(path, page, methods=["GET"])


def _send(request: Request, path: Path, cache: str) -> Response:
    try:
        stat: Any = path.stat()
    except OSError:
        raise Refused(404, "There is nothing here.") from None
    etag = f'"{hashlib.sha256(f"{stat.st_mtime_ns}-{stat.st_size}".encode()).hexdigest()[:20]}"'
    headers = {"Cache-Control": cache, "ETag": etag}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return FileResponse(path, media_type=CONTENT_TYPES[path.suffix], headers=headers)
