"""Audits: how unfair a model is, from its decisions and a few people's groups, with intervals and a plan."""

from apod.audit.audit import audit
from apod.audit.design import Draw, Precision, allocate, draw_people
from apod.audit.result import Audit, Change, Estimate, Rates, ViewAudit

__all__ = [
    "Audit",
    "Change",
    "Draw",
    "Estimate",
    "Precision",
    "Rates",
    "ViewAudit",
    "allocate",
    "audit",
    "draw_people",
]
