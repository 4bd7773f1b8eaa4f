"""A fitted classifier as one safetensors file with JSON in its header. No pickle: loading runs no code of the file.

What is saved is what predicts, and the trade-off table. The rows it was fitted on and the groups of single people are
not: a loaded classifier predicts and changes its operating point, but cannot say whom to ask about next. The file of a
correction guesses groups from columns, and was fitted on answers that can be erased: it is as confidential as they are.

    format 1    heads on a body
    format 2    a corrected model: `saving_models.py`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apod.classifier.correction import FittedModel
from apod.classifier.fitting import FittedHeads
from apod.classifier.saved_values import (
    finite,
    matrix,
    one_of_two,
    plain,
    require,
    saved_classes,
    saved_encoder,
    saved_table,
    table_rows,
    texts,
    whole,
)
from apod.classifier.saving_models import packed_correction, saved_correction
from apod.data import TableEncoder
from apod.errors import CheckpointError, InputError
from apod.files import packed_tensors, read_checked, replacing
from apod.heads.bank import HeadBank
from apod.models.body import Body, EmbeddingBody
from apod.models.perceptron import PerceptronBody

HEADS, CORRECTION = 1, 2
KIND = "apod classifier"
CONFIDENTIAL = (
    "Confidential: the file guesses people's groups from their columns and was fitted on answers that can be erased. "
    "Keep it as they are kept, and delete it when they are erased."
)


@dataclass(frozen=True, eq=False)
class Saved:
    """All a classifier needs to predict at any of its strengths, and to describe itself."""

    parameters: dict[str, Any]  # of the constructor
    group_names: tuple[str, ...]
    n_features: int | None  # None: X has no columns
    feature_names: tuple[str, ...] | None
    selected_strength: float
    state: FittedHeads | FittedModel


def write_saved(path: Path, saved: Saved) -> None:
    """Write the file, whole or not at all; that of a correction its owner alone may read."""
    content = packed(saved)
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {str(path.parent)!r}: create it first.")
    try:
        with replacing(path, private=isinstance(saved.state, FittedModel)) as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error}): choose another place.") from error


def packed(saved: Saved) -> bytes:
    """The content of the file."""
    state = saved.state
    given = {name: value for name, value in saved.parameters.items() if name != "estimator"}
    facts = {
        "kind": KIND,
        "parameters": {name: plain(value) for name, value in given.items() if name != "body" or isinstance(value, str)},
        "classes": {"dtype": state.classes.dtype.str, "values": plain(state.classes)},
        "positive": state.positive,
        "groups": list(saved.group_names),
        "n_features": saved.n_features,
        "feature_names": None if saved.feature_names is None else list(saved.feature_names),
        "selected_strength": float(saved.selected_strength),
        "tradeoff": {"columns": list(state.tradeoff.columns), "rows": table_rows(state.tradeoff)},
    }
    if isinstance(state, FittedModel):
        tensors, more = packed_correction(state)
        return packed_tensors(tensors, facts | more | {"format": CORRECTION, "note": CONFIDENTIAL})
    tensors, more = _packed_heads(state)
    return packed_tensors(tensors, facts | more | {"format": HEADS})


def _packed_heads(state: FittedHeads) -> tuple[dict[str, Tensor], dict[str, Any]]:
    if not isinstance(state.body, PerceptronBody | EmbeddingBody):
        raise InputError(
            "A torch module cannot be saved without pickle: save the module yourself, compute the embeddings with it, "
            "and fit APODClassifier(body='precomputed') on them."
        )
    tensors = {"heads": state.heads.parameters}
    if isinstance(state.body, PerceptronBody):
        tensors |= {f"body.{name}": torch.from_numpy(array) for name, array in state.body.state().items()}
    return tensors, {
        "encoder": None if state.encoder is None else state.encoder.to_dict(),
        "sizes": list(state.heads.sizes),
        "strengths": plain(state.strengths),
    }


def read_saved(path: Path, estimator: Any = None) -> Saved:
    """Read the file back; CheckpointError unless everything in it fits together, and the user's own model to it."""
    tensors, facts = _read(path)
    if facts.get("kind") != KIND:
        raise CheckpointError(f"{path} is not a saved APODClassifier.")
    if facts.get("format") not in (HEADS, CORRECTION):
        raise CheckpointError(
            f"{path} has format {facts.get('format')!r} and this version of apod reads {HEADS} and {CORRECTION}: "
            "load it with the version that saved it, or fit again."
        )
    try:
        return _rebuild(tensors, facts, estimator)
    except InputError as error:  # the model that was passed, not the file
        raise CheckpointError(f"{path}: {error}") from None
    except CheckpointError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged ({type(error).__name__}): fit and save again.") from error


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    if path.is_dir():
        raise CheckpointError(f"{str(path)!r} is a folder: pass the path given to save.")
    if not path.exists():
        raise CheckpointError(f"There is no file {str(path)!r}: pass the path given to save.")
    try:
        tensors, facts, _ = read_checked(path)  # files of earlier versions have no checksum
    except CheckpointError as error:
        raise CheckpointError(f"{path} cannot be read as a saved classifier ({error}): save it again.") from error
    return tensors, facts


