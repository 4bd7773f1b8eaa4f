"""How each method trains: the arms by trainer. They differ in whom they ask and in the gradient of their loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor

from apod.bench.arm import Arm, RunName, Unit
from apod.bench.fairlearn_arms import ExponentiatedGradientArm, ThresholdOptimizerArm
from apod.bench.fal import FalArm
from apod.bench.objectives import GroupDro, learning_from_failure_slope
from apod.bench.rivals import CglArm, DfrArm, FairDsrArm, JttArm, SsaArm
from apod.heads.bank import HeadBank
from apod.method.algorithm1 import (
    HeadPlan,
    Mitigation,
    Plan,
    Question,
    TrajectoryPlan,
    first_answers,
    next_answers,
)
from apod.method.pod import DrawnPenaltyRows, train_heads
from apod.method.pool import Answers
from apod.randomness import generator


class PodArm:
    """POD with any selector: one trajectory and S per run; strength 0 is the vanilla head."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        self.runs, self._unit, self._oracle = runs, unit, unit.oracle()
        asking = [k for k, run in enumerate(runs) if run.method.selector is not None]
        trajectories = tuple(TrajectoryPlan(runs[k].method.selector or "random", k) for k in asking)
        place = {k: t for t, k in enumerate(asking)}
        heads = tuple(HeadPlan(run.value, place.get(k, 0)) for k, run in enumerate(runs))
        self.engine = Mitigation(
            unit.pool, Plan(heads, trajectories or (TrajectoryPlan("random", 0),)), unit.training, unit.pretrained
        )
        self._of_run, self._asking = place, asking
        self.heads = self.engine.heads

    def advance(self) -> None:
        """First answers in the first round, then one question per trajectory and round."""
        if self.engine.round == 0:
            self._begin()
        elif self._asking:  # an arm of vanilla heads alone asks nobody
            next_answers(self.engine, self._answer, self._unit.budget, 1)
        self.engine.refit()

    def _begin(self) -> None:
        upfront = [trajectory for trajectory, run in enumerate(self._asking) if self.runs[run].method.upfront]
        for trajectory in upfront:
            for row in self._at_random():
                self.engine.add_answer(trajectory, row, self._oracle(row))
        others = [trajectory for trajectory in range(len(self._asking)) if trajectory not in upfront]
        first_answers(self.engine, self._answer, self._unit.budget, others)

    def _answer(self, question: Question) -> int:
        return self._oracle(question.row)

    def _at_random(self) -> list[int]:
        """The whole budget in one random draw."""
        pool = self._unit.pool
        rng = generator(pool.seed, "select", "upfront", pool.dataset)
        return [int(row) for row in rng.choice(len(pool.labels), self._unit.budget, replace=False)]

    def validation_membership(self) -> Tensor:
        """By each run's own f_a."""
        of_head = [head.trajectory for head in self.engine.plan.heads]
        return self.engine.membership(self._unit.pool.validation)[of_head]

    def answers(self) -> list[Answers]:
        """Per run; the vanilla head uses none."""
        return [self.engine.answers[self._of_run[k]] if k in self._of_run else Answers() for k in range(len(self.runs))]


class AllKnownArm:
    """What arms with everybody's group in common have: an f_a learnt from all of the training part.

    Rows whose group is not on record take no part in the penalty (POD) or in the groups' losses (Group DRO).
    """

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        self.runs, self._unit, self._round = runs, unit, 0
        self.heads = unit.bank(len(runs))
        self._membership = unit.membership_by_everybody.expand(len(runs), -1, -1)

    def validation_membership(self) -> Tensor:
        """The validation part has no true groups here either."""
        return self._membership

    def answers(self) -> list[Answers]:
        """Everybody."""
        return [self._unit.everybody] * len(self.runs)


class PodAllArm(AllKnownArm):
    """POD with all groups known: the upper bound. The penalty is over a fresh draw of rows in every step."""

    def advance(self) -> None:
        """One round of POD over everybody."""
        unit = self._unit
        groups = torch.from_numpy(unit.groups)
        known = torch.nn.functional.one_hot(groups.clamp(min=0), unit.pool.n_groups)
        membership = known.to(unit.pool.embeddings.dtype)[None]
        recorded = torch.nonzero(groups >= 0).squeeze(1)
        rows = DrawnPenaltyRows(unit.pool, unit.training.penalty.notion, membership, recorded)
        strengths = torch.tensor([run.value for run in self.runs])
        train_heads(self.heads, unit.pool, unit.training, self._round, strengths, rows)
        self._round += 1


class GroupDroArm(AllKnownArm):
    """Group DRO: the groups' weights q follow their losses; the step size of q draws the curve."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        super().__init__(unit, runs)
        self._objective = GroupDro(torch.tensor([run.value for run in runs]), unit.pool.n_groups)

    def advance(self) -> None:
        """One round of min-max training."""
        labels, groups = self._unit.pool.labels, torch.from_numpy(self._unit.groups)
        objective = self._objective
        self._unit.train(
            self.heads,
            self._round,
            lambda margin, rows: objective.slope(margin, labels.index_select(0, rows), groups.index_select(0, rows)),
        )
        self._round += 1


class LffArm:
    """Learning from failure: a biased twin of every head tells it which rows to weigh more. No groups at all."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        self.runs, self._unit, self._round = runs, unit, 0
        self._twins = unit.bank(2 * len(runs))  # biased heads first, then the debiased ones
        self._powers = torch.tensor([run.value for run in runs])

    @property
    def heads(self) -> HeadBank:
        """The debiased heads."""
        return HeadBank(self._twins.parameters[len(self.runs) :], self._twins.sizes)

    def advance(self) -> None:
        """One round of both twins."""
        labels, powers = self._unit.pool.labels, self._powers
        self._unit.train(
            self._twins,
            self._round,
            lambda margin, rows: learning_from_failure_slope(margin, labels.index_select(0, rows), powers),
        )
        self._round += 1

    def validation_membership(self) -> None:
        """No groups: heads are kept by validation accuracy."""

    def answers(self) -> list[Answers]:
        """Nobody was asked."""
        return [Answers()] * len(self.runs)


ARMS: Mapping[str, Callable[[Unit, Sequence[RunName]], Arm]] = MappingProxyType(
    {
        "pod": PodArm,
        "pod-all": PodAllArm,
        "group-dro": GroupDroArm,
        "lff": LffArm,
        "fal": FalArm,
        "cgl": CglArm,
        "fairdsr": FairDsrArm,
        "ssa": SsaArm,
        "dfr": DfrArm,
        "jtt": JttArm,
        "exponentiated-gradient": ExponentiatedGradientArm,
        "threshold-optimizer": ThresholdOptimizerArm,
    }
)
"""Trainers by name."""
