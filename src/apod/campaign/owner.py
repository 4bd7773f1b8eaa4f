"""The owner's side of a campaign: letting people in, pausing, choosing the operating point, watching."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from apod.campaign.access import Access
from apod.campaign.dashboard import Dashboard, dashboard, pool_map
from apod.campaign.journal import Desk
from apod.campaign.operating_point import OperatingPoint, noted_at, operating_point, version_of
from apod.campaign.outcomes import Achieved, RefitNews, read_history, read_refit_news
from apod.campaign.session import Session
from apod.errors import InputError
from apod.files import write_private


class Owning(Session):
    """What only the owner of a campaign does."""

    @cached_property
    def access(self) -> Access:
        """Who may come in over the web."""
        return Access(self.store, self.materials.campaign)

    def note_address(self, origin: str) -> None:
        """Remember where the campaign is served, so that links lead there."""
        write_private(self._served_at, origin.encode())

    def address(self) -> str | None:
        """Where the campaign was served last; None where it never was."""
        try:
            return self._served_at.read_text(encoding="utf-8")
        except OSError:
            return None

    @property
    def _served_at(self) -> Path:
        return self.files.folder / f"served-at-{self.materials.campaign}.txt"

    def pause(self, paused: bool = True) -> None:
        """Ask nothing for now; answers to open questions are still taken. False resumes."""

        def command(desk: Desk) -> None:
            if desk.state.paused != paused:
                desk.append("paused", {"paused": paused})

        self.journal.submit(command)

    def choose(self, strength: float | None) -> None:
        """Set the operating point of `classifier()`: one of its strengths, or None to leave the choice to it."""
        known = self.strengths()
        if strength is not None and strength not in known:
            listed = ", ".join(f"{value:g}" for value in known)
            raise InputError(f"There is no head of strength {strength!r}: choose one of {listed}.")

        def command(desk: Desk) -> None:
            if desk.state.strength != strength:
                desk.append("chosen", {"strength": strength})

        self.journal.submit(command)

    def chosen(self) -> float | None:
        """The operating point the owner chose."""
        return self.journal.view(lambda connection, state, at: state.strength)

    def operating_point(self) -> OperatingPoint | None:
        """The strength the classifier of these answers decides at, and why; None until it was chosen or built."""
        return operating_point(self, self.version())

    def strengths(self) -> tuple[float, ...]:
        """The strengths of the latest model's heads, 0 for the one nobody penalises; none before the first model."""
        found = self.history(1)
        return tuple(float(point["strength"]) for point in found[-1].outcome["curve"]) if found else ()

    def outlook(self) -> list[dict[str, Any]] | None:
        """The gap to expect by the latest model, now and after more answers; None where nothing covers."""
        found: list[dict[str, Any]] | None = self.outlook_shown()["outlook"]
        return found

    def outlook_shown(self) -> dict[str, Any]:
        """The outlook, and why it is withheld where it is."""
        found = self.history(1)
        names = ("outlook", "outlook_withheld")
        return {name: found[-1].outcome[name] if found else None for name in names}

    def history(self, most: int = 200) -> list[Achieved]:
        """What the models achieved one after the other, the oldest first; evenly thinned where there are many."""
        with self.store.reading() as connection:
            return read_history(connection, self.materials.campaign, most)

    def dashboard(self) -> Dashboard:
        """Counts over time, what the models achieved, whom we asked and why, who answers how fast."""
        return dashboard(self)

    def pool_map(self) -> dict[str, Any] | None:
        """The pool in two dimensions with those we asked; None until the first model was measured."""
        return pool_map(self)

    def version(self) -> tuple[int, float | None]:
        """What the classifier depends on: the last event that changed what the answers say, and the operating point."""
        return version_of(self)

    def erased_values(self) -> int:
        """How many values were erased so far: what was computed when there were fewer may rest on one of them."""
        return self.journal.view(lambda connection, state, at: len(state.erased))

    def noted_at(self) -> int:
        """When a classifier was built last, in nanoseconds; -1: never."""
        return noted_at(self)

    def refit_news(self) -> RefitNews:
        """What was measured last, and how refits go."""
        with self.store.reading() as connection:
            return read_refit_news(connection, self.materials.campaign)
