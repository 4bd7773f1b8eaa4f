"""Make a classifier fairer when almost nobody's group is known.

`apod` decides whom to ask about, retrains a classifier's head with a penalty on discrimination after each answer, and
reports what was achieved. Importing this package loads nothing heavy; names are resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from apod.campaign import Campaign
    from apod.classifier import APODClassifier, GroupRatesDisplay, TradeoffDisplay
    from apod.data import Dataset, load_dataset, make_example
    from apod.errors import ApodError
    from apod.method.settings import PRESETS, Settings
    from apod.models.embedding_steps import PictureEmbedding, TextEmbedding
    from apod.run import run_experiment

_HOMES = {
    "APODClassifier": "apod.classifier",
    "ApodError": "apod.errors",
    "Campaign": "apod.campaign",
    "Dataset": "apod.data",
    "GroupRatesDisplay": "apod.classifier",
    "PRESETS": "apod.method.settings",
    "PictureEmbedding": "apod.models.embedding_steps",
    "Settings": "apod.method.settings",
    "TextEmbedding": "apod.models.embedding_steps",
    "TradeoffDisplay": "apod.classifier",
    "load_dataset": "apod.data",
    "make_example": "apod.data",
    "run_experiment": "apod.run",
}

__all__ = [
    "PRESETS",
    "APODClassifier",
    "ApodError",
    "Campaign",
    "Dataset",
    "GroupRatesDisplay",
    "PictureEmbedding",
    "Settings",
    "TextEmbedding",
    "TradeoffDisplay",
    "__version__",
    "load_dataset",
    "make_example",
    "run_experiment",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'apod' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
