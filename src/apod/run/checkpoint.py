"""A run on disk: the state after every round, and every answer the moment it was given.

`answers.jsonl` is written first and line by line, so no answer is ever lost; `state.safetensors` saves the training of
heads that led there. Together they continue an interrupted run bit for bit. The correction of a model is a function of
the answers and needs no state.

Both are checked before anything of them is used: every line of answers holds a digest of itself and all lines before
it, the state a checksum, and what they say must fit the run. So a changed, mixed-up or damaged checkpoint is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.blocks import blocks, is_large
from apod.data.dataset import UNKNOWN, Dataset
from apod.errors import CheckpointError
from apod.files import Arrays, digest, read_arrays, write_arrays, write_private
from apod.method.algorithm1 import Answers, Question
from apod.report.result import Answer, Bound, PosteriorChoice, Round
from apod.report.run_page import SCHEMA_VERSION
from apod.run.record import AUDIT, VERIFYING

if TYPE_CHECKING:
    from apod.method.choice import BestHeads
    from apod.method.head_mitigation import Mitigation


class RunFacts(TypedDict):
    """What a run must have in common with the one it continues."""

    settings: dict[str, object]
    seed: int
    budget: int
    split: list[float]
    audit_share: NotRequired[float]
    verify_share: NotRequired[float]
    known: NotRequired[str]
    weights: NotRequired[str]
    score: NotRequired[str]
    criterion: NotRequired[str]


class Recorded(TypedDict):
    """What was recorded of the rounds so far."""

    rounds: list[Round]
    answers: list[list[Answer]]  # of every trajectory


class RecordedHeads(Recorded):
    """The same where heads are trained, with what their approach keeps."""

    choices: list[PosteriorChoice | None]  # of every round, as the posterior has them, shown or not
    bounds: list[list[Bound]]  # of every trajectory
    scores: list[dict[str, list[float | None]]]  # of every round


@dataclass(frozen=True)
class Sizes:
    """What answers of a run can be about."""

    trajectories: int
    training: int  # rows
    validation: int  # rows
    test: int  # rows
    groups: int


def fingerprint(dataset: Dataset, facts: RunFacts) -> str:
    """What a run must have in common with the one it continues: features, labels, settings, seed, budget."""
    further = [[one.name, one.names] for one in dataset.further]
    names = json.dumps([dataset.key, dataset.group_names, *further])
    return digest(json.dumps(facts, sort_keys=True), *_features(dataset), dataset.labels, names)


def data_fingerprint(dataset: Dataset) -> str:
    """What tells this table from any other: names, features and labels of all rows; nobody's group."""
    names = json.dumps([[str(name) for name in dataset.features.columns], list(dataset.label_names)])
    return digest(names, *_features(dataset), dataset.labels, size=8)


def _features(dataset: Dataset) -> list[npt.NDArray[Any]]:
    if is_large(len(dataset)):
        return [block for _, block in blocks(dataset.features.to_numpy())]  # views
    return [pd.util.hash_pandas_object(dataset.features, index=False).to_numpy()]


Line = dict[str, Any]
"""A line of answers, or of whatever stands where one should: nothing of it is trusted before it is checked."""


