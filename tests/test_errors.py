"""Every error can be copied, sent to another process and raised again, and says the same there."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil

import pytest

import apod
from apod.campaign.errors import UnknownQuestion
from apod.errors import ApodError, UnknownName


def tree(kind: type[ApodError]) -> list[type[ApodError]]:
    return [kind, *(found for below in kind.__subclasses__() for found in tree(below))]


def all_kinds() -> list[type[ApodError]]:
    for found in pkgutil.walk_packages(apod.__path__, "apod."):
        if found.name.rsplit(".", 1)[1] == "errors":
            importlib.import_module(found.name)
    kinds = {kind for kind in tree(ApodError) if kind.__module__.startswith("apod.")}
    return sorted(kinds, key=lambda kind: kind.__name__)


def example(kind: type[ApodError]) -> ApodError:
    own = {UnknownName: ("dataset", "adlut", ["adult"]), UnknownQuestion: ()}
    return kind(*own.get(kind, ("what is wrong, and what to do",)))


def sent(error: ApodError) -> object:
    """As another process gets it."""
    return pickle.loads(pickle.dumps(error))  # noqa: S301 our own bytes


@pytest.mark.parametrize("kind", all_kinds())
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, sent])
def test_a_copy_of_an_error_says_the_same(kind: type[ApodError], duplicate: object) -> None:
    error = example(kind)
    error.add_note("while testing")
    for made in (duplicate(error), duplicate(duplicate(error))):  # type: ignore[operator]
        assert made is not error
        assert (type(made), str(made), made.args) == (kind, str(error), error.args)
        assert made.__notes__ == ["while testing"]
        with pytest.raises(kind, match=r"adult|what is wrong|no such question"):
            raise made


def test_the_whole_tree_is_tested() -> None:
    names = {kind.__name__ for kind in all_kinds()}
    assert {"ApodError", "UnknownName", "BudgetError", "ClusterError", "StoreError", "UnknownGroup"} <= names
