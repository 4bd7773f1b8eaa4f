"""A classifier at work elsewhere: made from a run or a campaign, and deciding about new people.

A saved classifier at work on new people: decisions without and with mitigation, and whether these people are like
those it was fitted on. Nobody's group is needed, and no guess of it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.classifier.correction import FittedModel, fitted_model
from apod.classifier.estimator import APODClassifier
from apod.classifier.inputs import settings_parameters
from apod.classifier.reads import Reads
from apod.data.arrays import open_array
from apod.data.columns import read_like
from apod.data.contents import Content, named_pictures, picture_cells, text_cells
from apod.data.dataset import Task
from apod.data.embeddings import is_matrix
from apod.data.encode import NumberColumn, TableEncoder
from apod.data.files import read_table
from apod.data.own import require_column
from apod.errors import InputError
from apod.method.corrected import ModelPool
from apod.method.model_mitigation import ModelMitigation
from apod.method.settings import Settings
from apod.models.content_columns import ContentColumns
from apod.models.model import ScoresModel
from apod.models.scored import Scored

if TYPE_CHECKING:
    from apod.classifier.fitting import FittedHeads


def classifier_of(
    pool: ModelPool,
    mitigation: ModelMitigation,
    settings: Settings,
    *,
    name: str,
    columns: Sequence[str],
    classes: npt.NDArray[Any],
    positive: int | None,
    group_names: Sequence[str],
    strength: float | None = None,
    named: bool = True,
    attributes: Mapping[str, tuple[str, ...]] | None = None,
) -> APODClassifier:
    """The fitted classifier of a standard model, or of a column of scores, as its mitigation left it.

    name: of the model, in words (`Fitted.name`) · columns: of the table it is applied to, the column of scores among
    them; `named` is False where they are those of a plain matrix · classes (K,) labels in ascending order, `positive`
    the place of the positive one of two · group_names: as the mitigation counts them · strength: the operating point
    where the owner chose one; None: as the answers say.
    """
    counted = None if positive is None else classes[positive]
    classifier = _unfitted(settings, counted, mitigation.seed, columns, named, strength=strength)
    reads = Reads(tuple(column.name for column in pool.scored.encoder.columns_))
    known = tuple(group_names) if mitigation.fitted is not None else ()
    state = fitted_model(
        pool, mitigation, reads, tuple(columns), np.asarray(classes), positive, name, settings, own=False
    )
    return classifier._adopt(replace(state, attributes=attributes or {}), known, strength)


def classifier_of_heads(
    state: FittedHeads,
    settings: Settings,
    task: Task,
    seed: int,
    *,
    columns: Sequence[str],
    group_names: Sequence[str],
    named: bool = True,
) -> APODClassifier:
    """The fitted classifier of heads that were trained elsewhere; `columns` of the table, `named` as above."""
    sizes = {"embedding": task.embedding, "hidden": tuple(task.hidden), "metric": task.metric}
    classifier = _unfitted(settings, state.classes[state.positive], seed, columns, named, **sizes)
    return classifier._adopt(state, tuple(group_names), None)


def _unfitted(
    settings: Settings, positive: Any, seed: int, columns: Sequence[str], named: bool, **more: Any
) -> APODClassifier:
    """A classifier with these settings for tables with these columns."""
    own = positive.item() if hasattr(positive, "item") else positive
    classifier = APODClassifier(**settings_parameters(settings), positive=own, random_state=seed, **more)
    classifier.n_features_in_ = len(columns)
    if named:
        classifier.feature_names_in_ = np.array(list(columns), dtype=object)
    return classifier


Floats = npt.NDArray[np.float64]

LEAST_ROWS = 50
"""Fewer people say nothing about how people are distributed."""
FARTHEST = 0.1
"""Difference of two distribution functions that is worth a warning, sampling error aside."""
MORE_CHANGED = 0.02
"""Difference of two shares of changed decisions that is worth one."""


@dataclass(frozen=True, eq=False)
class Decided:
    """What a classifier says of new people."""

    table: pd.DataFrame  # row, id where there is one, base, corrected, score (of more than two labels score_LABEL each)
    expected_changed: float | None  # share of decisions, out of fold in training
    warnings: tuple[str, ...]

    @property
    def changed(self) -> float:
        """Share of decisions that differ from the model's."""
        return float((self.table["base"] != self.table["corrected"]).mean())


def decide(classifier: APODClassifier, X: Any, ids: Any = None) -> Decided:
    """Both decisions and the score of every row, X as `predict` takes it."""
    state, strength = classifier._state, classifier.selected_strength_
    notes: list[str] = []
    expected = None
    if isinstance(state, FittedModel):
        rows = classifier._rows(X)
        people = state.people(rows)
        base, after = (state.labels(own) for own in state.model.decisions(people, [0.0, strength]))
        score = _scores(state.model.at(strength).scores(people), state)
        expected = float(np.interp(strength, state.tradeoff["strength"], state.tradeoff["changed"]))
        notes = drift(state, people, float((base != after).mean()), expected)
    else:
        base, after = classifier.at(0.0).predict(X), classifier.predict(X)
        score = {"score": classifier.predict_proba(X)[:, state.positive]}
    columns = {"row": np.arange(len(base))} | ({} if ids is None else {"id": ids})
    return Decided(pd.DataFrame(columns | {"base": base, "corrected": after} | score), expected, tuple(notes))


