"""Algorithm 1 on a dataset, recorded: every round's curve, every answer and its reason, the result at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apod import __version__
from apod.audit.estimate import ENOUGH
from apod.data.blocks import steps_per_round
from apod.data.dataset import UNKNOWN, Dataset, check_group_count
from apod.errors import InputError
from apod.heads.bank import HeadBank
from apod.method.algorithm1 import Answered, Mitigation, Plan, run_rounds
from apod.method.annotators import Annotator, Interview, RecordedGroups
from apod.method.choice import BestHeads
from apod.method.pod import Training
from apod.method.prepare import Prepared, prepare
from apod.method.settings import PER_STRENGTH, Settings, answers_allowed
from apod.run import record
from apod.run.audited import audited
from apod.run.checkpoint import Checkpoint, data_fingerprint, fingerprint
from apod.run.recorder import Recorder
from apod.threads import one_thread

SCHEMA_VERSION = 1


class Listener:
    """Hears how a run goes; this one keeps quiet. A command line or notebook overrides what it shows."""

    def stage(self, text: str) -> None:
        """A new part of the work begins."""

    def body(self, done: int, total: int, text: str) -> None:
        """Pre-training of the body moved on."""

    def round(self, entry: dict[str, Any], answers: list[dict[str, Any]], budget: int) -> None:
        """A round ended: its entry in result.json and the answers that led to it."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result (as in docs/result.md) and what it was computed with."""

    result: dict[str, Any]
    prepared: Prepared
    mitigation: Mitigation
    kept: HeadBank  # every head at its best round
    selected: int  # the head that head selection chose
    settings: Settings
    heads: BestHeads  # what `kept` was chosen from
    estimates: list[dict[str, Any] | None]  # of every round by the posterior, those that result.json withholds too


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


@one_thread()
def run_experiment(
    dataset: Dataset,
    settings: Settings,
    *,
    seed: int = 0,
    budget: int | float | None = None,
    preset: str = "default",
    annotator: Annotator | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    listener: Listener | None = None,
    audit_share: float = 0.0,
    prepared: Prepared | None = None,
) -> Outcome:
    """Run Algorithm 1 until the budget is spent and report on the test part.

    Without an annotator the recorded groups answer, each counted when it is read. With `checkpoint`, a folder, the
    run can be interrupted at any moment and continued with `resume`. With `audit_share` that share of the budget is
    kept for people of the test part, drawn at random when all else is done: what can be said without records.
    `prepared` saves pre-training where the same dataset, settings of the body and seed were prepared before.
    """
    listener, watch = listener or Listener(), Stopwatch()
    if annotator is None and (dataset.groups == UNKNOWN).all():
        raise InputError(
            f"{dataset.name} has no recorded groups to answer from: name a sensitive column or an annotator."
        )
    check_group_count(len(dataset.group_names))
    n_train = int(len(dataset) * dataset.task.split[0])
    allowed = answers_allowed(dataset.task.budget if budget is None else budget, n_train, len(dataset.group_names))
    if not 0 <= audit_share < 1:
        raise InputError(f"The audit share is {audit_share!r}: give a number from 0 (no audit) to below 1, like 0.2.")
    audits = int(audit_share * allowed + 1e-9)
    answers_allowed(max(1, allowed - audits), n_train, len(dataset.group_names))  # enough must be left to train on
    listener.stage("Pre-training the body")
    with watch.time("body"):
        prepared = prepared or prepare(dataset, settings, seed, listener.body)
    with watch.time("training"):
        mitigation = Mitigation(
            prepared.pool, Plan.from_settings(settings), Training.from_settings(settings, dataset.task.hidden)
        )
    recorder = Recorder(prepared, mitigation, settings, allowed - audits)
    told = {name: value for name, value in settings.to_dict().items() if name != "least_gain" or value}
    facts = {"settings": told, "seed": seed, "budget": allowed, "split": list(dataset.task.split)}
    facts |= {"audit_share": audit_share} if audits else {}
    saved = Checkpoint(checkpoint, fingerprint(dataset, facts)) if checkpoint else None
    heard = _take_up(saved, resume, mitigation, recorder, len(prepared.split.test))
    answer = annotator or RecordedGroups(dataset.groups, dataset.group_names)
    keep = saved.keep if saved else lambda question, group: None
    interview = Interview(answer, dataset.group_names, prepared.split.train, heard, keep)
    listener.stage("Asking and refitting")
    _run(mitigation, interview, allowed - audits, settings, recorder, saved, listener, watch)
    outcome = _finish(prepared, mitigation, recorder, settings, facts | {"preset": preset}, watch)
    if audits:
        listener.stage("Auditing")
        auditing = Interview(answer, dataset.group_names, prepared.split.test, heard, keep)
        outcome.result["audit"] = _audit(outcome, audits, auditing, seed)
        if audits < ENOUGH:
            outcome.result["notes"].append(
                f"{audits} audit answers say nothing about a gap: it takes about {ENOUGH} until its interval is "
                "narrower than half of all a gap can be."
            )
    return outcome


def _audit(outcome: Outcome, answers: int, interview: Interview, seed: int) -> dict[str, Any] | None:
    mitigation, test = outcome.mitigation, outcome.prepared.test
    predicted = (outcome.kept.margins(test, [0, outcome.selected]) > 0).numpy()
    trajectory = mitigation.plan.heads[outcome.selected].trajectory
    return audited(outcome.prepared, mitigation, trajectory, predicted, answers, interview, seed)


