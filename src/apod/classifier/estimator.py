"""`APODClassifier`: Algorithm 1 behind scikit-learn's interface."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from apod.classifier.fitting import Rows, fit_embeddings, fit_heads, fit_table_body, in_blocks, make_pool
from apod.classifier.inputs import NoGroupsWarning, checked_labels, group_codes, is_table, training_and_validation
from apod.classifier.parameters import checked_settings, encodes, seed_of
from apod.classifier.saving import Model, load_model, packed_model, save_model
from apod.data import UNKNOWN, FairnessMetric, IntArray, TableEncoder, as_frame
from apod.data.dataset import check_group_count
from apod.data.own import refuse_copies
from apod.errors import CheckpointError, InputError
from apod.fairness.metrics import UndefinedRateWarning
from apod.heads.bank import HeadBank
from apod.method.algorithm1 import VANILLA, Mitigation
from apod.method.proxy import inputs_for
from apod.method.selection import first_choices
from apod.method.settings import (
    BodyName,
    HeadChoiceName,
    NotionName,
    OverName,
    ProxyName,
    ReadsName,
    RelaxationName,
    SelectorName,
    Settings,
    whole,
)
from apod.models.module import Body, ModuleBody

_GIVEN = "Given by the caller."


class APODClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A binary classifier that treats groups more equally, although hardly anybody's group is known.

    A body turns rows into embeddings; small heads on top of it are trained with a penalty on the difference between
    groups, measured on the few people whose group is known, one head for each strength of the penalty. `query` says
    whose group is worth knowing next.

    Parameters
    ----------
    strengths : "grid" or sequence of float, default="grid"
        Strengths of the penalty to train, all at once; "grid" is .05 .1 .2 .3 .5 .8 1.2 2. Strength 0, the plain
        classifier, is always trained besides.
    strength : float or None, default=None
        The operating point `predict` uses; trained too if it is not among `strengths`. None: as `head_choice` says.
    penalty : {"equalized_odds", "true_positive_rate_parity", "false_positive_rate_parity", "demographic_parity"}
        What the penalty equalises.
    relaxation : {"sharp", "sigmoid", "linear", "tanh"}
        How the step function in the rates is made differentiable.
    over : {"annotated", "pool"}
        Whose rates the penalty compares: those of the annotated rows, or of all training rows by guessed group.
    selector : str, default="typical"
        The rule of `query`: "typical", "apod", "random", "stratified", "uncertainty", "coreset" or "group".
    proxy : {"laplace", "logistic", "perceptron"}
        How groups are guessed from the annotated rows.
    proxy_reads : {"inputs", "embeddings"}
        What they are guessed from: the encoded columns of a table, or the embeddings. Tables of more than 1,023
        columns (a G-th of that for G > 2 groups) or 67 million cells, and bodies that take X as it is, leave the
        embeddings.
    head_choice : {"posterior", "score"}
        How the operating point is chosen on the validation part, where groups are guessed from the answers.
        "posterior": the smallest expected gap among the strengths that lose at most .0075 of accuracy, or strength 0
        where the answers do not make it credible that a penalty narrows the gap; only the proxy "laplace" has a
        posterior, with others the score decides. "score": the best accuracy + fairness.
    body : {"contrastive", "cross_entropy", "precomputed"} or torch.nn.Module, default="contrastive"
        What makes the embeddings: a perceptron layer pre-trained on the encoded table, without labels or with them;
        nothing, because X already holds embeddings, which are standardised as `apod run` and campaigns do; or your
        own module, which is copied and frozen and sees X as it is: numbers, not scaled.
    embedding : int, default=64
        Width of the perceptron layer.
    hidden : tuple of int, default=(32,)
        Hidden layers of the heads.
    body_epochs, epochs : int, default=50 and 6
        Epochs of the body's pre-training, and of each round.
    head_steps : int, default=300
        The head that all strengths start from is trained for `epochs` epochs, and for at least so many steps.
    rounds : int, default=10
        How often the heads are trained for `epochs` more epochs. `apod run` refits after every answer, about 27 times
        for 30 answers; here all answers are there from the first round on, and ten rounds are mostly enough.
    batch_size : int, default=256
    dropout : float, default=0.5
        In the heads, while they are trained.
    validation_fraction : float, default=0.25
        Share of each class that is kept from training to choose round and strength. It is drawn among the rows without
        a group: an annotated row does more good in training, annotated rows are few, and nobody's group in the
        validation part needs to be known. Where all or most rows are annotated, annotated ones fill it up, and their
        groups count as they are. With 0, or too few rows, the training part takes its place.
    positive : label, default=None
        The label that counts as positive in TPR and FPR. None: the only one of the two that reads 1, true, yes, y or
        t; else the larger number, or the later in alphabetical order.
    metric : {"delta_eo", "eop"}
        Fairness in the choice of round and strength: ``1 - |difference of TPR + FPR|``, or the ratio of the TPRs.
    random_state : int, RandomState instance or None, default=None
        The same int gives the same classifier.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels in ascending order, as everywhere in scikit-learn.
    positive_ : label
        The one of them that counts as positive.
    groups_ : tuple of str
        Names of the groups seen among the annotated rows, in alphabetical order; empty after a plain fit.
    tradeoff_ : DataFrame
        One row per strength: `strength`, `round` (the one kept), `validation_accuracy`, `validation_fairness` (by
        guessed groups), `score` (their sum), `annotated` (rows that trained the penalty), and `tpr_GROUP`, `fpr_GROUP`
        on these annotated rows.
    selected_strength_ : float
        The operating point in use.
    selected_because_ : str or None
        Why it is that one, in a sentence; None after `load`.
    training_rows_ : ndarray of int
        The rows of X that trained, among which `query` chooses.
    n_features_in_, feature_names_in_
        As in all of scikit-learn.

    Notes
    -----
    Tables (pandas, polars, pyarrow) may hold categories; arrays hold numbers. Without any group the fit is a plain one
    at strength 0.

    Examples
    --------
    >>> from apod import APODClassifier, make_example
    >>> people = make_example(400)
    >>> classifier = APODClassifier(rounds=2, body_epochs=2, random_state=0).fit(people.features, people.labels)
    >>> rows = classifier.query(batch_size=20)   # whose group to find out
    >>> groups = [None] * 400
    >>> for row in rows:
    ...     groups[row] = people.group_names[people.groups[row]]
    >>> classifier.fit(people.features, people.labels, sensitive_features=groups).groups_
    ('circle', 'triangle')
    """

    classes_: npt.NDArray[Any]
    positive_: Any
    groups_: tuple[str, ...]
    tradeoff_: pd.DataFrame
    selected_strength_: float
    selected_because_: str | None
    training_rows_: IntArray
    _encoder: TableEncoder | None
    _body: Body
    _heads: HeadBank
    _strengths: npt.NDArray[np.float64]
    _mitigation: Mitigation | None

    def __init__(
        self,
        strengths: Literal["grid"] | Sequence[float] = "grid",
        *,
        strength: float | None = None,
        penalty: NotionName = Settings.penalty,
        relaxation: RelaxationName = Settings.relaxation,
        over: OverName = Settings.over,
        selector: SelectorName = Settings.selector,
        proxy: ProxyName = Settings.proxy,
        proxy_reads: ReadsName = Settings.proxy_reads,
        head_choice: HeadChoiceName = Settings.head_choice,
        body: BodyName | torch.nn.Module = Settings.body,
        embedding: int = 64,
        hidden: tuple[int, ...] = (32,),
        body_epochs: int = Settings.body_epochs,
        epochs: int = Settings.epochs,
        head_steps: int = Settings.head_steps,
        rounds: int = 10,
        batch_size: int = Settings.batch_size,
        dropout: float = Settings.dropout,
        validation_fraction: float = 0.25,
        positive: Any = None,
        metric: FairnessMetric = "delta_eo",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.strengths = strengths
        self.strength = strength
        self.penalty = penalty
        self.relaxation = relaxation
        self.over = over
        self.selector = selector
        self.proxy = proxy
        self.proxy_reads = proxy_reads
        self.head_choice = head_choice
        self.body = body
        self.embedding = embedding
        self.hidden = hidden
        self.body_epochs = body_epochs
        self.epochs = epochs
        self.head_steps = head_steps
        self.rounds = rounds
        self.batch_size = batch_size
        self.dropout = dropout
        self.validation_fraction = validation_fraction
        self.positive = positive
        self.metric = metric
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = encodes(self.body)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "selected_strength_")  # set last, so that a fit that failed is none

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:
        """Train at all strengths on these rows and the groups that are known.

        Parameters
        ----------
        X : table or array of shape (n, features)
        y : array-like of shape (n,)
            Labels of two classes.
        sensitive_features : array-like of shape (n,) or (n, k), default=None
            The group of every row, by name; None, NaN or pd.NA where it is not known. Several columns are merged.
        """
        return self._fit(X, y, lambda labels, seed: self._rows(labels, sensitive_features, seed))

    def fit_membership(self, X: Any, y: Any, membership: npt.ArrayLike, group_names: Sequence[str]) -> Self:
        """As `fit`, with groups known only with some probability, because annotators disagree or err.

        Parameters
        ----------
        X, y : as in `fit`
        membership : array-like of shape (n, groups)
            Probability of each group; a row of zeros where nobody was asked.
        group_names : sequence of str
            Names of the columns.
        """
        return self._fit(X, y, lambda labels, seed: self._soft_rows(labels, membership, tuple(group_names), seed))

    def _fit(self, X: Any, y: Any, make_rows: Callable[[IntArray, int], Rows]) -> Self:
        settings, seed = checked_settings(self.get_params(deep=False)), seed_of(self.random_state)
        given = self._checked(X, encodes(self.body), reset=True)
        classes, positive, labels = checked_labels(y, self.positive)
        if len(labels) != len(given):
            raise InputError(f"X has {len(given)} rows and y has {len(labels)}: pass one label per row.")
        rows = make_rows(labels, seed)
        if not rows.annotated:
            settings = replace(settings, over="annotated")  # of whom there are none: no penalty
        if encodes(self.body):
            refuse_copies(given, "y", labels)
            refuse_copies(
                given, "sensitive_features", rows.groups, least=len(labels) // 2
            )  # few answers agree by chance
            self._encoder, self._body, matrix = fit_table_body(given, rows, settings, self.embedding, seed)
        elif isinstance(self.body, str):
            self._encoder, self._body, matrix = fit_embeddings(given, rows)
        else:
            self._encoder, self._body, matrix = None, ModuleBody(self.body), given
        groups = max(2, len(rows.group_names))
        inputs = inputs_for(settings.proxy_reads, matrix, groups) if encodes(self.body) else None
        pool = make_pool(self._body.embed(matrix), inputs, rows, self.metric, seed)
        fit = fit_heads(pool, rows, settings, tuple(self.hidden), self.rounds)
        self._mitigation, self._heads, self._strengths = fit.mitigation, fit.kept, fit.strengths
        self.classes_, self.positive_ = classes, classes[positive]
        self.groups_, self.training_rows_ = rows.group_names, rows.training
        self.tradeoff_ = fit.tradeoff
        wanted = self.strength if rows.annotated else VANILLA
        self.selected_because_ = fit.because if wanted is None or not rows.annotated else _GIVEN
        self.selected_strength_ = float(fit.strengths[fit.chosen] if wanted is None else wanted)
        if wanted is None and not settings.by_posterior and self.tradeoff_["score"].iloc[1:].isna().all():
            warnings.warn(
                "The guessed groups leave no strength with a defined fairness, so the weakest was taken: annotate more "
                "rows, or choose the strength yourself (tradeoff_, at).",
                UndefinedRateWarning,
                stacklevel=3,
            )
        return self

    def _rows(self, labels: IntArray, sensitive_features: Any, seed: int) -> Rows:
        names: tuple[str, ...] = ()
        groups = np.full(len(labels), UNKNOWN, dtype=np.int64)
        if sensitive_features is not None:
            groups, names = group_codes(sensitive_features, len(labels))
        if not names and (sensitive_features is not None or self.strength):
            warnings.warn(
                "Nobody's group is known: this is a plain fit, at strength 0. query() says whom to ask about first.",
                NoGroupsWarning,
                stacklevel=5,
            )
        training, validation = training_and_validation(labels, groups, self.validation_fraction, seed)
        return Rows(labels, groups, names, training, validation if len(validation) else training)

    def _soft_rows(self, labels: IntArray, membership: npt.ArrayLike, names: tuple[str, ...], seed: int) -> Rows:
        weights = np.asarray(membership, dtype=np.float64)
        if weights.shape != (len(labels), len(names)) or not (weights >= 0).all():
            raise InputError(f"membership must hold {len(labels)} x {len(names)} probabilities, one per row and group.")
        check_group_count(len(names))
        order = np.argsort(np.array(names))
        weights, names = weights[:, order], tuple(names[place] for place in order)
        groups = np.where(weights.sum(axis=1) > 0, weights.argmax(axis=1), UNKNOWN)
        training, validation = training_and_validation(labels, groups, self.validation_fraction, seed)
        return Rows(labels, groups, names, training, validation if len(validation) else training, weights)

    def _checked(self, X: Any, encode: bool, *, reset: bool) -> Any:
        """X as a frame to be encoded, or as a float32 matrix for a body that takes X as it is."""
        table = is_table(X)
        if table and not isinstance(X, pd.DataFrame):
            X = as_frame(X)
        # where an encoder follows, it refuses what it cannot take, and names the column and the row
        if not encode:
            module = not isinstance(self.body, str)
            return validate_data(self, X, dtype=np.float32, reset=reset, ensure_all_finite=module)
        if not table:
            return as_frame(validate_data(self, X, reset=reset, ensure_all_finite=False))
        validate_data(self, X, skip_check_array=True, reset=reset)
        if len(X) == 0:
            raise InputError(f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
        return as_frame(X)

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """(n,) log-odds of the second class by the selected head; positive = predicted."""
        check_is_fitted(self)
        given = self._checked(X, self._encoder is not None, reset=False)
        if self._encoder is not None:  # names were compared already, so columns go by position
            given = self._encoder.transform(given.set_axis([c.name for c in self._encoder.columns_], axis=1))
        embed, head = self._body.embed, [self._head_at(self.selected_strength_)]
        # A user's module may be large, so its rows are not padded; it promises to be row-wise itself.
        embeddings = embed(given) if isinstance(self._body, ModuleBody) else in_blocks(embed, given)
        margins = in_blocks(lambda block: self._heads.margins(torch.from_numpy(block), head)[0].numpy(), embeddings)
        return (margins if self.positive_ == self.classes_[1] else -margins).astype(np.float64)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """(n, 2) probabilities of the two classes."""
        margins = self.decision_function(X)
        return np.stack([expit(-margins), expit(margins)], axis=1)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """(n,) the more probable class; deterministic, and nobody's group is needed."""
        predicted = (self.decision_function(X) > 0).astype(np.int64)
        return np.asarray(self.classes_[predicted])

    def _head_at(self, strength: float) -> int:
        return int(np.flatnonzero(self._strengths == strength)[0])

    def at(self, strength: float) -> Self:
        """The same fit at another operating point: a copy that predicts with the head of this strength."""
        check_is_fitted(self)
        if strength not in self._strengths:
            trained = ", ".join(f"{one:g}" for one in self._strengths)
            why = "" if self.groups_ else " (a plain fit: pass sensitive_features for more)"
            raise InputError(f"No head was trained at strength {strength!r}, only at {trained}{why}.")
        other = copy.copy(self)
        other.strength = other.selected_strength_ = float(strength)
        other.selected_because_ = _GIVEN
        return other

    def query(self, batch_size: int = 1, *, exclude: Sequence[int] = ()) -> IntArray:
        """Row indices of X, as passed to `fit`, whose group is worth knowing next; best first, never annotated ones.

        Find out their groups and fit again with more of `sensitive_features`. `exclude` names rows not to ask about,
        because nobody could tell. Rows of the validation part are never asked about. Before the first answers the rows
        are drawn at random, alternating between the classes. The same fit always gives the same rows; fewer than
        `batch_size` when the rows run out.
        """
        check_is_fitted(self)
        if self._mitigation is None:
            raise InputError("A loaded classifier holds no training rows to choose from: fit again to query.")
        whole(1)("batch_size", batch_size)
        barred = np.flatnonzero(np.isin(self.training_rows_, np.asarray(exclude, dtype=np.int64))).tolist()
        mitigation = self._mitigation
        answered = mitigation.answers[0].rows
        if answered:
            if not mitigation.coverage[0].answered:  # only questions need distances, so no fit pays for them
                mitigation.coverage[0].add(answered)
            chosen = [question.row for question in mitigation.ask(batch_size, barred)]
        else:
            free = (choice.row for choice in first_choices(mitigation.pool) if choice.row not in barred)
            chosen = list(islice(free, batch_size))
        return self.training_rows_[np.array(chosen, dtype=np.int64)]

    def save(self, path: str | PathLike[str] | BinaryIO) -> None:
        """Write the fitted classifier to one file, without pickle; it holds no training row and nobody's group.

        A path, or a file that is open for writing bytes.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        model = Model(
            parameters=self.get_params(deep=False),
            classes=self.classes_,
            positive=int(self.positive_ == self.classes_[1]),
            group_names=self.groups_,
            n_features=self.n_features_in_,
            feature_names=None if names is None else tuple(names.tolist()),
            encoder=self._encoder,
            body=self._body,
            heads=self._heads,
            strengths=self._strengths,
            selected_strength=self.selected_strength_,
            tradeoff=self.tradeoff_,
        )
        if isinstance(path, str | PathLike):
            save_model(Path(path), model)
        else:
            path.write(packed_model(model))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """The classifier that was saved: it predicts bit for bit the same. CheckpointError if the file is not right."""
        model = load_model(Path(path))
        try:
            classifier = cls(**model.parameters)
            checked_settings(classifier.get_params(deep=False))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise CheckpointError(f"{path} holds parameters that cannot be ({error}): fit and save again.") from error
        classifier.classes_, classifier.groups_ = model.classes, model.group_names
        classifier.positive_ = model.classes[model.positive]
        classifier.n_features_in_ = model.n_features
        if model.feature_names is not None:
            classifier.feature_names_in_ = np.array(model.feature_names, dtype=object)
        classifier._encoder, classifier._body, classifier._heads = model.encoder, model.body, model.heads
        classifier._strengths, classifier._mitigation = model.strengths, None
        classifier.selected_strength_, classifier.tradeoff_ = model.selected_strength, model.tradeoff
        classifier.selected_because_ = None
        return classifier
