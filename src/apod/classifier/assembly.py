"""The classifier of a model that was mitigated elsewhere: what a run and a campaign hand out is what `fit` returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.classifier.correction import fitted_model
from apod.classifier.estimator import APODClassifier
from apod.classifier.parameters import settings_parameters
from apod.classifier.reads import Reads
from apod.method.corrected import ModelPool
from apod.method.model_mitigation import ModelMitigation
from apod.method.settings import Settings


def classifier_of(
    pool: ModelPool,
    mitigation: ModelMitigation,
    settings: Settings,
    *,
    name: str,
    columns: Sequence[str],
    classes: npt.NDArray[Any],
    positive: int,
    group_names: Sequence[str],
    strength: float | None = None,
    named: bool = True,
) -> APODClassifier:
    """The fitted classifier of a standard model, or of a column of scores, as its mitigation left it.

    name: of the model, in words (`Fitted.name`) · columns: of the table it is applied to, the column of scores among
    them; `named` is False where they are those of a plain matrix · classes (2,) labels in ascending order, `positive`
    the place of the positive one · group_names: as the mitigation counts them · strength: the operating point where
    the owner chose one; None: as the answers say.
    """
    classifier = APODClassifier(
        **settings_parameters(settings),
        strength=strength,
        positive=classes[positive].item() if hasattr(classes[positive], "item") else classes[positive],
        random_state=mitigation.seed,
    )
    classifier.n_features_in_ = len(columns)
    if named:
        classifier.feature_names_in_ = np.array(list(columns), dtype=object)
    reads = Reads(tuple(column.name for column in pool.scored.encoder.columns_))
    known = tuple(group_names) if mitigation.fitted is not None else ()
    state = fitted_model(
        pool, mitigation, reads, tuple(columns), np.asarray(classes), positive, name, settings, own=False
    )
    return classifier._adopt(state, known, strength)
