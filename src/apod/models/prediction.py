"""Asking a user's model: torch modules like other estimators, failures that name a row, what tells models apart.

Pickled bytes will not do: they depend on which texts and arrays happen to be one object. This walks through what a copy
would be made from, and digests contents.
"""

from __future__ import annotations

import copy
import sys
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from apod.errors import InputError
from apod.files import digest
from apod.models.model import Floats, IntArray

if TYPE_CHECKING:
    from torch.nn import Module


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


_AT_ONCE = 1024  # rows per forward pass; fixed, so that a row's result does not hang on how many others came along


class LogitModule:
    """A torch module that returns logits, as a classifier: copied, frozen, in evaluation mode.

    It returns the second class's log-odds, (n,) or (n, 1), or one logit per class, (n, K). It is passed X as float32.
    """

    def __init__(self, module: Module) -> None:
        self.module = copy.deepcopy(module).eval().requires_grad_(False)

    def decision_function(self, X: Any) -> Floats:
        """(n,) log-odds of the second class; (n, K) logits of more than two."""
        import torch

        from apod.models.body import finite_rows

        rows = finite_rows(X)
        found = [self._logits(torch.tensor(rows[at : at + _AT_ONCE])) for at in range(0, len(rows), _AT_ONCE)]
        return np.concatenate(found) if found else np.empty(0)

    def predict_proba(self, X: Any) -> Floats:
        """(n, 2) probabilities of the two classes; (n, K) of more."""
        logits = self.decision_function(X)
        if logits.ndim == 2:
            return np.asarray(softmax(logits, axis=1))
        return np.stack([expit(-logits), expit(logits)], axis=1)

    def _logits(self, x: Any) -> Floats:
        import torch

        parameter = next(self.module.parameters(), None)
        with torch.no_grad():
            out = self.module(x if parameter is None else x.to(parameter.device))
        shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
        each = isinstance(shape, tuple) and len(shape) == 2 and shape[0] == len(x) and shape[1] >= 1
        if shape != (len(x),) and not each:
            raise InputError(
                f"The torch module returned {shape} for {len(x)} rows: return one logit per row, or one per class; a "
                "module that returns embeddings is a body."
            )
        logits: Floats = out.detach().double().cpu().numpy()
        if shape == (len(x), 2):
            return logits[:, 1] - logits[:, 0]
        return logits if each and logits.shape[1] > 2 else logits.reshape(len(x))


def frozen(estimator: Any) -> Any:
    """The estimator itself; of a torch module a frozen copy that gives probabilities."""
    if isinstance(estimator, LogitModule):
        return estimator
    inner = getattr(estimator, "estimator", None)
    module = estimator if is_module(estimator) else inner if is_module(inner) else None
    return estimator if module is None else LogitModule(module)


def mute(estimator: Any) -> bool:
    """Whether nothing it offers ranks people."""
    asked = frozen(estimator)
    return not (hasattr(asked, "predict_proba") or hasattr(asked, "decision_function"))


def own_classes(estimator: Any) -> npt.NDArray[Any] | None:
    """The labels a fitted model knows, None where it does not say."""
    own = getattr(estimator, "classes_", None)
    return None if own is None or is_module(estimator) else np.asarray(own)


def on_rows(estimator: Any, method: str, rows: Any, count: int, what: str, names: IntArray | None = None) -> Any:
    """What a method of the estimator says of these rows; where it fails, an InputError that names the first row."""
    from sklearn.exceptions import NotFittedError

    call = getattr(estimator, method)
    try:
        return call(rows)
    except NotFittedError:
        raise InputError(f"{what} is not fitted: fit it first, or pass it without FrozenEstimator.") from None
    except InputError:
        raise
    except Exception as error:
        place = _first_failing(call, rows, count)
        if place is None:
            raise InputError(
                f"{what} failed with {type(error).__name__}, on every row alone it does not: check X as a whole."
            ) from error
        row = place if names is None else int(names[place])
        holds = ", which holds NaN or infinity" if _not_finite(rows, place) else ""
        raise InputError(
            f"{what} failed with {type(error).__name__} on row {row} (counting from 0){holds}: call {method} on that "
            "row alone to see why, and mend or leave out the row."
        ) from None


def _not_finite(rows: Any, place: int) -> bool:
    """Whether a number in this row is missing or infinite."""
    from sklearn.utils import _safe_indexing

    try:
        cells = np.asarray(_safe_indexing(rows, [place]), dtype=object).ravel().tolist()
    except (TypeError, ValueError, KeyError, IndexError):
        return False
    return any(isinstance(cell, float) and not np.isfinite(cell) for cell in cells)


def _first_failing(call: Any, rows: Any, count: int) -> int | None:
    """The first row that a call fails on, found by halving: the rows up to it fail together."""
    from sklearn.utils import _safe_indexing

    def fails(start: int, stop: int) -> bool:
        try:
            call(_safe_indexing(rows, np.arange(start, stop)))
        except Exception:  # noqa: BLE001
            return True
        return False

    low, high = 0, count  # rows before `low` do no harm; some row before `high` does
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(low, middle) else (middle, high)
    return low if count and fails(low, high) else None


def is_module(value: Any) -> bool:
    """Whether it is a torch module."""
    torch = sys.modules.get("torch")  # whoever holds a module has imported torch
    return torch is not None and isinstance(value, torch.nn.Module)
