"""Algorithm 1 with heads on a frozen body: f_a on S, POD on S, all strengths at once.

A `Plan` says which heads are trained (each with its strength) and on whose answers: a *trajectory* is one sequence of
questions with one annotated set S, asked by one head. A human campaign has one trajectory that all strengths share;
the paper's curve has one per strength.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.data.blocks import is_large
from apod.data.dataset import UNKNOWN, IntArray
from apod.errors import InputError
from apod.fairness.notions import Notion
from apod.heads.bank import HeadBank
from apod.maxmin import Coverage
from apod.method.algorithm1 import VANILLA, Answered, Answers, Ask, Question, put
from apod.method.choice import GATE, Gate, HeadChoice, RoundHeads, RoundScores, choose_head, choose_rounds, score_heads
from apod.method.pod import (
    DRAWN_ROWS,
    DrawnPenaltyRows,
    PenaltyRows,
    Round,
    Training,
    draw_round,
    pretrain_head,
    train_heads,
)
from apod.method.pool import Pool, first_choices_until_done, in_blocks, write_answers
from apod.method.proxy import PROXIES, LaplaceProxy, Proxy
from apod.method.selection import SELECTORS, Scores, View
from apod.method.settings import Settings
from apod.method.theorem1 import BoundTerms, theorem_terms
from apod.randomness import generator

CHOICE_ROWS = 20_000
"""Validation rows that a choice by posterior looks at: each is weighed by every draw."""

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class HeadPlan:
    """One head: how strongly it is penalised, and over whose answers."""

    strength: float
    trajectory: int = 0


@dataclass(frozen=True)
class TrajectoryPlan:
    """One sequence of questions: chosen by which rule, looking at which head."""

    selector: str
    head: int


@dataclass(frozen=True)
class Plan:
    """Heads and trajectories of one bank."""

    heads: tuple[HeadPlan, ...]
    trajectories: tuple[TrajectoryPlan, ...]

    @classmethod
    def from_settings(cls, settings: Settings) -> Plan:
        """One trajectory for all strengths, or one each; strengths in ascending order."""
        strengths, asking = sorted(settings.strengths), settings.asking_strength
        if asking is None:
            return cls.separate(strengths, settings.selector)
        return cls.shared(strengths, settings.selector, asking)

    @classmethod
    def shared(cls, strengths: Sequence[float], selector: str, ask_strength: float) -> Plan:
        """One trajectory; the questions come from the head nearest to `ask_strength`."""
        asking = int(np.argmin([abs(s - ask_strength) for s in strengths])) + 1
        heads = (HeadPlan(VANILLA), *(HeadPlan(s) for s in strengths))
        return cls(heads, (TrajectoryPlan(selector, asking),))

    @classmethod
    def separate(cls, strengths: Sequence[float], selector: str) -> Plan:
        """One trajectory, S and budget per strength, as in the paper's curves."""
        heads = (HeadPlan(VANILLA), *(HeadPlan(s, t) for t, s in enumerate(strengths)))
        return cls(heads, tuple(TrajectoryPlan(selector, t + 1) for t in range(len(strengths))))


