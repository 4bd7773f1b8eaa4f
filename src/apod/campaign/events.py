"""Events: what happened, in canonical form, chained by hashes over salted commitments.

An event's open body goes into the chain as it is. What may have to be erased (a group, a reason, a model's hash) goes
in only as a commitment: the hash of a random salt and the value. With salt and value deleted, nothing in the chain
tells a two-valued answer from its opposite, and the chain still verifies.

An answer about several attributes is one value with a part for each. Every part has a salt and a commitment of its own,
and the chain has the commitment to all of those: one part can be erased and the others still verify.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from apod.text import plain

GENESIS = "0" * 64
"""What the first event of a chain points back to."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `at` is the database's time in milliseconds since 1970."""

    seq: int
    at: int
    kind: str
    body: Mapping[str, Any]
    commitment: str | None = None
    hash: str = ""


@dataclass(frozen=True)
class Sealed:
    """A value that may be erased, with the salt that hides it in the chain."""

    value: Any = field(repr=False)
    salt: bytes = field(repr=False, default_factory=lambda: secrets.token_bytes(32))

    @cached_property
    def text(self) -> str:
        """The value in canonical JSON."""
        return canonical(self.value)

    @property
    def commitment(self) -> str:
        """What stands in the chain for it."""
        return commit(self.salt, self.text)


@dataclass(frozen=True)
class SealedParts(Sealed):
    """A value with parts that may be erased one by one: a list, None where there is nothing to say."""

    @cached_property
    def text(self) -> str:
        """The parts with their salts, in canonical JSON."""
        parts = [{"salt": secrets.token_hex(32), "value": part} for part in self.value]
        return canonical({PARTS: parts})

    @property
    def commitment(self) -> str:
        """What stands in the chain for it."""
        return commitment_of(self.salt, self.text)


PARTS = "parts"
_IN_PARTS = '{"parts":'


def commit(salt: bytes, text: str) -> str:
    """The commitment to a canonical text."""
    return hashlib.sha256(salt + text.encode()).hexdigest()


def commitment_of(salt: bytes, text: str) -> str:
    """The commitment to a stored answer, in parts or not; parts that were erased stand with their own."""
    if not text.startswith(_IN_PARTS):
        return commit(salt, text)
    try:
        return commit(salt, canonical([_part_commitment(part) for part in json.loads(text)[PARTS]]))
    except (KeyError, TypeError, ValueError):  # somebody wrote it who is not us
        return ""


def _part_commitment(part: Mapping[str, Any]) -> str:
    if "commitment" in part:
        return str(part["commitment"])
    return commit(bytes.fromhex(part["salt"]), canonical(part["value"]))


def stored_value(text: str) -> Any:
    """The value of a stored answer: a group's code, or a list of them, None where a part says nothing or is erased."""
    found = json.loads(text)
    return [part.get("value") for part in found[PARTS]] if text.startswith(_IN_PARTS) else found


def erased_parts(text: str) -> frozenset[int]:
    """Which parts of a stored answer were erased."""
    if not text.startswith(_IN_PARTS):
        return frozenset()
    return frozenset(place for place, part in enumerate(json.loads(text)[PARTS]) if "commitment" in part)


def without_part(text: str, places: Sequence[int]) -> str:
    """A stored answer in parts without these: their commitments stay, their salts and values go."""
    parts = json.loads(text)[PARTS]
    kept = [{"commitment": _part_commitment(part)} if at in places else part for at, part in enumerate(parts)]
    return canonical({PARTS: kept})


def link(previous: str, seq: int, at: int, kind: str, body: str, commitment: str | None) -> str:
    """The hash that ties an event to all before it."""
    text = canonical([previous, seq, at, kind, body, commitment])
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Any) -> str:
    """JSON with one spelling per value: sorted keys, no spaces, ASCII; NaN and infinities become null."""
    try:
        return _encode(value)
    except (TypeError, ValueError):  # NumPy's, or not finite
        return _encode(plain(value))


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode  # built once: it is slow
