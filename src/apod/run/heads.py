"""A run that trains heads on a frozen body: the paper's way, all strengths of the penalty at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from apod.classifier import APODClassifier
from apod.classifier.deployment import classifier_of_heads
from apod.classifier.fitting import BY_SCORE, FittedHeads, head_tradeoff
from apod.data.blocks import steps_per_round
from apod.data.dataset import Dataset, Split
from apod.heads.bank import HeadBank
from apod.method.algorithm1 import Answered, Ask
from apod.method.choice import BestHeads, HeadChoice, RoundHeads, RoundScores
from apod.method.head_mitigation import Mitigation, Plan
from apod.method.outlook import WITHHELD, OutlookJson, answered, as_expected, expected_gap, gain, is_enough, look_ahead
from apod.method.pod import Training
from apod.method.prepare import Prepared
from apod.method.selection import View, centred_accuracies
from apod.method.settings import PER_STRENGTH, SHARED, Settings
from apod.report.result import (
    ApproachFacts,
    Bound,
    Choice,
    CurvePoint,
    HeadGap,
    OperatingPoint,
    PosteriorChoice,
    RoundByApproach,
    Subgroup,
    ValidationScores,
)
from apod.run import record
from apod.run.approach import Finished, Floats, Heard, label_classes, unseen_groups
from apod.run.checkpoint import Checkpoint, Recorded, RecordedHeads
from apod.text import number


class HeadsOnBody:
    """Trains all strengths' heads, scores them after every round and keeps every head at its best."""

    def __init__(self, prepared: Prepared, settings: Settings, budget: int, seed: int) -> None:
        self.prepared, self.settings, self._budget = prepared, settings, budget
        self.mitigation = Mitigation(
            prepared.pool, Plan.from_settings(settings), Training.from_settings(settings, self.dataset.task.hidden)
        )
        self._measured = record.Measured(self.dataset, self.split.test, self.mitigation.notion, seed)
        self.best = RoundHeads(self.mitigation.heads) if settings.by_posterior else BestHeads(self.mitigation.heads)
        self.choices: list[PosteriorChoice | None] = []  # of every round, as the posterior has them, shown or not
        self.bounds: list[list[Bound]] = [[] for _ in self.mitigation.plan.trajectories]
        self.scores: list[dict[str, list[float | None]]] = []
        self._curves: list[list[CurvePoint]] = []

    @property
    def dataset(self) -> Dataset:
        """Everybody."""
        return self.prepared.dataset

    @property
    def split(self) -> Split:
        """The three parts."""
        return self.prepared.split

    @property
    def kept(self) -> HeadBank:
        """Every head at its best round."""
        return self.best.bank(self.mitigation.heads.sizes)

    @property
    def selected(self) -> int:
        """The head that head selection chooses."""
        return self._chosen()[0]

    def round_entry(self) -> RoundByApproach:
        """The curve of all heads, the subgroups, what the posterior would choose."""
        mitigation, dataset = self.mitigation, self.dataset
        scores = mitigation.score()
        self.best.update(mitigation.heads, scores, mitigation.round - 1)
        if isinstance(self.best, RoundHeads):
            mitigation.choose_rounds(self.best)
        self._keep_scores(scores)
        views = mitigation.views()
        for trajectory in range(len(views)):
            self.bounds[trajectory].append(record.bound_entry(dataset, mitigation, trajectory))
        self._curves.append(self._curve(scores))
        self.choices.append(self._choice())
        return {
            "curve": self._curves[-1],
            "subgroups": self._subgroups(views[0]),
            "empty_cells": record.named_cells(dataset, mitigation.empty_cells()[0]),
            "estimate": None,  # the posterior of these heads' f_a does not cover
            "choice": self._shown(self.choices[-1]),
        }

    def _curve(self, scores: RoundScores) -> list[CurvePoint]:
        points = self._measured.curve(self._decided(self.mitigation.heads))
        heads = zip(self.mitigation.plan.heads, points, scores.score, strict=True)
        return [{"strength": head.strength, **point, "validation_score": number(s)} for head, point, s in heads]

    def _decided(self, bank: HeadBank) -> npt.NDArray[np.bool_]:
        return np.asarray((bank.margins(self.prepared.test) > 0).numpy())

    def _subgroups(self, view: View) -> list[Subgroup]:
        names, proxy = self.dataset.group_names, view.proxy
        centred = centred_accuracies(view.labels, view.predicted, proxy, len(names), view.askable)
        left = np.array(
            [
                [(view.askable & (proxy == group) & (view.labels == label)).sum() for label in (0, 1)]
                for group in range(len(names))
            ]
        )
        return record.subgroups(self.dataset, view.labels, self.mitigation.answers[0], left, centred)

    def _choice(self) -> PosteriorChoice | None:
        """What the posterior of f_a says of every head's gap after this round; None without a posterior."""
        if not self.settings.by_posterior:
            return None
        choice = self.mitigation.choose(self.kept)
        plan, rounds = self.mitigation.plan.heads, self.best.round.tolist()
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
            "test": record.tested(self._curves[rounds[choice.head]][choice.head]),
            "reason": choice.reason,
            "outlook": self._at_the_end(choice),
        }

    def _shown(self, choice: PosteriorChoice | None) -> Choice | None:
        """A choice as it stands in result.json: without numbers that are known not to cover."""
        if choice is None:
            return None
        if self.mitigation.posterior_covers:
            return {**choice, "withheld": None}
        heads: list[HeadGap] = [
            {**head, "gap": None, "interval": [None, None], "better": None} for head in choice["heads"] or ()
        ]
        return {**choice, "heads": heads, "outlook": None, "withheld": WITHHELD}

    def _at_the_end(self, choice: HeadChoice) -> OutlookJson | None:
        """The gap to expect once the budget is spent, and what that gains over the gap to expect now."""
        if not self.settings.looks_ahead:
            return None
        now = as_expected(self.mitigation, choice, answered(self.mitigation))
        end = expected_gap(self.mitigation, self.kept, self._budget)
        return {**end.to_dict(), "gain": gain(now, end)}

    def asking_strength(self, trajectory: int) -> float | None:
        """The strength whose head asks, where every strength has a trajectory of its own."""
        plan = self.mitigation.plan
        separate = self.settings.trajectories == PER_STRENGTH
        return plan.heads[plan.trajectories[trajectory].head].strength if separate else None

    def enough(self) -> bool:
        """Whether the rest of the budget is no longer worth asking for."""
        if not self.settings.least_gain or not self.choices:
            return False
        outlook = None if self.choices[-1] is None else self.choices[-1]["outlook"]
        gained = None if outlook is None else outlook.get("gain")
        return is_enough(gained, self.settings.least_gain)

    def save(self, checkpoint: Checkpoint, record: Recorded) -> None:
        """Save heads, f_a and what was recorded of them."""
        own: RecordedHeads = {**record, "choices": self.choices, "bounds": self.bounds, "scores": self.scores}
        checkpoint.save(self.mitigation, self.best, own)

    def load(self, checkpoint: Checkpoint, heard: Heard, record: Recorded) -> Recorded | None:
        """Take up the heads of the last round saved."""
        saved = checkpoint.load(self.mitigation, self.best, heard)
        if saved is not None:
            self.choices, self.bounds, self.scores = saved["choices"], saved["bounds"], saved["scores"]
            self._curves = [entry["curve"] for entry in saved["rounds"]]
        return saved

    def verify(self, count: int, ask: Ask, closed: Sequence[int], checkpoint: Checkpoint | None) -> list[Answered]:
        """Heads are not verified: nothing is asked."""
        return []

    def _chosen(self) -> tuple[int, str | None]:
        """The selected head, and why, where a posterior chose it."""
        if not self.settings.by_posterior:
            return self.best.best(self.mitigation.strengths), None
        choice = self.mitigation.choose(self.kept)
        return choice.head, choice.reason

    def finish(self) -> Finished:
        """Every head at its best round, and the one that head selection chooses."""
        plan = self.mitigation.plan
        selected, reason = self._chosen()
        trajectory = plan.heads[selected].trajectory
        withheld = WITHHELD if self.settings.looks_ahead and not self.mitigation.posterior_covers else None
        points: list[OperatingPoint] = []
        for k, head in enumerate(plan.heads):
            kept_round = int(self.best.round[k])
            accuracy, fairness, score = (self.scores[kept_round][name][k] for name in ("accuracy", "fairness", "score"))
            validation: ValidationScores = {"accuracy": accuracy, "fairness": fairness, "score": score}
            points.append({"strength": head.strength, "round": kept_round, "validation": validation, "expected": None})
        facts: ApproachFacts = {
            "model": None,
            "correction": None,
            "verification": None,
            "estimate": None,
            "outlook": None if withheld or not self.settings.looks_ahead else self._outlook(),
            "outlook_withheld": withheld,
            "thresholds": None,
            "bound": self.bounds[trajectory],
        }
        return Finished(self._decided(self.kept), points, selected, reason, trajectory, facts)

    def _outlook(self) -> list[OutlookJson]:
        """The gap to expect now and with more answers."""
        return [expected.to_dict() for expected in look_ahead(self.mitigation, self.kept)]

    def sizes(self) -> Mapping[str, object]:
        """The sizes of what is trained."""
        task, settings = self.dataset.task, self.settings
        steps = steps_per_round(len(self.split.train), settings.epochs, settings.batch_size)
        return {"embedding": task.embedding, "hidden": list(task.hidden), "steps_per_round": steps}

    def notes(self) -> list[str]:
        """Groups and cells that the penalty could not act on, and whether asking ended early."""
        names, labels, trajectory = (
            self.dataset.group_names,
            self.dataset.label_names,
            self.mitigation.plan.heads[self.selected].trajectory,
        )
        unseen, notes = unseen_groups(self, trajectory), []
        if len(unseen):
            found = ", ".join(names[code] for code in unseen)
            notes.append(f"Nobody of {found} was found by the answers: the penalty could not act on that group.")
        for group, label in self.mitigation.empty_cells()[trajectory]:
            if group not in unseen:
                where = f"{names[group]} with label {labels[label]}"
                notes.append(f"Nobody of {where} was annotated: that cell contributed nothing to the penalty.")
        asked = answered(self.mitigation)
        if self.enough() and asked < self._budget:
            notes.append(
                f"Asking ended after {asked} of {self._budget} answers: the rest was expected to narrow the gap by "
                f"less than {self.settings.least_gain:g}."
            )
        return notes

    def guessed_groups(self, trajectory: int) -> Floats:
        """(n_test, G) by the trajectory's f_a."""
        return np.asarray(self.mitigation.membership(self.prepared.seen_of_test)[trajectory].double().numpy())

    def classifier(self) -> APODClassifier:
        """Every head at its best round, ready to predict and to be saved; the selected one decides."""
        plan, heads, (chosen, because) = self.mitigation.plan, range(len(self.kept)), self._chosen()
        classes, positive = label_classes(self.dataset)
        assert positive is not None  # heads of more than two labels were refused
        rounds = self.best.round
        scored = [[self.scores[rounds[head]][what][head] for head in heads] for what in ("accuracy", "fairness")]
        accuracy, fairness = (np.array(values, dtype=np.float64) for values in scored)  # None: NaN
        names = self.dataset.group_names
        state = FittedHeads(
            classes,
            positive,
            self.prepared.encoder,
            self.prepared.body,
            self.kept,
            np.array([head.strength for head in plan.heads]),
            head_tradeoff(self.mitigation, self.kept, rounds, accuracy, fairness, names),
            plan.heads[chosen].strength,
            because or BY_SCORE,
        )
        columns = [str(name) for name in self.dataset.features.columns]
        return classifier_of_heads(
            state,
            self.settings,
            self.dataset.task,
            self.mitigation.pool.seed,
            columns=columns,
            group_names=names,
            named=not self.dataset.embedded,
        )

    def places(self) -> Floats:
        """Embeddings of the training part."""
        return np.asarray(self.mitigation.pool.embeddings.double().numpy())

    def positive(self, rows: pd.DataFrame, place: int) -> Floats:
        """By one of the kept heads."""
        embedded = torch.from_numpy(self.prepared.body.embed(self.prepared.encoder.transform(rows)))
        return np.asarray(self.kept.margins(embedded, [place])[0].sigmoid().double().numpy())

    def randomly(self, place: int) -> Settings:
        """The same strength alone; where the plain head stayed, what a penalty would have done."""
        strength = self.mitigation.plan.heads[place].strength or self.settings.ask_strength
        return replace(
            self.settings, selector="random", strengths=(strength,), ask_strength=strength, trajectories=SHARED
        )

    def _keep_scores(self, scores: RoundScores) -> None:
        columns = {"accuracy": scores.accuracy, "fairness": scores.fairness, "score": scores.score}
        self.scores.append({name: [number(v) for v in values] for name, values in columns.items()})
