"""Everything a run can be told, with the paper's values; a preset is one row of `PRESETS`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from apod.errors import BudgetError, InputError, UnknownName
from apod.fairness.notions import NOTIONS
from apod.method.algorithm1 import Plan
from apod.method.penalty import OVER, RELAXATIONS, Penalty
from apod.method.pod import Training
from apod.method.pool import READS
from apod.method.proxy import PROXIES
from apod.method.score_choice import HEAD_CHOICES
from apod.method.selection import SELECTORS

STRENGTHS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0)
"""The grid of penalty strengths: the paper's range (0, 2]."""

BodyKind = Literal["contrastive", "cross_entropy", "precomputed"]

SHARED, PER_STRENGTH = "shared", "per strength"


@dataclass(frozen=True)
class Settings:
    """One way of running Algorithm 1."""

    selector: str = "apod"
    penalty: Penalty = field(default_factory=Penalty)
    proxy: str = "perceptron"
    proxy_reads: str = "embeddings"  # what f_a learns from; inputs: the encoded columns of a table
    head_choice: str = "score"  # the paper's; or the posterior of f_a, of a proxy that has one, with a gate
    strengths: tuple[float, ...] = STRENGTHS
    trajectories: str = SHARED  # one annotated set for all strengths, or one per strength
    ask_strength: float = 0.5  # whose head asks, where all strengths share one annotated set
    questions_per_round: int = 1
    least_gain: float = 0.0  # asking ends where the rest of the budget is expected to narrow the gap by less; 0 = never
    body: BodyKind = "contrastive"
    body_epochs: int = 50
    epochs: int = 10
    head_steps: int = 0  # the head is pre-trained for `epochs`, and for at least so many steps
    batch_size: int = 256
    dropout: float = 0.5

    def __post_init__(self) -> None:
        for kind, name, table in (
            ("selector", self.selector, SELECTORS),
            ("penalty", self.penalty.what, NOTIONS),
            ("relaxation", self.penalty.relaxation, RELAXATIONS),
            ("choice of whom the penalty is over", self.penalty.over, OVER),
            ("proxy", self.proxy, PROXIES),
            ("input of the proxy", self.proxy_reads, READS),
            ("way to choose the head", self.head_choice, HEAD_CHOICES),
            ("body", self.body, ("contrastive", "cross_entropy", "precomputed")),
            ("kind of trajectories", self.trajectories, (SHARED, PER_STRENGTH)),
        ):
            if name not in table:
                raise UnknownName(kind, name, table)
        if not self.strengths or not all(0 < s < float("inf") for s in self.strengths):
            raise InputError(
                f"Strengths must be positive numbers, got {list(self.strengths)}: leave 0 out, it is always trained."
            )
        if len(set(self.strengths)) != len(self.strengths):
            raise InputError(f"Strengths must differ from each other, got {list(self.strengths)}.")
        if not 0 < self.ask_strength < float("inf"):
            raise InputError(f"The asking strength must be a positive number, got {self.ask_strength}.")
        if not 0 <= self.dropout < 1 or self.batch_size < 1:
            raise InputError("Dropout must be at least 0 and below 1, the batch size at least 1.")
        if not 0 <= self.least_gain < 2:
            raise InputError(f"The least gain is {self.least_gain!r}: give a gap worth asking for, like 0.01, or 0.")
        if self.least_gain and not self.looks_ahead:
            raise InputError(
                "Only the default preset can end early: a least gain needs the proxy 'laplace', a head chosen by its "
                "posterior, and one set of answers for all strengths."
            )
        if self.questions_per_round < 1 or self.epochs < 1 or self.body_epochs < 1 or self.head_steps < 0:
            raise InputError("Questions per round and epochs must be at least 1, steps of the head at least 0.")

    @property
    def by_posterior(self) -> bool:
        """Whether the posterior of f_a chooses the head; a proxy without one leaves it to the score."""
        return self.head_choice == "posterior" and self.proxy == "laplace"

    @property
    def f_a_reads(self) -> str:
        """What f_a can read at most: where the columns are embeddings, there are no others."""
        return "embeddings" if self.body == "precomputed" else self.proxy_reads

    @property
    def looks_ahead(self) -> bool:
        """Whether the gap to expect after more answers can be told: by a posterior that all strengths share."""
        return self.by_posterior and self.trajectories == SHARED

    def plan(self) -> Plan:
        """The heads and trajectories these settings ask for; strengths in ascending order."""
        strengths = sorted(self.strengths)
        if self.trajectories == PER_STRENGTH:
            return Plan.separate(strengths, self.selector)
        return Plan.shared(strengths, self.selector, self.ask_strength)

    def training(self, hidden: tuple[int, ...]) -> Training:
        """How the heads are trained."""
        return Training(self.penalty, hidden, self.epochs, self.batch_size, self.dropout, self.proxy, self.head_steps)

    def to_dict(self) -> dict[str, Any]:
        """For result.json and the report."""
        shared, plan = self.trajectories == SHARED, self.plan()
        asking = plan.heads[plan.trajectories[0].head]
        return {
            "penalty": self.penalty.what,
            "relaxation": self.penalty.relaxation,
            "over": self.penalty.over,
            "selector": self.selector,
            "proxy": self.proxy,
            "proxy_reads": self.f_a_reads,
            "head_choice": "posterior" if self.by_posterior else "score",
            "strengths": sorted(self.strengths),
            "trajectories": self.trajectories,
            "ask_strength": asking.strength if shared else None,  # the head that asks is the nearest there is
            "questions_per_round": self.questions_per_round,
            "least_gain": self.least_gain,
            "body": self.body,
            "body_epochs": self.body_epochs,
            "epochs": self.epochs,
            "head_steps": self.head_steps,
            "batch_size": self.batch_size,
            "dropout": self.dropout,
        }


PRESETS: Mapping[str, Settings] = MappingProxyType(
    {
        "default": Settings(
            selector="typical",
            penalty=Penalty(relaxation="sharp", over="pool"),
            proxy="laplace",
            proxy_reads="inputs",
            head_choice="posterior",
            epochs=6,
            head_steps=300,
        ),
        "paper": Settings(trajectories=PER_STRENGTH),
    }
)
"""`paper`: the paper's settings to the letter, a trajectory per strength. `default`: what closes the gap with few
answers and leaves the head alone where the evidence is thin (docs/method.md)."""


def answers_allowed(budget: int | float, n_train: int, n_groups: int) -> int:
    """The budget as a count: a number below 1 is a share of the training part, rounded down."""
    if not 0 < budget < float("inf"):
        raise BudgetError(f"The budget must be positive, got {budget}: give a count of answers or a share below 1.")
    if budget >= 1 and budget != int(budget):
        raise BudgetError(f"A budget of {budget} is neither a whole number of answers nor a share below 1.")
    count = int(budget * n_train) if budget < 1 else int(budget)
    if count > n_train:
        raise BudgetError(
            f"A budget of {count} answers is more than the {n_train} rows of the training part: ask for fewer."
        )
    if count < n_groups:
        raise BudgetError(f"A budget of {count} answers is less than one per group ({n_groups} groups): allow more.")
    return count
