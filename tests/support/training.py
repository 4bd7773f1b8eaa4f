"""Settings to test with: the paper's, changed where a test says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from apod.method.penalty import Penalty
from apod.method.pod import Training
from apod.method.settings import PRESETS, SHARED, Settings

PAPER = replace(PRESETS["paper"], trajectories=SHARED)


def paper_settings(**changes: Any) -> Settings:
    """The paper's settings with one annotated set for all strengths, but for these."""
    return replace(PAPER, **changes)


def paper_training(**changes: Any) -> Training:
    """How the paper trains heads, but for these."""
    return replace(Training.from_settings(PAPER, hidden=(32,)), **changes)


def paper_penalty(**changes: Any) -> Penalty:
    """The paper's penalty, but for these."""
    return replace(Training.from_settings(PAPER, hidden=(32,)).penalty, **changes)
