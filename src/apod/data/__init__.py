"""Datasets: the paper's by name, a user's own file, and the encoding of their columns."""

from apod.data.catalogue import CatalogueRow, catalogue
from apod.data.dataset import UNKNOWN, Dataset, FairnessMetric, IntArray, Split, Task, split_rows
from apod.data.encode import MISSING, TableEncoder
from apod.data.example import make_example
from apod.data.frames import as_frame
from apod.data.load import load_dataset, with_reference
from apod.data.sources import cache_dir
from apod.data.tables import DATASETS

__all__ = [
    "DATASETS",
    "MISSING",
    "UNKNOWN",
    "CatalogueRow",
    "Dataset",
    "FairnessMetric",
    "IntArray",
    "Split",
    "TableEncoder",
    "Task",
    "as_frame",
    "cache_dir",
    "catalogue",
    "load_dataset",
    "make_example",
    "split_rows",
    "with_reference",
]
