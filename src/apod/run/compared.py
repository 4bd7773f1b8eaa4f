"""Another run on the same people with the same budget, as far as a reader compares the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def compared(result: Mapping[str, Any]) -> dict[str, Any]:
    """What result.json says of the other run: its base, what it selected, and how many answers it read for that."""
    own = result["trajectories"]
    read = result["answers"] if own is None else [answer for answers in own.values() for answer in answers]
    return {
        "preset": result["preset"],
        "vanilla": result["vanilla"],
        "selected": result["selected"],
        "selected_because": result["selected_because"],
        "answers": len(result["answers"]),
        "answers_read": len(read),
        "people_read": len({answer["row"] for answer in read}),
        "seconds": result["timing"]["total_seconds"],
    }
