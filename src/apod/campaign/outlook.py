"""Whether the rest of a campaign's budget is worth asking for, from what a model's measurement expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apod.campaign.settings import CampaignSettings
from apod.campaign.state import LEAST_GAIN, State

__all__ = ["LEAST_GAIN", "expected_gain", "spent_enough"]


def spent_enough(state: State, rules: CampaignSettings, outcome: Mapping[str, Any] | None) -> bool:
    """Whether a campaign should pause: the rest is expected to narrow the gap by less than its owner asked for.

    It does so once; an owner who goes on wants the rest.
    """
    left = state.budget - state.spent
    if not rules.least_gain or outcome is None or state.not_worth_more or left <= 0:
        return False
    gain = expected_gain(outcome.get("outlook") or (), left * (1 - rules.audit_share))
    return gain is not None and gain < rules.least_gain


def expected_gain(outlook: Sequence[Mapping[str, Any]], more: float) -> float | None:
    """By how much so many more training answers are expected to narrow the gap; None where nothing is known.

    Between the steps of the outlook the gap is taken to change evenly, beyond them not at all. A head that decides the
    same for everybody has no gap in any draw, and tells nothing.
    """
    known = [(entry["answers"], entry["gap"]) for entry in outlook if entry["gap"] is not None]
    if not known or outlook[0]["gap"] is None or outlook[0]["interval"][1] == 0:
        return None
    answers, gaps = zip(*known, strict=True)
    return float(gaps[0] - np.interp(answers[0] + more, answers, gaps))
