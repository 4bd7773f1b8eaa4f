"""Whether the rest of a campaign's budget is worth asking for, from what a model's measurement expects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apod.campaign.settings import CampaignSettings
from apod.campaign.state import State
from apod.method.outlook import ExpectedGap, gain, is_enough


def spent_enough(state: State, rules: CampaignSettings, outlook: Sequence[ExpectedGap]) -> bool:
    """Whether a campaign should pause: the rest is expected to narrow the gap by less than its owner asked for.

    It does so once; an owner who goes on wants the rest.
    """
    if not rules.least_gain or state.not_worth_more or state.paused or state.finished or state.spent >= state.budget:
        return False
    return is_enough(gain_of(outlook, people_left(rules, state.budget - state.spent)), rules.least_gain)


def people_left(rules: CampaignSettings, answers: int) -> float:
    """How many people so many answers teach about: some are for the audit, and some share a person."""
    return answers * (1 - rules.audit_share) / rules.overlap


def gain_of(outlook: Sequence[ExpectedGap], more: float) -> float | None:
    """By how much so many more people are expected to narrow the gap; None beyond what was looked at.

    Between the steps of the outlook the gap is taken to change evenly.
    """
    known = [entry for entry in outlook if entry.gap == entry.gap]
    if not known or known[0] is not outlook[0] or known[0].answers + more > known[-1].answers + 0.5:
        return None
    there = known[0].answers + more
    gap = float(np.interp(there, [entry.answers for entry in known], [entry.gap for entry in known]))
    later = min((entry for entry in known if entry.answers >= there - 0.5), key=lambda entry: entry.answers)
    return gain(known[0], ExpectedGap(round(there), gap, gap, gap, later.strength))
