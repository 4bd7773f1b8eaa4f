"""A corrected model in a file: f_a by one vector of weights, no draws of it; a standard model as its arrays.

A user's own model is not saved. The file knows its fingerprint, and the model is passed to `load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.classifier.correction import FittedModel, Selection
from apod.classifier.reads import Reads
from apod.classifier.saved_values import finite, matrix, require, saved_encoder, text, texts, whole
from apod.errors import InputError
from apod.files import Unchecked
from apod.heads.correction import AnyCorrection, BiasScores, ClassCorrection, Correction
from apod.method.corrected import CorrectedModel, GuessedGroups
from apod.method.gap_interval import GapEstimate
from apod.method.posterior import Reader
from apod.models.embedding_steps import embedding_step
from apod.models.estimator import EstimatorModel, content_fingerprint, name_of
from apod.models.model import Model, ScoresModel
from apod.models.prediction import frozen
from apod.models.scored import Calibration, ClassCalibration, ScoredModel
from apod.models.standard import plain_frame
from apod.models.standard_arrays import NONE, ArrayModel, BoostedTrees, Category, LinearModel

OWN, SCORES, LINEAR, TREES = "own", "scores", "linear", "trees"
ARRAYS: Mapping[str, type[LinearModel] | type[BoostedTrees]] = {LINEAR: LinearModel, TREES: BoostedTrees}
_TYPES = {np.dtype(kind) for kind in (np.float64, np.int64, np.bool_)}

Arrays = Mapping[str, npt.NDArray[Any]]
Facts = dict[str, Any]


def packed_correction(state: FittedModel) -> tuple[Arrays, Facts]:
    """The arrays and facts that a corrected model is made from again."""
    own, scored = state.model, state.model.scored
    model, arrays = packed_base(scored.model, state.name)
    facts: Facts = {
        "model": model | {"own_threshold": state.own_threshold},
        "calibration": _packed_calibration(scored.calibration),
        "encoder": scored.encoder.to_dict(),
        "reads": {"columns": list(state.reads.columns), "words": {n: list(w) for n, w in state.reads.words.items()}},
        "columns": None if state.columns is None else list(state.columns),
        "selection": _packed_selection(state.selection),
        "correction": None,
        "attributes": {name: list(groups) for name, groups in state.attributes.items()},
    }
    packed = {f"model.{name}": np.asarray(value) for name, value in arrays.items()}
    if own.groups is not None and own.correction is not None:
        scores = own.correction.scores
        facts["correction"] = {"cells": scores.cells.tolist()} | (
            {"counted": own.correction.counted.tolist()}
            if isinstance(own.correction, ClassCorrection)
            else {"cut": own.correction.cut}
        )
        parts = {
            "centre": own.groups.reader.centre,
            "components": own.groups.reader.components,
            "weights": own.groups.weights,
            "shares": scores.shares,
            "direction": own.correction.direction,
            "deciles": state.deciles,
        }
        for pair, own_table in (own.groups.associations or {}).items():
            parts[f"association.{pair[0]}.{pair[1]}"] = own_table
        if own.groups.sizes:
            facts["correction"] |= {"sizes": list(own.groups.sizes), "crossed": own.groups.associations is not None}
        packed |= {f"correction.{name}": np.asarray(value) for name, value in parts.items()}
    return packed, facts


def _packed_calibration(own: Calibration | ClassCalibration) -> Facts:
    if isinstance(own, ClassCalibration):
        return {"slope": own.slope}
    return {"slopes": list(own.slopes), "offset": own.offset}


def _calibration(saved: Unchecked, model: Model) -> Calibration | ClassCalibration:
    if len(model.classes) > 2:
        slope = finite(saved["slope"])
        require(slope > 0, "the calibration is not increasing")
        return ClassCalibration(slope, model.probabilities)
    slopes = tuple(finite(slope) for slope in saved["slopes"])
    require(len(slopes) == (2 if model.probabilities else 1) and min(slopes) > 0, "the calibration is not increasing")
    return Calibration(slopes, finite(saved["offset"]), model.probabilities, model.threshold)


def packed_base(model: Model, name: str) -> tuple[Facts, Mapping[str, npt.NDArray[Any]]]:
    """A model as JSON and plain arrays; of a user's own only what tells it from others."""
    facts: Facts = {"name": name, "threshold": model.threshold, "probabilities": model.probabilities}
    if isinstance(model, ScoresModel):
        return facts | {"kind": SCORES, "column": model.column}, {}
    assert isinstance(model, EstimatorModel)
    predictor = model.estimator
    if isinstance(predictor, LinearModel | BoostedTrees):
        kind = LINEAR if isinstance(predictor, LinearModel) else TREES
        categories = [vars(one) | {"texts": list(one.texts), "codes": list(one.codes)} for one in predictor.categories]
        known = [{field: one[field] for field in Category.__dataclass_fields__} for one in categories]
        return facts | {"kind": kind, "numbers": list(predictor.numbers), "categories": known}, predictor.arrays
    if model.prepare is plain_frame:
        raise InputError(
            "This standard model cannot be saved with the installed version of scikit-learn: install the one named in "
            "constraints.txt and fit again."
        )
    return facts | {"kind": OWN, "fingerprint": model.fingerprint}, {}


