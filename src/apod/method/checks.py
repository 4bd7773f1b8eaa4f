"""Checks of single values: InputError, with the name and what to pass, unless the value can be; what settings mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, get_args

from apod.errors import BudgetError, InputError, UnknownName

Check = Callable[[str, Any], None]
"""InputError unless the value of the setting of this name can be."""

MOST_PARAMETERS = 8448
"""Weights a posterior may have, over all groups: its matrix takes half a gigabyte then, a round half a minute."""

MEASURED_ONLY: Mapping[str, str] = MappingProxyType(
    {
        "predictive_parity": "predictive_parity is measured, not equalised: who is selected decides whom it compares, "
        "and equal precisions contradict equal error rates where base rates differ. Mitigate equalized_odds, and "
        "measure it with `apod audit --notion predictive_parity`.",
        "selection_rate_ratio": "selection_rate_ratio is measured, not equalised: its ratio is 1 exactly where "
        "selection rates are equal. Mitigate demographic_parity; reports show the ratio beside the rates.",
    }
)
"""Notions that are measured only, and what to do instead."""


def one_of(what: str, kind: Any) -> Check:
    """A check for one of the names of a Literal type."""

    def check(name: str, value: Any) -> None:
        if value not in get_args(kind):
            raise UnknownName(what, str(value), get_args(kind))

    return check


def notion_name(names: Sequence[str]) -> Check:
    """A check for a notion that can be equalised; of one that is measured only, the error says why."""

    def check(name: str, value: Any) -> None:
        if value not in names:
            raise (
                InputError(MEASURED_ONLY[value])
                if value in MEASURED_ONLY
                else UnknownName("fairness notion", str(value), names)
            )

    return check


def optional(check: Check) -> Check:
    """The check of a setting that may also be None."""

    def checked(name: str, value: Any) -> None:
        if value is not None:
            check(name, value)

    return checked


def number(name: str, value: Any) -> None:
    """A check for finite numbers."""
    if isinstance(value, bool) or not isinstance(value, Real) or not abs(float(value)) < float("inf"):
        raise InputError(f"{name} is {value!r}: pass a number.")


def whole(least: int) -> Check:
    """A check for whole numbers from `least` up."""

    def check(name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise InputError(f"{name} is {value!r}: pass a whole number from {least} up.")

    return check


def below(limit: float, example: str = "") -> Check:
    """A check for numbers from 0 to below a limit."""

    def check(name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < limit:
            raise InputError(f"{name} is {value!r}: pass a number from 0 to below {limit:g}{example}.")

    return check


MOST_VERIFYING = 0.33
"""Share of the budget that may be kept to verify a correction."""


def verify_share(value: Any) -> None:
    """A check for the share of the budget that verifies a correction."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= MOST_VERIFYING:
        raise InputError(f"The share to verify by is {value!r}: give a number from 0 to {MOST_VERIFYING}.")


def share_or_count(name: str, value: Any) -> None:
    """A check for a share above 0 and below 1, or a whole number of people from 1 up."""
    number(name, value)
    if not 0 < float(value) < 1 and not (float(value) >= 1 and float(value).is_integer()):
        raise InputError(f"{name} is {value!r}: pass a share of the people, like 0.2, or how many of them, like 200.")


def positive(name: str, value: Any) -> None:
    """A check for finite numbers above 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < float("inf"):
        raise InputError(f"{name} is {value!r}: pass a positive number.")


def assigned(sign: str, form: str) -> Check:
    """A check for comma-separated entries of two texts with a sign between them."""

    def check(name: str, value: Any) -> None:
        entries = value.split(",") if isinstance(value, str) else [""]
        if not all(part.strip() for entry in entries for part in entry.rpartition(sign)[::2]):
            raise InputError(f"{name} takes {form}, comma-separated, got {value!r}.")

    return check


def different_strengths(name: str, value: Any) -> None:
    """A check for positive numbers, none of them twice."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InputError(f"{name} is {value!r}: pass a list of numbers.")
    strengths = list(value)
    for strength in strengths:
        if isinstance(strength, bool) or not isinstance(strength, Real):
            raise InputError(f"A strength is {strength!r}: pass numbers.")
    if not strengths or not all(0 < strength < float("inf") for strength in strengths):
        raise InputError(f"Strengths must be positive numbers, got {strengths}: leave 0 out, it is always trained.")
    if len(set(strengths)) != len(strengths):
        raise InputError(f"Strengths must differ from each other, got {strengths}.")


def answers_allowed(budget: int | float, n_train: int, n_groups: int) -> int:
    """The budget as a count: a number below 1 is a share of the training part, rounded down."""
    if not 0 < budget < float("inf"):
        raise BudgetError(f"The budget must be positive, got {budget}: give a count of answers or a share below 1.")
    if budget >= 1 and budget != int(budget):
        raise BudgetError(f"A budget of {budget} is neither a whole number of answers nor a share below 1.")
    count = int(budget * n_train) if budget < 1 else int(budget)
    if count > n_train:
        raise BudgetError(
            f"A budget of {count} answers is more than the {n_train} rows of the training part: ask for fewer."
        )
    if count < n_groups:
        raise BudgetError(f"A budget of {count} answers is less than one per group ({n_groups} groups): allow more.")
    return count


def check_posterior_size(width: int, n_groups: int) -> None:
    """InputError where the posterior of so wide an input for so many groups would take too long and too much memory."""
    size = (width + 1) * (1 if n_groups == 2 else n_groups)
    if size > MOST_PARAMETERS:
        raise InputError(
            f"{width} columns for {n_groups} groups make {size} weights, and a posterior has at most "
            f"{MOST_PARAMETERS}: use narrower embeddings, fewer groups, or the proxy 'logistic'."
        )


@dataclass(frozen=True)
class Meaning:
    """What a reader must know of a setting."""

    title: str  # in a report
    help: str  # on the command line
    check: Check
    option: str | None = None  # on the command line; None: it is not offered there
    choices: tuple[str, ...] = ()


def named(kind: Any, what: str, title: str, help_: str, option: str | None = None) -> dict[str, Meaning]:
    """Of a setting that is one of several names."""
    names = get_args(kind)
    check = notion_name(names) if option == "--notion" else one_of(what, kind)
    return {"meaning": Meaning(title, f"{help_}: {', '.join(names)}.", check, option, names)}


def valued(check: Check, title: str, help_: str, option: str | None = None) -> dict[str, Meaning]:
    """Of a setting that holds numbers."""
    return {"meaning": Meaning(title, help_, check, option)}
