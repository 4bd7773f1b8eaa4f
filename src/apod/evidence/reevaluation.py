"""Re-evaluation: what moved since some evidence was written, and whether chance alone explains it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from apod.errors import InputError

Facts = Mapping[str, Any]
RATES = ("selection_rate", "impact_ratio", "tpr", "fpr")


@dataclass(frozen=True)
class Moved:
    """One number then and now. `low` and `high` are the ends of the 95 % interval of its change, None where unknown."""

    what: str
    then: float | None
    now: float | None
    low: float | None
    high: float | None
    beyond_chance: bool | None  # None: not known

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Reevaluation:
    """A new audit against earlier evidence of the same model."""

    then: str  # when the evidence was written
    compared: str  # which of its numbers: measured or inferred
    same_data: bool
    due: str
    moved: tuple[Moved, ...]

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "moved": [one.to_dict() for one in self.moved]}

    def lines(self) -> list[str]:
        """In words."""
        said = [f"against evidence of {self.then} ({self.compared}); re-evaluation due by {self.due}"]
        if self.same_data:
            said.append("note: this is the table that the evidence is about, so nothing can have moved.")
        words = {True: "moved beyond chance", False: "not beyond chance", None: "not known"}
        for one in self.moved:
            span = "" if one.low is None or one.high is None else f" [{one.low:+.3f}, {one.high:+.3f}]"
            shown = [("unknown" if value is None else f"{value:.3f}") for value in (one.then, one.now)]
            said.append(f"  {one.what}: {shown[0]} then, {shown[1]} now{span}: {words[one.beyond_chance]}")
        return said


def reevaluate(earlier: Facts, now: Facts) -> Reevaluation:
    """New evidence of an audit against earlier evidence; both are for the decisions in use, the last that each has."""
    old, new = _attribute(earlier), _attribute(now)
    if set(old["groups"]) != set(new["groups"]):
        raise InputError(
            f"The evidence is about the groups {', '.join(old['groups'])}, the audit about {', '.join(new['groups'])}: "
            "name them alike."
        )
    if old["notion"] != new["notion"]:
        raise InputError(f"The evidence has the gap of {old['notion']}, the audit of {new['notion']}: use --notion.")
    kind = "measured" if old["measured"] is not None else "inferred"
    before, after = _in_use(old[kind]), _in_use(new["inferred"])
    if before is None or after is None:
        raise InputError("The evidence holds no rates to compare with: audit first, then write it again.")
    pairs = dict(_numbers(before))
    moved = [_moved(what, pairs[what], found) for what, found in _numbers(after) if what in pairs]
    same = earlier["fingerprints"].get("data") == now["fingerprints"]["data"]
    return Reevaluation(earlier["made_at"], kind, same, earlier["reevaluate_by"], tuple(moved))


def _attribute(evidence: Facts) -> Facts:
    (found,) = evidence["attributes"].values()
    return found  # type: ignore[no-any-return]


def _in_use(found: Facts | None) -> Facts | None:
    return None if found is None else found["after"] or found["before"]


def _numbers(decisions: Facts) -> Iterator[tuple[str, Facts]]:
    """The gap, then every group's rates."""
    yield "gap", decisions["metrics"]["gap"]
    for group, rates in decisions["groups"].items():
        for rate in RATES:
            yield f"{group}, {rate.replace('_', ' ')}", rates[rate]


def _moved(what: str, then: Facts, now: Facts) -> Moved:
    """The change and its interval from two independent estimates, each as far from its end as it is (MOVER)."""
    ends = then["low"], then["high"], now["low"], now["high"]
    if any(end is None for end in ends):
        return Moved(what, then["value"], now["value"], None, None, None)
    if then["value"] is None or now["value"] is None:  # intervals alone: they tell where they do not meet
        apart = then["high"] < now["low"] or now["high"] < then["low"]
        return Moved(what, then["value"], now["value"], now["low"] - then["high"], now["high"] - then["low"], apart)
    change = now["value"] - then["value"]
    low = change - math.hypot(now["value"] - now["low"], then["high"] - then["value"])
    high = change + math.hypot(now["high"] - now["value"], then["value"] - then["low"])
    return Moved(what, then["value"], now["value"], low, high, bool(low > 0 or high < 0))