def _rebuild(tensors: Mapping[str, Tensor], facts: Mapping[str, Any], estimator: Any) -> Saved:
    names = None if facts["feature_names"] is None else texts(facts["feature_names"])
    heads = facts["format"] == HEADS
    n_features = None if facts["n_features"] is None and not heads else whole(facts["n_features"])
    require(names is None or len(names) == n_features, "features and their names differ in number")
    if heads:
        if estimator is not None:
            raise InputError("this classifier has heads of its own and takes no model: leave estimator out.")
        state: FittedHeads | FittedModel = _saved_heads(tensors, facts, whole(n_features))
    else:
        described = saved_classes(facts["classes"]), one_of_two(facts["positive"]), saved_table(facts["tradeoff"])
        state = saved_correction(tensors, facts, *described, estimator)
    selected = state.checked_strength(finite(facts["selected_strength"]))
    return Saved(
        parameters={name: tuple(v) if isinstance(v, list) else v for name, v in facts["parameters"].items()},
        group_names=texts(facts["groups"]),
        n_features=n_features,
        feature_names=names,
        selected_strength=selected,
        state=state,
    )


def _saved_heads(tensors: Mapping[str, Tensor], facts: Mapping[str, Any], n_features: int) -> FittedHeads:
    encoder = None if facts["encoder"] is None else saved_encoder(facts["encoder"])
    heads = _bank(tensors["heads"], [whole(size) for size in facts["sizes"]])
    body = _body(tensors, encoder, n_features, heads.sizes[0])
    strengths = np.array([finite(strength) for strength in facts["strengths"]])
    require(
        strengths.shape == (len(heads),) and finite(facts["selected_strength"]) in strengths,
        "heads and strengths differ",
    )
    require(len(set(strengths.tolist())) == len(strengths), "a strength stands there twice")
    positive = one_of_two(facts.get("positive", 1))  # files of earlier versions do not say: it was the second
    table = saved_table(facts["tradeoff"])
    return FittedHeads(saved_classes(facts["classes"]), positive, encoder, body, heads, strengths, table)


def _bank(parameters: Tensor, sizes: list[int]) -> HeadBank:
    require(len(sizes) >= 2 and sizes[-1] == 2 and parameters.ndim == 2, "the heads have impossible sizes")
    each = sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(sizes))
    return HeadBank(matrix(parameters, (len(parameters), each), "heads"), sizes)


def _body(tensors: Mapping[str, Tensor], encoder: TableEncoder | None, n_features: int, width: int) -> Body:
    if encoder is None:
        require(set(tensors) == {"heads"} and width == n_features, "heads and features do not fit")
        return EmbeddingBody(width)
    require(encoder.n_features_in_ == n_features, "encoder and features do not fit")
    if set(tensors) == {"heads"}:  # embeddings, standardised
        require(width == len(encoder.feature_names_), "the heads do not fit the embeddings")
        return EmbeddingBody(width)
    require(set(tensors) == {"heads", "body.weight", "body.bias"}, "there are other tensors than expected")
    weight = matrix(tensors["body.weight"], (width, len(encoder.feature_names_)), "body's weights")
    bias = matrix(tensors["body.bias"], (width,), "body's biases")
    return PerceptronBody(weight.numpy(), bias.numpy())
