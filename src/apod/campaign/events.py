"""Events: what happened, in canonical form, chained by hashes over salted commitments.

An event's open body goes into the chain as it is. What may have to be erased (a group, a reason, a model's hash) goes
in only as a commitment: the hash of a random salt and the value. With salt and value deleted, nothing in the chain
tells a two-valued answer from its opposite, and the chain still verifies.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
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


def commit(salt: bytes, text: str) -> str:
    """The commitment to a canonical text."""
    return hashlib.sha256(salt + text.encode()).hexdigest()


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