class Mitigation:
    """The state of Algorithm 1 for all heads and trajectories of a plan."""

    gate: Gate = GATE  # what is required of a head that the posterior of f_a chooses

    def __init__(
        self,
        pool: Pool,
        plan: Plan,
        training: Training,
        pretrained: npt.NDArray[np.float64] | None = None,
        coverage: Callable[[], Coverage] | None = None,
    ) -> None:
        """`coverage` opens the distances over the pool's embeddings elsewhere; by default here."""
        self.pool, self.plan, self.training = pool, plan, training
        start = pretrain_head(pool, training) if pretrained is None else pretrained
        width = pool.embeddings.shape[1]
        self.heads = HeadBank.replicate(start, len(plan.heads), (width, *training.hidden, 2), pool.embeddings.dtype)
        self.strengths = torch.tensor([head.strength for head in plan.heads], dtype=torch.float64)
        self.proxy: Proxy = PROXIES[training.proxy](
            len(plan.trajectories), pool.seen.shape[1], pool.n_groups, pool.seed, pool.dataset, pool.seen.dtype
        )
        self.answers = [Answers() for _ in plan.trajectories]
        covered = coverage or (lambda: Coverage(pool.embeddings.numpy()))
        self.coverage = [covered() for _ in plan.trajectories]
        self.round = 0
        self.closed: tuple[int, ...] = ()

    def begin_with(self, known: Answers, closed: Sequence[int] = ()) -> None:
        """Start from groups that were handed in; nobody is asked about `closed`."""
        self.closed = tuple(closed)
        for trajectory in range(len(self.answers)):
            self.answers[trajectory] = known
            self.coverage[trajectory].add(list(known.rows))

    @property
    def posterior_covers(self) -> bool:
        """Whether what the posterior of f_a says of a gap may be shown: its intervals are known to cover."""
        return isinstance(self.proxy, LaplaceProxy) and self.proxy.covers

    @property
    def _of_head(self) -> list[int]:
        """The trajectory of every head."""
        return [head.trajectory for head in self.plan.heads]

    @property
    def notion(self) -> Notion:
        """What is equalised, and what heads are judged by."""
        return self.training.penalty.notion

    def refit(self) -> None:
        """One round of training: f_a on S, then POD on S, both continued from the last round."""
        self.proxy.fit(self.pool.seen, self.answers)
        drawn = draw_round(self.pool, self.training, self.round)
        train_heads(self.heads, drawn.pool, drawn.training, self.round, self.strengths, self._penalty_rows(drawn))
        self.round += 1

    def _penalty_rows(self, drawn: Round) -> PenaltyRows | None:
        penalty, of_head = self.training.penalty, self._of_head
        if penalty.over == "pool":
            return DrawnPenaltyRows(drawn.pool, penalty.notion, self._pool_membership(of_head, drawn))
        if not any(len(answers.known()[0]) for answers in self.answers):
            return None
        if len(self.answers) == 1 and len(self.answers[0]) > DRAWN_ROWS:  # nearly everybody is known: S is a pool
            everybody = torch.zeros(1, len(self.pool.labels), self.pool.n_groups, dtype=self.pool.embeddings.dtype)
            known = self._with_answers(everybody, Round(self.pool, self.training))
            rows = torch.from_numpy(np.unique(self.answers[0].known()[0]))
            return DrawnPenaltyRows(self.pool, penalty.notion, known, rows)
        return PenaltyRows(self.pool, penalty.notion, self.answers, of_head)

    def _pool_membership(self, of_head: Sequence[int], drawn: Round) -> Tensor:
        """(T, N, G) proxies over the pool, replaced by the answer where there is one."""
        membership = self._with_answers(self.membership(drawn.pool.seen), drawn)
        return membership if len(self.answers) == 1 else membership[list(of_head)]

    def _with_answers(self, membership: Tensor, drawn: Round) -> Tensor:
        """Membership (T, N, G) with what was answered written over it."""
        for own, answers in zip(membership, self.answers, strict=True):
            rows, groups = answers.known()
            here, places = drawn.places(rows)
            write_answers(own, places, groups[here], answers.trust()[here])
        return membership

    def membership(self, seen: Tensor) -> Tensor:
        """(T, N, G) group probabilities by each trajectory's f_a, of people as it sees them (`Pool.seen`)."""
        if is_large(len(seen)):
            return in_blocks(self.proxy.probabilities, seen)
        return self.proxy.probabilities(seen)

    def score(self, known: IntArray | None = None) -> RoundScores:
        """What the validation part says of every head now, groups by f_a; `known` (V,) are those that are known."""
        membership = self._known(self.membership(self.pool.validation_seen), known)[self._of_head]
        return score_heads(self.pool, self.heads, self.strengths, membership, self.notion)

    def choose(
        self, bank: HeadBank, known: IntArray | None = None, more: int = 0, judged_on: Pool | None = None
    ) -> HeadChoice:
        """The head that the posterior of f_a speaks for; `known` (V,) are groups of validation rows, UNKNOWN elsewhere.

        With `more`, what it would say after so many further answers if they bear f_a out. `judged_on` has another
        validation part than the pool's own.
        """
        pool, draws = self._draws(judged_on or self.pool, known, more)
        return choose_head(pool, bank, self.strengths, draws, self.notion, self.gate)

    def choose_rounds(self, heads: RoundHeads, known: IntArray | None = None) -> None:
        """Keep every head as it was at the round that the posterior of f_a speaks for; `known` as in `choose`."""
        pool, draws = self._draws(self.pool, known)
        choose_rounds(pool, heads, self.heads.sizes, self.strengths, draws, self.notion, self.gate)

    def _draws(self, pool: Pool, known: IntArray | None, more: int = 0) -> tuple[Pool, Tensor]:
        """The rows that heads are judged on, and (D, K or 1, V, G) their groups by draws from the posterior."""
        if not isinstance(self.proxy, LaplaceProxy):
            raise InputError("This proxy has no posterior to choose a head by: use the proxy 'laplace'.")
        step = -(-len(pool.validation_labels) // CHOICE_ROWS) or 1  # evenly spaced rows stand for very many
        pool = pool.every(step)
        to_come = more * self.proxy.next_information(self.pool.seen) if more else 0.0
        draws = self.proxy.draws(pool.validation_seen, to_come)  # (D, T, V, G)
        draws = self._known(draws, None if known is None else known[::step])
        return pool, draws if len(self.answers) == 1 else draws[:, self._of_head]

    @staticmethod
    def _known(membership: Tensor, groups: IntArray | None) -> Tensor:
        """Membership (..., V, G) with the groups (V,) that are known written over it."""
        if groups is not None:
            rows = np.flatnonzero(groups != UNKNOWN)
            write_answers(membership, rows, groups[rows])
        return membership

    def empty_cells(self) -> list[list[tuple[int, int]]]:
        """Per trajectory, the (group, label) cells nobody has been annotated in: they do not enter the penalty."""
        labels = self.pool.labels.numpy()
        return [answers.empty_cells(labels, self.pool.n_groups) for answers in self.answers]

    def views(self, unavailable: Sequence[int] = ()) -> list[View]:
        """What the selector of each trajectory may see now."""
        labels = self.pool.labels.numpy()
        scores = cache(lambda: self._scores([trajectory.head for trajectory in self.plan.trajectories]))

        def of_trajectory(number: int) -> Scores:
            positive, membership = scores()
            return positive[number].numpy(), membership[number].numpy()

        views = []
        for number, answers in enumerate(self.answers):
            askable = np.ones(len(labels), dtype=bool)
            askable[[*answers.rows, *self.closed, *unavailable]] = False
            looked_at = partial(of_trajectory, number)
            views.append(View(labels, askable, looked_at, self.coverage[number], self.pool.likeness))
        return views

    def _scores(self, asking: Sequence[int]) -> tuple[Tensor, Tensor]:
        """(T, N) P(y = 1) by each trajectory's asking head, and (T, N, G) its f_a, over the pool."""

        def positive(rows: Tensor) -> Tensor:
            return self.heads.margins(rows, asking).sigmoid()

        def both(rows: Tensor) -> Tensor:
            return torch.cat([positive(rows)[..., None], self.proxy.probabilities(rows)], 2)

        embeddings = self.pool.embeddings
        if not is_large(len(embeddings)):
            return positive(embeddings), self.membership(self.pool.seen)
        if self.pool.inputs is not None:
            return in_blocks(positive, embeddings), self.membership(self.pool.inputs)
        found = in_blocks(both, embeddings)  # one sweep for both
        return found[..., 0].contiguous(), found[..., 1:]

    def bound(self, trajectory: int = 0) -> BoundTerms:
        """Theorem 1 for the asking head of a trajectory, groups by proxy where nobody answered."""
        head, pool = self.plan.trajectories[trajectory].head, self.pool
        margin = self.heads.margins(pool.embeddings, [head])[0].double()
        rows, groups = self.answers[trajectory].likeliest()
        return theorem_terms(
            embedding=pool.embeddings.numpy(),
            losses=torch.nn.functional.softplus(torch.where(pool.labels == 1, -margin, margin)).numpy(),
            answered_rows=rows,
            answered_groups=groups,
            proxy_groups=self.membership(pool.seen)[trajectory].argmax(dim=1).numpy(),
            n_groups=pool.n_groups,
            weights=self.heads.weights(head),
            distances=self.coverage[trajectory].distances,
        )

    def ask(self, k: int = 1, unavailable: Sequence[int] = ()) -> list[Question]:
        """The next k questions of every trajectory (AIS, Algorithm 3)."""
        questions = []
        for number, view in enumerate(self.views(unavailable)):
            selector = self.plan.trajectories[number].selector
            rng = generator(self.pool.seed, "select", selector, self.pool.dataset, self.round)
            questions += [Question(number, self.round, choice) for choice in SELECTORS[selector](view, k, rng)]
        return questions

    def first_answers(self, ask: Ask, budget: int) -> list[Answered]:
        """Random answers, balanced by label, until every group has been seen."""
        return first_answers(self, ask, budget)

    def add_answer(self, trajectory: int, row: int, group: int, weight: float = 1.0) -> None:
        """Add one answer to a trajectory's S; UNKNOWN = asked, but the annotator could not tell."""
        self.answers[trajectory] = self.answers[trajectory].plus(row, group, weight)
        if group != UNKNOWN:
            self.coverage[trajectory].add([row])

    def arrays(self) -> Arrays:
        """What training has made of heads and f_a, by name."""
        arrays = {f"heads.{name}": value for name, value in self.heads.state().items()}
        return arrays | {f"proxy.{name}": value for name, value in self.proxy.state().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], round_: int) -> None:
        """Take over saved heads and f_a, after so many rounds; answers are the caller's."""
        self.heads.restore(_under(arrays, "heads."))
        self.proxy.restore(_under(arrays, "proxy."))
        self.round = round_


def _under(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def first_answers(
    mitigation: Mitigation, ask: Ask, budget: int, trajectories: Sequence[int] | None = None
) -> list[Answered]:
    """Random answers, balanced by label, until every group has been seen; the same rows for all these trajectories."""
    asking = range(len(mitigation.answers)) if trajectories is None else trajectories
    if not asking:
        return []

    def groups_seen() -> int:
        return min(len(mitigation.answers[trajectory].groups_seen()) for trajectory in asking)

    closed = {*mitigation.closed, *(row for number in asking for row in mitigation.answers[number].rows)}
    return [
        put(mitigation, ask, Question(trajectory, 0, choice))
        for choice in first_choices_until_done(mitigation.pool, budget, groups_seen, closed)
        for trajectory in asking
    ]