def _packed_selection(selection: Selection) -> Facts:
    return {
        "strength": selection.strength,
        "reason": selection.reason,
        "before": _packed_gap(selection.before),
        "after": _packed_gap(selection.after),
        "verification": selection.verification,
    }


def _packed_gap(gap: GapEstimate | None) -> Facts | None:
    return None if gap is None else {name: float(value) for name, value in vars(gap).items()}


def saved_correction(
    saved: Arrays,
    facts: Unchecked,
    classes: npt.NDArray[Any],
    positive: int | None,
    tradeoff: pd.DataFrame,
    estimator: Any,
) -> FittedModel:
    """The corrected model of a file; `estimator` is the user's own, which has to be the one it was made for."""
    about = facts["model"]
    model = saved_base(about, saved, classes if positive is None else classes[[1 - positive, positive]], estimator)
    calibration = _calibration(facts["calibration"], model)
    encoder = saved_encoder(facts["encoder"])
    words = {text(name): texts(own) for name, own in facts["reads"]["words"].items()}
    step = embedding_step(estimator) if estimator is not None else None
    reads = Reads(texts(facts["reads"]["columns"]), words, step)
    read = [*reads.columns, *(reads.name(name, word) for name, own in words.items() for word in own)]
    require([column.name for column in encoder.columns_] == read, "what f_a reads does not fit its encoding")
    columns = None if facts["columns"] is None else texts(facts["columns"])
    require(columns is None or {*reads.columns, *reads.words} <= {*columns}, "a column that f_a reads is not there")
    scored, deciles = ScoredModel(model, calibration, encoder), None
    corrected = CorrectedModel(scored, None, None)
    if facts["correction"] is not None:
        corrected, deciles = _correction(scored, facts["correction"], saved)
    return FittedModel(
        model=corrected,
        reads=reads,
        columns=columns,
        classes=classes,
        positive=positive,
        name=text(about["name"]),
        standard=about["kind"] != OWN,
        own_threshold=about["own_threshold"] is True,
        tradeoff=tradeoff,
        selection=_selection(facts["selection"]),
        deciles=deciles,
        mitigation=None,
        attributes={text(name): texts(groups) for name, groups in facts.get("attributes", {}).items()},
    )


