"""The application: routes, guards, pages and the hub, put together for one campaign.

Pages hold no data: they are the same for everybody, and their scripts ask the API.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, Response, StreamingResponse

from apod.campaign import Campaign
from apod.errors import InputError
from apod.web import annotator_routes, owner_routes, reviewer_routes, security, self_report_routes
from apod.web.annotator_routes import progress_body
from apod.web.context import ResponseCache, Server, ServerContext
from apod.web.downloads import Downloads
from apod.web.errors import Refused, add_handlers, described
from apod.web.events import Hub
from apod.web.security import Anybody, SecurityMiddleware
from apod.web.settings import Attempts, Bucket, ServeSettings

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
_PAGES = {
    "/": "annotate.html",
    "/enter": "enter.html",
    "/dashboard": "dashboard.html",
    "/review": "review.html",
    "/self-report": "self-report.html",
}
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


API = "/api/v1"
THREADS = 64  # handlers at work at once; the campaign lets those who wait share one commit


def create_app(campaign: Campaign, settings: ServeSettings | None = None) -> FastAPI:
    """The web application of a campaign. The caller opens the campaign and closes it."""
    settings = settings or ServeSettings()
    limits = settings.limits

    def progress() -> dict[str, object]:
        body = progress_body(campaign.progress()).model_dump()
        del body["mine"]
        return body

    hub = Hub(campaign, progress, limits)
    downloads = Downloads(campaign, hub.download_changed)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        campaign.wake()
        yield
        hub.stop()
        downloads.stop()

    app = FastAPI(
        title="apod",
        version=version("apod-fairness"),
        summary="Annotate a campaign, and watch what the answers achieve.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.server = ServerContext(
        campaign=campaign,
        settings=settings,
        hub=hub,
        pace=Bucket(limits.requests_per_second, limits.burst),
        attempts=Attempts(campaign.owner.access, limits),
        cookie=cookie_name(campaign),
        responses=ResponseCache(campaign),
        downloads=downloads,
    )
    for router in (
        security.router,
        annotator_routes.router,
        _events,
        reviewer_routes.router,
        self_report_routes.router,
        owner_routes.router,
    ):
        app.include_router(router, prefix=API, responses=described(404, 409, 415))
    app.include_router(page_routes())
    add_handlers(app)
    app.add_middleware(SecurityMiddleware, settings=settings)
    return app


def cookie_name(campaign: Campaign) -> str:
    """One name per campaign: browsers keep apart neither ports nor several servers on one machine."""
    return "apod_" + hashlib.sha256(f"{campaign.store.label}\x1f{campaign.name}".encode()).hexdigest()[:8]


_events = APIRouter(tags=["events"])


@_events.get("/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
async def events(server: Server, who: Anybody) -> StreamingResponse:
    """Server-sent events: `progress`; `refit`, `access`, `download`, `stale` for the owner; `bye` at the end."""
    if server.hub.full(who):
        raise Refused(429, "Too many event streams are open: close some tabs.", retry_after=10)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(server.hub.stream(who), media_type="text/event-stream", headers=headers)
