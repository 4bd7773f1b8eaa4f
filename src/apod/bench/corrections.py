"""The correction of a standard model in the comparison: the default, and the correction on other selectors' answers.

The base model is fitted once per unit, on the same parts as every body. A method's value is the largest loss of
accuracy that its correction may expect (balanced accuracy: half as much again), which draws its curve; the questions do
not depend on it, so one trajectory serves all values. The default is the value .01.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.bench.arm import RunName, Unit
from apod.bench.methods import ALL, NONE, PARTIAL, Method
from apod.bench.store import Part, Row
from apod.bench.unit import UnitData, answer_rows, failed_part, identity, metric_rows
from apod.fairness.metrics import fairness_score, group_counts
from apod.method.algorithm1 import Answered, Answers, Question, run_rounds
from apod.method.corrected import CorrectedModel, ModelPool, corrected, model_pool
from apod.method.correction_choice import choose
from apod.method.correction_fit import FittedCorrection
from apod.method.model_mitigation import ModelMitigation
from apod.method.settings import Settings
from apod.models.scored import Scored
from apod.models.standard import CANDIDATES, fit_standard
from apod.processes import blas_on_one_thread

CORRECTION = "correction"
"""The trainer of these methods."""
SHARES_EVERY = 16
"""Every so many-th draw says which group people of the validation part probably belong to."""
BALANCED = 1.5
"""Balanced accuracy may fall by so many times as much as accuracy."""

Progress = Callable[[int, int, str], None]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class People:
    """The three parts as the base model sees them."""

    pool: ModelPool  # training, then validation
    test: Scored
    data: UnitData

    @property
    def validation(self) -> Scored:
        """The validation part."""
        return self.pool.people.take(np.arange(self.pool.training, len(self.pool.people)))


@dataclass(frozen=True, eq=False)
class Round:
    """One refit: how many answers there were, and what every value's correction decides."""

    answered: int
    test: BoolArray  # (K, n_test)
    accuracy: npt.NDArray[np.float64]  # (K,) on the validation part
    fairness: npt.NDArray[np.float64]  # (K,) there, by probable groups


def run_corrections(data: UnitData, unit: Unit, runs: Sequence[RunName], progress: Progress) -> Part:
    """All runs of corrections of one unit; an exception becomes a failed row of each, never a missing one."""
    start = time.perf_counter()
    heads = [identity(data.dataset.name, data.fingerprint, data.seed, unit.training, run) for run in runs]
    try:
        with blas_on_one_thread:  # the same sums on every machine
            part = _part(data, unit, runs, heads, progress)
    except Exception as error:  # noqa: BLE001  recorded, not hidden
        part = failed_part(heads, error)
    seconds = (time.perf_counter() - start) / len(runs)
    return Part([{**row, "seconds": seconds} for row in part.runs], part.rounds, part.answers)


def _part(data: UnitData, unit: Unit, runs: Sequence[RunName], heads: Sequence[Row], progress: Progress) -> Part:
    people, part = _people(data), Part([], [], [])
    methods = dict.fromkeys(run.method for run in runs)
    for done, method in enumerate(methods):
        progress(done, len(methods), method.title)
        own = [(run.value, head) for run, head in zip(runs, heads, strict=True) if run.method == method]
        rounds, answers = _rounds(people, unit, method, [value for value, _ in own])
        for place, (_, head) in enumerate(own):
            _add(part, data, method, head, rounds, place, answers)
    return part


def _people(data: UnitData) -> People:
    """The base model, fitted on the training part, and everybody scored by it; pictures by their embeddings."""
    dataset, split = data.dataset, data.split
    embedded = dataset.features.shape[1] == 0
    frame = _named(data.embeddings.numpy()) if embedded else dataset.features
    candidates = dict(list(CANDIDATES.items())[:1]) if embedded else CANDIDATES
    fitted = fit_standard(frame.iloc[split.train], dataset.labels[split.train], data.seed, candidates=candidates)
    parts = [(frame.iloc[rows], dataset.labels[rows]) for rows in (split.train, split.validation)]
    pool = model_pool(fitted, parts[0], parts[1])
    return People(pool, pool.scored.score(frame.iloc[split.test]), data)


