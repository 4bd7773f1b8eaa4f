"""Pictures and texts in scikit-learn pipelines: the first step of a model whose X is a list of pictures or of texts.

    make_pipeline(PictureEmbedding(), StandardScaler(), LogisticRegression(C=0.003))

`APODClassifier` recognises them: f_a, which guesses groups, reads the embeddings in the place of the names of files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from apod.data.contents import Content, Inline, picture_cells, text_cells
from apod.data.encode import own_proportions
from apod.errors import InputError
from apod.models.embedder import EFFICIENTNET, HASHED, PICTURE_SIZE, Embedder
from apod.models.embedders import open_picture_embedder, open_text_embedder
from apod.models.embedding import embed_content, embedding_folder
from apod.models.hashed_text import HashedText, fit_hashed_text

FloatArray = npt.NDArray[np.float32]


class PictureEmbedding(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Pictures to rows of numbers: X is a list of paths, or of the bytes of files.

    Parameters
    ----------
    embed : str, default="efficientnet-lite0"
        The embedder's name, or the folder of a Hugging Face model with safetensors.
    size : tuple of int, default=(112, 128)
        Width and height that pictures are squeezed to; a model in a folder has its own.
    root : str or Path, default="/"
        The folder that pictures have to lie in; relative paths go from here, by default from the current folder.
    keep : bool, default=True
        Keep embeddings, by content, for the next time.
    """

    def __init__(
        self,
        embed: str = EFFICIENTNET,
        *,
        size: tuple[int, int] = PICTURE_SIZE,
        root: str | Path | None = None,
        keep: bool = True,
    ) -> None:
        self.embed, self.size, self.root, self.keep = embed, size, root, keep

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing is learnt; the embedder is opened, so that a later one can be told from it."""
        self.fingerprint_ = open_picture_embedder(self.embed, self.size).fingerprint
        return self

    def transform(self, X: Any) -> FloatArray:
        """(n, M) embeddings; InputError that counts and names pictures that cannot be used."""
        check_is_fitted(self)
        embedder = open_picture_embedder(self.embed, self.size)
        if embedder.fingerprint != self.fingerprint_:
            raise InputError(f"The picture embedder {self.embed!r} is another one than in fit: fit again.")
        values = pd.Series(_cells(X), dtype=object)
        root = Path("/") if self.root is None else Path(self.root)
        if self.root is None:
            values = values.map(lambda cell: str(Path(cell).absolute()) if isinstance(cell, str | Path) else cell)
        return _embedded(embedder, Content("X", "picture", picture_cells("X", values, root)), self.keep)


class TextEmbedding(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Texts to rows of numbers: X is a list of texts; None and NaN are empty ones.

    Parameters
    ----------
    embed : str, default="hashed"
        n-grams that texts share, reduced, learnt in `fit`; or the folder of a sentence-transformers model.
    """

    def __init__(self, embed: str = HASHED) -> None:
        self.embed = embed

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn which n-grams texts share."""
        if self.embed == HASHED:
            self.arrays_ = fit_hashed_text(_texts(X).texts()).arrays()
        else:
            self.fingerprint_ = open_text_embedder(self.embed, Inline(())).fingerprint
        return self

    def transform(self, X: Any) -> FloatArray:
        """(n, M) embeddings."""
        check_is_fitted(self)
        hashed = self.embed == HASHED
        embedder = HashedText.from_arrays(self.arrays_) if hashed else open_text_embedder(self.embed, Inline(()))
        return _embedded(embedder, Content("X", "text", _texts(X)), keep=not hashed)


class BlockScaler(StandardScaler):  # type: ignore[misc]
    """Standardised columns; those of an embedding keep its proportions, and their variances add up to `spread`.

    Parameters
    ----------
    blocks : tuple of tuples of int
        The columns of each embedding.
    """

    def __init__(self, blocks: tuple[tuple[int, ...], ...] = (), spread: float = 1.0) -> None:
        super().__init__()
        self.blocks, self.spread = blocks, spread

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn means and deviations."""
        super().fit(X, y, sample_weight)
        for block in map(list, self.blocks):
            deviations = np.sqrt(self.var_[block])
            shares = own_proportions(deviations)
            total = float(shares[deviations > 0] @ shares[deviations > 0])
            self.scale_[block] *= np.sqrt(max(total, 1e-300) / self.spread) / np.where(shares > 0, shares, 1.0)
        return self


def embedding_step(estimator: Any) -> Any:
    """The fitted first step of a pipeline that embeds pictures or texts; None where there is none."""
    from sklearn.frozen import FrozenEstimator

    inner = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    steps = getattr(inner, "steps", None)
    first = steps[0][1] if steps else None
    return first if isinstance(first, PictureEmbedding | TextEmbedding) else None


def _texts(X: Any) -> Inline:
    return text_cells(pd.Series(_cells(X), dtype=object))


def _cells(X: Any) -> list[Any]:
    """The cells of a list, a series, or a table of one column."""
    if isinstance(X, pd.DataFrame) or getattr(X, "ndim", 1) == 2:
        if X.shape[1] != 1:
            raise InputError(f"X has {X.shape[1]} columns: pass one column of pictures or texts.")
        X = X.iloc[:, 0] if isinstance(X, pd.DataFrame) else X[:, 0]
    return [str(cell) if isinstance(cell, Path) else cell for cell in X]


def _embedded(embedder: Embedder, content: Content, keep: bool) -> FloatArray:
    found = embed_content(embedder, content, embedding_folder() if keep else None)
    if found.unusable:
        raise InputError(f"{found.names(content)}. Replace them, or leave those rows out.")
    return found.rows
