"""Models that the user has on disk: folders as Hugging Face, timm and sentence-transformers write them, or one file of
weights with the name of an architecture of timm or torchvision.

Weights are read from safetensors alone and the architecture has to be one that `transformers`, timm or torchvision
knows: no pickle, no code from the folder, nothing from the network. Any other model goes in from Python, as
`ModulePictures`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from apod.data.contents import Kind
from apod.errors import DataUnavailable, InputError, UnknownName
from apod.files import digest
from apod.models.embedder import PICTURE_SIZE, FloatArray
from apod.models.hashed_text import MOST_CHARACTERS
from apod.models.picture_embedder import ModulePictures

MOST_TOKENS = 512
HEADS = ("fc", "classifier", "head", "heads")
"""What the classifier is called, of all these architectures: it is not used."""
_MODULES = {
    "sentence_transformers.models.Transformer": "transformer",
    "sentence_transformers.models.Pooling": "pooling",
    "sentence_transformers.models.Normalize": "normalize",
}
"""The parts of a sentence-transformers model that are understood; any other could be code."""


def open_picture_model(folder: Path) -> ModulePictures:
    """A model of pictures in a folder: of Hugging Face its pooled output, or the mean of its last hidden states; of
    timm, whose `config.json` names the architecture, what its classifier would read."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: name a model's folder, or timm:NAME:{folder}.")
    if "architecture" in (config := _json(folder / "config.json")):
        return open_architecture("timm", str(config["architecture"]), folder / "model.safetensors", str(folder))
    model, about = _model(folder)
    form = _json(folder / "preprocessor_config.json", missing_ok=True)
    side = form.get("crop_size") or form.get("size") or {}
    width, height = (
        (side, side)
        if isinstance(side, int)
        else (side.get("width"), side.get("height"))
        if "width" in side
        else (side.get("shortest_edge"),) * 2
    )
    size = (int(width), int(height)) if width and height else PICTURE_SIZE
    return ModulePictures(
        _Pooled(model),
        size=size,
        mean=form.get("image_mean") or (0.485, 0.456, 0.406),
        deviation=form.get("image_std") or (0.229, 0.224, 0.225),
        name=str(folder),
        fingerprint=about,
    )


def open_architecture(package: str, name: str, weights: Path, called: str) -> ModulePictures:
    """An architecture of timm or torchvision with weights from a file, without its classifier; `called` opens it."""
    if weights.suffix != ".safetensors" or not weights.is_file():
        raise InputError(f"{weights} is no file of safetensors: save the weights so; pickled ones are never read.")
    library = _library(package)
    known = library.list_models()
    if name not in known:
        raise UnknownName(f"{package} architecture", name, known)
    form: Mapping[str, Any] = {}
    if package == "timm":
        model = library.create_model(name, pretrained=False, num_classes=0)
        form = model.pretrained_cfg
    else:
        model = library.get_model(name, weights=None)
        for head in set(HEADS).intersection(dict(model.named_children())):
            setattr(model, head, nn.Identity())
    _load(model, weights)
    _, height, width = form.get("input_size") or (3, 224, 224)
    return ModulePictures(
        model,
        size=(width, height),
        mean=form.get("mean") or (0.485, 0.456, 0.406),
        deviation=form.get("std") or (0.229, 0.224, 0.225),
        name=called,
        fingerprint=digest(package, name, weights.read_bytes()),
    )


def _load(model: nn.Module, weights: Path) -> None:
    """The weights of a file in a model; InputError where they are not all of them, or others than its classifier's."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        left = model.load_state_dict(load_file(weights), strict=False)
    except (SafetensorError, RuntimeError, OSError, ValueError) as error:
        said = str(error).strip().splitlines()[-1].strip()[:120]
        raise InputError(f"{weights} does not load ({said}): it is damaged, or of another architecture.") from None
    foreign = [key for key in left.unexpected_keys if not key.startswith(HEADS)]
    if left.missing_keys or foreign:
        first = [*left.missing_keys, *foreign][0]
        raise InputError(f"{weights} does not fit: {first!r} is missing or too much; it is of another architecture.")


def _library(package: str) -> Any:
    """timm, or torchvision's models."""
    try:
        return importlib.import_module({"torchvision": "torchvision.models"}.get(package, package))
    except (ImportError, RuntimeError, OSError) as error:  # torchvision of another torch raises any of them
        said = str(error).splitlines()[0][:100]
        raise DataUnavailable(
            f"{package} cannot be used ({said}): pip install {package}, in the version for your torch."
        ) from None