def _named(matrix: npt.NDArray[np.floating]) -> pd.DataFrame:
    return pd.DataFrame(matrix, columns=[f"x{place}" for place in range(matrix.shape[1])])


def _rounds(people: People, unit: Unit, method: Method, values: Sequence[float]) -> tuple[list[Round], Answers]:
    """What the corrections of all values decide after every refit, and the answers they rest on."""
    chosen: dict[str, Any] = {} if method.selector is None else {"selector": method.selector}
    data, oracle = people.data, unit.oracle()
    mitigation = people.pool.mitigation(Settings(**chosen), len(data.dataset.group_names), data.seed, data.dataset.key)
    rounds: list[Round] = []

    def on_round(_: list[Answered]) -> None:
        rounds.append(_round(people, mitigation, values))

    if method.annotation == NONE:
        on_round([])
    elif method.annotation == ALL:
        mitigation.begin_with(unit.everybody)
        mitigation.refit()
        on_round([])
    else:
        run_rounds(mitigation, lambda question: _answer(question, oracle), unit.budget, 1, on_round)
    return rounds, mitigation.answers[0]


def _answer(question: Question, oracle: Callable[[int], int]) -> int:
    return oracle(question.row)


def _round(people: People, mitigation: ModelMitigation, values: Sequence[float]) -> Round:
    dataset, fitted = people.data.dataset, mitigation.fitted
    models = [corrected(people.pool.scored, _within(fitted, mitigation, value)) for value in values]
    labels = people.pool.labels[people.pool.training :]
    decided = _decided(models, people.validation)
    fairness = np.full(len(values), np.nan)
    if fitted is not None:
        groups = mitigation.membership(SHARES_EVERY)[people.pool.training :].argmax(axis=1)
        counts = group_counts(labels, decided, groups, len(dataset.group_names))
        found = fairness_score(dataset.task.metric, counts, mitigation.notion, skip_undefined=True, warn=False)
        fairness = np.asarray(found)
    answered = len(mitigation.answers[0])
    return Round(answered, _decided(models, people.test), (decided == labels).mean(axis=1), fairness)


def _within(fitted: FittedCorrection | None, mitigation: ModelMitigation, value: float) -> FittedCorrection | None:
    """The correction that is chosen where so much accuracy may be lost."""
    if fitted is None:
        return None
    limits = replace(mitigation.limits, accuracy=value, balanced=BALANCED * value)
    return replace(fitted, chosen=choose(fitted.falls, fitted.costs, limits))


def _decided(models: Sequence[CorrectedModel], people: Scored) -> BoolArray:
    return np.stack([model.decisions(people)[0] == 1 for model in models])


def _add(
    part: Part, data: UnitData, method: Method, head: Row, rounds: Sequence[Round], place: int, answers: Answers
) -> None:
    """One run's rows: it is kept as it is after the last answer."""
    dataset, test = data.dataset, data.split.test
    decided = np.stack([one.test[place] for one in rounds])  # (rounds, n_test)
    metrics = metric_rows(group_counts(dataset.labels[test], decided, dataset.groups[test], len(dataset.group_names)))
    for number, (one, own) in enumerate(zip(rounds, metrics, strict=True)):
        part.rounds.append({**head, "round": number, "answered": one.answered, **own})
    last = rounds[-1]
    accuracy, fairness = float(last.accuracy[place]), float(last.fairness[place])
    part.runs.append(
        {
            **head,
            "status": "ok",
            "error": None,
            "round": len(rounds) - 1,
            "rounds": len(rounds),
            "answered": last.answered,
            "validation_accuracy": accuracy,
            "validation_fairness": fairness,
            "validation_score": accuracy if method.annotation == NONE else accuracy + fairness,
            **metrics[-1],
        }
    )
    if method.annotation == PARTIAL:
        part.answers.extend(answer_rows(data, head, answers.rows, answers.groups))
