"""Numbers as a reader sees them, and what a result means in words that claim no more than the numbers carry."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeGuard

from apod.audit.json_types import EstimateJson
from apod.fairness.metrics import RATE_WORDS, SHOWN_RATES, GroupRatesJson, RateName
from apod.report.result import MetricName, Metrics, Result

UNDEFINED = "–"

Value = float | int | None
Span = tuple[float, float]


def defined(value: Value) -> TypeGuard[float]:
    """Whether there is a number."""
    return value is not None and math.isfinite(value)


def span(pair: Sequence[Value] | None) -> Span | None:
    """An interval's two ends, or None where it is undefined."""
    if pair is None or len(pair) != 2:
        return None
    low, high = pair
    return (float(low), float(high)) if defined(low) and defined(high) else None


def count(value: Value) -> str:
    """1234 as 1,234."""
    return UNDEFINED if value is None else f"{value:,.0f}"


def percent(value: Value, digits: int = 1) -> str:
    """.8471 as 84.7%."""
    return UNDEFINED if value is None or not defined(value) else f"{100 * value + 0.0:.{digits}f}%"


def points(value: Value, digits: int = 1) -> str:
    """A difference of rates, .168, as 16.8 (percentage points; the unit is said by the text around it)."""
    return UNDEFINED if value is None or not defined(value) else f"{_rounded(100 * value, digits):.{digits}f}"


def signed_points(value: Value, digits: int = 1) -> str:
    """A change, -.0031, as −0.3 with a real minus sign; what rounds to nothing is ±0.0."""
    if value is None or not defined(value):
        return UNDEFINED
    rounded = _rounded(100 * value, digits)
    sign = "±" if rounded == 0 else "+" if rounded > 0 else "−"
    return f"{sign}{abs(rounded):.{digits}f}"


def plain(value: Value, digits: int = 3) -> str:
    """A number of any size to three significant digits."""
    if value is None or not defined(value):
        return UNDEFINED
    size = abs(value)
    if size >= 1e5 or 0 < size < 1e-4:
        return f"{value:.1e}".replace("-", "−")
    return (f"{value:,.0f}" if size >= 1000 else f"{value:.{digits}g}").replace("-", "−")


def decimal(value: Value, digits: int = 3) -> str:
    """A number with fixed decimals, as the paper prints EOP and Delta-EO."""
    return (
        UNDEFINED if value is None or not defined(value) else f"{_rounded(value, digits):.{digits}f}".replace("-", "−")
    )


def percent_span(pair: Sequence[Value] | None) -> str:
    """An interval of rates: 83.8 to 85.0."""
    ends = span(pair)
    return "" if ends is None else f"{points(ends[0])} to {points(ends[1])}"


def within(estimate: EstimateJson | None, show: Callable[[Value], str] = points) -> str:
    """An estimate with its interval, 13.3 (6.8 to 14.4); the interval alone where answers are too few for one."""
    if estimate is None or not (defined(estimate["low"]) and defined(estimate["high"])):
        return "not known"
    ends = f"{show(estimate['low'])} to {show(estimate['high'])}"
    return f"{show(estimate['value'])} ({ends})" if defined(estimate["value"]) else ends


def label_name(name: str) -> str:
    """A label by name; a bare number says that it is one: label 1."""
    return f"label {name}" if str(name).lstrip("-").replace(".", "", 1).isdigit() else str(name)


def seconds(value: Value) -> str:
    """A duration."""
    return UNDEFINED if value is None else f"{value:.1f} s" if value >= 0.95 else f"{1000 * value:.0f} ms"


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def plural(number: int, one: str, many: str | None = None) -> str:
    """1 answer, 30 answers."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _rounded(value: float, digits: int) -> float:
    return round(value, digits) + 0.0  # + 0.0 turns -0.0 into 0.0


Way = Literal["to_negative", "to_positive"]
Direction = Literal["smaller", "larger", "unclear", "same", "undefined"]

BALANCED_ACCURACY_LOSS = 0.015
"""From here on a loss of balanced accuracy is called what it is."""

NEARLY_NOBODY = 0.25
"""Positive predictions below this share of what they were have nearly vanished."""

TURNED = 0.005
"""A difference of at least this much, before and after with opposite signs, turned round."""

LEVELLED = 0.005
"""A rate that fell by at least this much, in every group, was levelled down."""


@dataclass(frozen=True)
class Change:
    """One number without and with mitigation, with 95% intervals where there are any."""

    before: float | None
    after: float | None
    before_span: Span | None = None
    after_span: Span | None = None
    paired: Span | None = None  # interval of after - before over the same people, where the run measured it

    @property
    def difference(self) -> float | None:
        """After minus before."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def direction(self) -> Direction:
        """Which way it went, `unclear` unless the intervals tell the two apart."""
        difference = self.difference
        if difference is None:
            return "undefined"
        if difference == 0:
            return "same"
        return ("smaller" if difference < 0 else "larger") if self._told_apart() else "unclear"

    def _told_apart(self) -> bool:
        if self.paired is not None:
            return not self.paired[0] <= 0 <= self.paired[1]
        if self.before_span is None or self.after_span is None:
            return False
        return self.before_span[1] < self.after_span[0] or self.after_span[1] < self.before_span[0]


