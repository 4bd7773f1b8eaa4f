"""The standard models as plain arrays: what predicts and what is saved, whatever version of scikit-learn fitted them.

A pipeline of `models.standard` is read once, after it was fitted, and compared with these arrays on rows it knows; from
then on they predict. A row's score does not depend on the rows beside it, to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit, softmax

from apod.files import digest

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Arrays = Mapping[str, npt.NDArray[Any]]

NONE = -1
"""Code of a category that a model has nothing for."""
STRANGER = "\x00 never seen"
BLOCK = 8192
CODES = 256
"""Categories of a column that a split can tell apart."""
COMPARED_ROWS = 1000
CLOSE = 1e-9


@dataclass(frozen=True)
class Category:
    """A column of texts: the code of each that is known, of a missing cell, and of a text that is not known."""

    name: str
    texts: tuple[str, ...]
    codes: tuple[int, ...]
    missing: int
    unknown: int

    def read(self, frame: pd.DataFrame) -> IntArray:
        """(n,) codes of these rows, `NONE` where there is none."""
        column = frame[self.name]
        places = self._index.get_indexer(pd.Index(column, dtype=object))
        found = np.array([*self.codes, self.unknown], dtype=np.int64)[places]  # -1 reaches the last one
        return np.where(column.isna().to_numpy(), self.missing, found)

    @property
    def width(self) -> int:
        """One more than the largest code."""
        return 1 + max((*self.codes, self.missing, self.unknown))

    @cached_property
    def _index(self) -> pd.Index[Any]:
        return pd.Index(self.texts, dtype=object)


class ArrayModel:
    """What both standard models share: scores block by block, and probabilities from log-odds."""

    arrays: Arrays

    def block(self, frame: pd.DataFrame) -> Floats:
        """(n,) log-odds of the second class; (n, K) logits of more than two."""
        raise NotImplementedError

    def decision_function(self, frame: pd.DataFrame) -> Floats:
        """(n,) log-odds of the second class; (n, K) logits of more than two."""
        starts = range(0, max(len(frame), 1), BLOCK)
        return np.concatenate([self.block(frame.iloc[start : start + BLOCK]) for start in starts])

    def predict_proba(self, frame: pd.DataFrame) -> Floats:
        """(n, 2) probabilities of the two classes; (n, K) of more."""
        logits = self.decision_function(frame)
        if logits.ndim == 2:
            return np.asarray(softmax(logits, axis=1))
        second = expit(logits)
        return np.stack([1 - second, second], axis=1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({digest(*self.arrays.values())})"


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(ArrayModel):
    """Logistic regression on standardised numbers, gaps filled and flagged, and one-hot categories."""

    numbers: tuple[str, ...]
    categories: tuple[Category, ...]
    arrays: Arrays
    """fill (p,), flagged (f,), mean, scale and weights (p + f,), hot (h,) by category in turn, offset (); of more than
    two classes weights, hot and offset have one more axis, the last, of the classes."""

    def block(self, frame: pd.DataFrame) -> Floats:
        """(n,) log-odds of the second class; (n, K) logits of more than two."""
        own = self.arrays
        if own["offset"].ndim:
            return self._logits(frame)
        found = np.full(len(frame), float(own["offset"]))
        if self.numbers:
            values = frame[list(self.numbers)].to_numpy(dtype=np.float64)
            gaps = np.isnan(values)
            both = np.concatenate([np.where(gaps, own["fill"], values), gaps[:, own["flagged"]]], axis=1)
            found += ((both - own["mean"]) / own["scale"] * own["weights"]).sum(axis=1)
        start = 0
        for category in self.categories:
            hot = own["hot"][start : start + category.width]
            found += np.append(hot, 0.0)[category.read(frame)]  # NONE reaches the 0 at the end
            start += category.width
        return found

    def _logits(self, frame: pd.DataFrame) -> Floats:
        """(n, K) class by class, as of two classes."""
        by_class = ("offset", "weights", "hot")
        each = [
            {name: own[..., place] if name in by_class else own for name, own in self.arrays.items()}
            for place in range(len(self.arrays["offset"]))
        ]
        return np.stack([LinearModel(self.numbers, self.categories, own).block(frame) for own in each], axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class BoostedTrees(ArrayModel):
    """Gradient boosting: in every tree a person ends in one leaf, and the leaves add up."""

    numbers: tuple[str, ...]
    categories: tuple[Category, ...]
    arrays: Arrays
    """By node of all trees: feature, threshold, left, right (0: a leaf), gaps_left, value, table (`NONE`: a number);
    tables (t, c + 1) whether a category goes left, a missing one last; roots (trees,); baseline (). Of more than two
    classes roots (trees, K), baseline (K,)."""

    def block(self, frame: pd.DataFrame) -> Floats:
        """(n,) log-odds of the second class; (n, K) logits of more than two."""
        columns: list[npt.NDArray[Any]] = [category.read(frame) for category in self.categories]
        columns += [frame[name].to_numpy(dtype=np.float64) for name in self.numbers]
        gaps = [np.isnan(column) for column in columns]
        roots, baseline = self.arrays["roots"], self.arrays["baseline"]
        if roots.ndim == 1:
            return self._sum(len(frame), float(baseline), roots.tolist(), columns, gaps)
        classes = zip(baseline.tolist(), roots.T.tolist(), strict=True)
        return np.stack([self._sum(len(frame), start, own, columns, gaps) for start, own in classes], axis=1)

    def _sum(
        self,
        count: int,
        start: float,
        roots: list[int],
        columns: list[npt.NDArray[Any]],
        gaps: list[npt.NDArray[np.bool_]],
    ) -> Floats:
        """(count,) the values of everybody's leaves below these roots, added up."""
        found = np.full(count, start)
        for root in roots:
            found += self._leaves(root, columns, gaps)
        return found

    def _leaves(self, node: int, columns: list[npt.NDArray[Any]], gaps: list[npt.NDArray[np.bool_]]) -> Any:
        """(n,) the value of everybody's leaf below this node."""
        own = self.arrays
        left, feature, table = int(own["left"][node]), int(own["feature"][node]), int(own["table"][node])
        if left == 0:
            return own["value"][node]
        if table != NONE:
            goes = own["tables"][table][columns[feature]]
        else:
            goes = columns[feature] <= own["threshold"][node]
            if own["gaps_left"][node]:
                goes = goes | gaps[feature]
        one = self._leaves(left, columns, gaps)
        return np.where(goes, one, self._leaves(int(own["right"][node]), columns, gaps))


