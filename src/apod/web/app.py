"""The application: routes, guards and the hub, put together for one campaign."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

import anyio.to_thread
from fastapi import APIRouter, FastAPI
from fastapi.responses import StreamingResponse

from apod.campaign import Campaign
from apod.web import annotator_routes, owner_routes, security
from apod.web.annotator_routes import progress_body
from apod.web.context import ResponseCache, Server, ServerContext
from apod.web.downloads import Downloads
from apod.web.errors import Refused, add_handlers, described
from apod.web.events import Hub
from apod.web.limits import Attempts, Bucket
from apod.web.pages import page_routes
from apod.web.security import Anybody, SecurityMiddleware
from apod.web.settings import ServeSettings

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
        campaign.warm()
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
        attempts=Attempts(campaign.access, limits),
        cookie=cookie_name(campaign),
        responses=ResponseCache(campaign),
        downloads=downloads,
    )
    for router in (security.router, annotator_routes.router, _events, owner_routes.router):
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
