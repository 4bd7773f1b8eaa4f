"""Every failure a user can meet, at a glance.

    ApodError
    ├── InputError            what was handed in cannot be used (also a ValueError)
    │   ├── TableProblems     everything that must be mended in a table, in one message
    │   ├── UnknownName       a dataset, method, selector, ... that does not exist; suggests the nearest
    │   └── BudgetError       more questions than people, or fewer than groups
    ├── DataUnavailable       a known dataset is not on this machine and could not be fetched
    ├── AnnotatorError        the annotator raised, or answered a group that does not exist
    ├── ClusterError          Ray is not installed, not reachable, or lost too much to go on
    ├── CheckpointError       a saved state is damaged, of another version, or of another run
    └── CampaignError         a campaign's database, files, questions and answers: see apod.campaign.errors

Messages are one line: what is wrong, with the value, and what to do; TableProblems has a line per problem. No message
ever holds a person's group.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any


class ApodError(Exception):
    """Base of all errors this package raises on purpose. Copies say the same: in other threads and processes too."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuilt from its message, whatever arguments its class takes."""
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[ApodError], args: tuple[Any, ...], state: dict[str, Any]) -> ApodError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InputError(ApodError, ValueError):
    """What was handed in cannot be used."""


class TableProblems(InputError):
    """Everything that must be mended in a table: one problem is one line, several are a numbered list."""

    def __init__(self, what: str, problems: Sequence[str] = ()) -> None:
        self.problems = tuple(problems) or (what,)
        lines = [f"\n  {number}. {problem}" for number, problem in enumerate(self.problems, start=1)]
        many = f"{what} has {len(lines)} problems:{''.join(lines)}"
        super().__init__(many if len(lines) > 1 else self.problems[0])


class UnknownName(InputError):
    """A name that stands in no table, with the nearest one that does."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}."
        super().__init__(f"There is no {kind} {name!r}: {hint}")


class BudgetError(InputError):
    """A budget the pool or the number of groups does not allow."""


class DataUnavailable(ApodError):
    """A known dataset is not on this machine and could not be fetched."""


class AnnotatorError(ApodError):
    """The annotator raised, or answered a group that does not exist."""


class ClusterError(ApodError):
    """Ray is not installed, not reachable, or lost too much to go on."""


class CheckpointError(ApodError):
    """A saved state is damaged, of another version, or of another run."""
