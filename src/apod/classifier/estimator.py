"""`APODClassifier`: Algorithm 1 behind scikit-learn's interface."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from apod.classifier.correction import fit_model
from apod.classifier.groups import Groups, known_groups, probable_groups
from apod.classifier.inputs import (
    NAME,
    NoGroupsWarning,
    checked_labels,
    checked_settings,
    make_rows,
    seed_of,
)
from apod.classifier.prediction import FittedClassifier
from apod.classifier.saving import Saved, packed, read_saved, write_saved
from apod.data import FairnessMetric
from apod.data.groups import refuse_copies
from apod.errors import CheckpointError, InputError
from apod.fairness.counts import checked_weights
from apod.fairness.metrics import UndefinedRateWarning
from apod.method.settings import (
    BodyName,
    HeadChoiceName,
    NotionName,
    OverGroupsName,
    OverName,
    ProxyName,
    ReadsName,
    RelaxationName,
    SelectorName,
    Settings,
)
from apod.models.estimator import rows_of

if TYPE_CHECKING:
    from torch.nn import Module


class APODClassifier(FittedClassifier):
    """A binary classifier that treats groups more equally, although hardly anybody's group is known.

    By default a model is kept and corrected: the best standard model, or your own. The correction lowers or raises
    people's scores by what the few known groups say about everybody's; strength 0 is the model itself, bit for bit.
    With `body=` small heads are trained on embeddings instead, as in the paper, with a penalty on the difference
    between groups. `query` says whose group is worth knowing next.

    Parameters
    ----------
    estimator : classifier, FrozenEstimator, torch.nn.Module or None, default=None
        The model to correct. A scikit-learn classifier or pipeline (LightGBM, XGBoost, CatBoost, ...) is cloned and
        fitted, its scores of the rows in X taken out of fold. A FrozenEstimator, and a torch module that returns
        logits, stay as they are: give rows they were not trained on. X goes to the model as you pass it. None: the
        better of logistic regression and gradient boosting by cross-validation.
    body : {"contrastive", "cross_entropy", "precomputed"}, torch.nn.Module or None, default=None
        Train heads on embeddings in the place of a correction. What makes the embeddings: a perceptron layer
        pre-trained on the encoded table, without labels or with them; nothing, because X already holds embeddings,
        which are standardised as `apod run` and campaigns do; or your own module, which is copied and frozen and sees
        X as it is: numbers, not scaled.
    strength : float or None, default=None
        The operating point `predict` uses: any number from 0 up, or for heads one that is trained. None: as the
        answers say.
    notion : str or None, default=None
        What is equalised: "equalized_odds", "true_positive_rate_parity", "false_positive_rate_parity" or
        "demographic_parity". None: equalized odds; of more than two labels that people of every label are recognised
        equally often, "true_positive_rate_parity".
    selector : str or None, default=None
        The rule of `query`: "gap", "cell" (of a correction alone), "typical", "apod", "random", "stratified",
        "uncertainty", "coreset" or "group". None: "gap" for a correction, "typical" for heads.
    threshold : float or None, default=None
        The score above which the model predicts the positive label. None: the model's own, .5 for probabilities.
    selection_rate : float, int or None, default=None
        In the place of a threshold: the share of people to select, or how many of the rows of X. The threshold is
        chosen on scores out of fold; corrections that select a twentieth more or fewer people are not considered.
    max_accuracy_loss, max_balanced_loss : float, default=.01 and .015
        What a correction may cost in accuracy and balanced accuracy, as fractions, standard errors included.
    caution : float, default=.6
        Standard deviations by which the expected fall of the gap must exceed 0 for a correction to be applied.
    over_groups : {"marginal", "intersections"}
        Of several attributes, whether each alone counts or their intersections too.
    group_share, group_probability : str or None, default=None
        What you know of the groups beforehand: "female=.48" (or "female:LABEL=.35"), and columns of X with their
        probabilities, "female:p_female". f_a starts from it and learns how far to trust it.
    positive : label, default=None
        The label that counts as positive in TPR and FPR. None: the only one of the two that reads 1, true, yes, y or
        t; else the larger number, or the later in alphabetical order.
    random_state : int, RandomState instance or None, default=None
        The same int gives the same classifier.
    strengths : "grid" or sequence of float, default="grid"
        Heads, as everything from here on: strengths of the penalty to train, all at once; "grid" is .05 .1 .2 .3 .5 .8
        1.2 2. Strength 0, the plain classifier, is always trained besides.
    relaxation : {"sharp", "sigmoid", "linear", "tanh"}
        How the step function in the rates is made differentiable.
    over : {"annotated", "pool"}
        Whose rates the penalty compares: those of the annotated rows, or of all training rows by guessed group.
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
    embedding : int, default=64
        Width of the perceptron layer.
    hidden : tuple of int, default=(32,)
        Hidden layers of the heads.
    body_epochs, epochs : int, default=50 and 6
        Epochs of the body's pre-training, and of each round.
    head_steps : int, default=300
        The head that all strengths start from is trained for `epochs` epochs, and for at least so many steps.
    rounds : int, default=10
        How often the heads are trained for `epochs` more epochs.
    batch_size : int, default=256
    dropout : float, default=0.5
        In the heads, while they are trained.
    validation_fraction : float, default=0.25
        Share of each class that is kept from training to choose round and strength. It is drawn among the rows without
        a group; where all or most rows are annotated, annotated ones fill it up, and their groups count as they are.
        With 0, or too few rows, the training part takes its place. A correction needs no such part.
    metric : {"delta_eo", "eop"}
        Fairness in the choice of round and strength: ``1 - |difference of TPR + FPR|``, or the ratio of the TPRs.
    penalty : str
        Deprecated since 0.2, and gone with 0.3: the former name of `notion`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels in ascending order, as everywhere in scikit-learn.
    positive_ : label or None
        The one of two that counts as positive; None of more.
    groups_ : tuple of str
        Names of the groups seen among the annotated rows, in alphabetical order; empty after a plain fit. Of several
        attributes those of the first, of which `selection_` and the gap in `tradeoff_` speak too.
    attributes_ : dict of str to tuple of str
        Of several attributes, the groups of each; empty for one.
    tradeoff_ : DataFrame
        One row per strength. Of a correction: `strength`, the `gap` to expect with its 95 % interval (`gap_low`,
        `gap_high`), its expected `fall` and standard deviation (`fall_sd`), `accuracy_lost` and `balanced_lost` out of
        fold, and the share of decisions that are `changed`. Of heads: `strength`, `round` (the one kept),
        `validation_accuracy`, `validation_fairness` (by guessed groups), `score` (their sum), `annotated` (rows that
        trained the penalty), and `tpr_GROUP`, `fpr_GROUP` on these annotated rows.
    selection_ : Selection or None
        What the answers chose of a correction: `strength`, `reason`, the gaps to expect `before` and `after`, and that
        it is "not verified". None for heads.
    outlook_ : dict or None
        What more answers would bring: `smallest_gap`, the smallest that as many random `answers` alone tell from none,
        and `confirming_answers`, how many fresh ones would confirm the leading correction, both with `probability`.
        None for heads, before anybody's group is known, and once loaded.
    selected_strength_ : float
        The operating point in use.
    selected_because_ : str or None
        Why it is that one, in a sentence.
    model_ : str or None
        What is corrected, in words; None for heads.
    estimator_ : classifier or None
        The fitted model that is corrected, where it is your own.
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
    >>> classifier = APODClassifier(random_state=0).fit(people.features, people.labels)
    >>> rows = classifier.query(batch_size=20)   # whose group to find out
    >>> groups = [None] * 400
    >>> for row in rows:
    ...     groups[row] = people.group_names[people.groups[row]]
    >>> classifier.fit(people.features, people.labels, sensitive_features=groups).groups_
    ('circle', 'triangle')
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        body: BodyName | Module | None = None,
        strength: float | None = None,
        notion: NotionName | None = None,
        selector: SelectorName | None = None,
        threshold: float | None = Settings.threshold,
        selection_rate: float | None = Settings.selection_rate,
        max_accuracy_loss: float = Settings.max_accuracy_loss,
        max_balanced_loss: float = Settings.max_balanced_loss,
        caution: float = Settings.caution,
        over_groups: OverGroupsName = Settings.over_groups,
        group_share: str | None = Settings.group_share,
        group_probability: str | None = Settings.group_probability,
        positive: Any = None,
        random_state: int | np.random.RandomState | None = None,
        strengths: Literal["grid"] | Sequence[float] = "grid",
        relaxation: RelaxationName = Settings.relaxation,
        over: OverName = Settings.over,
        proxy: ProxyName = Settings.proxy,
        proxy_reads: ReadsName = Settings.proxy_reads,
        head_choice: HeadChoiceName = Settings.head_choice,
        embedding: int = 64,
        hidden: tuple[int, ...] = (32,),
        body_epochs: int = Settings.body_epochs,
        epochs: int = Settings.epochs,
        head_steps: int = Settings.head_steps,
        rounds: int = 10,
        batch_size: int = Settings.batch_size,
        dropout: float = Settings.dropout,
        validation_fraction: float = 0.25,
        metric: FairnessMetric = "delta_eo",
        penalty: NotionName | Literal["deprecated"] = "deprecated",
    ) -> None:
        self.estimator = estimator
        self.body = body
        self.strength = strength
        self.notion = notion
        self.selector = selector
        self.threshold = threshold
        self.selection_rate = selection_rate
        self.max_accuracy_loss = max_accuracy_loss
        self.max_balanced_loss = max_balanced_loss
        self.caution = caution
        self.over_groups = over_groups
        self.group_share = group_share
        self.group_probability = group_probability
        self.positive = positive
        self.random_state = random_state
        self.strengths = strengths
        self.relaxation = relaxation
        self.over = over
        self.proxy = proxy
        self.proxy_reads = proxy_reads
        self.head_choice = head_choice
        self.embedding = embedding
        self.hidden = hidden
        self.body_epochs = body_epochs
        self.epochs = epochs
        self.head_steps = head_steps
        self.rounds = rounds
        self.batch_size = batch_size
        self.dropout = dropout
        self.validation_fraction = validation_fraction
        self.metric = metric
        self.penalty = penalty

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> Self:
        """Fit on these rows and the groups that are known.

        Parameters
        ----------
        X : table or array of shape (n, features)
            With `estimator=`, whatever that takes.
        y : array-like of shape (n,)
            Labels of two classes, or of up to 20 (`estimator=` or the standard model, not heads on a body).
        sensitive_features : array-like of shape (n,) or (n, k), default=None
            The group of every row, by name; None, NaN or pd.NA where it is not known. Several columns are several
            attributes, missing per cell.
        sample_weight : array-like of shape (n,), default=None
            How many people a row stands for, as in a survey. The model is fitted with it, and gaps, costs and their
            intervals are of the people stood for. Of a correction alone.
        """
        asked = sensitive_features is not None or bool(self.strength)
        return self._fit(X, y, lambda n: known_groups(sensitive_features, n), asked, sample_weight)

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
        return self._fit(X, y, lambda n: probable_groups(membership, group_names, n), False)

    def _fit(self, X: Any, y: Any, groups_of: Callable[[int], Groups], asked: bool, weight: Any = None) -> Self:
        parameters = self.get_params(deep=False)
        settings, seed = checked_settings(parameters), seed_of(self.random_state)
        given = self._checked(X, self._encodes, reset=True)
        classes, positive, labels = checked_labels(y, self.positive)
        settings = settings if len(classes) == 2 else checked_settings(parameters, len(classes))
        if len(labels) != rows_of(given):
            raise InputError(f"X has {rows_of(given)} rows and y has {len(labels)}: pass one label per row.")
        weights = checked_weights("sample_weight", weight, len(labels))
        if weights is not None and not settings.corrects:
            raise InputError("sample_weight is for a corrected model: leave the body out, or the weights.")
        groups = groups_of(len(labels))
        if not groups.names and asked:
            warnings.warn(
                "Nobody's group is known: this is a plain fit, at strength 0. query() says whom to ask about first.",
                NoGroupsWarning,
                stacklevel=3,
            )
        if self._encodes:
            refuse_copies(given, "y", labels)
            for codes in (groups.codes, *(one.codes for one in groups.further)):
                refuse_copies(given, "sensitive_features", codes, least=len(labels) // 2)  # few agree by chance
        if settings.corrects:
            rows = make_rows(labels, groups, None, seed)
            state = fit_model(self.estimator, given, classes, positive, rows, settings, seed, NAME, weights)
            return self._adopt(state, groups.names, self.strength)
        if groups.further:
            raise InputError("Heads on a body mitigate one attribute: pass one column, or leave body out.")
        from apod.classifier.fitting import fit_bank  # with torch, which a corrected model does without

        assert positive is not None  # heads of more than two labels were refused
        rows = make_rows(labels, groups, self.validation_fraction, seed)
        if not rows.annotated:
            settings = replace(settings, over="annotated")  # of whom there are none: no penalty
        self._adopt(fit_bank(given, classes, positive, rows, settings, parameters, seed), groups.names, self.strength)
        by_score = rows.annotated and self.strength is None and not settings.by_posterior
        if by_score and self.tradeoff_["score"].iloc[1:].isna().all():
            warnings.warn(
                "The guessed groups leave no strength with a defined fairness, so the weakest was taken: annotate more "
                "rows, or choose the strength yourself (tradeoff_, at).",
                UndefinedRateWarning,
                stacklevel=3,
            )
        return self

    def save(self, path: str | PathLike[str] | BinaryIO) -> None:
        """Write the fitted classifier to one file, without pickle; it holds no training row and nobody's group.

        A path, or a file that is open for writing bytes. Your own model is not in it: keep `estimator_` as you keep
        your models, and pass it to `load`. The file of a correction guesses groups and was fitted on answers that can
        be erased: keep it as confidential as they are, and delete it with them.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        saved = Saved(
            parameters=self.get_params(deep=False),
            group_names=self.groups_,
            n_features=getattr(self, "n_features_in_", None),
            feature_names=None if names is None else tuple(names.tolist()),
            selected_strength=self.selected_strength_,
            state=self._state,
            contents=self.contents_,
        )
        if isinstance(path, str | PathLike):
            write_saved(Path(path), saved)
        else:
            path.write(packed(saved))

    @classmethod
    def load(cls, path: str | PathLike[str], estimator: Any = None) -> Self:
        """The classifier that was saved: it predicts bit for bit the same. CheckpointError if the file is not right.

        `estimator` is your own fitted model, where the classifier was made with one; another model is refused.
        """
        saved = read_saved(Path(path), estimator)
        try:
            classifier = cls(**saved.parameters, estimator=estimator)
            checked_settings(classifier.get_params(deep=False))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise CheckpointError(f"{path} holds parameters that cannot be ({error}): fit and save again.") from error
        if saved.n_features is not None:
            classifier.n_features_in_ = saved.n_features
        if saved.feature_names is not None:
            classifier.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        classifier.contents_ = saved.contents
        selected = None if saved.selected_strength == saved.state.selected else saved.selected_strength
        return classifier._adopt(saved.state, saved.group_names, selected)
