"""The public surface is what it says, and nothing leaks by accident."""

from __future__ import annotations

import apod

PUBLIC = {
    "PRESETS", "APODClassifier", "ApodError", "Campaign", "Dataset", "GroupRatesDisplay", "PictureEmbedding",
    "Settings", "TextEmbedding", "TradeoffDisplay",
    "__version__", "load_dataset", "make_example", "run_experiment",
}  # fmt: skip


def test_exactly_these_names_are_public() -> None:
    assert set(apod.__all__) == PUBLIC == set(dir(apod))


def test_every_public_name_resolves_and_has_a_docstring() -> None:
    for name in PUBLIC - {"__version__", "PRESETS"}:
        assert getattr(apod, name).__doc__
