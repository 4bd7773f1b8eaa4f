"""A mitigation as plain arrays, to be saved and taken up again, and its reasons in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from apod.method.algorithm1 import Mitigation
from apod.method.selection import Reason

Arrays = dict[str, npt.NDArray[Any]]


def trained_arrays(mitigation: Mitigation) -> Arrays:
    """What training has made of heads and f_a, by name."""
    arrays = {f"heads.{name}": value for name, value in mitigation.heads.state().items()}
    return arrays | {f"proxy.{name}": value for name, value in mitigation.proxy.state().items()}


def take_up(mitigation: Mitigation, arrays: Mapping[str, npt.NDArray[Any]], round_: int) -> None:
    """Go on from saved heads and f_a, after so many rounds; answers are the caller's."""
    mitigation.heads.restore(_under(arrays, "heads."))
    mitigation.proxy.restore(_under(arrays, "proxy."))
    mitigation.round = round_


def named_reason(reason: Reason, group_names: Sequence[str], label_names: Sequence[str]) -> dict[str, Any]:
    """A reason with the names of group and label in place of their codes."""
    found = dict(reason)
    for key, names in (("group", group_names), ("label", label_names)):
        if found.get(key) is not None:
            found[key] = names[int(found[key] or 0)]
    return found


def _under(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
