"""A checkpoint that was changed in any way is refused in one line, and nothing of it is used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch

from apod.data import Dataset, make_example
from apod.errors import CheckpointError
from apod.files import checksum
from apod.method.settings import PRESETS
from apod.run import Listener, run_experiment
from apod.run.checkpoint import line_digest

SETTINGS = replace(PRESETS["heads"], strengths=(0.2, 1.0), body_epochs=1, epochs=1, head_steps=5)
BUDGET = 8
Tensors = dict[str, torch.Tensor]
Facts = dict[str, Any]


class Interrupted(Listener):
    """Stops the run in the middle, as Ctrl-C would."""

    def round(self, entry: dict[str, Any], answers: list[dict[str, Any]], budget: int) -> None:
        if entry["round"] == 2:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def people() -> Dataset:
    example = make_example(n=200, seed=3)
    return replace(example, task=replace(example.task, embedding=4, hidden=(4,)))


def run(people: Dataset, folder: Path, **more: Any) -> dict[str, Any]:
    return run_experiment(people, SETTINGS, seed=1, budget=BUDGET, checkpoint=folder, **more).result


@pytest.fixture(scope="module")
def interrupted(people: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupted")
    with pytest.raises(KeyboardInterrupt):
        run(people, folder, listener=Interrupted())
    return folder


@pytest.fixture
def folder(interrupted: Path, tmp_path: Path) -> Path:
    shutil.copytree(interrupted, tmp_path / "run")
    return tmp_path / "run"


def read(path: Path) -> tuple[Tensors, Facts]:
    with safetensors.safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["facts"])  # noqa: SIM118


def write(path: Path, tensors: Tensors, facts: Facts, honest: bool) -> None:
    """With the checksum that belongs to the content, as somebody who knows the format could, or with the old one."""
    with safetensors.safe_open(path, framework="pt") as file:
        old = file.metadata()["checksum"]
    packed = {name: value.contiguous() for name, value in tensors.items()}
    text = json.dumps(facts)
    found = {"facts": text, "checksum": checksum(packed, text) if honest else old}
    safetensors.torch.save_file(packed, path, metadata=found)


def put(*keys: Any, value: Any) -> Callable[[Tensors, Facts], None]:
    def change(tensors: Tensors, facts: Facts) -> None:
        place: Any = facts
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


def tensor(name: str, make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Tensors, Facts], None]:
    def change(tensors: Tensors, facts: Facts) -> None:
        tensors[name] = make(tensors[name].clone())

    return change


def filled(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda found: torch.full_like(found, value)


STATE: dict[str, Callable[[Tensors, Facts], Any]] = {
    "group 99": put("answers", 0, 1, 0, value=99),
    "group below unknown": put("answers", 0, 1, 0, value=-2),
    "group as text": put("answers", 0, 1, 0, value="0"),
    "group as a truth": put("answers", 0, 1, 0, value=True),
    "another group": lambda tensors, facts: put("answers", 0, 1, 0, value=1 - facts["answers"][0][1][0])(
        tensors, facts
    ),
    "row out of the pool": put("answers", 0, 0, 0, value=10**6),
    "row negative": put("answers", 0, 0, 0, value=-1),
    "row twice": lambda tensors, facts: put("answers", 0, 0, 0, value=facts["answers"][0][0][1])(tensors, facts),
    "weight not a number": put("answers", 0, 2, 0, value=float("nan")),
    "weight above one": put("answers", 0, 2, 0, value=5.0),
    "weight missing": lambda tensors, facts: facts["answers"][0][2].pop(),
    "answers of two trajectories": lambda tensors, facts: facts["answers"].append(facts["answers"][0]),
    "no answers": lambda tensors, facts: facts.pop("answers"),
    "answers no list": put("answers", value=7),
    "round negative": put("round", value=-1),
    "round of text": put("round", value="3"),
    "round too high": put("round", value=30),
    "record missing": lambda tensors, facts: facts.pop("record"),
    "record empty": put("record", value={}),
    "record no record": put("record", value=[1]),
    "record of fewer rounds": lambda tensors, facts: facts["record"]["rounds"].pop(),
    "record of more answers": lambda tensors, facts: facts["record"]["answers"][0].append({}),
    "record with a number for a round": put("record", "rounds", 0, value=3),
    "heads not numbers": tensor("heads.parameters", filled(torch.nan)),
    "heads infinite": tensor("heads.parameters", filled(torch.inf)),
    "heads of another shape": tensor("heads.parameters", lambda found: found[:, :-1]),
    "heads of another type": tensor("heads.parameters", lambda found: found.double()),
    "heads fewer": tensor("heads.parameters", lambda found: found[:1]),
    "Adam's memory negative": tensor("heads.square", filled(-1.0)),
    "Adam's steps negative": tensor("heads.steps", filled(-1)),
    "proxy not numbers": tensor("proxy.weights", filled(torch.nan)),
    "proxy of another width": tensor("proxy.weights", lambda found: found[:, 1:]),
    "proxy's scale negative": tensor("proxy.scale", filled(-1.0)),
    "tensor missing": lambda tensors, facts: tensors.pop("proxy.weights"),
    "tensor too many": lambda tensors, facts: tensors.update(more=torch.zeros(2)),
    "kept heads not numbers": tensor("best.parameters", filled(torch.nan)),
    "kept of a round to come": tensor("best.round", filled(77)),
    "kept rounds repeated": tensor("best.rounds", filled(0)),
    "score infinite": tensor("best.score", filled(torch.inf)),
}


@pytest.mark.parametrize("change", STATE)
@pytest.mark.parametrize("honest", [True, False], ids=["checksum made anew", "checksum as it was"])
def test_a_changed_state_is_refused(change: str, honest: bool, folder: Path, people: Dataset) -> None:
    path = folder / "state.safetensors"
    tensors, facts = read(path)
    STATE[change](tensors, facts)
    write(path, tensors, facts, honest)
    with pytest.raises(CheckpointError) as caught:
        run(people, folder, resume=True)
    assert "\n" not in str(caught.value)
    assert honest or "checksum is wrong" in str(caught.value)


def line(change: Callable[[list[str]], Any]) -> Callable[[Path], None]:
    def act(path: Path) -> None:
        lines = path.read_text().splitlines()
        change(lines)
        path.write_text("".join(one + "\n" for one in lines))

    return act


def field(name: str, value: Any) -> Callable[[Path], None]:
    def change(lines: list[str]) -> None:
        lines[2] = json.dumps(json.loads(lines[2]) | {name: value})

    return line(change)


ANSWERS: dict[str, Callable[[Path], Any]] = {
    "group 99": field("group", 99),
    "group of text": field("group", "x"),
    "group gone": field("group", None),
    "row of nobody": field("row", 10**6),
    "trajectory of none": field("trajectory", 9),
    "digest of another line": field("digest", "0" * 16),
    "a line taken away": line(lambda lines: lines.pop(2)),
    "a line twice": line(lambda lines: lines.insert(2, lines[2])),
    "lines in another order": line(lambda lines: lines.reverse() or lines.insert(0, lines.pop())),
    "a line that is a list": line(lambda lines: lines.insert(2, "[1, 2]")),
    "a line that is no JSON": line(lambda lines: lines.insert(2, "{")),
    "a line nested too deeply": line(lambda lines: lines.insert(2, "[" * 100_000)),
    "a number of 5000 digits": line(lambda lines: lines.insert(2, "1" * 5000)),
    "bytes that are no text": lambda path: path.write_bytes(b"\xff\xfe\n" * 3),
    "nothing": lambda path: path.write_bytes(b""),
    "another run": line(lambda lines: lines.__setitem__(0, '{"run": "other"}')),
}


@pytest.mark.parametrize("change", ANSWERS)
def test_a_changed_file_of_answers_is_refused_and_left_as_it_is(change: str, folder: Path, people: Dataset) -> None:
    path = folder / "answers.jsonl"
    ANSWERS[change](path)
    before = path.read_bytes()
    with pytest.raises(CheckpointError) as caught:
        run(people, folder, resume=True)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "answer", [{"trajectory": 0, "row": 3, "group": 99}, {"trajectory": -1, "row": 100, "group": 0}]
)
def test_a_line_with_the_right_digest_still_has_to_fit_the_run(
    answer: dict[str, int], folder: Path, people: Dataset
) -> None:
    path = folder / "answers.jsonl"
    last = json.loads(path.read_text().splitlines()[-1])["digest"]
    with path.open("a") as file:
        file.write(json.dumps(answer | {"digest": line_digest(last, answer)}) + "\n")
    with pytest.raises(CheckpointError, match="an answer"):
        run(people, folder, resume=True)


@pytest.mark.parametrize("size", [0, 7, 100, 3000, -1])
def test_a_state_cut_short_is_refused(size: int, folder: Path, people: Dataset) -> None:
    path = folder / "state.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CheckpointError, match="damaged"):
        run(people, folder, resume=True)


def test_an_unchanged_checkpoint_is_resumed(folder: Path, people: Dataset) -> None:
    resumed = run(people, folder, resume=True)
    assert len(resumed["answers"]) == BUDGET