def change_of(result: Result, metric: MetricName) -> Change:
    """How a metric of the test part changed from vanilla to selected."""
    vanilla, selected, differences = result["vanilla"], result["selected"], result.get("differences")
    return Change(
        vanilla[metric],
        selected[metric],
        span(vanilla["intervals"].get(metric)),
        span(selected["intervals"].get(metric)),
        span(differences and differences.get(metric)),
    )


@dataclass(frozen=True)
class Caution:
    """Something a reader must not miss."""

    title: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """The head of the page."""

    gap: Change
    accuracy: Change
    sentences: tuple[str, str, str]
    cautions: tuple[Caution, ...]


def judge(result: Result) -> Verdict:
    """Everything the head of the page says."""
    gap, accuracy = change_of(result, "gap"), change_of(result, "accuracy")
    cautions = tuple(_cautions(result, gap))
    at_a_price = f" But {_lowered(cautions[0].title)}." if cautions and gap.direction == "smaller" else ""
    sentences = (
        _gap_sentence(result, gap) + at_a_price,
        _accuracy_sentence(result, accuracy),
        _cost_sentence(result),
    )
    return Verdict(gap, accuracy, sentences, cautions)


def _lowered(text: str) -> str:
    return text[0].lower() + text[1:]


def groups_phrase(result: Result) -> str:
    """The groups by name, or how many they are."""
    names = result["group_names"]
    return listed(names) if len(names) <= 4 else f"the {len(names)} groups"


def nobody_recorded(result: Result) -> bool:
    """Whether no person of the test part has a recorded group."""
    return bool(result["vanilla"]["excluded"] >= result["n_test"])


def _gap_sentence(result: Result, gap: Change) -> str:
    between = f"between {groups_phrase(result)}"
    numbers = f"from {points(gap.before)} to {points(gap.after)} percentage points"
    people = f"the {count(result['n_test'])} people of the test part"
    if gap.direction == "undefined":
        why = (
            "nobody in the test part has a recorded group"
            if nobody_recorded(result)
            else "some group has nobody to measure a rate on"
        )
        return f"Whether the gap {between} shrank cannot be measured here: {why}."
    if gap.direction == "same":
        return f"The gap {between} did not change: {points(gap.before)} percentage points on {people}."
    if gap.direction == "unclear":
        return f"The gap {between} went {numbers} on {people}, which is not distinguishable from no change."
    verb = "Mitigation narrowed" if gap.direction == "smaller" else "Mitigation widened"
    return f"{verb} the gap {between} {numbers} on {people}."


def _accuracy_sentence(result: Result, accuracy: Change) -> str:
    difference = accuracy.difference
    if difference is None:
        return "Accuracy cannot be measured here."
    if accuracy.direction == "same":
        return f"Accuracy did not change ({percent(accuracy.after)})."
    verb = "fell" if difference < 0 else "rose"
    text = f"Accuracy {verb} from {percent(accuracy.before)} to {percent(accuracy.after)}"
    hedge = ", a difference within sampling error" if accuracy.direction == "unclear" else ""
    balanced = change_of(result, "balanced_accuracy")
    aside = f" (balanced accuracy: {percent(balanced.before)} to {percent(balanced.after)})"
    return f"{text}{hedge}{aside if balanced.difference is not None else ''}."


def _cost_sentence(result: Result) -> str:
    changes = result["changes"]
    answers = plural(len(result["answers"]), "answer")
    asked = f"This took {answers} about people chosen among {count(result['n_train'])}"
    if not changes["total"]:
        return f"{asked}, and changes nobody's decision in the test part."
    changed = f"and changes the decision on {plural(changes['total'], 'person', 'people')} of the test part"
    return f"{asked}, {changed} ({percent(changes['share'])}){_most_affected(result)}."


def _most_affected(result: Result) -> str:
    """The largest flow, where it is most of all changes."""
    groups, flows = result["changes"]["groups"], []
    if len(result["label_names"]) == 2:
        negative, positive = (label_name(name) for name in result["label_names"])
        ways: tuple[tuple[Way, str, str], ...] = (
            ("to_positive", negative, positive),
            ("to_negative", positive, negative),
        )
        flows = [(flips[key], name, f"from {old} to {new}") for name, flips in groups.items() for key, old, new in ways]
    else:
        flows = [
            (people, name, f"to {label_name(new)}")
            for name, flips in groups.items()
            for new, people in flips["to"].items()
        ]
    number, name, way = max(flows, default=(0, "", ""))
    if 2 * number <= result["changes"]["total"]:
        return ""
    return f", {count(number)} of them people recorded as {name} who go {way}"