def _correction(scored: ScoredModel, about: Unchecked, saved: Arrays) -> tuple[CorrectedModel, npt.NDArray[np.float64]]:
    """The correction and the deciles of what it saw."""
    width = len(scored.encoder.feature_names_)
    p, free = saved["correction.components"].shape[1], saved["correction.weights"].shape[0]
    sizes = tuple(whole(size) for size in about.get("sizes", ()))
    crossed = about.get("crossed") is True and bool(sizes)
    require(not sizes or sum(sizes) - len(sizes) == free, "attributes and weights differ in number")
    groups = sum(sizes) + (int(np.prod(sizes)) if crossed else 0) if sizes else free + 1
    cells = np.array(about["cells"], dtype=np.bool_)
    classes = len(scored.model.classes)
    require(cells.ndim == 2 and cells.shape[0] == classes and groups >= 2, "the correction is of other labels")
    k = cells.shape[1]
    counted = np.array(about["counted"], dtype=np.int64) if classes > 2 else np.ones((k, 1), dtype=np.int64)
    known = counted.ndim == 2 and len(counted) == k and bool(((counted >= 0) & (counted < classes)).all())
    require(known, "the correction counts other decisions")
    shapes = {
        "centre": (width,),
        "components": (width, p),
        "weights": (free, p + 1),
        "shares": (k, groups),
        "direction": (counted.size, groups),
        "deciles": (groups, 9),
    }
    own = {name: matrix(saved[f"correction.{name}"], shape, name, np.float64) for name, shape in shapes.items()}
    require(bool((own["shares"] > 0).all()), "a share is not positive")
    reader = Reader(own["centre"], own["components"], 0.0, 0.0, np.zeros((2, 2)), 1.0)  # x alone: no targeted columns
    scores = BiasScores(cells, own["shares"])
    correction: AnyCorrection
    if classes > 2:
        correction = ClassCorrection(scores, own["direction"], counted)
    else:
        correction = Correction(scores, own["direction"], finite(about["cut"]))
    pairs = list(combinations(range(len(sizes)), 2)) if crossed else []
    tables = {
        (i, j): matrix(saved[f"correction.association.{i}.{j}"], (sizes[i], sizes[j]), "associations", np.float64)
        for i, j in pairs
    }
    guessed = GuessedGroups(reader, own["weights"], sizes, tables if crossed else None)
    return CorrectedModel(scored, guessed, correction), own["deciles"]


def _selection(saved: Unchecked) -> Selection:
    before, after = (
        None if saved[when] is None else GapEstimate(**{name: float(value) for name, value in saved[when].items()})
        for when in ("before", "after")
    )
    return Selection(
        finite(saved["strength"]), text(saved["reason"]), before, after, verification=text(saved["verification"])
    )


def saved_base(about: Unchecked, saved: Arrays, classes: npt.NDArray[Any], estimator: Any) -> Model:
    """The model that was packed, checked; its arrays are called model.NAME."""
    kind, threshold = about["kind"], finite(about["threshold"])
    require(kind in (OWN, SCORES, *ARRAYS), "the model is of no known kind")
    if kind == OWN:
        return _own_model(about, threshold, classes, estimator)
    if estimator is not None:
        raise InputError("this classifier has a model of its own: leave estimator out.")
    require(0 < threshold < 1, "the threshold is no probability")
    if kind == SCORES:
        return ScoresModel(None if about["column"] is None else text(about["column"]), threshold, classes)
    prefix = "model."
    arrays = {name[len(prefix) :]: own for name, own in saved.items() if name.startswith(prefix)}
    require(all(own.dtype in _TYPES for own in saved.values()), "an array is of another type")
    categories = tuple(_category(one) for one in about["categories"])
    model = ARRAYS[kind](texts(about["numbers"]), categories, arrays)
    _check_arrays(model, len(classes))
    return EstimatorModel(model, np.arange(len(classes)), threshold, prepare=plain_frame)


