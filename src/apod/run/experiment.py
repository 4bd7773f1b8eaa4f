"""Algorithm 1 on a dataset, recorded: every round's curve, every answer and its reason, the result at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from apod import __version__
from apod.audit.estimate import ENOUGH
from apod.audit.json_types import AuditJson
from apod.data.blocks import is_large
from apod.data.dataset import UNKNOWN, Dataset, answer_count, check_group_count
from apod.errors import InputError
from apod.fairness.criterion import FixedCriterion, parse_criterion
from apod.files import digest
from apod.method import checks
from apod.method.algorithm1 import Answered, Answers, run_rounds
from apod.method.annotators import Annotator, Interview, RecordedGroups
from apod.method.checks import answers_allowed
from apod.method.settings import PER_STRENGTH, Settings
from apod.processes import blas_on_one_thread, one_thread
from apod.report.result import Answer, Data, GuessedGaps, Metrics, Result, Round, RunSettings
from apod.report.run_page import SCHEMA_VERSION
from apod.run.approach import (
    Approach,
    Finished,
    Recorder,
    Stopwatch,
    answers_notes,
    check_many_labels,
    handed_in,
    measured,
)
from apod.run.attributes import attribute_notes, by_attribute, values_told
from apod.run.checkpoint import Checkpoint, RunFacts, Sizes, data_fingerprint, fingerprint
from apod.run.correction import CorrectionOfModel
from apod.run.record import Audited, Measured, audited

if TYPE_CHECKING:
    from apod.method.prepare import Prepared


class Listener:
    """Hears how a run goes; this one keeps quiet. A command line or notebook overrides what it shows."""

    def stage(self, text: str) -> None:
        """A new part of the work begins."""

    def body(self, done: int, total: int, text: str) -> None:
        """Pre-training of the body moved on."""

    def round(self, entry: Round, answers: list[Answer], budget: int) -> None:
        """A round ended: its entry in result.json and the answers that led to it."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result (as in docs/result.md) and what it was computed with."""

    result: Result
    approach: Approach
    finished: Finished


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
    verify_share: float = 0.0,
    prepared: Prepared | None = None,
    score: str | None = None,
    criterion: FixedCriterion | None = None,
) -> Outcome:
    """Run Algorithm 1 until the budget is spent and report on the test part.

    Without an annotator the recorded groups answer, each counted when it is read. With `checkpoint`, a folder, the
    run can be interrupted at any moment and continued with `resume`. With `audit_share` that share of the budget is
    kept for people of the test part, drawn at random when all else is done: what can be said without records.
    With `verify_share` that share of the budget is kept to try a correction on people whose decision it changes.
    `score` names the column that holds the scores of the model to correct; by default one is fitted. `prepared` saves
    pre-training where the same dataset, settings of the body and seed were prepared before. `criterion` was fixed
    before (`apod.run.files.fix_criterion`) and stands in the result as it was.
    """
    listener, watch = listener or Listener(), Stopwatch()
    plan = _check(dataset, settings, budget, (audit_share, verify_share), annotator, score)
    facts = _facts(dataset, settings, plan, seed, (audit_share, verify_share), score)
    if criterion is not None:
        parse_criterion(criterion.text).check_attribute(dataset.attribute)
        facts["criterion"] = criterion.text
    with blas_on_one_thread if settings.corrects else one_thread():  # the same sums on every machine
        approach = _approach(dataset, settings, plan.training, seed, listener, watch, prepared, score)
        known, closed = handed_in(dataset, approach.split.train, annotator)
        approach.mitigation.begin_with(known, closed)
        recorder = Recorder(approach)
        saved = Checkpoint(checkpoint, fingerprint(dataset, facts)) if checkpoint else None
        heard = _take_up(saved, resume, approach, recorder)
        answer = annotator or RecordedGroups(dataset.groups, dataset.group_names, dataset.further)
        names = [one.names for one in dataset.further]
        keep = saved.keep if saved else lambda question, group: None
        interview = Interview(answer, dataset.group_names, approach.split.train, heard, keep, names)
        listener.stage("Asking and refitting")
        _run(approach, interview, plan.training, recorder, saved, listener, watch)
        if plan.verify:
            listener.stage("Verifying")
            both = np.concatenate([approach.split.train, approach.split.validation])
            told, blank = handed_in(dataset, both, annotator)
            verifying = Interview(answer, dataset.group_names, both, heard, keep, names)
            recorder.take_verifying(approach.verify(plan.verify, verifying, [*told.rows, *blank], saved))
        outcome = _finish(approach, recorder, facts, preset, watch)
        outcome.result["criterion"] = None if criterion is None else criterion.to_dict()
        if plan.verify and outcome.result["verification"] is None:
            outcome.result["notes"].append(
                f"There was no correction to verify: {plan.verify} answers were not asked for."
            )
        if plan.audit:
            listener.stage("Auditing")
            auditing = Interview(answer, dataset.group_names, approach.split.test, heard, keep)
            known, closed = handed_in(dataset, approach.split.test, annotator)
            outcome.result["audit"] = _audit(outcome, plan.audit, auditing, seed, known, closed)
            if plan.audit < ENOUGH:
                outcome.result["notes"].append(
                    f"{plan.audit} audit answers say nothing about a gap: it takes about {ENOUGH} until its interval "
                    "is narrower than half of all a gap can be."
                )
        return outcome


