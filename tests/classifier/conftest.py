"""Fixtures of the classifier's tests."""

from __future__ import annotations

import pytest
from classifier_people import FAST, People, make_people

from apod import APODClassifier


@pytest.fixture(scope="session")
def people() -> People:
    return make_people()


@pytest.fixture(scope="session")
def fitted(people: People) -> APODClassifier:
    """Nobody may change it: it is shared by all tests."""
    return APODClassifier(**FAST).fit(people.X, people.y, sensitive_features=people.known)
