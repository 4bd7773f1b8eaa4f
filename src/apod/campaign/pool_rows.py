"""How engines number people and speak of them: rows of the pool inside, rows of the campaign outside."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.campaign.engine import GroupAnswer
from apod.campaign.materials import Features, Materials
from apod.campaign.state import Proposal
from apod.data.blocks import encode_numbers, fit_numbers, is_large
from apod.data.dataset import IntArray
from apod.data.encode import TableEncoder
from apod.errors import InputError
from apod.method.group_knowledge import read_knowledge
from apod.method.selection import Choice, named_reason
from apod.method.settings import Settings


@dataclass(frozen=True, eq=False)
class PoolRows:
    """How an engine numbers people: those it may learn from 0, 1, ... in order, those held out apart."""

    training: IntArray
    held_out: IntArray

    def inside(self, rows: AbstractSet[int] | Sequence[int]) -> list[int]:
        """Numbers of those rows that may be learnt from, sorted."""
        given = np.unique(np.fromiter(rows, dtype=np.int64, count=len(rows)))
        place, inside = self._place(given)
        found: list[int] = place[inside].tolist()
        return found

    def _place(self, rows: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Where these rows are among those that may be learnt from, and which of them are there at all."""
        place = np.searchsorted(self.training, rows)
        return place, self.training[np.minimum(place, len(self.training) - 1)] == rows

    def learnable(self, answers: Sequence[GroupAnswer]) -> tuple[list[int], Sequence[GroupAnswer]]:
        """The answers that may teach, and the numbers of their rows: others are of people held out, or not drawn."""
        place, inside = self._place(np.array([answer.row for answer in answers], dtype=np.int64))
        kept = [answer for answer, there in zip(answers, inside.tolist(), strict=True) if there]
        return place[inside].tolist(), kept

    def among_held_out(self, rows: IntArray) -> IntArray:
        """Numbers of people held out; InputError where one is not."""
        if not len(self.held_out) or not np.isin(rows, self.held_out).all():
            raise InputError("Only people held out for the audit can be audited: create the campaign with audit_share.")
        return np.searchsorted(self.held_out, rows)

    def everybody(self, training: npt.NDArray[Any], held_out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        """Both parts of a matrix in the order of the campaign's rows."""
        if held_out is None or not len(self.held_out):
            return training
        order = np.argsort(np.concatenate([self.training, self.held_out]), kind="stable")
        return np.asarray(np.concatenate([training, held_out])[order])


def part(features: Features, rows: IntArray) -> Features:
    """These rows of a campaign's features."""
    return features.iloc[rows] if isinstance(features, pd.DataFrame) else features[rows]


def table_encoder(materials: Materials, settings: Settings) -> TableEncoder:
    """How columns are read: as the rows that the campaign began with teach, those held out apart."""
    first, rules = materials.original, materials.settings
    known = read_knowledge(settings, rules.groups, rules.label_names) if settings.corrects else None
    seen, gaps = part(first.features(), first.training_rows()), settings.body != "precomputed"
    return TableEncoder(gaps=gaps).fit(seen, read_as=None if known is None else known.read_as)


def check_encodable(materials: Materials, features: Features) -> None:
    """InputError where new rows could not be read as the campaign's are: one such row would end all refits."""
    settings, rules = materials.settings.method, materials.settings
    if settings is None:  # an engine of one's own
        return
    first = materials.original
    if settings.body == "precomputed" and isinstance(features, np.ndarray) and is_large(len(first)):
        encode_numbers(fit_numbers(np.asarray(first.batch_features(0))), features)
        return
    encoder = table_encoder(materials, settings)
    encoded, known = encoder.transform(features), read_knowledge(settings, rules.groups, rules.label_names)
    if known is not None and settings.corrects:
        known.placed(encoder, encoded)


def pool_rows(materials: Materials) -> PoolRows:
    """The rows of a campaign, as its engine numbers them."""
    return PoolRows(materials.training_rows(), materials.held_out())


def proposal(materials: Materials, rows: PoolRows, choice: Choice) -> Proposal:
    """A choice among the pool as a campaign takes it: rows as it numbers them, names in the place of codes."""
    reason = named_reason(choice.reason, materials.settings.groups, materials.settings.label_names)
    drawn = choice.probability if choice.probability < 1 else None  # 1 = a rule chose, nothing was drawn
    return Proposal(int(rows.training[choice.row]), reason, "training", drawn)


def one_by_one(choices: Sequence[Choice]) -> list[Choice]:
    """Choices of one batch with the probability of each single draw instead of that to be anywhere in the batch.

    A campaign asks them in order and may refit after any: k of n people drawn together, in random order, are draws with
    probability 1/n, 1/(n - 1), ...
    """
    piles: dict[tuple[object, ...], list[int]] = {}
    for place, choice in enumerate(choices):
        pile = tuple(choice.reason.get(name) for name in ("rule", "group", "label"))
        piles.setdefault(pile, []).append(place)
    found = list(choices)
    for places in piles.values():
        for before, place in enumerate(places):
            choice = choices[place]
            if choice.probability < 1:
                people = round(len(places) / choice.probability)
                found[place] = replace(choice, probability=1 / (people - before))
    return found
