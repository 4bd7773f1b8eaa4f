"""A run on disk: the state after every round, and every answer the moment it was given.

`answers.jsonl` is written first and line by line, so no answer is ever lost; `state.safetensors` saves the training
that led there. Together they continue an interrupted run bit for bit.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pandas as pd
import torch

from apod.data.blocks import blocks, is_large
from apod.data.dataset import Dataset
from apod.errors import CheckpointError
from apod.files import digest, read_tensors, write_private, write_tensors
from apod.method.algorithm1 import Mitigation, Question
from apod.method.answers import Answers
from apod.method.score_choice import BestHeads
from apod.method.state import take_up, trained_arrays


def fingerprint(dataset: Dataset, facts: dict[str, Any]) -> str:
    """What a run must have in common with the one it continues: features, labels, settings, seed, budget."""
    features: list[npt.NDArray[Any]]
    if is_large(len(dataset)):
        features = [block for _, block in blocks(dataset.features.to_numpy())]  # views
    else:
        features = [pd.util.hash_pandas_object(dataset.features, index=False).to_numpy()]
    names = json.dumps([dataset.key, dataset.group_names])
    return digest(json.dumps(facts, sort_keys=True), *features, dataset.labels, names)


class Checkpoint:
    """The folder of one run's state."""

    def __init__(self, folder: Path, key: str) -> None:
        self._state, self._answers, self._key = folder / "state.safetensors", folder / "answers.jsonl", key

    def start(self) -> None:
        """Begin anew: forget what an earlier run left in the folder."""
        self._state.parent.mkdir(parents=True, exist_ok=True)
        self._state.parent.chmod(0o700)  # the answers are people's groups: for the owner's eyes
        self._state.unlink(missing_ok=True)
        self._write_line({"run": self._key}, mode="w")

    def keep(self, question: Question, group: int) -> None:
        """Make one answer durable before it is used."""
        self._write_line({"trajectory": question.trajectory, "row": question.row, "group": group})

    def heard(self) -> dict[tuple[int, int], int]:
        """All answers of the interrupted run, by (trajectory, training row)."""
        try:
            lines = self._answers.read_text().splitlines()
        except FileNotFoundError:
            raise CheckpointError(f"There is no run to resume in {self._answers.parent}: leave out --resume.") from None
        entries = [_parse(line, last=number == len(lines) - 1) for number, line in enumerate(lines)]
        whole = [line for line, entry in zip(lines, entries, strict=True) if entry is not None]
        first, *rest = [entry for entry in entries if entry is not None] or [{}]
        if first.get("run") != self._key:
            raise CheckpointError(
                f"The run in {self._answers.parent} had other data, settings, seed or budget: "
                "resume it with the same ones, or choose another --out."
            )
        self._rewrite(whole)
        return {(entry["trajectory"], entry["row"]): entry["group"] for entry in rest}

    def _rewrite(self, lines: list[str]) -> None:
        """Drop a torn last line, so that the next answer starts on a line of its own."""
        write_private(self._answers, "".join(line + "\n" for line in lines).encode())

    def save(self, mitigation: Mitigation, best: BestHeads, record: dict[str, Any]) -> None:
        """Save the state after a round, together with what was recorded of the rounds so far."""
        arrays = trained_arrays(mitigation)
        kept = {f"best.{name}": tensor for name, tensor in best.state().items()}
        facts = {
            "key": self._key,
            "round": mitigation.round,
            "answers": [[list(a.rows), list(a.groups), list(a.weights)] for a in mitigation.answers],
            "record": record,
        }
        tensors = {name: torch.as_tensor(value) for name, value in {**arrays, **kept}.items()}
        write_tensors(self._state, tensors, facts)

    def load(self, mitigation: Mitigation, best: BestHeads) -> dict[str, Any] | None:
        """Take the run up where the last round ended; None when it was interrupted before the first."""
        if not self._state.exists():
            return None
        tensors, facts = read_tensors(self._state, self._key)
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        take_up(mitigation, arrays, facts["round"])
        best.restore({n.removeprefix("best."): tensor for n, tensor in tensors.items() if n.startswith("best.")})
        for number, (rows, groups, weights) in enumerate(facts["answers"]):
            told = Answers(tuple(rows), tuple(groups), tuple(weights))
            mitigation.answers[number] = told
            mitigation.coverage[number].add(told.known()[0].tolist())
        record: dict[str, Any] = facts["record"]
        return record

    def _write_line(self, entry: dict[str, Any], mode: str = "a") -> None:
        with open(self._answers, mode, opener=_private) as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _parse(line: str, last: bool) -> dict[str, Any] | None:
    try:
        entry: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        if last:  # the power went out while this line was written: its answer was never used
            return None
        raise CheckpointError("The file of answers is damaged before its last line: restore it from a copy.") from None
    return entry
