"""Evidence from a run's result, an audit's result or the facts of a campaign."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apod import __version__
from apod.errors import InputError
from apod.evidence.measured import changed, findings, joint_table, levelling, ll144, shown_counts
from apod.evidence.sections import (
    ONE_ATTRIBUTE,
    Access,
    Attribute,
    Decisions,
    Estimated,
    Evidence,
    Findings,
    GroupRates,
    Provenance,
    Scope,
    Verdict,
)
from apod.fairness.criterion import outcome, parse_criterion
from apod.files import Unchecked, digest

NOT_STATED = "not stated"
TO_EVERYBODY = "answers drawn at random; nothing is assumed of guesses and of people who gave no answer; 95 %"
DRAWN_UNALIKE = (
    "not measured: the answers were drawn with different chances, so raw rates of the people who answered would "
    "mislead; see what is inferred"
)
LIMITS = (
    "The intervals speak of the people described here and of chance; they do not cover wrong answers, wrong labels, or "
    "people whom the data do not hold.",
    "True and false positive rates take the recorded label as the truth. A label that is itself biased hides a gap.",
    "Not measured: effects over time, on people who never applied, and of how decisions are used.",
)


@dataclass(frozen=True)
class Stated:
    """What only a person can say."""

    system: str = NOT_STATED
    decided_by: str = NOT_STATED


def two_labels(names: Sequence[str]) -> tuple[str, str]:
    """The names of two labels; InputError where there are more."""
    if len(names) != 2:
        raise InputError(f"Evidence speaks of two labels, and this result has {len(names)}: use its result.json.")
    return names[0], names[1]


def _refuse_weights(column: str | None) -> None:
    if column is not None:
        raise InputError(
            f"Evidence is recomputed from counts of people, and these are weighted by {column!r}: hand in the report, "
            "or do without --weight."
        )


def refuse_several(attributes: int) -> None:
    """InputError where there are several attributes: what is left out would look as if it had not been measured."""
    if attributes > 1:
        raise InputError(
            f"Evidence speaks of one attribute, and this is about {attributes}: hand in the report and its JSON, or "
            "write evidence of a run, campaign or audit about each of them."
        )


def evidence_of_run(result: Unchecked, stated: Stated, files: Mapping[str, str]) -> Evidence:
    """From result.json; `files` are the hashes of the run's files by name."""
    if "vanilla" not in result:
        raise InputError("This run has not ended yet: finish it with --resume, then write its evidence.")
    two_labels(result["label_names"])
    if "joint_counts" not in result:
        raise InputError("This result was written before evidence could be: run again with this version.")
    _refuse_weights(result["data"].get("weight"))
    refuse_several(len(result.get("attributes") or ()))
    names, seed, key = result["group_names"], result["seed"], result["data"]["key"]
    table = joint_table(result["joint_counts"]["groups"], result["joint_counts"]["unknown"])
    whole = findings(table, names, result["notion"], seed, key, "groups on record, test part")
    audit = result.get("audit")
    inferred = from_audit(audit, "answers of people of the test part drawn at random") if audit else _expected(result)
    attribute = Attribute(
        groups=tuple(names),
        reference=result["reference"],
        notion=result["notion"],
        measured=whole,
        not_measured=None,
        inferred=inferred,
        not_inferred=None if inferred else "not inferred: heads on a body give no interval that holds",
        counts=shown_counts(table, names),
        levelling=levelling(whole, measured=True),
        changes=changed(table, names),
        ll144=ll144(table.sum(2), names, f"the test part of {result['dataset']}, groups on record"),
        no_ll144=None,
        by_guess=result["by_guess"],
    )
    scope = Scope(
        system=stated.system,
        dataset=result["dataset"],
        rows=result["data"]["rows"],
        part=f"the test part, {result['n_test']} people, which decided nothing",
        label_names=two_labels(result["label_names"]),
        base_rate=result["data"]["base_rate"],
        features=tuple(result["data"]["features"]),
        model=result["model"]["name"] if result["model"] else f"heads on a body ({result['settings']['body']})",
        threshold=_threshold(result),
        decided_by=stated.decided_by,
        mitigation=_mitigation(result),
    )
    prints = {
        "data": result["data"]["fingerprint"],
        "model": result["model"]["fingerprint"] if result["model"] else None,
        "settings": digest(json.dumps(result["settings"], sort_keys=True), size=8),
        "log head": None,
        **files,
    }
    fixed = [result["criterion"]] if result.get("criterion") else []
    made = moment(result["made_at"])
    return Evidence(
        source="run",
        apod_version=__version__,
        made_at=result["made_at"],
        reevaluate_by=year_after(made),
        seed=seed,
        draws_key=key,
        scope=scope,
        criterion=verdict(fixed, attribute.measured, attribute.inferred),
        necessity=necessity(attribute),
        provenance=_run_provenance(result),
        attributes={result["attribute"]: attribute},
        intersections=ONE_ATTRIBUTE,
        limits=(*LIMITS, *result["notes"]),
        fingerprints=prints,
        access=_run_access(result),
    )