def _scores(scores: Floats, state: FittedModel) -> dict[str, Floats]:
    """The column of scores; of more than two labels one of each, score_LABEL."""
    if scores.ndim == 1:
        return {"score": scores}
    return {f"score_{label}": scores[:, place] for place, label in enumerate(state.classes.tolist())}


def drift(state: FittedModel, people: Scored, changed: float, expected: float) -> list[str]:
    """Warnings where new people differ from those of the fit: in f_a's scores, or in how many decisions change."""
    groups, count = state.model.groups, len(people)
    if groups is None or state.deciles is None or count < LEAST_ROWS:
        return []
    found, members = [], groups.members(people.inputs)
    below = (members[:, :, None] <= state.deciles).mean(axis=0)  # (G, 9)
    farthest = float(np.abs(below - np.arange(1, 10) / 10).max())
    if farthest > FARTHEST + 1.36 / np.sqrt(count):
        found.append(
            f"These people differ from those of the fit in what groups are guessed from (distributions are up to "
            f"{farthest:.2f} apart): the correction may do something else here; measure it, or fit again."
        )
    error = np.sqrt(max(expected * (1 - expected), 1e-4) / count)
    if abs(changed - expected) > MORE_CHANGED + 3 * error:
        found.append(
            f"{changed:.1%} of the decisions change, {expected:.1%} did when the classifier was made: measure what it "
            "does here, or fit again."
        )
    return found


def read_people(
    classifier: APODClassifier, path: Path, id_column: str | None = None, pictures: Path | None = None
) -> tuple[Any, Any]:
    """The rows of a file as `predict` takes them, and their ids: of this column, or of one named id; None without.

    Columns are read as the table of the fit was: what held numbers has to. `pictures` is the folder or archive that the
    table's pictures lie in, by default paths go from the table's folder. TableProblems with all that is wrong.
    """
    if is_matrix(path):
        if id_column is not None:
            raise InputError("A .npy matrix has no column of ids: leave --id out.")
        return np.asarray(open_array(path, "people")), None
    frame = read_table(path)
    name = id_column or next((one for one in frame.columns if one.lower() == "id"), None)
    if name is not None and name not in frame.columns:
        raise InputError(f"There is no column {name!r} in {path.name}: name another with --id.")
    numbers, words = _kinds(classifier)
    made = classifier.contents_
    embedded = set() if made is None else {name for own in made.columns for name in own.names}
    read = read_like(frame, [one for one in numbers if one not in embedded], words, path.name)
    if made is not None:
        read = made.embedded(read, _contents(made, frame, path, pictures))
    wanted = getattr(classifier, "feature_names_in_", None)
    if wanted is None:
        return read.to_numpy(), None if name is None else frame[name].to_numpy()
    return read[list(wanted)], None if name is None else frame[name].to_numpy()


def _contents(made: ContentColumns, frame: pd.DataFrame, path: Path, pictures: Path | None) -> list[Content]:
    """The columns of pictures and texts that the classifier was made with."""
    found = []
    for own in made.columns:
        require_column(own.column, list(frame.columns), path.name)
        if own.embedder.kind == "text":
            found.append(Content(own.column, "text", text_cells(frame[own.column])))
        elif pictures is not None:
            found.append(Content(own.column, "picture", named_pictures(pictures, frame, own.column)[1]))
        else:
            found.append(Content(own.column, "picture", picture_cells(own.column, frame[own.column], path.parent)))
    return found


def _kinds(classifier: APODClassifier) -> tuple[list[str], list[str]]:
    """The columns of the table that hold numbers, and those that hold words."""
    state = classifier._state
    if not isinstance(state, FittedModel):
        return _encoded(state.encoder)
    numbers, words = _encoded(state.model.scored.encoder)
    model = state.model.scored.model
    read = {*state.reads.columns}
    numbers = [name for name in numbers if name in read]
    if isinstance(model, ScoresModel) and model.column is not None:
        numbers.append(model.column)
    return numbers, [*(name for name in words if name in read), *state.reads.words]


def _encoded(encoder: TableEncoder | None) -> tuple[list[str], list[str]]:
    if encoder is None:
        raise InputError("This classifier takes numbers as they are: pass them as a .npy matrix.")
    numbers = [column.name for column in encoder.columns_ if isinstance(column, NumberColumn)]
    return numbers, [column.name for column in encoder.columns_ if column.name not in numbers]
