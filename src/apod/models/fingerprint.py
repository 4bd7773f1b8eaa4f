"""What tells one fitted model from another: a digest of all that it holds, the same for every copy of it.

Pickled bytes will not do: they depend on which texts and arrays happen to be one object. This walks through what a copy
would be made from, and digests contents.
"""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from apod.errors import InputError
from apod.files import digest

_CATBOOST = ("get_params", "get_borders", "get_leaf_values", "get_leaf_weights", "get_tree_leaf_counts")
_PLAIN = (str, bytes, bytearray, bool, int, float, complex, type(None))


def fingerprint_of(model: Any) -> str:
    """The digest; InputError where something in the model cannot be copied."""
    return _Walk().digest(model)


class _Walk:
    """Digests of everything met on the way, so that what is shared is walked through once."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, str]] = {}  # the object too: its id is its own only as long as it lives

    def digest(self, value: Any) -> str:
        if isinstance(value, _PLAIN):
            return digest(type(value).__name__, repr(value))
        if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.dtype != object):
            array = np.asarray(value)
            return digest("array", array.dtype.str, str(array.shape), np.ascontiguousarray(array))
        if id(value) in self._found:
            return self._found[id(value)][1]
        self._found[id(value)] = value, digest("within itself")
        found = digest(*self._parts(value))
        self._found[id(value)] = value, found
        return found

    def _parts(self, value: Any) -> list[str]:
        if isinstance(value, type | FunctionType | BuiltinFunctionType):
            return [_name(value)]
        if isinstance(value, dict):
            return ["dict", *(self.digest(one) for pair in value.items() for one in pair)]
        if isinstance(value, set | frozenset):
            return ["set", *sorted(self.digest(one) for one in value)]
        if isinstance(value, list | tuple):
            return [type(value).__name__, *(self.digest(one) for one in value)]
        if isinstance(value, np.ndarray):
            return ["array", str(value.shape), *(self.digest(one) for one in value.ravel().tolist())]
        if all(hasattr(value, name) for name in _CATBOOST):  # whose bytes differ every time they are written
            return [_name(type(value)), *(self.digest(getattr(value, name)()) for name in _CATBOOST)]
        try:
            made = value.__reduce_ex__(4)
        except Exception as error:
            raise InputError(
                f"The model holds a {type(value).__name__} that cannot be copied ({type(error).__name__}), so it could "
                "not be recognised again: leave it out."
            ) from error
        if isinstance(made, str):
            return [_name(type(value)), made]
        maker, arguments, *rest = made
        contents = [list(one) if hasattr(one, "__next__") else one for one in rest]
        return [_name(type(value)), self.digest(maker), self.digest(arguments), self.digest(contents)]


def _name(value: Any) -> str:
    name = f"{value.__module__}.{value.__qualname__}"
    if "<lambda>" in name:
        raise InputError("The model holds a lambda and could not be recognised again: use a named function in it.")
    return name