def _take_up(
    saved: Checkpoint | None, resume: bool, mitigation: Mitigation, recorder: Recorder, test_rows: int
) -> dict[tuple[int, int], int]:
    """Start a new checkpoint, or restore the one to resume; gives the answers already heard."""
    if saved is None:
        return {}
    if not resume:
        saved.start()
        return {}
    heard = saved.heard(mitigation, test_rows)
    earlier = saved.load(mitigation, recorder.best, heard, recorder.to_dict().keys())
    if earlier is not None:
        recorder.restore(earlier)
    return heard


def _run(
    mitigation: Mitigation,
    interview: Interview,
    budget: int,
    settings: Settings,
    recorder: Recorder,
    saved: Checkpoint | None,
    listener: Listener,
    watch: Stopwatch,
) -> None:
    last = time.perf_counter()

    def on_round(answered: list[Answered]) -> None:
        nonlocal last
        seconds = time.perf_counter() - last
        with watch.time("recording"):
            entries = recorder.take(answered, seconds)
            if saved is not None:
                saved.save(mitigation, recorder.best, recorder.to_dict())
        listener.round(recorder.rounds[-1], entries, budget)
        last = time.perf_counter()

    with watch.time("rounds"):
        run_rounds(mitigation, interview, budget, settings.questions_per_round, on_round, recorder.enough)


def _finish(
    prepared: Prepared,
    mitigation: Mitigation,
    recorder: Recorder,
    settings: Settings,
    facts: dict[str, Any],
    watch: Stopwatch,
) -> Outcome:
    dataset, plan = prepared.dataset, mitigation.plan
    kept = recorder.best.bank(mitigation.heads.sizes)
    selected, reason = recorder.chosen()
    with watch.time("recording"):
        entries = record.metrics_entries(prepared, kept, mitigation.notion, facts["seed"])
    for k, entry in enumerate(entries):
        kept_round = int(recorder.best.round[k])
        validation = {name: values[k] for name, values in recorder.scores[kept_round].items()}
        entry |= {"strength": plan.heads[k].strength, "round": kept_round, "validation": validation}
    predicted = (kept.margins(prepared.test, [0, selected]) > 0).numpy()
    trajectory = plan.heads[selected].trajectory
    separate = settings.trajectories == PER_STRENGTH
    by_strength = {str(plan.heads[t.head].strength): recorder.answers[i] for i, t in enumerate(plan.trajectories)}
    result = {
        "schema_version": SCHEMA_VERSION,
        "apod_version": __version__,
        "made_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "data": {
            "fingerprint": data_fingerprint(dataset),
            "rows": len(dataset),
            "base_rate": float(dataset.labels.mean()),
            "features": [str(name) for name in dataset.features.columns],
        },
        "dataset": dataset.name,
        "preset": facts["preset"],
        "seed": facts["seed"],
        "n_train": len(prepared.split.train),
        "n_validation": len(prepared.split.validation),
        "n_test": len(prepared.split.test),
        "budget": facts["budget"],
        "label_names": list(dataset.label_names),
        "group_names": list(dataset.group_names),
        "reference": dataset.group_names[-1],
        "metric": dataset.task.metric,
        "notion": mitigation.notion.name,
        "settings": settings.to_dict() | _sizes(dataset, settings, len(prepared.split.train)),
        "notes": [*dataset.notes, *_notes(dataset, mitigation, trajectory), *recorder.notes()],
        "vanilla": entries[0],
        "tradeoff": entries[1:],
        "selected": entries[selected],
        "selected_because": reason,
        "outlook": recorder.outlook(),
        "outlook_withheld": recorder.withheld(),
        "differences": record.differences(prepared, predicted[0], predicted[1], mitigation.notion, facts["seed"]),
        "changes": record.changes(prepared, predicted[0], predicted[1]),
        "rounds": recorder.rounds,
        "answers": recorder.answers[trajectory],
        "trajectories": by_strength if separate else None,
        "bound": recorder.bounds[trajectory],
        "timing": watch.report(),
    }
    return Outcome(result, prepared, mitigation, kept, selected, settings, recorder.best, recorder.estimates)


def _sizes(dataset: Dataset, settings: Settings, n_train: int) -> dict[str, Any]:
    task = dataset.task
    steps = steps_per_round(n_train, settings.epochs, settings.batch_size)
    sizes = {"split": list(task.split), "embedding": task.embedding, "hidden": list(task.hidden)}
    return sizes | {"steps_per_round": steps}


def _notes(dataset: Dataset, mitigation: Mitigation, trajectory: int) -> list[str]:
    """What a reader of the result must know about this run."""
    notes = []
    answers = mitigation.answers[trajectory]
    unseen = [name for code, name in enumerate(dataset.group_names) if code not in answers.groups_seen()]
    if unseen:
        notes.append(
            f"Nobody of {', '.join(unseen)} was found by the answers: the penalty could not act on that group."
        )
    for group, label in mitigation.empty_cells()[trajectory]:
        if dataset.group_names[group] not in unseen:
            where = f"{dataset.group_names[group]} with label {dataset.label_names[label]}"
            notes.append(f"Nobody of {where} was annotated: that cell contributed nothing to the penalty.")
    untold = answers.groups.count(UNKNOWN)
    if untold:
        notes.append(f"{untold} of {len(answers)} answers could not be given; they count against the budget.")
    excluded = int((dataset.groups == UNKNOWN).sum())
    if excluded:
        notes.append(f"{excluded} of {len(dataset)} rows have no recorded group and are left out of the group rates.")
    return notes