def evidence_of_audit(facts: Unchecked, stated: Stated, files: Mapping[str, str]) -> Evidence:
    """From what `apod audit --result` writes."""
    if "joint_counts" not in facts:
        raise InputError("This audit was written before evidence could be: audit again with this version.")
    _refuse_weights(facts["table"].get("weight"))
    names, described, seed = facts["group_names"], facts["table"], facts["seed"]
    table = joint_table(facts["joint_counts"]["groups"], facts["joint_counts"]["unknown"])
    alike = facts["drawn_alike"] or not table[-1].any()
    known = int(table[:-1].sum())
    basis = f"people whose group is known, {known} of {table.sum()}"
    whole = findings(table, names, facts["notion"], seed, "audit", basis) if alike else None
    inferred = from_audit(facts, "answers, and guesses corrected by them, about everybody in the table")
    attribute = Attribute(
        groups=tuple(names),
        reference=facts["reference"],
        notion=facts["notion"],
        measured=whole,
        not_measured=None if alike else DRAWN_UNALIKE,
        inferred=inferred,
        not_inferred=None,
        counts=shown_counts(table, names) if alike else None,
        levelling=levelling(whole or inferred, measured=whole is not None),
        changes=changed(table, names) if alike and whole is not None and whole.after is not None else None,
        ll144=ll144(table.sum(2), names, f"{described['file']}, column {described['attribute']}") if alike else None,
        no_ll144=None if alike else DRAWN_UNALIKE,
        by_guess=guesses(facts),
    )
    scope = Scope(
        system=stated.system,
        dataset=described["file"],
        rows=described["rows"],
        part=f"everybody in the table, {facts['people']} people",
        label_names=two_labels(described["label_names"]),
        base_rate=described["base_rate"],
        features=tuple(described["features"]),
        model=f"any model, known by its decisions: {', '.join(facts['predictions'])}",
        threshold="decisions as given; probabilities above one half are a yes",
        decided_by=stated.decided_by,
        mitigation="none: an audit changes nothing",
    )
    return Evidence(
        source="audit",
        apod_version=__version__,
        made_at=facts["made_at"],
        reevaluate_by=year_after(moment(facts["made_at"])),
        seed=seed,
        draws_key="audit",
        scope=scope,
        criterion=verdict([], attribute.measured, attribute.inferred),
        necessity=necessity(attribute),
        provenance=_audit_provenance(facts),
        attributes={described["attribute"]: attribute},
        intersections=ONE_ATTRIBUTE,
        limits=(*LIMITS, *facts["notes"]),
        fingerprints={"data": described["fingerprint"], "model": None, "settings": None, "log head": None, **files},
        access=Access(
            {"owner": "holds the table and the file of answers; nothing else was written but aggregates"},
            None,
            "not managed: the answers are in the owner's own files",
            (),
        ),
    )


