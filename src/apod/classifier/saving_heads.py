"""Heads on a body in a file: the heads' numbers, the body's where it is a perceptron, and the encoder before it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

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
    whole,
)
from apod.data import TableEncoder
from apod.errors import InputError
from apod.files import Arrays, Unchecked
from apod.heads.bank import HeadBank
from apod.models.body import Body, EmbeddingBody
from apod.models.perceptron import PerceptronBody


def packed_heads(state: FittedHeads) -> tuple[Arrays, dict[str, object]]:
    """The arrays and facts that heads are made from again."""
    if not isinstance(state.body, PerceptronBody | EmbeddingBody):
        raise InputError(
            "A torch module cannot be saved without pickle: save the module yourself, compute the embeddings with it, "
            "and fit APODClassifier(body='precomputed') on them."
        )
    arrays = {"heads": state.heads.parameters.detach().numpy()}
    if isinstance(state.body, PerceptronBody):
        arrays |= {f"body.{name}": array for name, array in state.body.state().items()}
    return arrays, {
        "encoder": None if state.encoder is None else state.encoder.to_dict(),
        "sizes": list(state.heads.sizes),
        "strengths": plain(state.strengths),
    }


def saved_heads(arrays: Arrays, facts: Unchecked, n_features: int) -> FittedHeads:
    """The heads of a file, checked."""
    encoder = None if facts["encoder"] is None else saved_encoder(facts["encoder"])
    heads = _bank(arrays["heads"], [whole(size) for size in facts["sizes"]])
    body = _body(arrays, encoder, n_features, heads.sizes[0])
    strengths = np.array([finite(strength) for strength in facts["strengths"]])
    require(
        strengths.shape == (len(heads),) and finite(facts["selected_strength"]) in strengths,
        "heads and strengths differ",
    )
    require(len(set(strengths.tolist())) == len(strengths), "a strength stands there twice")
    positive = one_of_two(facts.get("positive", 1))  # files of earlier versions do not say: it was the second
    table = saved_table(facts["tradeoff"])
    return FittedHeads(saved_classes(facts["classes"]), positive, encoder, body, heads, strengths, table)


def _bank(parameters: npt.NDArray[Any], sizes: list[int]) -> HeadBank:
    require(len(sizes) >= 2 and sizes[-1] == 2 and parameters.ndim == 2, "the heads have impossible sizes")
    each = sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(sizes))
    return HeadBank(torch.from_numpy(matrix(parameters, (len(parameters), each), "heads")), sizes)


def _body(arrays: Arrays, encoder: TableEncoder | None, n_features: int, width: int) -> Body:
    if encoder is None:
        require(set(arrays) == {"heads"} and width == n_features, "heads and features do not fit")
        return EmbeddingBody(width)
    require(encoder.n_features_in_ == n_features, "encoder and features do not fit")
    if set(arrays) == {"heads"}:  # embeddings, standardised
        require(width == len(encoder.feature_names_), "the heads do not fit the embeddings")
        return EmbeddingBody(width)
    require(set(arrays) == {"heads", "body.weight", "body.bias"}, "there are other arrays than expected")
    weight = matrix(arrays["body.weight"], (width, len(encoder.feature_names_)), "body's weights")
    bias = matrix(arrays["body.bias"], (width,), "body's biases")
    return PerceptronBody(weight, bias)
