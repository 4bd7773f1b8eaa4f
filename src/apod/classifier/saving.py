"""A fitted classifier as one safetensors file with JSON in its header. No pickle: loading runs no code of the file.

What is saved is what predicts, and the trade-off table. The rows it was fitted on and the groups of single people are
not: a loaded classifier predicts and changes its operating point, but cannot say whom to ask about next. The file of a
correction guesses groups from columns, and was fitted on answers that can be erased: it is as confidential as they are.

    format 1    heads on a body: `saving_heads.py`, which needs torch
    format 2    a corrected model: `saving_models.py`
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apod.classifier.correction import FittedModel
from apod.classifier.inputs import DEPRECATED
from apod.classifier.saved_values import (
    finite,
    one_of_two,
    plain,
    require,
    saved_classes,
    saved_table,
    table_rows,
    texts,
    whole,
)
from apod.classifier.saving_models import packed_correction, saved_correction
from apod.errors import CheckpointError, InputError
from apod.files import Arrays, Unchecked, packed_arrays, read_checked, replacing, require_folder
from apod.models.content_columns import ContentColumns, packed_contents, saved_contents

if TYPE_CHECKING:
    from apod.classifier.fitting import FittedHeads

HEADS, CORRECTION = 1, 2
KIND = "apod classifier"
CONFIDENTIAL = (
    "Confidential: the file guesses people's groups from their columns and was fitted on answers that can be erased. "
    "Keep it as they are kept, and delete it when they are erased."
)


@dataclass(frozen=True, eq=False)
class Saved:
    """All a classifier needs to predict at any of its strengths, and to describe itself."""

    parameters: dict[str, Any]  # of the constructor
    group_names: tuple[str, ...]
    n_features: int | None  # None: X has no columns
    feature_names: tuple[str, ...] | None
    selected_strength: float
    state: FittedHeads | FittedModel
    contents: ContentColumns | None = None  # what embeds pictures and texts of new people


def write_saved(path: Path, saved: Saved) -> None:
    """Write the file, whole or not at all; that of a correction its owner alone may read."""
    content = packed(saved)
    require_folder(path)
    try:
        with replacing(path, private=isinstance(saved.state, FittedModel)) as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error}): choose another place.") from error


def packed(saved: Saved) -> bytes:
    """The content of the file."""
    state = saved.state
    given = {name: value for name, value in saved.parameters.items() if name not in ("estimator", "penalty")}
    if saved.parameters.get("penalty", DEPRECATED) != DEPRECATED:
        given["notion"] = saved.parameters["penalty"]
    facts: dict[str, Any] = {
        "kind": KIND,
        "parameters": {name: plain(value) for name, value in given.items() if name != "body" or isinstance(value, str)},
        "classes": {"dtype": state.classes.dtype.str, "values": plain(state.classes)},
        "positive": state.positive,
        "groups": list(saved.group_names),
        "n_features": saved.n_features,
        "feature_names": None if saved.feature_names is None else list(saved.feature_names),
        "selected_strength": float(saved.selected_strength),
        "tradeoff": {"columns": list(state.tradeoff.columns), "rows": table_rows(state.tradeoff)},
    }
    embedders: Arrays = {}
    if saved.contents is not None:
        facts["contents"], embedders = packed_contents(saved.contents)
    if isinstance(state, FittedModel):
        arrays, more = packed_correction(state)
        facts |= more | {"format": CORRECTION, "note": CONFIDENTIAL}
        return packed_arrays({**arrays, **embedders}, facts)
    from apod.classifier.saving_heads import packed_heads

    arrays, more = packed_heads(state)
    return packed_arrays({**arrays, **embedders}, facts | more | {"format": HEADS})


def read_saved(path: Path, estimator: Any = None) -> Saved:
    """Read the file back; CheckpointError unless everything in it fits together, and the user's own model to it."""
    arrays, facts = _read(path)
    if facts.get("kind") != KIND:
        raise CheckpointError(f"{path} is not a saved APODClassifier.")
    if facts.get("format") not in (HEADS, CORRECTION):
        raise CheckpointError(
            f"{path} has format {facts.get('format')!r} and this version of apod reads {HEADS} and {CORRECTION}: "
            "load it with the version that saved it, or fit again."
        )
    try:
        return _rebuild(arrays, facts, estimator)
    except InputError as error:  # the model that was passed, not the file
        raise CheckpointError(f"{path}: {error}") from None
    except CheckpointError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged ({type(error).__name__}): fit and save again.") from error


def _read(path: Path) -> tuple[Arrays, Unchecked]:
    if path.is_dir():
        raise CheckpointError(f"{str(path)!r} is a folder: pass the path given to save.")
    if not path.exists():
        raise CheckpointError(f"There is no file {str(path)!r}: pass the path given to save.")
    try:
        arrays, facts, _ = read_checked(path)  # files of earlier versions have no checksum
    except CheckpointError as error:
        raise CheckpointError(f"{path} cannot be read as a saved classifier ({error}): save it again.") from error
    return arrays, facts


def _rebuild(arrays: Arrays, facts: Unchecked, estimator: Any) -> Saved:
    names = None if facts["feature_names"] is None else texts(facts["feature_names"])
    heads = facts["format"] == HEADS
    n_features = None if facts["n_features"] is None and not heads else whole(facts["n_features"])
    require(names is None or len(names) == n_features, "features and their names differ in number")
    own = {name: array for name, array in arrays.items() if not name.startswith("content.")}
    if heads:
        if estimator is not None:
            raise InputError("this classifier has heads of its own and takes no model: leave estimator out.")
        from apod.classifier.saving_heads import saved_heads

        state: FittedHeads | FittedModel = saved_heads(own, facts, whole(n_features))
    else:
        classes = saved_classes(facts["classes"])
        positive = one_of_two(facts["positive"]) if len(classes) == 2 else None
        state = saved_correction(own, facts, classes, positive, saved_table(facts["tradeoff"]), estimator)
    selected = state.checked_strength(finite(facts["selected_strength"]))
    parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in facts["parameters"].items()}
    if "notion" not in parameters and "penalty" in parameters:  # of version 0.1
        parameters["notion"] = parameters.pop("penalty")
    return Saved(
        parameters=parameters,
        group_names=texts(facts["groups"]),
        n_features=n_features,
        feature_names=names,
        selected_strength=selected,
        state=state,
        contents=saved_contents(facts["contents"], arrays) if facts.get("contents") else None,
    )
