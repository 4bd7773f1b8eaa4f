"""Pictures and their tasks: CelebA from a folder, tar or zip of pictures and the file of attributes.

The pictures stay where they are: they are read, resized in memory, and never written anywhere.
"""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.contents import Content, Inline
from apod.data.dataset import Dataset, IntArray, Split, Task, split_rows
from apod.errors import DataUnavailable, InputError, UnknownName

Pictures = npt.NDArray[np.uint8]
CelebATask = Literal["hair", "young"]
Read = Callable[[], bytes]

HOME = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
_ATTRIBUTE_FILES = ("celeba.csv", "celeba.csv.zip", "list_attr_celeba.csv", "list_attr_celeba.txt")
_SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class _Rule:
    """What the paper predicts from a face, and which group its figure calls unprivileged."""

    attribute: str
    label_names: tuple[str, str]
    group_names: tuple[str, str]  # the unprivileged one first
    hidden: tuple[int, ...]


_RULES: dict[str, _Rule] = {
    "hair": _Rule("Wavy_Hair", ("hair not wavy", "wavy hair"), ("male", "female"), (64, 64)),
    "young": _Rule("Young", ("not young", "young"), ("female", "male"), (128, 128)),
}

CELEBA_ROWS, CELEBA_BUDGET = 5000, 37
CELEBA_GROUPS = {f"celeba-{task}": rule.group_names for task, rule in _RULES.items()}
"""The groups of the picture tasks, the unprivileged one first."""
CELEBA_LABELS = {f"celeba-{task}": rule.label_names[1] for task, rule in _RULES.items()}
"""What the picture tasks predict."""


@dataclass(frozen=True, eq=False)
class PictureSet:
    """Pictures with a binary label and a group; the same vocabulary as `Dataset`."""

    name: str
    pictures: Pictures = field(repr=False)  # (n, 3, size, size)
    names: tuple[str, ...] = field(repr=False)  # (n,) file names
    labels: IntArray = field(repr=False)  # (n,) 0 or 1
    groups: IntArray = field(repr=False)  # (n,) codes into group_names
    group_names: tuple[str, ...]
    rows: IntArray = field(repr=False)  # (n,) zero-based data row in the attribute file
    label_names: tuple[str, str]
    task: Task
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def split(self, seed: int) -> Split:
        """The three parts; the same for every task on these pictures, so that tasks of a seed share a body."""
        return split_rows(self.name.split("-")[0], len(self), self.task.split, seed)

    def dataset(self, embeddings: npt.NDArray[np.float32]) -> Dataset:
        """The same people with their embeddings (n, M) as features."""
        if len(embeddings) != len(self):
            raise InputError(f"There are {len(embeddings)} embeddings for {len(self)} pictures: pass one for each.")
        columns = [f"e{index}" for index in range(embeddings.shape[1])]
        return Dataset(
            name=self.name,
            features=pd.DataFrame(embeddings, columns=columns),
            labels=self.labels,
            groups=self.groups,
            group_names=self.group_names,
            rows=self.rows,
            label_names=self.label_names,
            task=self.task,
            notes=self.notes,
        )


