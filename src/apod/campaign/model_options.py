"""Which method a new campaign follows, kept with it for good, and the scores of a model that lives elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.campaign.settings import settings_of
from apod.data.own import require_column
from apod.errors import InputError
from apod.method.settings import PRESETS, check_posterior_size
from apod.models.scores import probabilities_of


@dataclass(frozen=True, eq=False)
class GivenScores:
    """Probabilities of the positive label by a model that lives elsewhere."""

    values: npt.NDArray[np.float64]  # (n,)
    column: str | None = None  # what the table calls them


@dataclass(frozen=True)
class Shape:
    """What of a pool decides which methods are possible."""

    rows: int
    columns: int
    groups: int
    embedding: bool  # the columns are embeddings, rather than those of a table
    scored: bool  # scores were given


def own_options(options: Mapping[str, Any], least_gain: float, pool: Shape) -> dict[str, Any]:
    """The options of the package's own engine as they are kept: with the method that they mean today.

    Refuses what the engine could not be built with or do, before anything is written.
    """
    kept = {**options, "body": _body(options, pool)}
    chosen = settings_of(kept)
    if pool.scored and not chosen.corrects:
        raise InputError("Scores are corrected, not trained on: leave them out, or leave the body and its preset out.")
    if chosen.body == "precomputed" and chosen.proxy == "laplace":
        check_posterior_size(pool.columns, pool.groups)
    if least_gain and not chosen.looks_ahead:
        raise InputError("A least gain looks ahead by the posterior of heads: choose the preset heads, or none.")
    return kept


def _body(options: Mapping[str, Any], pool: Shape) -> str | None:
    """What heads are trained on; None: a model is kept and corrected, the default but for very large pools."""
    from apod.data.blocks import is_large  # loads torch: a server starts without it

    preset = PRESETS.get(str(options.get("preset", "default")), PRESETS["default"])  # an unknown one is refused later
    body: str | None = options.get("body", preset.body)
    if body is None and ("body" in options or pool.scored or not is_large(pool.rows)):
        return None
    return "precomputed" if pool.embedding else body or "contrastive"


def scores_from(score: Any, frame: Any, show: Sequence[str] | None = None) -> GivenScores | None:
    """The scores as they were handed in: a column of the table, by name, or one number per row; None without any."""
    if score is None:
        return None
    if not isinstance(score, str):
        values = probabilities_of(score, "The scores")
        if len(values) != len(frame):
            raise InputError(f"There are {len(values)} scores for {len(frame)} rows: pass one per row.")
        return GivenScores(values)
    if score in (show or ()):
        raise InputError(f"{score!r} is the model's score: leave it out of the columns that annotators see.")
    require_column(score, [str(name) for name in getattr(frame, "columns", ())], "the table")
    return GivenScores(probabilities_of(frame[score], f"The column {score!r}"), score)


def without_scores(frame: pd.DataFrame | Any, scores: GivenScores | None) -> Any:
    """A table without the column of scores: it is neither a feature nor shown."""
    if scores is None or scores.column is None or not isinstance(frame, pd.DataFrame):
        return frame
    return frame.drop(columns=scores.column, errors="ignore")
