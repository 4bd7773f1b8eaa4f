"""What a campaign is for: the classifier of its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from apod.campaign.correction_engine import CorrectionEngine
from apod.campaign.heads_engine import HIDDEN, WIDTH
from apod.campaign.pool_rows import part
from apod.campaign.settings import CampaignSettings, settings_of
from apod.classifier import APODClassifier
from apod.classifier.deployment import classifier_of
from apod.classifier.inputs import settings_parameters
from apod.errors import InputError

if TYPE_CHECKING:
    from apod.campaign.session import Session


def fit_classifier(campaign: Session, strength: float | None = None) -> APODClassifier:
    """Fit the campaign's features and labels with every group answered for training, held-out rows left out.

    It decides with the head of `strength`, or the one it selects itself. Where annotators disagree about a row, each
    group counts with its weight. It predicts the labels as the campaign's table has them: numbers stay numbers.
    """
    answers, materials = campaign.collected().weigh(), campaign.materials
    rules, settings = materials.settings, settings_of(materials.settings.engine)
    weights = np.zeros((len(materials), len(rules.groups)))
    for answer in answers:
        weights[answer.row, answer.group] += answer.weight
    rows = materials.training_rows()
    told = weights[rows][weights[rows].sum(axis=1) > 0]
    if len({int(code) for code in told.argmax(axis=1)}) < 2:
        raise InputError("The answers so far name fewer than two groups: ask further before fitting the classifier.")
    classes = _labels(rules)
    classifier = APODClassifier(
        **settings_parameters(settings),
        embedding=WIDTH,
        hidden=HIDDEN,
        positive=classes[1].item(),
        random_state=rules.seed,
    )
    train = part(materials.features(), rows)
    seen = np.flatnonzero(weights[rows].sum(axis=0) > 0)
    names = [rules.groups[code] for code in seen]
    classifier.fit_membership(train, classes[materials.labels()[rows]], weights[rows][:, seen], names)
    return classifier if strength is None else classifier.at(strength)


def correction_classifier(campaign: Session, strength: float | None = None) -> APODClassifier:
    """The corrected model of all training answers, at `strength` or the one they support: what the refit found."""
    answers = campaign.collected().weigh()
    found, materials = campaign.numerics()
    engine = cast("CorrectionEngine", found)
    trial = campaign.trial()
    mitigation = engine.in_force(answers, trial)
    if mitigation is None:
        raise InputError("The answers so far are too few for a correction: ask further before building the classifier.")
    pool, columns = engine.base.with_model(materials, engine.settings)
    labels = _labels(materials.settings)
    ascending = np.unique(labels)
    return classifier_of(
        pool,
        mitigation,
        engine.settings,
        name=engine.base.name,
        columns=columns,
        classes=ascending,
        positive=int(np.flatnonzero(ascending == labels[1])[0]),
        group_names=materials.settings.groups,
        strength=strength,
        named=not isinstance(materials.features(), np.ndarray) or materials.scores() is not None,
    )


def _labels(rules: CampaignSettings) -> npt.NDArray[Any]:
    """(2,) labels as the campaign's table has them, the positive one last."""
    return np.array(rules.label_names if rules.label_values is None else rules.label_values)
