"""Texts as numbers without any download: n-grams, hashed and weighted, reduced by a truncated SVD.

Words and pairs of words, and three to five letters inside words, so that inflected words, misspellings and languages
without blanks are read too. Only n-grams that several texts share are kept, by their hash: no text, nor any word of
one, is in what is saved. It is learnt from texts alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from apod.data.contents import Kind
from apod.errors import InputError
from apod.files import digest
from apod.models.embedder import HASHED, FloatArray

IntArray = npt.NDArray[np.int64]

WIDTH = 256
BUCKETS = 2**18
MOST_KEPT = 2**14
RAREST = 3
"""Texts that must share an n-gram: what fewer use could tell who they are."""
MOST_CHARACTERS = 100_000
"""Of one text that are read."""
BATCH = 256


@dataclass(frozen=True, eq=False)
class HashedText:
    """A learnt reduction of hashed n-grams to M numbers."""

    buckets: IntArray  # (D,) hashes that are kept, ascending
    weights: npt.NDArray[np.float32]  # (D,) inverse document frequencies
    components: npt.NDArray[np.float32]  # (D, M)
    name: str = HASHED
    kind: Kind = "text"
    batch: int = BATCH
    size: None = None

    @property
    def width(self) -> int:
        """M."""
        return int(self.components.shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """Of all that was learnt."""
        return digest(self.buckets, self.weights, self.components)

    def prepare(self, data: bytes) -> str:
        """The text as it is read: composed, lower case, blanks for control characters, the first 100,000 characters."""
        return clean_text(data.decode("utf-8", errors="replace"))

    def forward(self, cells: Sequence[str]) -> FloatArray:
        """(b, M) rows; a text without a known n-gram is zeros."""
        return np.asarray(_weighted(count_ngrams(cells)[:, self.buckets], self.weights) @ self.components)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What it is made from again."""
        return {"buckets": self.buckets, "weights": self.weights, "components": self.components}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> HashedText:
        """The one whose `arrays` these are; InputError where they do not fit together."""
        buckets, weights, components = (arrays[name] for name in ("buckets", "weights", "components"))
        fits = buckets.ndim == weights.ndim == 1 and components.ndim == 2 and len(components) == len(buckets)
        inside = fits and len(weights) == len(buckets) and bool(((buckets >= 0) & (buckets < BUCKETS)).all())
        if not inside or not (np.isfinite(weights).all() and np.isfinite(components).all()):
            raise InputError("the embedder of texts is damaged")
        return cls(buckets.astype(np.int64), weights.astype(np.float32), components.astype(np.float32))


def clean_text(text: str) -> str:
    """The text in one form: composed, lower case, one blank for blanks and control characters."""
    kept = unicodedata.normalize("NFKC", text[:MOST_CHARACTERS]).casefold()
    return " ".join("".join(" " if unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn") else c for c in kept).split())


def count_ngrams(texts: Sequence[str]) -> sparse.csr_matrix:
    """(n, BUCKETS) how often each hashed n-gram is in each text."""
    from sklearn.feature_extraction.text import HashingVectorizer

    common: dict[str, Any] = {"n_features": BUCKETS, "norm": None, "alternate_sign": False, "lowercase": False}
    words = HashingVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", **common)
    letters = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), **common)
    return sparse.csr_matrix(words.transform(texts) + letters.transform(texts))


def _weighted(counts: sparse.csr_matrix, weights: npt.NDArray[np.float32]) -> sparse.csr_matrix:
    """Log counts times weights, each row of length 1."""
    rows = sparse.csr_matrix(counts, dtype=np.float32, copy=True)
    rows.data = np.log1p(rows.data) * weights[rows.indices]
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    rows.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(rows.indptr)).astype(np.float32)
    return rows


def fit_hashed_text(texts: Sequence[str], width: int = WIDTH) -> HashedText:
    """Learn which n-grams texts share, how telling each is, and the directions in which texts differ most."""
    from sklearn.utils.extmath import randomized_svd

    counts = count_ngrams([clean_text(text) for text in texts])
    found = np.bincount(counts.indices[counts.data > 0], minlength=BUCKETS)
    shared = np.flatnonzero((found >= min(RAREST, len(texts))) & (found < max(len(texts), 2)))
    kept = np.sort(shared[np.argsort(-found[shared], kind="stable")[:MOST_KEPT]])
    if not len(kept):
        raise InputError("no words are shared by several of the texts, so nothing can be learnt from them")
    weights = (np.log((1 + len(texts)) / (1 + found[kept])) + 1).astype(np.float32)
    rows = _weighted(counts[:, kept], weights)
    rank = min(width, len(texts) - 1, len(kept) - 1)
    if rank < 1:
        raise InputError("there are too few texts to learn from")
    _, values, directions = randomized_svd(rows, rank, n_iter=4, random_state=0)
    useful = values > 1e-6 * values[0]
    return HashedText(kept.astype(np.int64), weights, np.ascontiguousarray(directions[useful].T, dtype=np.float32))