class _Pooled(nn.Module):
    """One row per picture out of what a Hugging Face model returns."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """(b, M)."""
        found = self.model(pixel_values=x)
        pooled = getattr(found, "pooler_output", None)
        if pooled is not None:
            return torch.as_tensor(pooled).flatten(1)
        last = torch.as_tensor(found.last_hidden_state)
        return last.mean(dim=(2, 3)) if last.ndim == 4 else last.mean(dim=1)


def open_text_model(folder: Path) -> SentenceModel:
    """A sentence-transformers model, or a Hugging Face text model, whose tokens are averaged."""
    parts = _parts(folder)
    model, about = _model(parts.get("transformer", folder))
    pooling = _json(parts["pooling"] / "config.json", missing_ok=True) if "pooling" in parts else {}
    first = bool(pooling.get("pooling_mode_cls_token"))
    unknown = [name for name, on in pooling.items() if name.startswith("pooling_mode_") and on]
    if any(name not in ("pooling_mode_cls_token", "pooling_mode_mean_tokens") for name in unknown):
        raise InputError(f"{folder} pools by {unknown[0]}: the mean of tokens and the first token are understood.")
    limits = _json(folder / "sentence_bert_config.json", missing_ok=True)
    most = min(int(limits.get("max_seq_length") or MOST_TOKENS), MOST_TOKENS)
    tokens = _transformers().AutoTokenizer.from_pretrained(
        str(parts.get("transformer", folder)), local_files_only=True, trust_remote_code=False
    )
    return SentenceModel(str(folder), model, tokens, about, first=first, most=most, unit="normalize" in parts)


class SentenceModel:
    """Texts to the mean of their tokens' last hidden states, or the first token's."""

    kind: Kind = "text"
    batch, size = 32, None

    def __init__(
        self, name: str, model: nn.Module, tokenizer: Any, about: str, *, first: bool, most: int, unit: bool
    ) -> None:
        self.name, self._model, self._tokenizer = name, model, tokenizer
        self._first, self._most, self._unit = first, most, unit
        self.fingerprint = digest(about, f"{first} {most} {unit}", json.dumps(sorted(tokenizer.get_vocab().items())))
        self.width = int(self.forward(["a"]).shape[1])

    def prepare(self, data: bytes) -> str:
        """The text, without control characters; what lies beyond the model's longest input is not read."""
        text = data[: 4 * MOST_CHARACTERS].decode("utf-8", errors="replace")[:MOST_CHARACTERS]
        return "".join(c if c >= " " else " " for c in text)

    def forward(self, cells: Sequence[str]) -> FloatArray:
        """(b, M) rows, one text at a time: what another text's length makes of the padding changes nothing."""
        return np.concatenate([self._one(cell) for cell in cells])

    def _one(self, text: str) -> FloatArray:
        tokens = self._tokenizer([text or " "], truncation=True, max_length=self._most, return_tensors="pt")
        with torch.inference_mode():
            states = self._model(**tokens).last_hidden_state  # (1, t, M)
        mask = tokens["attention_mask"][..., None].float()
        row = states[:, 0] if self._first else (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        row = torch.nn.functional.normalize(row, dim=1) if self._unit else row
        return np.asarray(row.float().numpy())


def _parts(folder: Path) -> dict[str, Path]:
    """The folders of a sentence-transformers model's parts; InputError where one is not understood."""
    listed = folder / "modules.json"
    if not listed.is_file():
        return {}
    found = {}
    for part in _json(listed, kind=list):
        what = _MODULES.get(str(part.get("type")))
        place = (folder / str(part.get("path", ""))).resolve()
        if what is None or not place.is_relative_to(folder.resolve()):
            raise InputError(f"{folder} has a module of its own ({part.get('type')}): only standard ones are run.")
        found[what] = place
    return found


def _model(folder: Path) -> tuple[nn.Module, str]:
    """The model with its weights, frozen, and a digest of both files."""
    config, weights = folder / "config.json", folder / "model.safetensors"
    about = _json(config)
    if "auto_map" in about:
        raise InputError(f"{folder} brings code of its own (auto_map), which is never run: use a standard model.")
    if not weights.is_file():
        raise InputError(f"There is no model.safetensors in {folder}: save the model so (save_pretrained).")
    try:
        model = _transformers().AutoModel.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False, use_safetensors=True, dtype=torch.float32
        )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        raise InputError(
            f"{folder} does not load ({str(error).splitlines()[0][:120]}): save the model again."
        ) from None
    return model.eval().requires_grad_(False), digest(config.read_bytes(), weights.read_bytes())


def _json(path: Path, *, kind: type = dict, missing_ok: bool = False) -> Any:
    if missing_ok and not path.is_file():
        return kind()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path} cannot be read: name the folder of a saved model.") from None
    if not isinstance(found, kind):
        raise InputError(f"{path} is not as a saved model has it.")
    return found


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise DataUnavailable("transformers is not installed: pip install 'apod-fairness[text]'.") from error
    return transformers
