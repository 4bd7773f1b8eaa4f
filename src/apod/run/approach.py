"""What a run can be about, behind one protocol: heads trained on a body, or a model that is kept and corrected.

`run_experiment` asks, counts, keeps answers, measures and writes the result; an approach prepares the people, trains,
and says what it would decide. Both see a group only after it was answered.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.classifier import APODClassifier
from apod.data.blocks import is_large
from apod.data.dataset import UNKNOWN, Dataset, IntArray, Split, answer_code, drawn_parts, split_rows
from apod.data.own import require_column
from apod.errors import InputError
from apod.fairness.metrics import ThresholdPoint, Thresholds, metric_table
from apod.method.algorithm1 import Alternating, Answered, Answers, Ask
from apod.method.annotators import Annotator
from apod.method.attribute_mitigation import answers_about
from apod.method.group_knowledge import columns_named
from apod.method.settings import Settings
from apod.models.model import Fitted, fit_scores, probabilities_of, selecting
from apod.models.standard import CANDIDATES, fit_standard
from apod.report.result import Answer, ApproachFacts, OperatingPoint, Round, RoundByApproach
from apod.run.checkpoint import Checkpoint, Recorded
from apod.run.record import Measured, answer_entry
from apod.text import number

BoolArray = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
LARGE_PARTS = (100_000, 50_000, 200_000)
"""Of a pool above `blocks.LARGE` rows so many people are drawn to train on, to judge on and to report on: the sampling
error of a gap among them is far below what any number of answers leaves open."""

Heard = Mapping[tuple[int, int], int]
"""Answers of an interrupted run, by trajectory and row."""


@dataclass(frozen=True, eq=False)
class Finished:
    """What a run ends with: the base model and every operating point, and which of them is selected."""

    decided: npt.NDArray[Any]  # (K, n_test) decisions on the test part, the base model's first; bool of two labels
    points: list[OperatingPoint]  # (K,) what result.json says of each beside its metrics
    selected: int
    reason: str | None  # why that one
    trajectory: int  # whose answers it was trained on
    facts: ApproachFacts  # what result.json says of this approach alone


class Approach(Protocol):
    """One way to mitigate."""

    @property
    def mitigation(self) -> Alternating:
        """Algorithm 1."""
        ...

    @property
    def settings(self) -> Settings:
        """All settings."""
        ...

    @property
    def dataset(self) -> Dataset:
        """Everybody."""
        ...

    @property
    def split(self) -> Split:
        """The three parts."""
        ...

    def round_entry(self) -> RoundByApproach:
        """What result.json says of the round that just ended, beside its number, its answers and its time."""
        ...

    def asking_strength(self, trajectory: int) -> float | None:
        """The strength that a trajectory belongs to; None where all share one."""
        ...

    def enough(self) -> bool:
        """Whether the rest of the budget is no longer worth asking for."""
        ...

    def save(self, checkpoint: Checkpoint, record: Recorded) -> None:
        """Save what the answers alone do not say of the state after a round."""
        ...

    def load(self, checkpoint: Checkpoint, heard: Heard, record: Recorded) -> Recorded | None:
        """Take up the state after the last round saved, and give its record; None where rounds are run again."""
        ...

    def verify(self, count: int, ask: Ask, closed: Sequence[int], checkpoint: Checkpoint | None) -> list[Answered]:
        """Try what was chosen on fresh answers, about rows of the training and then the validation part.

        It is frozen first, its hash kept in the checkpoint.
        """
        ...

    def finish(self) -> Finished:
        """The operating points after the last round."""
        ...

    def sizes(self) -> Mapping[str, object]:
        """Sizes of what is trained, beside the settings."""
        ...

    def notes(self) -> list[str]:
        """What a reader should know about this run."""
        ...

    def guessed_groups(self, trajectory: int) -> Floats:
        """(n_test, G) group probabilities of the test part, by guess."""
        ...

    def classifier(self) -> APODClassifier:
        """What was selected, ready to predict and to be saved."""
        ...

    def places(self) -> Floats:
        """(n_train, M) the training part as distances between people are measured."""
        ...

    def positive(self, rows: pd.DataFrame, place: int) -> Floats:
        """(n,) P(positive label) of new people by one of the operating points; above 1/2 where it is predicted."""
        ...

    def randomly(self, place: int) -> Settings:
        """The settings of the same run with random questions, to compare this operating point with."""
        ...


class Recorder:
    """What a run keeps of every round: who was asked and why, and what the approach says of itself."""

    def __init__(self, approach: Approach) -> None:
        self._approach = approach
        self.rounds: list[Round] = []
        self.answers: list[list[Answer]] = [[] for _ in approach.mitigation.answers]

    def take(self, heard: list[Answered], seconds: float) -> list[Answer]:
        """Record one round after its refit; gives the new answers' entries."""
        mitigation = self._approach.mitigation
        entries = [self._answer(one) for one in heard]
        if self.rounds:
            self.rounds[-1]["asked"] = [entry["row"] for entry in entries]
        self.rounds.append(
            {
                "round": mitigation.round - 1,
                "answered": mitigation.answers[0].asked,
                "seconds": round(seconds, 4),
                **self._approach.round_entry(),
                "asked": [],
            }
        )
        return entries

    def take_verifying(self, heard: Sequence[Answered]) -> None:
        """Record the answers that verified what was chosen."""
        split = self._approach.split
        rows = np.concatenate([split.train, split.validation])
        self.answers[0] += [answer_entry(self._approach.dataset, rows, one, None) for one in heard]

    def _answer(self, heard: Answered) -> Answer:
        approach, trajectory = self._approach, heard.question.trajectory
        strength = approach.asking_strength(trajectory)
        entry = answer_entry(approach.dataset, approach.split.train, heard, strength)
        self.answers[trajectory].append(entry)
        return entry

    def to_dict(self) -> Recorded:
        """What a checkpoint needs to go on recording."""
        return {"rounds": self.rounds, "answers": self.answers}

    def restore(self, saved: Recorded) -> None:
        """Resume from a checkpoint."""
        self.rounds, self.answers = saved["rounds"], saved["answers"]


