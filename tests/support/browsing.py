"""A real browser over a real server: what the browser tests share."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apod.campaign import Campaign
from apod.web.server import listen, make_runner
from apod.web.settings import ServeSettings
from support.waiting import PATIENCE, until

GROUPS = ["female", "male"]
PHONE = {"viewport": {"width": 390, "height": 760}, "is_mobile": True, "has_touch": True}
QUIET = [
    "--no-sandbox",  # tests may run as root
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--disable-dev-shm-usage",
]
QUICK: dict[str, Any] = {
    "preset": "heads",
    "body_epochs": 2,
    "epochs": 4,
    "batch_size": 16,
    "strengths": [0.1, 0.5, 2.0],
}


@contextmanager
def chromium() -> Iterator[Any]:
    """The machine's Chromium; without it the tests skip, saying so."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser tests")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium on this machine: the pages are not tested in a browser")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET)
        yield browser
        browser.close()


def table(rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Generated applications and what was decided on them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "experience_years": rng.integers(0, 30, rows),
            "hours_per_week": rng.integers(10, 50, rows),
            "field_of_study": rng.choice(["Nursing", "Engineering"], rows),
            "expected_salary (EUR)": rng.integers(300, 900, rows) * 100,
        }
    )
    hired = frame["experience_years"] + rng.normal(0, 6, rows) > 14
    return frame, np.where(hired, "hired", "rejected")


def new_campaign(folder: Path, *, rows: int = 80, budget: int = 6, **settings: Any) -> Campaign:
    """A small campaign with the real engine."""
    frame, labels = table(rows)
    display = settings.pop("display", frame)
    options = {"groups": GROUPS, "engine_options": QUICK, "positive": "hired", "legal_basis": "Consent", **settings}
    options.setdefault("guidelines", "Decide by the application alone.")
    return Campaign.create(folder / "trial.db", frame, labels, budget=budget, display=display, **options)


@dataclass
class Site:
    """A campaign being served."""

    campaign: Campaign
    origin: str

    def link(self, name: str = "maria", role: str = "annotator") -> str:
        """A fresh one-time link."""
        return f"{self.origin}/enter#{self.campaign.owner.access.grant(name, role, 'link', 1.0).token}"

    def recorded(self) -> list[tuple[str, str | None]]:
        """Row and answer of everything that stands, in the order of the questions."""
        export = self.campaign.store.path.with_suffix(".csv")  # type: ignore[union-attr]
        self.campaign.owner.export(export)
        frame = pd.read_csv(export, dtype=str)
        return list(zip(frame["row"], frame["group"].fillna(frame["outcome"]), strict=True))


def answer(site: Site, answers: list[str], annotator: str = "bob") -> None:
    """Answer as a program would, and wait until a model knows it."""
    for given in answers:
        question = site.campaign.ask(annotator)
        assert question is not None
        site.campaign.tell(question, given)
    until(lambda: site.campaign.owner.results.history() and not site.campaign.status().behind)


@contextmanager
def serving(campaign: Campaign, port: int = 0) -> Iterator[Site]:
    """Serve a campaign from a thread of this process."""
    settings = ServeSettings(port=port)
    listening = listen(settings)
    settings = replace(settings, port=listening.getsockname()[1])
    runner = make_runner(campaign, settings)
    thread = threading.Thread(target=lambda: runner.run(sockets=[listening]), daemon=True)
    thread.start()
    try:
        yield Site(campaign, settings.origin)
    finally:
        runner.should_exit = True
        thread.join(PATIENCE)
        listening.close()
        campaign.close()


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


KEEP_TOASTS = """
window.toasts = [];
addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("toast");
  const keep = () => { if (!box.hidden) window.toasts.push(box.textContent); };
  const all = { attributes: true, characterData: true, childList: true, subtree: true };
  if (box) new MutationObserver(keep).observe(box, all);
});
"""


@dataclass
class Visit:
    """One person's browser window; what it complained about and whom it called is kept."""

    context: Any
    page: Any
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    cut: bool = False  # whether the test broke the connection, so that failed requests are no complaint

    def watch(self, page: Any) -> None:
        """Note errors and requests of a page."""
        page.on("console", lambda message: self._console(message))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.hosts.add("/".join(request.url.split("/")[:3])))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not (self.cut and "Failed to load resource" in message.text):
            self.complaints.append(f"{message.type}: {message.text}")

    def enter(self, link: str) -> None:
        """Open a link, and use it up by a click."""
        self.page.goto(link)
        self.page.locator("#enter").click()
        self.page.wait_for_url(lambda url: "/enter" not in url)

    def tab(self) -> Any:
        """Another tab of the same person."""
        page = self.context.new_page()
        self.watch(page)
        return page

    def stored(self) -> list[str]:
        """Answers kept in this browser."""
        return list(self.page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('apod.outbox.'))"))

    def heading(self) -> str:
        """What the sheet is headed with: the case, or why there is none."""
        return str(self.page.locator("#heading").inner_text())

    def case(self, other_than: str = "") -> str:
        """The case on the screen, once it is another than the one before."""
        self.page.wait_for_function(
            """(before) => document.querySelector('#case .case') !== null
                           && document.querySelector('#heading').textContent !== before""",
            arg=other_than,
        )
        self.page.wait_for_timeout(220)  # a key answers only what has been on the screen for a moment
        return self.heading()

    def press(self, key: str) -> str:
        """Answer the case at hand by a key; which case it was."""
        shown = self.heading()
        self.page.keyboard.press(key)
        return shown.removeprefix("Case ")

    def says(self, text: str, where: str = "body") -> None:
        """Wait until the page says so; a toast may have gone again when a busy machine gets round to looking."""
        if where == "#toast":
            self.page.wait_for_function("(text) => window.toasts.some((said) => said.includes(text))", arg=text)
            self.page.evaluate("() => { window.toasts.length = 0; }")
        else:
            self.page.locator(where).get_by_text(text).first.wait_for(timeout=1000 * PATIENCE)

    def delivered(self) -> None:
        """Wait until nothing is on its way."""
        self.page.wait_for_function("() => !Object.keys(localStorage).some((key) => key.startsWith('apod.outbox.'))")


def window(browser: Any, **options: Any) -> Any:
    """A browser of somebody's own that waits as long as a busy machine needs."""
    context = browser.new_context(**options)
    context.set_default_timeout(1000 * PATIENCE)
    return context


@contextmanager
def visit(browser: Any, site: Site, name: str = "maria", role: str = "annotator", **options: Any) -> Iterator[Visit]:
    """Open a fresh link in a window of its own; in the end nothing went wrong and no other host was called."""
    context = window(browser, **options)
    context.add_init_script(KEEP_TOASTS)
    found = Visit(context, context.new_page())
    found.watch(found.page)
    try:
        found.enter(site.link(name, role))
        if role == "annotator" and site.campaign.rules().guidelines:
            found.page.locator("#guidelines button.main").click()  # shown on first entry
        yield found
        assert found.complaints == []
        assert found.hosts <= {site.origin}
    finally:
        context.close()
