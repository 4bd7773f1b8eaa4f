"""What a run keeps of every round: the curve, the answers and their reasons, what the posterior expects."""

from __future__ import annotations

from typing import Any

from apod.heads.bank import HeadBank
from apod.jsonable import number
from apod.method.algorithm1 import Answered, Mitigation
from apod.method.choice import BestHeads, HeadChoice, RoundHeads, RoundScores
from apod.method.outlook import WITHHELD, answered, as_expected, expected_gap, gain, is_enough, look_ahead
from apod.method.prepare import Prepared
from apod.method.settings import PER_STRENGTH, Settings
from apod.run import record

TESTED = ("accuracy", "balanced_accuracy", "gap")
"""What is said of the head that would be chosen, on the test part."""


class Recorder:
    """Scores and records every round of a mitigation, and keeps every head at its best."""

    def __init__(self, prepared: Prepared, mitigation: Mitigation, settings: Settings, budget: int) -> None:
        self._prepared, self._mitigation, self._settings, self._budget = prepared, mitigation, settings, budget
        self._posterior = settings.by_posterior
        self.best = RoundHeads(mitigation.heads) if self._posterior else BestHeads(mitigation.heads)
        self.rounds: list[dict[str, Any]] = []
        self.estimates: list[dict[str, Any] | None] = []  # of every round, as the posterior has them, shown or not
        self.answers: list[list[dict[str, Any]]] = [[] for _ in mitigation.plan.trajectories]
        self.bounds: list[list[dict[str, Any]]] = [[] for _ in mitigation.plan.trajectories]
        self.scores: list[dict[str, list[float | None]]] = []

    def take(self, heard: list[Answered], seconds: float) -> list[dict[str, Any]]:
        """Record one round after its refit; gives the new answers' entries."""
        mitigation, dataset = self._mitigation, self._prepared.dataset
        scores = mitigation.score()
        self.best.update(mitigation.heads, scores, mitigation.round - 1)
        if isinstance(self.best, RoundHeads):
            mitigation.choose_rounds(self.best)
        self._keep_scores(scores)
        entries = [self._answer(one) for one in heard]
        views = mitigation.views()
        for trajectory in range(len(views)):
            self.bounds[trajectory].append(record.bound_entry(self._prepared, mitigation, trajectory))
        if self.rounds:
            self.rounds[-1]["asked"] = [entry["row"] for entry in entries]
        curve = record.curve(self._prepared, mitigation, scores)
        self.estimates.append(self._estimate([*(entry["curve"] for entry in self.rounds), curve]))
        self.rounds.append(
            {
                "round": mitigation.round - 1,
                "answered": len(mitigation.answers[0]),
                "seconds": round(seconds, 4),
                "curve": curve,
                "subgroups": record.subgroups(dataset, mitigation, views[0], 0),
                "empty_cells": [
                    [dataset.group_names[group], dataset.label_names[label]]
                    for group, label in mitigation.empty_cells()[0]
                ],
                "estimate": self._shown(self.estimates[-1]),
                "asked": [],
            }
        )
        return entries

    def _estimate(self, curves: list[list[dict[str, Any]]]) -> dict[str, Any] | None:
        """What the posterior of f_a says of every head's gap after this round; None without a posterior."""
        if not self._posterior:
            return None
        choice = self._mitigation.choose(self._kept())
        plan, rounds = self._mitigation.plan.heads, self.best.round.tolist()
        heads = zip(plan, rounds, choice.gap, choice.low, choice.high, choice.better, strict=True)
        return {
            "heads": [
                {
                    "strength": head.strength,
                    "round": round_,
                    "gap": number(gap),
                    "interval": [number(low), number(high)],
                    "better": number(better),
                }
                for head, round_, gap, low, high, better in heads
            ],
            "strength": plan[choice.head].strength,
            "round": rounds[choice.head],
            "test": {name: curves[rounds[choice.head]][choice.head][name] for name in TESTED},
            "reason": choice.reason,
            "outlook": self._at_the_end(choice),
        }

    def _shown(self, estimate: dict[str, Any] | None) -> dict[str, Any] | None:
        """An estimate as it stands in result.json: without numbers that are known not to cover."""
        if estimate is None or self._mitigation.posterior_covers:
            return estimate and {**estimate, "withheld": None}
        unknown = {"gap": None, "interval": [None, None], "better": None}
        heads = [head | unknown for head in estimate["heads"]]
        return {**estimate, "heads": heads, "outlook": None, "withheld": WITHHELD}

    def _at_the_end(self, choice: HeadChoice) -> dict[str, Any] | None:
        """The gap to expect once the budget is spent, and what that gains over the gap to expect now."""
        if not self._settings.looks_ahead:
            return None
        now = as_expected(self._mitigation, choice, answered(self._mitigation))
        end = expected_gap(self._mitigation, self._kept(), self._budget)
        return end.to_dict() | {"gain": gain(now, end)}

    def enough(self) -> bool:
        """Whether the rest of the budget is no longer worth asking for."""
        if not self._settings.least_gain or not self.rounds:
            return False
        estimate = self.estimates[-1]
        gained = None if estimate is None else estimate["outlook"]["gain"]
        return is_enough(gained, self._settings.least_gain)

    def withheld(self) -> str | None:
        """Why no gap to expect is shown although there is a posterior; None where it is, or where there is none."""
        return WITHHELD if self._settings.looks_ahead and not self._mitigation.posterior_covers else None

    def outlook(self) -> list[dict[str, Any]] | None:
        """The gap to expect now and with more answers; None where no posterior that covers tells."""
        if not self._settings.looks_ahead or self.withheld():
            return None
        return [expected.to_dict() for expected in look_ahead(self._mitigation, self._kept())]

    def chosen(self) -> tuple[int, str | None]:
        """The selected head, and why, where a posterior chose it."""
        if not self._posterior:
            return self.best.best(self._mitigation.strengths), None
        choice = self._mitigation.choose(self._kept())
        return choice.head, choice.reason

    def _kept(self) -> HeadBank:
        return self.best.bank(self._mitigation.heads.sizes)

    def notes(self) -> list[str]:
        """That asking ended before the budget was spent, where it did."""
        asked = answered(self._mitigation)
        if not self.enough() or asked >= self._budget:
            return []
        return [
            f"Asking ended after {asked} of {self._budget} answers: the rest was expected to narrow the gap by less "
            f"than {self._settings.least_gain:g}."
        ]

    def _keep_scores(self, scores: RoundScores) -> None:
        columns = {"accuracy": scores.accuracy, "fairness": scores.fairness, "score": scores.score}
        self.scores.append({name: [number(v) for v in values] for name, values in columns.items()})

    def _answer(self, heard: Answered) -> dict[str, Any]:
        number = heard.question.trajectory
        plan = self._mitigation.plan
        strength = plan.heads[plan.trajectories[number].head].strength
        separate = self._settings.trajectories == PER_STRENGTH
        entry = record.answer_entry(
            self._prepared.dataset, self._prepared.split.train, heard, strength if separate else None
        )
        self.answers[number].append(entry)
        return entry

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint needs to go on recording."""
        return {name: getattr(self, name) for name in ("rounds", "estimates", "answers", "bounds", "scores")}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.rounds, self.estimates, self.answers = saved["rounds"], saved["estimates"], saved["answers"]
        self.bounds, self.scores = saved["bounds"], saved["scores"]
