"""What a campaign asks of the numerics: fit a model on the answers, propose whom to ask about next.

A campaign holds no mathematics. It hands an `Engine` the answers so far and takes back a model and proposals; it
stores models as plain arrays and never looks into them. An engine is built by an `EngineFactory` from the campaign's
`Materials` (features, labels, settings), lazily: a process that only records answers never builds one.

Invariants an engine keeps (`apod.testing.EngineContract` checks them):

- `fit` and `propose` are functions of their arguments, the materials and the seed; they change nothing, so that a
  question can be proposed from the last model while the next one is being fitted in another thread;
- `fit(answers, start=None)` is the canonical fit from the pre-trained head: the same answers in the same order give
  the same model, whatever happened before;
- `propose` returns at most k different rows, best first, none of them in `unavailable`;
- rows in `materials.held_out()` are for the audit: they are neither learnt from nor proposed;
- `load(model.state())` proposes exactly what `model` proposes.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NotRequired, Protocol, TypedDict, runtime_checkable

import numpy.typing as npt

from apod.campaign.json_types import OutcomeJson
from apod.campaign.state import Proposal
from apod.errors import InputError
from apod.files import Unchecked

if TYPE_CHECKING:
    from apod.campaign.materials import Materials


@dataclass(frozen=True)
class GroupAnswer:
    """One row's group as far as it is known: a row several people disagree about appears once per group.

    The weights of a row's entries sum to 1: they are the probability of each group given all answers on that row. With
    several attributes, those of each attribute that was told.
    """

    row: int
    group: int = field(repr=False)  # code into the attribute's groups; never printed
    weight: float = 1.0
    attribute: int = 0  # which of the campaign's attributes it is a group of


@dataclass(frozen=True, eq=False)
class ModelState:
    """A model as plain arrays and JSON: enough to continue from it and to propose with it."""

    arrays: Mapping[str, npt.NDArray[Any]]
    meta: Unchecked = field(default_factory=dict)


class DrawnPerson(TypedDict):
    """Somebody whose decision a frozen correction changes, drawn to be asked about."""

    row: int
    probability: float  # of that draw
    place: int  # on the grid of strengths, where the decision changes
    chance: float  # share of the groups the change is for, at its unfavourable limit
    favoured: list[bool]  # the groups it is for
    upward: bool  # newly decided 1


class Candidate(TypedDict):
    """A frozen correction as it is sealed in the log."""

    fingerprint: str
    weights: list[list[float]]
    shares: list[list[float]]
    direction: list[list[float]]
    place: int
    half: int
    people: list[DrawnPerson]
    planned: NotRequired[int]  # people that the budget allowed to verify by, all candidates together


@dataclass(frozen=True)
class Trial:
    """The candidate in force and how far its verification is."""

    event: int  # that froze it
    candidate: Candidate
    asked: frozenset[int]  # rows of its people who were asked about
    complete: bool

    @property
    def version(self) -> list[int]:
        """What a model must have been fitted with to be up to date."""
        return [self.event, int(self.complete)]


class Model(Protocol):
    """A fitted model; only its engine looks inside."""

    def state(self) -> ModelState:
        """Everything needed to load it again."""
        ...


class Engine(Protocol):
    """The numerics of one campaign. See the module's invariants."""

    def fit(self, answers: Sequence[GroupAnswer], start: Model | None) -> Model | None:
        """A model of these answers, warm-started where `start` is given; None while they are too few to fit one."""
        ...

    def load(self, state: ModelState) -> Model:
        """The model this state was taken from."""
        ...

    def propose(
        self, model: Model | None, answers: Sequence[GroupAnswer], unavailable: AbstractSet[int], k: int
    ) -> list[Proposal]:
        """Up to k rows to ask about next, best first. Without a model: the first questions, drawn at random."""
        ...


@runtime_checkable
class Hasty(Protocol):
    """An engine that can do without the whole canonical fit where somebody waits for the next question."""

    def fit_in_haste(self, answers: Sequence[GroupAnswer]) -> Any:
        """A model of these answers from the pre-trained head, to ask by until the canonical one is wanted."""
        ...


@runtime_checkable
class Measuring(Protocol):
    """An engine that can say what its models achieve; asked at every refit, for the owner's eyes."""

    def measure(self, model: Any, answers: Sequence[GroupAnswer]) -> OutcomeJson:
        """The trade-off after these answers, as JSON (`docs/serve.md` has its fields)."""
        ...


@runtime_checkable
class Auditable(Protocol):
    """What an engine offers besides, where a campaign is to be audited while it runs."""

    def decisions(self, model: Any, rows: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        """0/1 for these rows: "before", without mitigation."""
        ...

    def proxies(self, model: Any, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(n, g) P(group) of these rows by the training answers."""
        ...


@runtime_checkable
class Correcting(Protocol):
    """An engine whose latest model is what the campaign's classifier will be, at whatever strength.

    Its measurements name the operating point: "operating", a strength and why it is that one.
    """

    def decisions_at(self, model: Any, rows: npt.NDArray[Any], strength: float | None) -> dict[str, npt.NDArray[Any]]:
        """0/1 for these rows: "before", and "after" where the strength (None: the model's own) changes anything."""
        ...


@runtime_checkable
class Verifying(Protocol):
    """An engine whose corrections can be tried on fresh answers before they are applied."""

    def freeze(self, answers: Sequence[GroupAnswer], unavailable: AbstractSet[int], count: int) -> Candidate | None:
        """The correction that these answers chose, and so many people drawn from those whose decision it changes.

        None where there is no correction, or too few people to verify it by.
        """
        ...

    def fit_frozen(self, answers: Sequence[GroupAnswer], trial: Trial) -> Any:
        """The model of these answers that keeps this candidate, as far as it passed."""
        ...


@runtime_checkable
class Several(Protocol):
    """What an engine of several attributes offers besides, where a campaign is to be audited while it runs."""

    def proxies_of(self, attribute: int, model: Any, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(n, g) P(group) of these rows in one attribute by the training answers."""
        ...


EngineFactory = Callable[["Materials"], Engine]


def engine_name(factory: EngineFactory) -> str:
    """How another process finds the same factory."""
    module, name = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", "")
    if not module or module == "__main__" or not name.isidentifier():
        raise InputError("refit='process' needs an engine factory that can be imported: a function of a module.")
    return f"{module}:{name}"


def engine_folders(name: str) -> list[str]:
    """Where another process looks for a factory's module, beyond its own search path: nowhere for one of ours."""
    return [] if name.startswith("apod.") else [folder for folder in sys.path if folder]


def find_engine(name: str, folders: Sequence[str]) -> EngineFactory:
    """The factory that another process named. Its folders come last: they hide no module that is found without them."""
    sys.path += [folder for folder in folders if folder not in sys.path]
    module, _, attribute = name.partition(":")
    factory: EngineFactory = getattr(importlib.import_module(module), attribute)
    return factory