def as_arrays(pipeline: Any, numbers: list[str], categories: list[str], frame: pd.DataFrame) -> ArrayModel | None:
    """A fitted pipeline as arrays; None where it is no standard model, or they would score these people otherwise."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    columns, model = pipeline[0], pipeline[-1]
    read = {LogisticRegression: _linear, HistGradientBoostingClassifier: _trees}.get(type(model))
    if read is None:
        return None
    try:
        found = read(columns, model, tuple(numbers), tuple(categories), frame)
    except (AttributeError, KeyError, IndexError, ValueError):  # another version of scikit-learn keeps it otherwise
        return None
    some = frame.iloc[:: max(1, len(frame) // COMPARED_ROWS)]
    return found if np.allclose(found.predict_proba(some), pipeline.predict_proba(some), atol=CLOSE, rtol=0) else None


def _linear(
    columns: Any, model: Any, numbers: tuple[str, ...], categories: tuple[str, ...], frame: pd.DataFrame
) -> LinearModel:
    many = len(model.classes_) > 2
    weights = model.coef_.T if many else model.coef_[0]
    parts: dict[str, npt.NDArray[Any]] = {"offset": np.array(model.intercept_ if many else model.intercept_[0])}
    width = 0
    if numbers:
        imputer, scaler = columns.named_transformers_["numbers"]
        flagged = imputer.indicator_.features_ if imputer.indicator_ is not None else []
        parts |= {"fill": imputer.statistics_, "flagged": np.array(flagged, dtype=np.int64)}
        parts |= {"mean": scaler.mean_, "scale": scaler.scale_, "weights": weights[: len(scaler.mean_)]}
        width = len(scaler.mean_)
    known: tuple[Category, ...] = ()
    if categories:
        known = _categories(columns.named_transformers_["categories"], categories, frame)
        parts["hot"] = weights[width:]
    return LinearModel(numbers, known, parts)


def _categories(encoder: Any, names: tuple[str, ...], frame: pd.DataFrame) -> tuple[Category, ...]:
    """What a one-hot or ordinal encoder, asked, makes of every text, of a missing cell and of a text it never saw."""
    first = frame[list(names)].iloc[:1]
    found, start = [], 0
    for place, name in enumerate(names):
        texts = [str(text) for text in encoder.categories_[place] if isinstance(text, str)]
        probe = pd.concat([first] * (len(texts) + 2), ignore_index=True)
        probe[name] = pd.Series([*texts, np.nan, STRANGER], dtype=object)
        made = np.asarray(encoder.transform(probe))
        if made.shape[1] == len(names):  # ordinal
            codes = np.where(np.isnan(made[:, place]), NONE, np.nan_to_num(made[:, place])).astype(np.int64)
        else:
            width = _hot_width(encoder, place)
            own = made[:, start : start + width]
            codes = np.where(own.any(axis=1), own.argmax(axis=1), NONE)
            start += width
        *each, missing, unknown = codes.tolist()
        found.append(Category(name, tuple(texts), tuple(each), missing, unknown))
    return tuple(found)


def _hot_width(encoder: Any, place: int) -> int:
    rare = None if encoder.max_categories is None else encoder.infrequent_categories_[place]
    return len(encoder.categories_[place]) - (0 if rare is None else len(rare) - 1)


def _trees(
    columns: Any, model: Any, numbers: tuple[str, ...], categories: tuple[str, ...], frame: pd.DataFrame
) -> BoostedTrees:
    known = _categories(columns.named_transformers_["categories"], categories, frame) if categories else ()
    nodes: list[dict[str, npt.NDArray[Any]]] = []
    tables: list[npt.NDArray[np.bool_]] = []
    roots, start = [], 0
    many = len(model.classes_) > 2
    for tree in (tree for round_ in model._predictors for tree in round_):
        nodes.append(_nodes(tree.nodes, start, len(tables)))
        tables += _tables(tree.nodes, tree.raw_left_cat_bitsets)
        roots.append(start)
        start += len(tree.nodes)
    parts = {name: np.concatenate([one[name] for one in nodes]) for name in nodes[0]}
    parts |= {
        "tables": np.array(tables, dtype=np.bool_).reshape(len(tables), CODES + 1),
        "roots": np.array(roots, dtype=np.int64).reshape(-1, len(model.classes_))
        if many
        else np.array(roots, np.int64),
        "baseline": np.array(model._baseline_prediction[0] if many else model._baseline_prediction[0, 0]),
    }
    return BoostedTrees(numbers, known, parts)


def _nodes(own: npt.NDArray[Any], start: int, tables: int) -> dict[str, npt.NDArray[Any]]:
    """A tree's nodes, after so many nodes and tables of other trees."""
    inner = own["is_leaf"] == 0
    by_table = inner & (own["is_categorical"] == 1)
    return {
        "feature": own["feature_idx"].astype(np.int64),
        "threshold": own["num_threshold"].copy(),
        "left": np.where(inner, own["left"].astype(np.int64) + start, 0),
        "right": np.where(inner, own["right"].astype(np.int64) + start, 0),
        "gaps_left": own["missing_go_to_left"] == 1,
        "value": own["value"].copy(),
        "table": np.where(by_table, own["bitset_idx"].astype(np.int64) + tables, NONE),
    }


def _tables(own: npt.NDArray[Any], bitsets: npt.NDArray[np.uint32]) -> list[npt.NDArray[np.bool_]]:
    """Of every split by category, whether each code goes left; the last entry is of missing cells."""
    found = []
    for index, bits in enumerate(bitsets):
        inside = np.unpackbits(bits.astype("<u4").view(np.uint8), bitorder="little").astype(np.bool_)
        node = np.flatnonzero((own["is_categorical"] == 1) & (own["is_leaf"] == 0) & (own["bitset_idx"] == index))
        found.append(np.append(inside, bool(own["missing_go_to_left"][node[0]])))
    return found