@dataclass(frozen=True)
class Spending:
    """What the budget is spent on."""

    training: int
    audit: int
    verify: int = 0

    @property
    def budget(self) -> int:
        """All answers."""
        return self.training + self.audit + self.verify


def _check(
    dataset: Dataset,
    settings: Settings,
    budget: int | float | None,
    shares: tuple[float, float],
    annotator: Annotator | None,
    score: str | None,
) -> Spending:
    """The answers to spend; InputError, before any work, where a run cannot be made of this."""
    if dataset.weights is not None and dataset.further:
        raise InputError("Weights go with one attribute: name one with --sensitive, or leave --weight out.")
    if dataset.weights is not None and not settings.corrects:
        raise InputError("Weights are for a corrected model: leave the body and its preset out, or --weight.")
    if dataset.further and not settings.corrects:
        raise InputError("Heads on a body mitigate one attribute: leave the body and its preset out, or name one.")
    if dataset.further and shares[0]:
        raise InputError("--audit-share is for one attribute: measure several with apod audit, or name one.")
    if annotator is None and any((one.codes == UNKNOWN).all() for one in dataset.groupings):
        raise InputError(
            f"{dataset.name} has no recorded groups to answer from: name a sensitive column or an annotator."
        )
    if dataset.classes > 2:
        check_many_labels(dataset, settings, score, shares[0])
    if score is not None and not settings.corrects:
        raise InputError("Scores are those of a model to correct: leave the body and its preset out, or the scores.")
    for grouping in dataset.groupings:
        check_group_count(len(grouping.names))
    n_train = int(len(dataset) * dataset.task.split[0])
    if budget == 0 and any(one.known is not None for one in dataset.groupings):
        return Spending(0, 0)
    allowed = answers_allowed(dataset.task.budget if budget is None else budget, n_train, len(dataset.group_names))
    audit_share, verify_share = shares
    if not 0 <= audit_share < 1:
        raise InputError(f"The audit share is {audit_share!r}: give a number from 0 (no audit) to below 1, like 0.2.")
    checks.verify_share(verify_share)
    if verify_share and not settings.corrects:
        raise InputError("Verified is the correction of a model: leave the body and its preset out, or the share.")
    audits, verifying = (int(share * allowed + 1e-9) for share in shares)
    rest = allowed - audits - verifying
    answers_allowed(max(1, rest), n_train, len(dataset.group_names))  # enough must be left to train on
    return Spending(rest, audits, verifying)


def _facts(
    dataset: Dataset, settings: Settings, plan: Spending, seed: int, shares: tuple[float, float], score: str | None
) -> RunFacts:
    """What a run must have in common with the one it continues."""
    told = {name: value for name, value in settings.to_dict().items() if name != "least_gain" or value}
    facts: RunFacts = {"settings": told, "seed": seed, "budget": plan.budget, "split": list(dataset.task.split)}
    if plan.audit:
        facts["audit_share"] = shares[0]
    if plan.verify:
        facts["verify_share"] = shares[1]
    known = [one.known for one in dataset.groupings if one.known is not None]
    if known:
        facts["known"] = digest(*known)
    if dataset.weights is not None:
        facts["weights"] = digest(dataset.weights)
    if score is not None:
        facts["score"] = score
    return facts


def _approach(
    dataset: Dataset,
    settings: Settings,
    budget: int,
    seed: int,
    listener: Listener,
    watch: Stopwatch,
    prepared: Prepared | None,
    score: str | None,
) -> Approach:
    if settings.corrects:
        listener.stage("Fitting the base model" if score is None else "Reading the scores")
        with watch.time("model"):
            return CorrectionOfModel(dataset, settings, seed, score, budget)
    from apod.method.prepare import prepare  # with torch, which a corrected model does without
    from apod.run.heads import HeadsOnBody

    listener.stage("Pre-training the body")
    with watch.time("body"):
        prepared = prepared or prepare(dataset, settings, seed, listener.body)
    with watch.time("training"):
        return HeadsOnBody(prepared, settings, budget, seed)


def _audit(
    outcome: Outcome, answers: int, interview: Interview, seed: int, known: Answers, closed: list[int]
) -> AuditJson | None:
    approach, finished = outcome.approach, outcome.finished
    predicted = finished.decided[[0, finished.selected]]
    guessed = approach.guessed_groups(finished.trajectory)
    people = Audited(measured(approach, seed), predicted, guessed, known, closed)
    return audited(people, answers, approach.mitigation.round, interview)


