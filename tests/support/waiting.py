"""Waiting for what must happen, as long as a busy machine may need for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 600.0  # seconds: only what never happens takes so long


def until(look: Callable[[], T]) -> T:
    """What a look finds, as soon as it finds something."""
    end, pause = time.monotonic() + PATIENCE, 0.01
    while not (found := look()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(pause)
        pause = min(1.3 * pause, 0.2)  # looking costs time that the others need
    return found