def _own_model(about: Unchecked, threshold: float, classes: npt.NDArray[Any], estimator: Any) -> EstimatorModel:
    if estimator is None:
        raise InputError(
            f"the model, {text(about['name'])}, is not in the file: pass it, load(path, estimator=model), in Python; "
            "no command can read it."
        )
    own = frozen(
        getattr(estimator, "estimator", estimator) if type(estimator).__name__ == "FrozenEstimator" else estimator
    )
    if content_fingerprint(own) != about["fingerprint"]:
        raise InputError(
            f"the {name_of(own)} passed is another model than the {text(about['name'])} that the correction was fitted "
            "for: pass that one (estimator_ of the fitted classifier), or fit again."
        )
    if len(classes) > 2:
        return EstimatorModel(own, classes, threshold)
    ordered = np.sort(classes)
    return EstimatorModel(own, classes, threshold, column=int(np.flatnonzero(ordered == classes[1])[0]))


def _category(saved: Unchecked) -> Category:
    codes = [*saved["codes"], saved["missing"], saved["unknown"]]
    require(all(type(code) is int and code >= NONE for code in codes), "a category has no code")
    own = texts(saved["texts"])
    require(len(own) == len(saved["codes"]) and len(set(own)) == len(own), "a category stands there twice")
    return Category(text(saved["name"]), own, tuple(saved["codes"]), saved["missing"], saved["unknown"])


def _check_arrays(model: ArrayModel, classes: int) -> None:
    """CheckpointError where a standard model's arrays do not fit together: no score would be safe to ask for."""
    arrays = model.arrays
    for name, own in arrays.items():
        whole = own.dtype.kind != "f" or bool(np.isfinite(own).all())
        require(whole or (name == "threshold" and not np.isnan(own).any()), f"the model's {name} is not finite")
    if isinstance(model, LinearModel):
        _check_linear(model, () if classes == 2 else (classes,))
    elif isinstance(model, BoostedTrees):
        _check_trees(model, () if classes == 2 else (classes,))


def _check_linear(model: LinearModel, each: tuple[int, ...]) -> None:
    """`each`: how many classes more than two have weights of their own."""
    own, p = model.arrays, len(model.numbers)
    require(own["offset"].shape == each, "the offset is not one number")
    if p:
        wide = (p + len(own["flagged"]),)
        require(own["fill"].shape == (p,), "the model's numbers do not fit")
        require(all(own[name].shape == wide for name in ("mean", "scale")), "the model's numbers do not fit")
        require(own["weights"].shape == (*wide, *each), "the model's numbers do not fit")
        require(bool((own["scale"] != 0).all()) and bool(np.isin(own["flagged"], np.arange(p)).all()), "a scale is 0")
    if model.categories:
        width = sum(one.width for one in model.categories)
        require(own["hot"].shape == (width, *each), "the model's categories do not fit")


def _check_trees(model: BoostedTrees, each: tuple[int, ...]) -> None:
    own = model.arrays
    size, features = len(own["left"]), len(model.categories) + len(model.numbers)
    by_node = ("feature", "threshold", "right", "gaps_left", "value", "table")
    require(all(own[name].shape == (size,) for name in by_node), "the trees' nodes do not fit")
    fits = own["baseline"].shape == each and own["roots"].ndim >= 1 and own["roots"].shape[1:] == each
    require(fits, "the trees' roots do not fit")
    inner = own["left"] > 0
    places = np.arange(size)
    for side in ("left", "right"):  # children come later in a tree, so that every walk ends
        require(bool((own[side][inner] > places[inner]).all() and (own[side] < size).all()), "a tree has no end")
    require(
        bool((own["left"] >= 0).all() and (own["roots"] >= 0).all() and (own["roots"] < size).all()), "no such node"
    )
    require(bool(((own["feature"][inner] >= 0) & (own["feature"][inner] < features)).all()), "no such column")
    by_table = inner & (own["table"] != NONE)
    require(bool((own["table"][by_table] < len(own["tables"])).all() and (own["table"] >= NONE).all()), "no such table")
    categorical = own["feature"][inner] < len(model.categories)
    require(bool((categorical == by_table[inner]).all()), "a split reads a column of another kind")
    widest = max((one.width for one in model.categories), default=0)
    require(own["tables"].ndim == 2 and own["tables"].shape[1] > widest, "the tables do not fit the categories")
