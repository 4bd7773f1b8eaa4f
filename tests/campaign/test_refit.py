"""Refits beside the answers: coalesced, by one process, replaced when it dies, canonical in the end."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
import standin

from apod.campaign import Campaign, GroupAnswer
from apod.campaign.engine import engine_name
from apod.campaign.events import canonical
from apod.campaign.files import state_hash
from apod.errors import InputError
from apod.processes import Worker
from apod.testing.engines import GROUPS, Workshop, answer_all, group_of
from support.waiting import until


def model_hash(campaign: Campaign) -> str:
    model = campaign.owner.canonical_model()
    assert model is not None
    state = model.state()
    return state_hash(state.arrays, canonical(state.meta))


def refits(campaign: Campaign) -> int:
    return sum(entry["what"] == "refitted" for entry in campaign.owner.log())


def test_answers_that_come_during_a_refit_are_taken_by_the_next_one_all_at_once(workshop: Workshop) -> None:
    workshop.engine = standin.build_slow
    campaign = workshop.create(budget=20, refit="thread")
    answer_all(campaign)
    until(lambda: campaign.status().behind == 0)
    assert refits(campaign) <= 6
    assert campaign.status().model_answers == 20


def test_questions_come_from_the_latest_finished_model(workshop: Workshop) -> None:
    campaign = workshop.create(budget=30)
    models = []
    while (question := campaign.ask()) is not None:
        campaign.tell(question, group_of(question.row))
        models.append(campaign.owner.log()[-2]["model"])
    asked = [entry for entry in campaign.owner.log() if entry["what"] == "asked"]
    made = {entry["model"]: entry["event"] for entry in campaign.owner.log() if entry["what"] == "refitted"}
    for entry in asked:
        latest = max((event for event in made.values() if event < entry["event"]), default=None)
        assert made.get(entry["model"]) == latest
        if entry["model"] is not None:
            assert entry["rule"] == "standin"
            assert len(entry["model_hash"]) == 64
            assert entry["reason"]["distance"] > 0


def test_the_canonical_refit_depends_on_questions_and_answers_not_on_who_was_faster(workshop: Workshop) -> None:
    hashes = []
    for name, order in (("first", (0, 1, 2, 3)), ("second", (3, 1, 0, 2))):
        campaign = workshop.create(name=name, budget=4)
        questions = [campaign.ask(f"annotator {who}") for who in range(4)]
        for which in order:
            campaign.tell(questions[which], GROUPS[which % 2])  # type: ignore[arg-type]
        hashes.append(model_hash(campaign))
    assert hashes[0] == hashes[1]


def test_an_undone_or_corrected_answer_leaves_no_trace_in_the_next_model(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(budget=8)
    answer_all(campaign)
    assert campaign.refitter.load(campaign.refitter.snapshot()).fits > 1  # type: ignore[union-attr]
    first = campaign.journal.view(lambda c, state, at: next(t for t, lease in state.leases.items() if lease.answer))
    number = campaign.journal.view(lambda c, state, at: state.leases[first].number)
    row = campaign.journal.view(lambda c, state, at: state.questions[number].row)
    campaign.annotator().correct(f"{number}-{first}", GROUPS[1 - row % 2])
    assert campaign.owner.refit()
    assert campaign.refitter.load(campaign.refitter.snapshot()).fits == 1  # type: ignore[union-attr]


def test_a_lost_model_file_of_a_dead_process_is_swept(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create()
    folder = campaign.files.folder / "models-1"
    folder.mkdir()
    (folder / ("0" * 64 + ".safetensors")).write_bytes(b"left behind")
    (folder / ".part-x").write_bytes(b"half")
    answer_all(campaign)
    assert len(list(folder.iterdir())) <= 3  # two are kept, and the next refit sweeps a third
    assert not (folder / ("0" * 64 + ".safetensors")).exists()


def test_a_process_of_its_own_refits_niced_on_one_thread_and_is_replaced_when_it_dies(
    on_sqlite: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apod.campaign.session.Worker", partial(Worker, restart_seconds=0.0))
    on_sqlite.create(budget=40)
    campaign = on_sqlite.open(refit="process")
    for _ in range(6):
        question = campaign.ask()
        campaign.tell(question, group_of(question.row))  # type: ignore[arg-type, union-attr]
    until(lambda: campaign.status().behind == 0)
    worker = campaign._background
    first = psutil.Process(worker.pid)  # type: ignore[union-attr]
    assert first.nice() >= 10
    assert first.environ()["OMP_NUM_THREADS"] == "1"
    assert str(on_sqlite.place.url) not in " ".join(first.cmdline())
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: worker.pid != first.pid)  # type: ignore[union-attr]
    for _ in range(6):
        question = campaign.ask()
        campaign.tell(question, group_of(question.row))  # type: ignore[arg-type, union-attr]
    until(lambda: campaign.status().behind == 0)
    second = psutil.Process(worker.pid)  # type: ignore[union-attr]
    assert second.pid != first.pid
    campaign.close()
    until(lambda: not second.is_running())


def test_a_factory_that_cannot_be_found_elsewhere_is_refused_for_a_process() -> None:
    assert engine_name(standin.build) == "standin:build"
    with pytest.raises(InputError, match="imported"):
        engine_name(lambda materials: standin.build(materials))


def test_two_processes_refit_in_turn_and_never_at_once(workshop: Workshop) -> None:
    campaign = workshop.create(budget=40, refit="thread")
    others = [workshop.open(refit="thread") for _ in range(3)]
    running, worst, lock = 0, 0, threading.Lock()
    for each in (campaign, *others):
        engine = each.engine()

        def fit(answers: list[GroupAnswer], start: object, fit: object = engine.fit) -> object:
            nonlocal running, worst
            with lock:
                running += 1
                worst = max(worst, running)
            time.sleep(0.02)
            with lock:
                running -= 1
            return fit(answers, start)  # type: ignore[operator]

        engine.fit = fit  # type: ignore[assignment, method-assign]
    for turn in range(24):
        each = (campaign, *others)[turn % 4]
        question = each.ask(f"annotator {turn % 4}")
        each.tell(question, group_of(question.row))  # type: ignore[arg-type, union-attr]
    until(lambda: campaign.status().behind == 0)
    assert worst == 1
    assert campaign.owner.verify_log().ok


def test_opening_a_campaign_reads_none_of_its_matrices(on_sqlite: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = on_sqlite.create(rows=500)
    question = campaign.ask()
    assert question is not None
    campaign.close()

    def refuse(self: object, name: str, suffix: str, anew: bool = False) -> Path:
        raise AssertionError("a matrix was read")

    monkeypatch.setattr("apod.campaign.files.Files._check", refuse)
    again = on_sqlite.open()
    assert again.status().pending == 1
    assert again.tell(question.id, GROUPS[0]).counted
    with pytest.raises(AssertionError, match="a matrix was read"):
        again.owner.verify_log()


def test_what_an_engine_remembers_is_computed_once(workshop: Workshop) -> None:
    import numpy as np

    campaign = workshop.create()
    calls = []

    def compute() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"embedding": np.arange(6.0).reshape(2, 3)}

    for each in (campaign, workshop.open()):
        found = each.materials.remember("body", compute)
        assert found["embedding"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert len(calls) == 1


def test_questions_of_a_new_model_do_not_wait_until_it_is_measured(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(budget=20, refit="thread")
    release = threading.Event()

    def measure(model: object, answers: object) -> dict[str, object]:
        release.wait()
        return {}

    campaign.engine().measure = measure  # type: ignore[attr-defined]
    try:
        for group in GROUPS:
            campaign.tell(campaign.ask(), group)  # type: ignore[arg-type]
        until(lambda: campaign.status().model_answers == 2)
        assert campaign.ask() is not None
        assert campaign.owner.log()[-1]["what"] == "asked"
        assert campaign.owner.log()[-1]["model"] is not None
        assert not campaign.owner.results.history()
    finally:
        release.set()
    until(lambda: len(campaign.owner.results.history()) == 1)