class Checkpoint:
    """The folder of one run's state."""

    def __init__(self, folder: Path, key: str) -> None:
        self._state, self._answers, self._key = folder / "state.safetensors", folder / "answers.jsonl", key
        self._last = key  # digest of the last line of answers
        self._frozen: str | None = None  # fingerprint of the correction that fresh answers verify

    def start(self) -> None:
        """Begin anew: forget what an earlier run left in the folder."""
        self._state.parent.mkdir(parents=True, exist_ok=True)
        self._state.parent.chmod(0o700)  # the answers are people's groups: for the owner's eyes
        self._state.unlink(missing_ok=True)
        self._write_line({"run": self._key, "schema": SCHEMA_VERSION}, mode="w")

    def keep(self, question: Question, group: int) -> None:
        """Make one answer durable before it is used."""
        self._add({"trajectory": question.trajectory, "row": question.row, "group": group})

    def freeze(self, fingerprint: str) -> None:
        """Note which correction is verified, before anybody is asked to; an error where another was noted before."""
        if self._frozen is None:
            self._add({"frozen": fingerprint})
        elif self._frozen != fingerprint:
            raise CheckpointError(
                "The correction to verify is not the one that was frozen before the interruption: resume with the "
                "versions of apod and its packages that froze it, or run without --resume."
            )

    def _add(self, given: Line) -> None:
        self._last = line_digest(self._last, given)
        self._write_line(given | {"digest": self._last})

    def heard(self, sizes: Sizes) -> dict[tuple[int, int], int]:
        """All answers of the interrupted run, by (trajectory, row of the training part, or of the test part)."""
        try:
            lines = self._answers.read_bytes().split(b"\n")
        except FileNotFoundError:
            raise CheckpointError(f"There is no run to resume in {self._answers.parent}: leave out --resume.") from None
        lines.pop()  # b"" where the last line is whole; a torn one's answer was never used
        entries = [_parse(line) for line in lines]
        if entries and entries[0].get("schema") != SCHEMA_VERSION:
            raise CheckpointError(
                f"The run in {self._answers.parent} was begun by another version of apod, which cannot be resumed: "
                "run it anew without --resume, or choose another --out."
            )
        if not entries or entries[0].get("run") != self._key:
            raise CheckpointError(
                f"The run in {self._answers.parent} had other data, settings, seed or budget: "
                "resume it with the same ones, or choose another --out."
            )
        found = self._chained(entries[1:])
        _check_heard(found, sizes)
        write_private(self._answers, b"".join(line + b"\n" for line in lines))
        return found

    def _chained(self, entries: list[Line]) -> dict[tuple[int, int], int]:
        found: dict[tuple[int, int], int] = {}
        frozen: list[str] = []
        for entry in entries:
            names = ("frozen",) if "frozen" in entry else ("trajectory", "row", "group")
            given: Line = {name: entry.get(name) for name in names}
            self._last = line_digest(self._last, given)
            _require(entry == given | {"digest": self._last}, "a line of answers was changed, added or taken away")
            if "frozen" in given:
                frozen.append(str(given["frozen"]))
                continue
            _require(all(type(value) is int for value in given.values()), "an answer is not the number of a group")
            found[given["trajectory"], given["row"]] = given["group"]
        _require(len(found) + len(frozen) == len(entries) and len(frozen) < 2, "a row was answered twice")
        self._frozen = frozen[0] if frozen else None
        return found

    def save(self, mitigation: Mitigation, best: BestHeads, record: RecordedHeads) -> None:
        """Save the state after a round, together with what was recorded of the rounds so far."""
        facts = {
            "key": self._key,
            "round": mitigation.round,
            "answers": [[list(a.rows), list(a.groups), list(a.weights)] for a in mitigation.answers],
            "record": record,
        }
        write_arrays(self._state, mitigation.arrays() | _kept(best), facts)

    def load(
        self, mitigation: Mitigation, best: BestHeads, heard: Mapping[tuple[int, int], int]
    ) -> RecordedHeads | None:
        """Take the run up where the last round ended; None when it was interrupted before the first.

        `heard` are the answers of the file beside it.
        """
        if not self._state.exists():
            return None
        arrays, facts = read_arrays(self._state, self._key)
        try:
            round_, answers = _checked_round(facts["round"]), _checked_answers(facts["answers"], mitigation, heard)
            _check_arrays(arrays, mitigation, best, round_)
            record = _checked_record(facts["record"], round_, answers)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(f"it is no state of a run ({type(error).__name__})") from error
        mitigation.restore(arrays, round_)
        best.restore({n.removeprefix("best."): own for n, own in arrays.items() if n.startswith("best.")})
        for number, told in enumerate(answers):
            mitigation.answers[number] = told
            mitigation.coverage[number].add(told.known()[0].tolist()[told.handed_in :])  # those are there already
        return record

    def _write_line(self, entry: Mapping[str, object], mode: str = "a") -> None:
        with open(self._answers, mode, opener=_private) as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _kept(best: BestHeads) -> dict[str, npt.NDArray[Any]]:
    return {f"best.{name}": own for name, own in best.state().items()}


def line_digest(last: str, given: Mapping[str, object]) -> str:
    """What a line of answers says of itself and, through `last`, of all lines before it."""
    return digest(last, json.dumps(given, sort_keys=True), size=8)


def _parse(line: bytes) -> Line:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise _damaged("its file of answers has a line that is none")
    return entry