def _take_up(
    saved: Checkpoint | None, resume: bool, approach: Approach, recorder: Recorder
) -> dict[tuple[int, int], int]:
    """Start a new checkpoint, or restore the one to resume; gives the answers already heard."""
    if saved is None:
        return {}
    if not resume:
        saved.start()
        return {}
    split = approach.split
    trajectories = len(approach.mitigation.answers)
    groups = answer_count([len(one.names) for one in approach.dataset.groupings])
    sizes = Sizes(trajectories, len(split.train), len(split.validation), len(split.test), groups)
    heard = saved.heard(sizes)
    earlier = approach.load(saved, heard, recorder.to_dict())
    if earlier is not None:
        recorder.restore(earlier)
    return heard


def _run(
    approach: Approach,
    interview: Interview,
    budget: int,
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
                approach.save(saved, recorder.to_dict())
        listener.round(recorder.rounds[-1], entries, budget)
        last = time.perf_counter()

    with watch.time("rounds"):
        batch = approach.settings.questions_per_round
        run_rounds(approach.mitigation, interview, budget, batch, on_round, approach.enough)


def _finish(approach: Approach, recorder: Recorder, facts: RunFacts, preset: str, watch: Stopwatch) -> Outcome:
    dataset, split, finished = approach.dataset, approach.split, approach.finish()
    reported = measured(approach, facts["seed"])
    with watch.time("recording"):
        entries: list[Metrics] = [
            {**metrics, **point}
            for metrics, point in zip(reported.metrics(finished.decided), finished.points, strict=True)
        ]
    before, after = finished.decided[[0, finished.selected]]
    own = finished.facts
    described: Data = {
        "fingerprint": data_fingerprint(dataset),
        "rows": len(dataset),
        "base_rate": float(np.average(dataset.labels, weights=dataset.weights)) if dataset.classes == 2 else None,
        "features": [str(name) for name in dataset.features.columns],
        "key": dataset.key,
    }
    if dataset.weight is not None:
        described["weight"] = dataset.weight
    result: Result = {
        "schema_version": SCHEMA_VERSION,
        "apod_version": __version__,
        "made_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "data": described,
        "dataset": dataset.name,
        "preset": preset,
        "seed": facts["seed"],
        "n_train": len(split.train),
        "n_validation": len(split.validation),
        "n_test": len(split.test),
        "budget": facts["budget"],
        "known_groups": approach.mitigation.answers[0].handed_in,
        "label_names": list(dataset.label_names),
        "attribute": dataset.attribute,
        "attributes": [{"name": one.name, "groups": list(one.names)} for one in dataset.groupings],
        "group_names": list(dataset.group_names),
        "reference": dataset.group_names[-1],
        "metric": dataset.task.metric,
        "notion": approach.mitigation.notion.name,
        "settings": _settings(approach),
        "notes": [*dataset.notes, *approach.notes(), *answers_notes(approach, finished.trajectory)],
        "vanilla": entries[0],
        "tradeoff": entries[1:],
        "selected": entries[finished.selected],
        "selected_because": finished.reason,
        "model": own["model"],
        "correction": own["correction"],
        "verification": own["verification"],
        "estimate": own["estimate"],
        "outlook": own["outlook"],
        "outlook_withheld": own["outlook_withheld"],
        "bound": own["bound"],
        "thresholds": own.get("thresholds"),
        "classifier": None,  # until its file is written
        "differences": reported.differences(before, after),
        "changes": reported.changes(before, after),
        "joint_counts": reported.joint(before, after),
        "by_guess": _by_guess(approach, finished, reported),
        "rounds": recorder.rounds,
        "answers": recorder.answers[finished.trajectory],
        "trajectories": _by_strength(approach, recorder),
        "timing": watch.report(),
    }
    if all(one.known is None for one in dataset.groupings):
        del result["known_groups"]
    if dataset.further:
        result["by_attribute"], result["intersections"] = by_attribute(approach, finished, facts["seed"])
        result["values_told"] = values_told(approach)
        result["notes"] += attribute_notes(result)
    return Outcome(result, approach, finished)


def _by_guess(approach: Approach, finished: Finished, reported: Measured) -> GuessedGaps:
    """What the guesses alone would say of the gaps on the test part: no answer corrects them there."""
    if is_large(len(approach.dataset)):
        return {"base": None, "selected": None}
    guessed = approach.guessed_groups(finished.trajectory)
    base, selected = (reported.by_guess(finished.decided[place], guessed) for place in (0, finished.selected))
    return {"base": base, "selected": selected}


def _settings(approach: Approach) -> RunSettings:
    """Every setting that takes effect, the split, and the sizes of what is trained."""
    found = {**approach.settings.to_dict(), "split": list(approach.dataset.task.split), **approach.sizes()}
    return cast(RunSettings, found)  # most are only listed


def _by_strength(approach: Approach, recorder: Recorder) -> dict[str, list[Answer]] | None:
    """Answers by the strength that asked for them; None where all strengths share them."""
    if approach.settings.trajectories != PER_STRENGTH:
        return None
    return {str(approach.asking_strength(number)): answers for number, answers in enumerate(recorder.answers)}
