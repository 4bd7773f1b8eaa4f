"""What a run reports of several attributes and of their intersections, on the test part.

Groups with fewer than `FEW_PEOPLE` people of a label in the test part are named and left out of gap and reference;
where that would leave fewer than two, all are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from apod.data.dataset import MOST_GROUPS, UNKNOWN, Dataset, Grouping, IntArray
from apod.heads.correction import AnyCorrection, ClassCorrection, Correction
from apod.method.attribute_mitigation import AttributeMitigation
from apod.method.correction_choice import FEW_PEOPLE
from apod.method.joint import cell_codes, cell_names
from apod.report.measured import AttributeResult, GroupAnswers
from apod.report.result import CellWeight, Result
from apod.run.approach import Approach, Finished
from apod.run.record import Measured

MOST_UNANSWERED = 0.1
"""Share of the rows in intersections that nobody was found of, from which on the run says so."""


def crossed(groupings: Sequence[Grouping]) -> Grouping | None:
    """The intersections of all attributes as one grouping; None where there are more than can be compared."""
    sizes = [len(one.names) for one in groupings]
    if np.prod(sizes) > MOST_GROUPS:
        return None
    names = cell_names([one.names for one in groupings])
    return Grouping(
        " x ".join(one.name for one in groupings), names, cell_codes([one.codes for one in groupings], sizes)
    )


def left_out(labels: IntArray, codes: IntArray, size: int, least: int = FEW_PEOPLE) -> IntArray:
    """The groups with fewer people of a label than can be compared; none where fewer than two would be left."""
    people = np.array([[((codes == group) & (labels == label)).sum() for group in range(size)] for label in (0, 1)])
    few = np.flatnonzero((people < least).any(axis=0))
    return few if size - len(few) >= 2 else np.empty(0, dtype=np.int64)


def about(dataset: Dataset, grouping: Grouping, without: IntArray) -> Dataset:
    """The same people with the groups of one attribute alone, those left out as if nothing were on record."""
    kept = [code for code in range(len(grouping.names)) if code not in without]
    place = np.full(len(grouping.names) + 1, UNKNOWN)
    place[kept] = np.arange(len(kept))
    names = tuple(grouping.names[code] for code in kept)
    return replace(dataset, groups=place[grouping.codes], group_names=names, attribute=grouping.name, further=())


def by_attribute(
    approach: Approach, finished: Finished, seed: int
) -> tuple[dict[str, AttributeResult], AttributeResult | None]:
    """Every attribute on the test part, and their intersections."""
    dataset, mitigation = approach.dataset, approach.mitigation
    assert isinstance(mitigation, AttributeMitigation)
    told = [mitigation.likelihoods_of(attribute) for attribute in range(len(dataset.groupings))]
    train, decided = approach.split.train, finished.decided[[0, finished.selected]]
    codes = [_told_codes(len(train), own) for own in told]
    found = {
        one.name: _attribute(approach, one, own, decided, seed)
        for one, own in zip(dataset.groupings, codes, strict=True)
    }
    together = crossed(dataset.groupings)
    if together is None:
        return found, None
    cells = cell_codes(codes, [len(one.names) for one in dataset.groupings])
    return found, _attribute(approach, together, cells, decided, seed)


def _told_codes(rows: int, told: dict[int, npt.NDArray[np.float64]]) -> IntArray:
    """(n,) the likeliest group of everybody of the training part who was answered for, UNKNOWN of all others."""
    found = np.full(rows, UNKNOWN)
    for row, likelihood in told.items():
        if row < rows:
            found[row] = int(likelihood.argmax())
    return found


def _attribute(
    approach: Approach, grouping: Grouping, told: IntArray, decided: npt.NDArray[np.bool_], seed: int
) -> AttributeResult:
    dataset, test = approach.dataset, approach.split.test
    labels, codes = dataset.labels[test], grouping.codes[test]
    without = left_out(labels, codes, len(grouping.names)) if (codes != UNKNOWN).any() else np.empty(0, dtype=np.int64)
    measured = Measured(about(dataset, grouping, without), test, approach.mitigation.notion, seed)
    vanilla, selected = measured.metrics(decided)
    groups: dict[str, GroupAnswers] = {
        name: {
            "answers": int((told == code).sum()),
            "people": int((codes == code).sum()),
            "compared": code not in without,
        }
        for code, name in enumerate(grouping.names)
    }
    return {
        "groups": groups,
        "left_out": [grouping.names[code] for code in without],
        "vanilla": vanilla,
        "selected": selected,
        "differences": measured.differences(*decided),
        "changes": measured.changes(*decided),
    }


def cell_weights(dataset: Dataset, correction: AnyCorrection) -> list[CellWeight]:
    """A correction's direction by names: how far it shifts the margin of one group's people of some labels.

    Of several attributes the groups of all, then intersections where these count.
    """
    labels = [
        [name for name, inside in zip(dataset.label_names, cell, strict=True) if inside]
        for cell in correction.scores.cells.T
    ]
    found: list[CellWeight] = []
    names = [name for one in dataset.groupings for name in one.names]
    if correction.direction.shape[1] > len(names):  # intersections count too
        names += cell_names([one.names for one in dataset.groupings])
    events = 1 if isinstance(correction, Correction) else correction.counted.shape[1]
    for place, weights in enumerate(correction.direction):
        for name, weight in zip(names, weights, strict=True):
            entry: CellWeight = {"labels": labels[place // events], "group": name, "weight": float(weight)}
            if isinstance(correction, ClassCorrection):
                entry["decision"] = dataset.label_names[correction.counted.ravel()[place]]
            found.append(entry)
    return found


def values_told(approach: Approach) -> int:
    """How many groups were told in all: a visit tells up to one per attribute."""
    mitigation = approach.mitigation
    assert isinstance(mitigation, AttributeMitigation)
    return sum(len(mitigation.likelihoods_of(attribute)) for attribute in range(len(mitigation.sizes)))


def _moved(name: str, one: AttributeResult) -> str | None:
    before, after = one["vanilla"]["gap"], one["selected"]["gap"]
    if before is None or after is None:
        return None
    return f"the gap of {name} goes from {100 * before:.1f} to {100 * after:.1f} points"


def attribute_notes(result: Result) -> list[str]:
    """What became of every gap, groups that were left out, and intersections that many are in and no answer named."""
    together = result["intersections"]
    found = {**result["by_attribute"], **({} if together is None else {"intersections": together})}
    notes = [f"On the test part, {', '.join(filter(None, map(_moved, found, found.values())))}."]
    for name, one in found.items():
        if one["left_out"]:
            notes.append(
                f"Left out of the gap of {name}, with fewer than {FEW_PEOPLE} people of a label in the test part: "
                f"{'; '.join(one['left_out'])}."
            )
    if together is None:
        notes.append(f"There are more than {MOST_GROUPS} intersections: they are not compared.")
        return notes
    cells = together["groups"].values()
    people = sum(cell["people"] for cell in cells)
    unanswered = sum(cell["people"] for cell in cells if not cell["answers"])
    if people and unanswered > MOST_UNANSWERED * people:
        notes.append(
            f"{unanswered / people:.0%} of the people are in intersections that nobody who was asked about belongs to: "
            "what is said of these is pooled from their margins. Ask about more people, or merge small groups."
        )
    return notes