def measured(approach: Approach, seed: int) -> Measured:
    """The test part, as it is reported on."""
    return Measured(approach.dataset, approach.split.test, approach.mitigation.notion, seed)


def handed_in(dataset: Dataset, rows: IntArray, annotator: Annotator | None) -> tuple[Answers, list[int]]:
    """Of a part's people: whose group is handed in, and about whom nobody can be asked, because records are blank."""
    untold, groupings = np.full(len(rows), UNKNOWN), dataset.groupings
    each = [untold if one.known is None else one.known[rows] for one in groupings]
    sizes = [len(one.names) for one in groupings]
    places = np.flatnonzero(np.any([own != UNKNOWN for own in each], axis=0))
    codes = tuple(answer_code([int(own[place]) for own in each], sizes) for place in places)
    known = Answers(tuple(places.tolist()), codes, handed_in=len(places))
    blank = np.all([one.codes[rows] == UNKNOWN for one in groupings], axis=0)
    return known, np.flatnonzero(blank).tolist() if annotator is None else []


def answers_notes(approach: Approach, trajectory: int) -> list[str]:
    """What a reader should know about the answers and the records."""
    notes, dataset = [], approach.dataset
    answers = approach.mitigation.answers[trajectory]
    for attribute, grouping in enumerate(dataset.groupings):
        untold = answers_about(approach.mitigation, trajectory, attribute).groups[answers.handed_in :].count(UNKNOWN)
        about = f" about {grouping.name}" if dataset.further else ""
        if untold:
            notes.append(
                f"{untold} of {answers.asked} answers{about} could not be given; they count against the budget."
            )
    if answers.handed_in:
        notes.append(
            f"{answers.handed_in} groups of the training part were handed in and cost nothing. What is guessed of "
            "everybody else assumes that, among people alike in the columns, being on record does not depend on the "
            "group."
        )
    for grouping in dataset.groupings:
        excluded = int((grouping.codes == UNKNOWN).sum())
        of = f" in {grouping.name}" if dataset.further else ""
        if excluded:
            notes.append(
                f"{excluded} of {len(dataset)} rows have no recorded group{of} and are left out of the group rates."
            )
    return notes


def label_classes(dataset: Dataset) -> tuple[npt.NDArray[Any], int | None]:
    """(K,) the labels as they stand in the table, in ascending order, and the place of the positive one of two."""
    values = dataset.label_values
    if len(values) > 2:
        return np.array(values), None  # in ascending order already
    kind = None if all(isinstance(value, str) for value in values) else type(values[1])
    return np.array(sorted(values), dtype=kind), sorted(values).index(values[1])


