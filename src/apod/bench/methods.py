"""Every method of the comparison as a row of one table: how it asks, how it trains, which values draw its curve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from apod.errors import UnknownName
from apod.method.settings import STRENGTHS

NONE, PARTIAL, ALL = "none", "partial", "all"
"""How much group annotation a method uses: nobody's, the budget's, everybody's."""

_STEP_SIZES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 1.0)
_GCE_POWERS = (2.5, 2.57, 2.64, 2.71, 2.79, 2.86, 2.93, 3.0)  # the paper's range of q
_ALPHAS = (0.5, 0.57, 0.64, 0.71, 0.79, 0.86, 0.93, 1.0)  # the paper's range of alpha
_UPWEIGHTS = (1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 50.0)
_LAST_LAYER = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_LOSSES = (0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1)
_BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


@dataclass(frozen=True)
class Method:
    """One row: a selector x a trainer, and the range of the value that draws its accuracy-fairness curve."""

    name: str
    title: str
    trainer: str  # a key of apod.bench.arms.ARMS, or the correction of a model
    annotation: str
    values: tuple[float, ...]
    value_name: str
    selector: str | None = None
    upfront: bool = False  # the whole budget is asked at once, before training


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method("vanilla", "Vanilla", "pod", NONE, (0.0,), "strength"),
            Method("group-dro", "Group DRO", "group-dro", ALL, _STEP_SIZES, "step size of q"),
            Method("lff", "LfF", "lff", NONE, _GCE_POWERS, "q"),
            Method("fal", "FAL", "fal", PARTIAL, _ALPHAS, "alpha"),
            Method("ssbm", "SSBM", "pod", PARTIAL, STRENGTHS, "strength", "random", upfront=True),
            Method("pod-rs", "POD+RS", "pod", PARTIAL, STRENGTHS, "strength", "random"),
            Method("pod-al", "POD+AL", "pod", PARTIAL, STRENGTHS, "strength", "uncertainty"),
            Method("pod-ca", "POD+CA", "pod", PARTIAL, STRENGTHS, "strength", "coreset"),
            Method("pod-group", "POD+Group selection", "pod", PARTIAL, STRENGTHS, "strength", "group"),
            Method("apod", "APOD", "pod", PARTIAL, STRENGTHS, "strength", "apod"),
            Method("pod-all", "POD, all groups known", "pod-all", ALL, STRENGTHS, "strength"),
            Method("cgl", "CGL", "cgl", PARTIAL, STRENGTHS, "strength", "stratified", upfront=True),
            Method("fairdsr", "FairDSR", "fairdsr", PARTIAL, STRENGTHS, "strength", "stratified", upfront=True),
            Method("ssa", "SSA", "ssa", PARTIAL, _STEP_SIZES, "step size of q", "stratified", upfront=True),
            Method("dfr", "DFR", "dfr", PARTIAL, _LAST_LAYER, "C of the last layer", "stratified", upfront=True),
            Method("jtt", "JTT", "jtt", NONE, _UPWEIGHTS, "weight of errors"),
            Method(
                "exponentiated-gradient",
                "Exponentiated gradient",
                "exponentiated-gradient",
                PARTIAL,
                _BOUNDS,
                "eps",
                "stratified",
                upfront=True,
            ),
            Method(
                "threshold-optimizer",
                "Threshold optimizer",
                "threshold-optimizer",
                PARTIAL,
                (0.0,),
                "tolerance",
                "stratified",
                upfront=True,
            ),
            Method("base", "Base model", "correction", NONE, (0.0,), "accuracy that may be lost"),
            Method("corrected", "Corrected model", "correction", PARTIAL, _LOSSES, "accuracy that may be lost", "gap"),
            Method(
                "corrected-rs", "Corrected, RS", "correction", PARTIAL, _LOSSES, "accuracy that may be lost", "random"
            ),
            Method(
                "corrected-al",
                "Corrected, AL",
                "correction",
                PARTIAL,
                _LOSSES,
                "accuracy that may be lost",
                "uncertainty",
            ),
            Method(
                "corrected-ca", "Corrected, CA", "correction", PARTIAL, _LOSSES, "accuracy that may be lost", "coreset"
            ),
            Method(
                "corrected-group",
                "Corrected, group",
                "correction",
                PARTIAL,
                _LOSSES,
                "accuracy that may be lost",
                "group",
            ),
            Method(
                "corrected-apod", "Corrected, AIS", "correction", PARTIAL, _LOSSES, "accuracy that may be lost", "apod"
            ),
            Method("corrected-all", "Corrected, all known", "correction", ALL, _LOSSES, "accuracy that may be lost"),
        )
    }
)
"""All methods by name: those of the paper, its rivals, then the default and its relatives."""

CORRECTIONS = tuple(name for name, method in METHODS.items() if method.trainer == "correction")
"""The base model, `apod run`'s default, and the same correction on the answers of other selectors."""

RIVALS = ("cgl", "fairdsr", "ssa", "dfr", "jtt", "exponentiated-gradient", "threshold-optimizer")
"""Methods for the same setting that the paper does not compare with."""

PAPER = tuple(name for name in METHODS if name not in (*RIVALS, *CORRECTIONS))
"""Methods of the paper's own comparison."""

SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"paper": PAPER, "rivals": RIVALS, "corrections": CORRECTIONS, "all": tuple(METHODS)}
)
"""Names that stand for several methods."""

ALIASES: Mapping[str, str] = MappingProxyType({"pod-individual": "pod-ca"})
"""POD+Individual selection is the core-set rule under another name: one row, two labels."""


def resolve(names: Iterable[str]) -> list[Method]:
    """The methods of these names, each once, in the order of the table."""
    wanted: set[str] = set()
    for name in names:
        actual = SETS.get(name, (ALIASES.get(name, name),))
        if actual[0] not in METHODS:
            raise UnknownName("method", name, [*METHODS, *ALIASES, *SETS])
        wanted.update(actual)
    return [method for name, method in METHODS.items() if name in wanted]
