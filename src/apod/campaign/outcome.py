"""What a campaign is for: the classifier of its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apod.campaign.adapter import HIDDEN, WIDTH, settings_of
from apod.classifier import APODClassifier
from apod.classifier.parameters import settings_parameters
from apod.errors import InputError

if TYPE_CHECKING:
    from apod.campaign.session import Session


def fit_classifier(campaign: Session, strength: float | None = None) -> APODClassifier:
    """Fit the campaign's features and labels with every group answered for training, held-out rows left out.

    It decides with the head of `strength`, or the one it selects itself. Where annotators disagree about a row, each
    group counts with its weight. It predicts the labels as the campaign's table has them: numbers stay numbers.
    """
    materials = campaign.materials
    rules, settings = materials.settings, settings_of(materials.settings.engine)
    weights = np.zeros((len(materials), len(rules.groups)))
    for answer in campaign.collected().weigh():
        weights[answer.row, answer.group] += answer.weight
    rows = materials.training_rows()
    told = weights[rows][weights[rows].sum(axis=1) > 0]
    if len({int(code) for code in told.argmax(axis=1)}) < 2:
        raise InputError("The answers so far name fewer than two groups: ask further before fitting the classifier.")
    classes = np.array(rules.label_names if rules.label_values is None else rules.label_values)
    classifier = APODClassifier(
        **settings_parameters(settings),
        embedding=WIDTH,
        hidden=HIDDEN,
        positive=classes[1].item(),
        random_state=rules.seed,
    )
    features = materials.features()
    train = features.iloc[rows] if isinstance(features, pd.DataFrame) else features[rows]
    seen = np.flatnonzero(weights[rows].sum(axis=0) > 0)
    names = [rules.groups[code] for code in seen]
    classifier.fit_membership(train, classes[materials.labels()[rows]], weights[rows][:, seen], names)
    return classifier if strength is None else classifier.at(strength)
