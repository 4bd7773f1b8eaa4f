"""A fitted classifier as one safetensors file with JSON in its header. No pickle: loading runs no code of the file.

What is saved is what predicts, and the trade-off table. The rows it was fitted on and the groups of single people are
not: a loaded classifier predicts and changes its operating point, but cannot say whom to ask about next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from apod.data import TableEncoder
from apod.data.encode import NumberColumn
from apod.errors import CheckpointError, InputError
from apod.files import packed_tensors, read_checked, replacing
from apod.heads.bank import HeadBank
from apod.models.module import Body, EmbeddingBody
from apod.models.perceptron import PerceptronBody

FORMAT = 1
KIND = "apod classifier"
_WIDEST = 40_000  # bytes of a label: the type of an array of texts is as wide as its longest text ever was
_LABEL_KINDS = "biufUO"  # of NumPy dtypes: booleans, numbers, text, and objects that are one of these


@dataclass(frozen=True, eq=False)
class Model:
    """All a classifier needs to predict at any of its strengths, and to describe itself."""

    parameters: dict[str, Any]  # of the constructor
    classes: npt.NDArray[Any]  # (2,)
    positive: int  # which of them, 0 or 1
    group_names: tuple[str, ...]
    n_features: int
    feature_names: tuple[str, ...] | None
    encoder: TableEncoder | None  # None: X goes into the body as it is
    body: Body
    heads: HeadBank  # one per strength
    strengths: npt.NDArray[np.float64]
    selected_strength: float
    tradeoff: pd.DataFrame


def save_model(path: Path, model: Model) -> None:
    """Write the file, whole or not at all."""
    content = packed_model(model)
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {str(path.parent)!r}: create it first.")
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error}): choose another place.") from error


def packed_model(model: Model) -> bytes:
    """The content of the file."""
    if not isinstance(model.body, PerceptronBody | EmbeddingBody):
        raise InputError(
            "A torch module cannot be saved without pickle: save the module yourself, compute the embeddings with it, "
            "and fit APODClassifier(body='precomputed') on them."
        )
    tensors = {"heads": model.heads.parameters}
    if isinstance(model.body, PerceptronBody):
        tensors |= {f"body.{name}": torch.from_numpy(array) for name, array in model.body.state().items()}
    facts = {
        "kind": KIND,
        "format": FORMAT,
        "parameters": {name: _plain(value) for name, value in model.parameters.items()},
        "classes": {"dtype": model.classes.dtype.str, "values": _plain(model.classes)},
        "positive": model.positive,
        "groups": list(model.group_names),
        "n_features": model.n_features,
        "feature_names": None if model.feature_names is None else list(model.feature_names),
        "encoder": None if model.encoder is None else model.encoder.to_dict(),
        "sizes": list(model.heads.sizes),
        "strengths": _plain(model.strengths),
        "selected_strength": float(model.selected_strength),
        "tradeoff": {"columns": list(model.tradeoff.columns), "rows": _table_rows(model.tradeoff)},
    }
    return packed_tensors(tensors, facts)


def _plain(value: Any) -> Any:
    """A setting or label as JSON holds it; a random generator is left out."""
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise InputError(f"A {type(value).__name__} cannot be saved without pickle: use numbers or text.")


def _table_rows(table: pd.DataFrame) -> list[list[float | None]]:
    return [[None if pd.isna(cell) else cell for cell in row] for row in table.astype(object).to_numpy().tolist()]


def load_model(path: Path) -> Model:
    """Read the file back; CheckpointError unless everything in it fits together."""
    tensors, facts = _read(path)
    if facts.get("kind") != KIND:
        raise CheckpointError(f"{path} is not a saved APODClassifier.")
    if facts.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {facts.get('format')!r} and this version of apod reads {FORMAT}: "
            "load it with the version that saved it, or fit again."
        )
    try:
        return _rebuild(tensors, facts)
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


def _rebuild(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Model:
    encoder = None if facts["encoder"] is None else _encoder(facts["encoder"])
    heads = _heads(tensors["heads"], [_whole(size) for size in facts["sizes"]])
    n_features = _whole(facts["n_features"])
    body = _body(tensors, encoder, n_features, heads.sizes[0])
    strengths = np.array([_finite(strength) for strength in facts["strengths"]])
    selected = _finite(facts["selected_strength"])
    _require(strengths.shape == (len(heads),) and selected in strengths, "heads and strengths differ")
    _require(len(set(strengths.tolist())) == len(strengths), "a strength stands there twice")
    names = None if facts["feature_names"] is None else tuple(_text(name) for name in facts["feature_names"])
    _require(names is None or len(names) == n_features, "features and their names differ in number")
    return Model(
        parameters={name: tuple(v) if isinstance(v, list) else v for name, v in facts["parameters"].items()},
        classes=_classes(facts["classes"]),
        positive=_one_of_two(facts.get("positive", 1)),  # files of earlier versions do not say: it was the second
        group_names=tuple(_text(name) for name in facts["groups"]),
        n_features=n_features,
        feature_names=names,
        encoder=encoder,
        body=body,
        heads=heads,
        strengths=strengths,
        selected_strength=selected,
        tradeoff=_table(facts["tradeoff"]),
    )


def _require(fits: bool, otherwise: str) -> None:
    if not fits:
        raise CheckpointError(f"{otherwise}: fit and save again.")


def _text(value: Any) -> str:
    _require(isinstance(value, str), "a name is not text")
    return str(value)


def _whole(value: Any) -> int:
    _require(
        isinstance(value, int) and not isinstance(value, bool) and value > 0, "a size is not a positive whole number"
    )
    return int(value)


def _one_of_two(value: Any) -> int:
    _require(value in (0, 1) and not isinstance(value, bool), "the positive class is neither the first nor the second")
    return int(value)


def _finite(value: Any) -> float:
    _require(isinstance(value, int | float) and bool(np.isfinite(value)), "a number is missing or not finite")
    return float(value)


def _matrix(tensor: Tensor, shape: tuple[int, ...], what: str) -> Tensor:
    _require(tensor.dtype == torch.float32 and tuple(tensor.shape) == shape, f"the {what} have another type or shape")
    _require(bool(torch.isfinite(tensor).all()), f"the {what} are not all finite")
    return tensor


def _heads(parameters: Tensor, sizes: list[int]) -> HeadBank:
    _require(len(sizes) >= 2 and sizes[-1] == 2 and parameters.ndim == 2, "the heads have impossible sizes")
    each = sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(sizes))
    return HeadBank(_matrix(parameters, (len(parameters), each), "heads"), sizes)


def _encoder(saved: Any) -> TableEncoder:
    encoder = TableEncoder.from_dict(saved)
    for column in encoder.columns_:
        if isinstance(column, NumberColumn):
            _finite(column.mean)
            _require(_finite(column.scale) > 0, "a column's scale is not positive")
            _finite(column.fill or 0.0)
    return encoder


def _body(tensors: Mapping[str, Tensor], encoder: TableEncoder | None, n_features: int, width: int) -> Body:
    if encoder is None:
        _require(set(tensors) == {"heads"} and width == n_features, "heads and features do not fit")
        return EmbeddingBody(width)
    _require(encoder.n_features_in_ == n_features, "encoder and features do not fit")
    if set(tensors) == {"heads"}:  # embeddings, standardised
        _require(width == len(encoder.feature_names_), "the heads do not fit the embeddings")
        return EmbeddingBody(width)
    _require(set(tensors) == {"heads", "body.weight", "body.bias"}, "there are other tensors than expected")
    weight = _matrix(tensors["body.weight"], (width, len(encoder.feature_names_)), "body's weights")
    bias = _matrix(tensors["body.bias"], (width,), "body's biases")
    return PerceptronBody(weight.numpy(), bias.numpy())


def _classes(saved: Mapping[str, Any]) -> npt.NDArray[Any]:
    dtype, values = np.dtype(_text(saved["dtype"])), saved["values"]
    _require(dtype.kind in _LABEL_KINDS and len(values) == 2, "the classes are not two numbers or texts")
    _require(all(isinstance(value, str | bool | int | float) for value in values), "a class is no number or text")
    width = max(_WIDEST, *(4 * len(str(value)) for value in values))
    _require(
        dtype.itemsize <= width and dtype.shape == () and dtype.fields is None, "the classes are of no label's type"
    )
    classes = np.array(values, dtype=dtype)
    _require(bool((classes[:1] < classes[1:]).all()), "the classes are not in order")
    return classes


def _table(saved: Mapping[str, Any]) -> pd.DataFrame:
    columns = [_text(name) for name in saved["columns"]]
    rows = [[np.nan if cell is None else _finite(cell) for cell in row] for row in saved["rows"]]
    _require(all(len(row) == len(columns) for row in rows), "the trade-off table is not rectangular")
    table = pd.DataFrame(rows, columns=columns, dtype=np.float64)
    return table.astype({name: np.int64 for name in ("round", "annotated") if name in columns})