def check_many_labels(dataset: Dataset, settings: Settings, score: str | None, audit_share: float) -> None:
    """InputError where something was asked for that knows two labels only."""
    labels = f"and {dataset.name} has {dataset.classes} labels"
    if not settings.corrects:
        raise InputError(f"Heads on a body know two labels, {labels}: leave --body and its preset out.")
    if score is not None:
        raise InputError(f"A column of scores is of one of two labels, {labels}: leave --score out.")
    if settings.threshold is not None:
        raise InputError(f"A threshold tells two labels apart, {labels}: leave --threshold out.")
    if dataset.further:
        raise InputError(f"Several attributes are compared with two labels, {labels}: name one attribute.")
    if audit_share:
        raise InputError(f"An audit compares two labels, {labels}: leave --audit-share out.")


def unseen_groups(approach: Approach, trajectory: int) -> IntArray:
    """Codes of the groups that no answer named."""
    seen = answers_about(approach.mitigation, trajectory).groups_seen()
    return np.array([code for code in range(len(approach.dataset.group_names)) if code not in seen], dtype=np.int64)


def fit_base_model(dataset: Dataset, train: IntArray, settings: Settings, seed: int, score: str | None) -> Fitted:
    """The model to correct: the better standard model of the training part, or the scores that were given."""
    features, threshold = dataset.features, 0.5 if settings.threshold is None else settings.threshold
    if not 0 < threshold < 1:
        raise InputError(f"The threshold is {threshold:g}: scores between 0 and 1 need one between 0 and 1.")
    own = None if dataset.weights is None else dataset.weights[train] / dataset.weights[train].mean()
    if score is not None:
        probabilities_of(features[score], f"The column {score!r}")  # all rows: an error names the row in the file
        return selecting(fit_scores(features.iloc[train], score, threshold), settings.selection_rate, len(dataset), own)
    candidates = dict(list(CANDIDATES.items())[:1]) if dataset.embedded else CANDIDATES
    rows, labels, unread = features.iloc[train], dataset.labels[train], columns_named(settings.group_probability)
    fitted = fit_standard(rows, labels, seed, candidates=candidates, threshold=threshold, unread=unread, weights=own)
    return selecting(fitted, settings.selection_rate, len(dataset), own)


THRESHOLDS = 40
"""Points of the curve of the gap against the threshold."""


def threshold_curve(measured: Measured, base: Floats, selected: Floats, in_use: float) -> Thresholds:
    """What thresholds would do at which from 2 to 98 % of these people are selected by the base model; scores (n,).

    The threshold in use is among them. Nothing is chosen by it.
    """
    cuts = np.unique(np.append(np.quantile(base, np.linspace(0.98, 0.02, THRESHOLDS)), in_use))
    return {"in_use": in_use, "base": _at(measured, base, cuts), "selected": _at(measured, selected, cuts)}


def _at(measured: Measured, scores: Floats, cuts: Floats) -> list[ThresholdPoint]:
    counts, metrics = measured.counts(np.asarray(scores[None] > cuts[:, None])), metric_table(measured.notion)
    everyone = counts.overall
    rate, accuracy = everyone[..., 1].sum(-1) / everyone.sum((-2, -1)), metrics["accuracy"](counts)
    return [
        {"threshold": float(cut), "selection_rate": number(r), "accuracy": number(a), "gap": number(g)}
        for cut, r, a, g in zip(cuts, rate, accuracy, metrics["gap"](counts), strict=True)
    ]


def split_parts(dataset: Dataset, seed: int) -> Split:
    """The three parts; of a large pool so many of each as a correction needs, with everybody whose group is known."""
    split = split_rows(dataset.key, len(dataset), dataset.task.split, seed)
    if not is_large(len(dataset)):
        return split
    known = None if dataset.known is None else np.flatnonzero(dataset.known != UNKNOWN)
    return drawn_parts(split, LARGE_PARTS, seed, dataset.key, known)


def without_score(dataset: Dataset, score: str) -> Dataset:
    """The dataset without the column of scores: nobody may be shown it, and f_a does not read it."""
    require_column(score, list(map(str, dataset.features.columns)), f"{dataset.name}, which --score names")
    if len(dataset.features.columns) == 1:
        raise InputError(f"{score!r} is the only column: groups have to be guessed from others.")
    return replace(dataset, features=dataset.features.drop(columns=score))


class Stopwatch:
    """Seconds spent in each part of a run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._started = time.perf_counter()

    @contextmanager
    def time(self, part: str) -> Iterator[None]:
        """Add the time of the block to a part."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - start

    def report(self) -> dict[str, float]:
        """All parts and the total, in seconds."""
        parts = {f"{name}_seconds": round(seconds, 3) for name, seconds in self.seconds.items()}
        return {"total_seconds": round(time.perf_counter() - self._started, 3), **parts}