def load_celeba(
    task: CelebATask,
    data_dir: str | Path | None = None,
    *,
    size: int = 48,
    limit: int = CELEBA_ROWS,
    skip_bad: bool = False,
) -> PictureSet:
    """The first `limit` pictures by name, with the labels and groups of the paper's task.

    `data_dir` (or APOD_DATA) holds, itself or in a folder `celeba`, the attribute file (celeba.csv, celeba.csv.zip,
    list_attr_celeba.csv or .txt) and the pictures: one tar or zip archive, or a folder. Pictures that do not decode
    or have no attribute row are an error that names them; with `skip_bad` they are left out and counted in `notes`.
    """
    if task not in _RULES:
        raise UnknownName("CelebA task", task, _RULES)
    rule, folder = _RULES[task], _celeba_folder(data_dir)
    attributes = read_attributes(folder)
    with open_pictures(folder) as sources:
        chosen = sorted(sources)[:limit]
        without_row = [name for name in chosen if name not in attributes.index]
        pictures, names, undecodable = _decode({name: sources[name] for name in chosen}, without_row, size)
    notes = _bad_ones(undecodable, without_row, skip_bad)
    if len(chosen) < limit:
        notes += (f"There are {len(chosen)} pictures, not the {limit} asked for.",)
    if not names:
        raise InputError(f"No picture in {folder} can be used: check that names and attribute file belong together.")
    rows = np.asarray(attributes.index.get_indexer(pd.Index(names)), dtype=np.int64)
    male = _positive(attributes, "Male")[rows]
    return PictureSet(
        name=f"celeba-{task}",
        pictures=pictures,
        names=tuple(names),
        labels=_positive(attributes, rule.attribute)[rows],
        groups=male if rule.group_names[1] == "male" else 1 - male,
        group_names=rule.group_names,
        rows=rows,
        label_names=rule.label_names,
        task=Task(budget=CELEBA_BUDGET, embedding=256, hidden=rule.hidden, metric="delta_eo"),
        notes=notes,
    )


def celeba_content(data_dir: str | Path | None, names: Sequence[str]) -> Content:
    """The files of these pictures, as a column to embed."""
    with open_pictures(_celeba_folder(data_dir)) as sources:
        return Content("face", "picture", Inline(tuple(sources[name]() for name in names)))


def find_celeba(data_dir: str | Path | None) -> Path | None:
    """The folder with CelebA's list of attributes: `celeba` in data_dir (or APOD_DATA), or that itself."""
    own = data_dir or os.environ.get("APOD_DATA")
    folders = (Path(own) / "celeba", Path(own)) if own else ()
    return next((f for f in folders if any((f / name).is_file() for name in _ATTRIBUTE_FILES)), None)


def _celeba_folder(data_dir: str | Path | None) -> Path:
    """The folder with the attribute file: data_dir/celeba, or data_dir itself."""
    found = find_celeba(data_dir)
    if found is not None:
        return found
    own = data_dir or os.environ.get("APOD_DATA")
    remedy = f"Get the aligned pictures and the list of attributes from {HOME} (its terms: research only)"
    if not own:
        raise DataUnavailable(f"{remedy}, put them in a folder `celeba`, and name the folder above by --data-dir.")
    raise DataUnavailable(f"No {' or '.join(_ATTRIBUTE_FILES)} in {Path(own) / 'celeba'} or {own}. {remedy}.")


def read_attributes(folder: Path) -> pd.DataFrame:
    """The attribute file of the folder: one row per picture, indexed by file name, columns of -1 (or 0) and 1."""
    path = next(folder / name for name in _ATTRIBUTE_FILES if (folder / name).is_file())
    try:
        # The publisher's own .txt: a count, a line of attribute names, then a line per picture.
        form: dict[str, Any] = {"sep": r"\s+", "skiprows": 1} if path.suffix == ".txt" else {"index_col": 0}
        table: pd.DataFrame = pd.read_csv(path, **form)
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read as a table of attributes: {error}.") from error
    if not table.index.is_unique:
        raise InputError(f"{path} has several rows for one picture: keep one.")
    return table


def _positive(attributes: pd.DataFrame, column: str) -> IntArray:
    if column not in attributes:
        raise InputError(f"The attribute file has no column {column}: use CelebA's list of 40 attributes.")
    values = attributes[column].to_numpy()
    if not np.isin(values, (-1, 0, 1)).all():
        raise InputError(f"The attribute {column} has values besides -1, 0 and 1: use CelebA's own file.")
    return np.asarray(values > 0, dtype=np.int64)


