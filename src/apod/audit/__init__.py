"""Audits: how unfair a model is, from its decisions and a few people's groups, with intervals and a plan."""

from apod.audit.estimate import Audit, Change, ViewAudit, audit
from apod.audit.json_types import Estimate
from apod.audit.sampling import Draw, Precision, allocate, draw_people

__all__ = [
    "Audit",
    "Change",
    "Draw",
    "Estimate",
    "Precision",
    "ViewAudit",
    "allocate",
    "audit",
    "draw_people",
]