def _damaged(what: str) -> CheckpointError:
    return CheckpointError(
        f"The checkpoint cannot be resumed, {what}: restore it from a copy, or run without --resume."
    )


def _require(fits: bool, otherwise: str) -> None:
    if not fits:
        raise _damaged(otherwise)


def _check_heard(heard: Mapping[tuple[int, int], int], sizes: Sizes) -> None:
    """Every answer is about a row of the run and names one of its groups, or none."""
    rows = {AUDIT: sizes.test, VERIFYING: sizes.training + sizes.validation}
    for (trajectory, row), group in heard.items():
        _require(VERIFYING <= trajectory < sizes.trajectories, "an answer belongs to no trajectory of the run")
        _require(0 <= row < rows.get(trajectory, sizes.training), "an answer is about no row")
        _require(UNKNOWN <= group < sizes.groups, "an answer names no group of the run")


def _checked_round(round_: Any) -> int:
    _require(type(round_) is int and round_ >= 1, "its number of rounds cannot be")
    return int(round_)


def _checked_answers(saved: Any, mitigation: Mitigation, heard: Mapping[tuple[int, int], int]) -> list[Answers]:
    """The answers of every trajectory, none of which says other than the file of answers."""
    _require(len(saved) == len(mitigation.answers), "it has answers of other trajectories")
    found = []
    for trajectory, (rows, groups, weights) in enumerate(saved):
        _require(len(rows) == len(groups) == len(weights) == len(set(rows)), "its answers are incomplete or repeated")
        _require(all(type(value) is int for value in (*rows, *groups)), "an answer is not the number of a group")
        told = {(trajectory, row): group for row, group in zip(rows, groups, strict=True)}
        _check_heard(told, Sizes(len(mitigation.answers), len(mitigation.pool.labels), 0, 0, mitigation.pool.n_groups))
        _require(all(heard.get(place, group) == group for place, group in told.items()), "two answers contradict")
        handed_in = mitigation.answers[trajectory].handed_in
        _require(all(type(weight) is float and 0 < weight <= 1 for weight in weights), "a weight is none")
        found.append(Answers(tuple(rows), tuple(groups), tuple(weights), handed_in=handed_in))
    return found


def _check_arrays(arrays: Arrays, mitigation: Mitigation, best: BestHeads, round_: int) -> None:
    """Names, types and shapes are those of this run's heads and f_a, and the numbers are numbers."""
    expected = {name: np.asarray(value) for name, value in mitigation.arrays().items()} | _kept(best)
    _require(set(arrays) == set(expected), "its arrays are not those of this run")
    for name, like in expected.items():
        found = arrays[name]
        size = (len(arrays["best.rounds"]), *like.shape[1:]) if name in ("best.rounds", "best.heads") else like.shape
        _require(found.dtype == like.dtype and found.shape == size, f"{name} has another type or shape")
        if name == "best.score":
            _require(not bool((found == np.inf).any()), "a score is infinite")
        elif found.dtype.kind == "f":
            _require(bool(np.isfinite(found).all()), f"{name} holds a value that is not a number")
        if name.endswith((".square", ".scale", ".steps", ".step")):
            _require(bool((found >= 0).all()), f"{name} is negative")
        if name in ("best.round", "best.rounds"):
            _require(bool(((found >= 0) & (found < round_)).all()), "a head is kept of a round that was not")
        if name == "best.rounds":
            _require(len(found) == len(set(found.tolist())) > 0, "its rounds are repeated or missing")


def _checked_record(record: Any, round_: int, answers: Sequence[Answers]) -> RecordedHeads:
    """What was recorded of so many rounds, and of so many answers of each trajectory."""
    names = RecordedHeads.__annotations__
    _require(isinstance(record, dict) and set(record) == set(names), "its record is not that of a run")
    for name in names:
        _require(isinstance(record[name], list), "its record is not that of a run")
    for name in ("rounds", "scores"):
        fits = len(record[name]) == round_ and all(isinstance(entry, dict) for entry in record[name])
        _require(fits, "its record is of another number of rounds")
    told = [len(answered) for answered in record["answers"]]
    _require(told == [given.asked for given in answers], "its record is of other answers")
    return cast(RecordedHeads, dict(record))  # the file's checksum vouches for what its entries hold
