"""A run that keeps a model and corrects it: the default. After any round it is a function of the answers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.classifier import APODClassifier
from apod.classifier.deployment import classifier_of
from apod.data.blocks import LARGE, is_large
from apod.data.dataset import Dataset, IntArray, Split, check_parts
from apod.fairness.counts import effective_number
from apod.fairness.metrics import Thresholds
from apod.method.algorithm1 import Answered, Ask
from apod.method.attribute_mitigation import AttributeMitigation, answers_about
from apod.method.attributes import FittedAttributes
from apod.method.corrected import CorrectedModel, corrected, model_pool
from apod.method.correction_choice import Limits, affordable
from apod.method.correction_fit import STRENGTHS, FittedCorrection
from apod.method.gap_interval import GapEstimate
from apod.method.group_knowledge import contradiction, read_knowledge
from apod.method.model_mitigation import ModelMitigation
from apod.method.outlook import CorrectionOutlookJson, is_enough
from apod.method.plan import correction_outlook, expected_gain
from apod.method.settings import Settings
from apod.models.model import Fitted
from apod.report import result
from apod.report.measured import AttributeEstimate
from apod.run import record
from apod.run.approach import (
    Finished,
    Floats,
    Heard,
    fit_base_model,
    label_classes,
    split_parts,
    threshold_curve,
    unseen_groups,
    without_score,
)
from apod.run.attributes import cell_weights
from apod.run.checkpoint import Checkpoint, Recorded
from apod.run.record import VERIFYING
from apod.text import number

MOST_PLACES = 10
MOST_LOST = 0.05
"""Places of the path that lose more accuracy than this are of no use to anybody, and not reported."""
SHARES_EVERY = 16
"""Every so many-th draw says how many people are left of a group."""
STEADY = 0.7
"""A change that a smaller share of the draws would make is called arbitrary."""
NOBODY = "The base model is kept: nobody's group is known, so nothing can be said about a gap."


class CorrectionOfModel:
    """Fits a base model, or takes its scores, and corrects its margin after every round of answers."""

    def __init__(
        self, dataset: Dataset, settings: Settings, seed: int, score: str | None = None, budget: int | None = None
    ) -> None:
        """`score`: the column of the features that holds the scores of a model to keep; by default one is fitted.

        `budget`: answers to train on in all.
        """
        self.settings, self._seed, self._budget = settings, seed, budget
        self.split: Split = split_parts(dataset, seed)
        check_parts(dataset, self.split)
        self.dataset = dataset if score is None else without_score(dataset, score)
        self.fitted: Fitted = fit_base_model(dataset, self.split.train, settings, seed, score)
        given, seen = dataset.features, self.dataset.features
        parts = [(given.iloc[rows], dataset.labels[rows]) for rows in (self.split.train, self.split.validation)]
        reads = None if score is None else [seen.iloc[rows] for rows in (self.split.train, self.split.validation)]
        self._known = known = read_knowledge(settings, dataset.group_names, dataset.label_names)
        own = dataset.weights
        both = None if own is None else own[np.concatenate([self.split.train, self.split.validation])]
        self.pool = model_pool(self.fitted, parts[0], parts[1], reads, None if known is None else known.read_as, both)
        self._score, self._columns = score, [str(name) for name in given.columns]
        sizes = [len(one.names) for one in dataset.groupings]
        self.mitigation: ModelMitigation = (
            self.pool.attribute_mitigation(settings, sizes, seed, dataset.key, AttributeMitigation)
            if dataset.further
            else self.pool.mitigation(settings, sizes[0], seed, dataset.key, known)
        )
        self._frozen = ""  # fingerprint of the correction that was verified
        test = self.split.test
        self._test = self.pool.scored.score(given.iloc[test], None if score is None else seen.iloc[test])
        self._measured = record.Measured(self.dataset, test, self.mitigation.notion, seed)

    @property
    def corrected(self) -> CorrectedModel:
        """The model with the correction that the answers support, at the strength that is selected."""
        return corrected(self.pool.scored, self.mitigation.fitted)

    @property
    def places_on_path(self) -> list[int]:
        """Which of the path's places are reported."""
        found = self.mitigation.fitted
        if found is None:
            return []
        useful = np.flatnonzero(found.costs.accuracy[found.chosen.direction] <= MOST_LOST)
        last = max(found.chosen.strength, int(useful.max(initial=0)))
        step = -(-(last + 1) // MOST_PLACES)
        return list(range(found.chosen.strength % step, last + 1, step))

    @property
    def _strengths(self) -> list[float]:
        return [0.0, *(float(STRENGTHS[place]) for place in self.places_on_path)]

    @property
    def selected(self) -> int:
        """The operating point in use; 0 is the base model."""
        return self._strengths.index(self.corrected.strength)

    def round_entry(self) -> result.RoundByApproach:
        """The path of the leading correction, the subgroups, and what the answers say of the gap."""
        points = self._measured.curve(self._decided())
        strength, test = self._strengths[self.selected], points[self.selected]
        return {
            "curve": [
                {"strength": own, **point, "validation_score": None}
                for own, point in zip(self._strengths, points, strict=True)
            ],
            "subgroups": self._subgroups(),
            "empty_cells": record.named_cells(
                self.dataset,
                answers_about(self.mitigation).empty_cells(self._training_labels, len(self.dataset.group_names)),
            ),
            "estimate": self._estimate(),
            "choice": {
                "heads": None,
                "strength": strength,
                "round": self.mitigation.round - 1,
                "test": record.tested(test),
                "reason": self.mitigation.reason or NOBODY,
                "outlook": None,
                "withheld": None,
            },
        }

    @property
    def _training_labels(self) -> IntArray:
        return self.pool.labels[: self.pool.training]

    def _decided(self) -> npt.NDArray[Any]:
        decided = self.corrected.decisions(self._test, self._strengths)
        return np.asarray(decided == 1) if self.dataset.classes == 2 else decided

    def _subgroups(self) -> list[result.Subgroup]:
        """People who may still be asked about, by expectation: guesses say how probable a group is, not which it is."""
        labels, groups = self._training_labels, len(self.dataset.group_names)
        members = self.mitigation.membership(SHARES_EVERY)[: len(labels)]
        members[list(self.mitigation.answers[0].rows)] = 0
        each = range(self.dataset.classes)
        left = np.stack([members[labels == label].sum(axis=0) for label in each], axis=1).round().astype(np.int64)
        undefined = np.full((groups, len(each)), np.nan)
        return record.subgroups(self.dataset, labels, answers_about(self.mitigation), left, undefined)

    def _estimate(self) -> result.Estimate | None:
        """The gaps to expect on the test part, from the answers alone; None before anybody's group is known."""
        found = self.mitigation.fitted
        if found is None:
            return None
        estimate = cast(result.Estimate, self._gaps(found))
        if isinstance(found, FittedAttributes):
            names = [one.name for one in self.dataset.groupings]
            parts = zip(names, found.parts, strict=True)
            estimate["attributes"] = {name: self._gaps(part) for name, part in parts}
            estimate["intersections"] = None if found.crossed is None else self._gaps(found.crossed)
        return estimate

    def _gaps(self, found: FittedCorrection) -> AttributeEstimate:
        base, selected = found.estimates(len(self.split.test), self._seed)
        return {"base": _shown(base), "selected": _shown(selected)}

    def asking_strength(self, trajectory: int) -> None:
        """None: there is one path, and its answers are shared."""

    def enough(self) -> bool:
        """Whether the rest of the budget is expected to raise what the choice maximises by less than the least gain."""
        found, more = self.mitigation.fitted, self._left
        if (
            not self.settings.least_gain
            or found is None
            or not more
            or len(self.mitigation.answers[0].groups_seen()) < 2
        ):
            return False
        return is_enough(expected_gain(found, self.mitigation.limits, more), self.settings.least_gain)

    @property
    def _left(self) -> int:
        """Answers of the budget that were not asked for."""
        return 0 if self._budget is None else max(0, self._budget - self.mitigation.answers[0].asked)

    def save(self, checkpoint: Checkpoint, record: Recorded) -> None:
        """Nothing: the answers are the state."""

    def load(self, checkpoint: Checkpoint, heard: Heard, record: Recorded) -> None:
        """Nothing: rounds are run again with the answers already heard, and give the same to the bit."""

    def verify(self, count: int, ask: Ask, closed: Sequence[int], checkpoint: Checkpoint | None) -> list[Answered]:
        """Try the correction on fresh answers about people whose decision it changes, and keep what passes.

        Rows count from the training part on into the validation part; nobody is asked about `closed`. No answers where
        there is no correction to try.
        """

        def note(fingerprint: str) -> None:
            self._frozen = fingerprint
            if checkpoint is not None:
                checkpoint.freeze(fingerprint)

        return self.mitigation.verify(ask, count, closed, VERIFYING, note)

    def _verification(self) -> result.Verification | None:
        found = self.mitigation.verified
        if found is None:
            return None
        return {
            "verdict": found.verdict,
            "asked": found.asked,
            "favourable": found.favourable,
            "needed": found.needed,
            "strength": found.strength,
            "words": found.words(self.dataset.groupings[self.mitigation.verified_by].names, self.dataset.label_names),
            "fingerprint": self._frozen,
        }

    def finish(self) -> Finished:
        """The path of the leading correction; the base model is selected where none is worth it."""
        found = self.mitigation.fitted
        points: list[result.OperatingPoint] = [
            {"strength": strength, "round": self.mitigation.round - 1, "validation": None, "expected": None}
            for strength in self._strengths
        ]
        if found is not None:
            estimates = found.path_estimates(len(self.split.test), self._seed)
            points[0]["expected"] = _shown(estimates[0])
            for point, place in zip(points[1:], self.places_on_path, strict=True):
                point["expected"] = cast(result.Expected, _shown(estimates[1 + place]) | self._effect(found, place))
        facts: result.ApproachFacts = {
            "model": self._model(),
            "correction": None if found is None else self._correction(found),
            "verification": self._verification(),
            "estimate": self._estimate(),
            "outlook": None if found is None else self._outlook(found),
            "outlook_withheld": None,
            "bound": None,
            "thresholds": self._thresholds(),
        }
        return Finished(self._decided(), points, self.selected, self.mitigation.reason or NOBODY, 0, facts)

    def _model(self) -> result.Model:
        model = self.fitted.model
        return {
            "name": self.fitted.name,
            "kind": "standard" if self._score is None else "scores",
            "score": self._score,
            "cross_validated_accuracies": dict(self.fitted.accuracies),
            "threshold": float(model.threshold) if self.dataset.classes == 2 else None,
            "fingerprint": model.fingerprint,
        }

    def _thresholds(self) -> Thresholds | None:
        """What other thresholds would do on the test part, without and with the correction in use."""
        if self.dataset.classes > 2:  # the most probable label is decided for
            return None
        scores = [self.corrected.at(own).scores(self._test) for own in (0.0, self.corrected.strength)]
        return threshold_curve(self._measured, scores[0], scores[1], float(self.fitted.model.threshold))

    def _effect(self, found: FittedCorrection, place: int) -> result.CorrectionEffect:
        """What the leading direction is expected to do at one place of its path."""
        at, limits = (found.chosen.direction, place), Limits.from_settings(self.settings)
        costs = found.costs
        return {
            "fall": number(found.falls.mean[at]),
            "deviation": number(found.falls.deviation[at]),
            "probability": number(found.falls.improves[at]),
            "accuracy_lost": number(costs.accuracy[at]),
            "accuracy_error": number(costs.accuracy_error[at]),
            "balanced_accuracy_lost": number(costs.balanced[at]),
            "balanced_accuracy_error": number(costs.balanced_error[at]),
            "changed": number(costs.changed[at]),
            "affordable": bool(affordable(costs, limits)[at]),
        }

    def _correction(self, found: FittedCorrection) -> result.Correction:
        """The leading correction, applied or not."""
        place = found.chosen.strength
        return {
            "applied": found.chosen.applied,
            "strength": float(STRENGTHS[place]),
            "direction": cell_weights(self.dataset, found.correction),
            "worth": number(found.chosen.worth),
            **self._effect(found, place),
            "steadiness": _steadiness(found),
        }

    def _outlook(self, found: FittedCorrection) -> CorrectionOutlookJson:
        answers = self.mitigation.answers[0].asked + self._left
        return correction_outlook(found, self.mitigation.limits, answers, self._left)

    def sizes(self) -> Mapping[str, object]:
        """Nothing: a model is kept."""
        return {}

    def notes(self) -> list[str]:
        """Groups that no answer named, and what is assumed of scores that were given."""
        names, notes = self.dataset.group_names, []
        unseen = ", ".join(names[code] for code in unseen_groups(self, 0))
        if unseen:
            notes.append(f"Nobody of {unseen} was found by the answers: what is said of them is assumed, not known.")
        if is_large(len(self.dataset)):
            sizes = (len(rows) for rows in (self.split.train, self.split.validation, self.split.test))
            train, validation, test = sizes
            notes.append(
                f"Of {len(self.dataset):,} people {train:,} were drawn at random to train on and to ask about, "
                f"{validation:,} to judge on and {test:,} to report on: there are more than {LARGE:,}."
            )
        if self._left and self.enough():
            asked, least = self.mitigation.answers[0].asked, self.settings.least_gain
            notes.append(
                f"Asking ended after {asked} of {self._budget} answers: the rest was expected to gain less than "
                f"{least:g} (expected fall of the gap minus caution times its deviation)."
            )
        contradicted = contradiction(self._known, self.pool.labels, *answers_about(self.mitigation).known())
        notes += [] if contradicted is None else [contradicted]
        if self.dataset.weights is not None:
            effective = effective_number(self.dataset.weights[self.split.test])
            notes.append(
                f"Rows are weighted by {self.dataset.weight!r}: rates, gaps, accuracies and their intervals are of the "
                f"people that rows stand for. The {len(self.split.test):,} people of the test part tell as much as "
                f"{effective:,.0f} of equal weight. Numbers of people are rows."
            )
        if self._score is not None:
            notes.append(
                f"The column {self._score!r} holds the model's scores. They should be of people whom the model was "
                "not trained on, or the model looks better here than it is."
            )
        return notes

    def guessed_groups(self, trajectory: int) -> Floats:
        """(n_test, G) by f_a of x alone; even shares before anybody's group is known."""
        found, groups = self.mitigation.fitted, len(self.dataset.group_names)
        if found is None:
            return np.full((len(self._test), groups), 1 / groups)
        return found.members(self._test.inputs)

    @cached_property
    def _ordinary(self) -> npt.NDArray[np.float32]:
        population = self.mitigation.population
        return population.columns[: population.training, : population.reader.ordinary_count]

    def classifier(self) -> APODClassifier:
        """The model as it was selected, ready to predict and to be saved."""
        classes, positive = label_classes(self.dataset)
        return classifier_of(
            self.pool,
            self.mitigation,
            self.settings,
            name=self.fitted.name,
            columns=self._columns,
            classes=classes,
            positive=positive,
            group_names=self.dataset.group_names,
            named=not self.dataset.embedded,
            attributes={one.name: one.names for one in self.dataset.groupings} if self.dataset.further else None,
        )

    def places(self) -> Floats:
        """The training part as f_a reads it."""
        return self._ordinary.astype(np.float64)

    def positive(self, rows: pd.DataFrame, place: int) -> Floats:
        """The corrected model's scores, shifted so that its threshold is at 1/2; of two labels alone."""
        model = self.corrected.at(self._strengths[place])
        scores = model.scores(model.score_people(rows)) - self.fitted.model.threshold + 0.5
        return np.asarray(scores.clip(0, 1))

    def randomly(self, place: int) -> Settings:
        """The same with random questions."""
        return replace(self.settings, selector="random")


def _steadiness(found: FittedCorrection) -> result.Steadiness:
    """Of the people whose decision changes, how many changes hang on what the answers leave open."""
    steady = found.steadiness()[found.changed()]
    return {"changed": len(steady), "arbitrary": int((steady < STEADY).sum()), "below": STEADY}


def _shown(estimate: GapEstimate) -> result.Expected:
    return {"gap": number(estimate.gap), "interval": [number(estimate.low), number(estimate.high)]}