@contextmanager
def open_pictures(folder: Path) -> Iterator[dict[str, Read]]:
    """The picture files of a folder, by file name: in archives where there are any, otherwise loose, at any depth."""
    archives = sorted(p for p in folder.iterdir() if p.name.endswith((".tar", ".tar.gz", ".tgz", ".zip")))
    with ExitStack() as stack:
        found = [entry for path in archives for entry in _in_archive(stack, path) if _is_picture(entry[0])]
        if not found:
            found = [(path.name, path.read_bytes) for path in sorted(folder.rglob("*")) if _is_picture(path.name)]
        sources: dict[str, Read] = {}
        for name, read in found:
            if name in sources:
                raise InputError(f"There are two pictures {name} in {folder}: keep one archive or folder.")
            sources[name] = read
        if not sources:
            raise DataUnavailable(f"There is no picture in {folder}: put a tar or zip, or the files, there.")
        yield sources


def _is_picture(name: str) -> bool:
    return name.lower().endswith(_SUFFIXES) and not name.startswith(".")


def _in_archive(stack: ExitStack, path: Path) -> list[tuple[str, Read]]:
    """File name and reader of everything in an archive; nothing is unpacked to disk."""
    try:
        if path.suffix == ".zip":
            zipped = stack.enter_context(zipfile.ZipFile(path))
            return [(PurePosixPath(name).name, _bind(zipped.read, name)) for name in zipped.namelist()]
        packed = stack.enter_context(tarfile.open(path))  # noqa: SIM115  (the stack closes it)
        members = [member for member in packed.getmembers() if member.isfile()]
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
        raise InputError(f"{path} is not a whole archive ({error}): download it again.") from error
    return [(PurePosixPath(member.name).name, _bind(_read_member, packed, member)) for member in members]


def _bind(function: Callable[..., bytes], *arguments: Any) -> Read:
    return lambda: function(*arguments)


def _read_member(packed: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = packed.extractfile(member)
    return b"" if file is None else file.read()


def _decode(sources: dict[str, Read], without_row: list[str], size: int) -> tuple[Pictures, list[str], list[str]]:
    """The usable pictures (n, 3, size, size), their names, and the names of those that do not decode."""
    pictures, names, undecodable = [], [], []
    for name in sorted(set(sources) - set(without_row)):
        try:
            pictures.append(decode_square(sources[name](), size))
        except (InputError, OSError, zipfile.BadZipFile, zlib.error, tarfile.TarError):
            undecodable.append(name)
        else:
            names.append(name)
    stacked = np.stack(pictures) if pictures else np.zeros((0, 3, size, size), dtype=np.uint8)
    return stacked, names, undecodable


def decode_square(data: bytes, size: int) -> Pictures:
    """One picture as uint8 (3, size, size): its central square, resized with antialiasing."""
    try:
        from PIL import Image
    except ImportError as error:
        raise DataUnavailable("Pillow is not installed: pip install 'apod-fairness[images]'.") from error
    try:
        with Image.open(io.BytesIO(data)) as picture:
            width, height = picture.size
            side = min(width, height)
            left, top = (width - side) // 2, (height - side) // 2
            square = picture.convert("RGB").crop((left, top, left + side, top + side))
            small = square.resize((size, size), Image.Resampling.BILINEAR)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"A picture does not decode: {error}.") from error
    return np.ascontiguousarray(np.asarray(small, dtype=np.uint8).transpose(2, 0, 1))


def _bad_ones(undecodable: list[str], without_row: list[str], skip: bool) -> tuple[str, ...]:
    """A note on each kind of unusable picture, or the error that names them."""
    kinds = (("do not decode", undecodable), ("have no row in the attribute file", without_row))
    said = tuple(
        f"{len(names)} picture(s) {what}: {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
        for what, names in kinds
        if names
    )
    if said and not skip:
        raise InputError(f"{'; '.join(said)}. Replace them, or leave them out: skip_bad, --skip-bad.")
    return tuple(f"Left out: {text}." for text in said)