def verdict(fixed: Sequence[Unchecked], measured: Findings | None, inferred: Findings | None) -> Verdict:
    """Whether the last criterion fixed is met, by what is measured and by what is inferred."""
    nothing = Estimated(None)
    if not fixed:
        said = "No acceptance criterion was fixed before the first question."
        return Verdict(None, None, None, None, (), "not measured", nothing, "not measured", nothing, said)
    *earlier, last = fixed
    criterion = parse_criterion(last["text"])
    numbers = [_number(one, criterion.metric) for one in (measured, inferred)]
    by_measure, by_inference = (outcome(criterion, one.value, one.low, one.high) for one in numbers)
    first = by_measure if numbers[0].value is not None else by_inference
    on = "measured" if numbers[0].value is not None else "inferred"
    certainty = {
        "met": "with 95 % certainty: the whole interval meets it",
        "not met": "with 95 % certainty: the whole interval misses it",
        "not decided": "the bound lies inside the 95 % interval",
        "not measured": "there is no such number",
    }[first]
    said = f"{last['text']}: {first} by what is {on}, {certainty}."
    said += "" if last["answers_then"] == 0 else f" It was fixed after {last['answers_then']} answers."
    return Verdict(
        text=last["text"],
        fixed_at=last["fixed_at"],
        answers_then=last["answers_then"],
        reason=last["reason"],
        history=tuple(earlier),
        measured=by_measure,
        measured_number=numbers[0],
        inferred=by_inference,
        inferred_number=numbers[1],
        words=said,
    )


def _number(found: Findings | None, metric: str) -> Estimated:
    """A metric of the decisions in use; nothing where it is not known."""
    if found is None:
        return Estimated(None)
    return (found.after or found.before).metrics.get(metric, Estimated(None))


def from_audit(audit: Unchecked, basis: str) -> Findings:
    """What an audit infers, as `apod audit --json` has it."""
    names = list(audit["predictions"])
    after = names[-1] if len(names) > 1 else None
    change = audit["change"]
    unknown = audit["people"] - audit["answers"]["drawn"] - audit["answers"]["told"]
    return Findings(
        basis=f"{basis}: {audit['answers']['drawn']} drawn at random, {audit['answers']['told']} known besides",
        people=audit["people"],
        unknown=unknown,
        before=_inferred(audit["predictions"][names[0]], audit),
        after=None if after is None else _inferred(audit["predictions"][after], audit),
        change={} if change is None else {"gap": Estimated(**change["gap"])},
    )


def _inferred(view: Unchecked, audit: Unchecked) -> Decisions:
    people = audit["people"]
    groups = {}
    for name, found in view["groups"].items():
        counted = Estimated(**found["people"])
        share = None if counted.value is None else counted.value / people
        rates = {rate: Estimated(**found[rate]) for rate in ("selection_rate", "tpr", "fpr", "impact_ratio")}
        groups[name] = GroupRates(counted, share, share is not None and share < 0.02, **rates)
    tn, fp, fn, tp = view["cells"]["people"]  # of people whose group is not known for certain
    metrics = {"gap": Estimated(**view["gap"])}
    metrics["demographic_parity_difference"] = _unsigned(view["selection_rate_difference"])
    ratios = [one.impact_ratio for one in groups.values() if one.impact_ratio.high is not None]
    metrics["impact_ratio"] = min(ratios, key=lambda one: one.high or 0.0) if ratios else Estimated(None)
    if not audit["answers"]["told"]:  # then the cells hold everybody, and accuracy needs no group
        right = [part / whole for part, whole in ((tn, tn + fp), (tp, fn + tp)) if whole]
        metrics["accuracy"] = Estimated((tn + tp) / people)
        metrics["balanced_accuracy"] = Estimated(sum(right) / len(right))
    return Decisions(groups, metrics, view["bounds"], TO_EVERYBODY)


def _unsigned(found: Unchecked) -> Estimated:
    """The size of a signed difference."""
    value, low, high = found["value"], found["low"], found["high"]
    if low is None or high is None:
        return Estimated(None)
    least = max(0.0, low, -high)
    return Estimated(None if value is None else abs(value), least, max(abs(low), abs(high)))