def selection_rate(metrics: Metrics) -> float | None:
    """Share of everybody with a recorded group who is predicted positive."""
    known = [(g["n"], rate) for g in metrics["groups"].values() if g["n"] and (rate := g["selection_rate"]) is not None]
    people = sum(n for n, _ in known)
    return sum(n * rate for n, rate in known) / people if people else None


def known_rates(groups: Mapping[str, GroupRatesJson], rate: RateName) -> dict[str, float]:
    """One rate of every group that has one."""
    return {name: value for name, found in groups.items() if defined(value := found[rate])}


def _cautions(result: Result, gap: Change) -> list[Caution]:
    vanished = _vanished(result)
    levelled = None if vanished else _levelled_down(result, gap)  # the first says it all
    checks = (vanished, _turned_round(result), _balanced_loss(result), levelled)
    return [caution for caution in checks if caution is not None]


def _vanished(result: Result) -> Caution | None:
    positive, vanilla, selected = label_name(result["label_names"][1]), result["vanilla"], result["selected"]
    before, after = selection_rate(vanilla), selection_rate(selected)
    if before and after is not None and after < NEARLY_NOBODY * before:
        text = (
            f"{percent(after)} are predicted {positive}, {percent(before)} were without mitigation. Where almost "
            "nobody is, all groups' rates are alike, whatever the classifier is worth. Look at the other strengths."
        )
        return Caution(f"Almost nobody is predicted {positive} any more", text)
    for name, old in vanilla["groups"].items():
        found = selected["groups"].get(name)
        rate, new = old["selection_rate"], None if found is None else found["selection_rate"]
        if rate and new is not None and new < NEARLY_NOBODY * rate:
            text = f"{percent(new)} of {name} are predicted {positive}, {percent(rate)} were without mitigation."
            return Caution(f"Almost nobody of {name} is predicted {positive} any more", text)
    return None


def _turned_round(result: Result) -> Caution | None:
    """A rate in which the group that had less now has more, or the other way round; None where none did."""
    vanilla, selected = result["vanilla"]["groups"], result["selected"]["groups"]
    found = []
    compared = [(RATE_WORDS[rate], known_rates(vanilla, rate), known_rates(selected, rate)) for rate in SHOWN_RATES]
    for label in result["label_names"] if len(result["label_names"]) > 2 else ():
        title = f"{label_name(label)} recognised"
        compared.append((title, _recognised(vanilla, label), _recognised(selected, label)))
    for what, old, new in compared:
        known = [name for name in old if name in new]
        if len(known) < 2:
            continue
        low, high = min(known, key=lambda name: old[name]), max(known, key=lambda name: old[name])
        before, after = (rates[high] - rates[low] for rates in (old, new))
        if before >= TURNED and after <= -TURNED:
            found.append(
                f"{what}: {high} had {points(before)} points more than {low} "
                f"({percent(old[high])} against {percent(old[low])}) and now has {points(-after)} "
                f"less ({percent(new[high])} against {percent(new[low])})"
            )
    if not found:
        return None
    return Caution("The difference between the groups turned round", ". ".join(found) + ".")


def _recognised(groups: Mapping[str, GroupRatesJson], label: str) -> dict[str, float]:
    """Of more than two labels: the share of a label's people who are predicted so, of every group that has one."""
    rates = {name: found["labels"][label]["tpr"] for name, found in groups.items()}
    return {name: rate for name, rate in rates.items() if rate is not None}


def _balanced_loss(result: Result) -> Caution | None:
    change = change_of(result, "balanced_accuracy")
    if change.difference is None or change.difference >= -BALANCED_ACCURACY_LOSS:
        return None
    return Caution(
        f"Balanced accuracy fell by {points(-change.difference)} points",
        f"From {percent(change.before)} to {percent(change.after)} on the test part: the classifier tells the "
        "labels apart less well than without mitigation, whatever the rows say that it was chosen on. Part of a "
        "smaller gap may come from that, not from fairer decisions.",
    )


def _levelled_down(result: Result, gap: Change) -> Caution | None:
    """A smaller gap for which every group's TPR fell."""
    if gap.difference is None or gap.difference >= 0:
        return None
    vanilla, selected = result["vanilla"]["groups"], result["selected"]["groups"]
    moves = {name: _move(vanilla[name]["tpr"], selected[name]["tpr"]) for name in vanilla if name in selected}
    if not moves or any(move is None or move > -LEVELLED for move in moves.values()):
        return None
    closed = " All that the gap shrank by was taken from somebody." if gap.direction == "smaller" else ""
    return Caution(
        "Every group's true positive rate fell",
        "This is levelling down ("
        + ", ".join(f"{name} {signed_points(move)}" for name, move in moves.items())
        + f" points): no group's rate of being rightly found went up.{closed}",
    )


def _move(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