def _expected(result: Unchecked) -> Findings | None:
    """The gaps that the answers of a corrected model lead to expect; rates per group are not inferred there."""
    estimate = result.get("estimate")
    if estimate is None:
        return None

    def decisions(which: str) -> Decisions:
        low, high = estimate[which]["interval"]
        return Decisions({}, {"gap": Estimated(estimate[which]["gap"], low, high)}, {"low": None, "high": None}, "none")

    return Findings(
        basis=f"{len(result['answers'])} answers about the training part, and guesses by a posterior of them",
        people=result["n_test"],
        unknown=result["n_test"],
        before=decisions("base"),
        after=decisions("selected") if result["selected"]["strength"] else None,
        change={},
    )


def guesses(audit: Unchecked) -> dict[str, float | None]:
    """What proxies alone say of the gap before and after."""
    views = list(audit["predictions"].values())
    return {"base": views[0]["by_proxies"], "selected": views[-1]["by_proxies"]}


def necessity(attribute: Attribute) -> tuple[str, ...]:
    """What could have been said without anybody's group."""
    found = attribute.measured or attribute.inferred
    said = ["Without anybody's group nothing tells a gap from none: there is nothing to guess groups from."]
    guess = attribute.by_guess.get("base")
    if guess is None or found is None:
        return (*said, "What guesses alone would have said is not known here.")
    gap, kind = found.before.metrics["gap"], "measured" if attribute.measured else "inferred"
    if gap.value is None:
        return (*said, f"Guesses alone, trained on the answers, put the gap at {_points(guess)} points.")
    apart = f"{_points(abs(guess - gap.value))} points away from the {_points(gap.value)} that are {kind}"
    return (
        *said,
        f"Guesses alone, trained on the answers, would have put the gap at {_points(guess)} points: {apart}.",
    )


def _points(value: float) -> str:
    return f"{100 * value:.1f}"


def _threshold(result: Unchecked) -> str:
    if result["model"] is None:
        return "one half, of the head's probability"
    named = result["settings"].get("threshold")
    whose = "the model's own" if named is None else "named by the user"
    return f"{result['model']['threshold']:g} ({whose})"


def _mitigation(result: Unchecked) -> str:
    strength = result["selected"]["strength"]
    done = f"strength {strength:.3g}" if strength else "none: the model is kept as it is"
    return f"{done}. {result['selected_because'] or ''}".strip()


def _run_provenance(result: Unchecked) -> Provenance:
    told = result["answers"]
    silent = sum(answer["group"] is None for answer in told)
    counts = {
        "asked about": len(told),
        "answered": len(told) - silent,
        "cannot tell": silent,
        "refused": None,
        "handed in": result.get("known_groups", 0),
    }
    said = (
        f"Groups are those of the column {result['attribute']!r}: how it came about, self-reported or perceived, the "
    )
    said += "file does not say. Whoever annotated by hand in a terminal perceived them."
    return Provenance("records", counts, None, said)


def _audit_provenance(facts: Unchecked) -> Provenance:
    answers = facts["answers"]
    counts = {
        "asked about": answers["drawn"] + answers["silent"],
        "answered": answers["drawn"],
        "no answer": answers["silent"],
        "known besides": answers["told"],
    }
    said = (
        f"Answers are those of the column {facts['table']['attribute']!r}: how they came about the file does not say."
    )
    return Provenance("records", counts, None, said)


def _run_access(result: Unchecked) -> Access:
    roles = {
        "program": f"read {len(result['answers'])} people's groups to train, each when it was asked for; recorded "
        "groups of the test part to report on",
        "owner": "result.json and checkpoint hold the answers, classifier.apod guesses groups; files readable by their "
        "owner alone",
    }
    return Access(roles, None, "no date was set; delete the run's folder to delete the answers", ())


def moment(text: str) -> datetime:
    """A moment as results have it."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M UTC").replace(tzinfo=UTC)


def year_after(moment: datetime) -> str:
    """A bias audit is to be no older than a year when the system is used (LL144)."""
    return (moment + timedelta(days=365)).strftime("%Y-%m-%d")
