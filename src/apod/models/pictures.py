"""The body for pictures: a ResNet-18 pre-trained without labels, and its embeddings, trained once and kept.

`pretrain_image_body` trains (two random views of a picture attract each other, all others repel), saves after each
epoch and goes on where it was interrupted. `image_embeddings` does it once per content: training pictures, settings
and seed. Labels play no part, so tasks that differ by their labels alone share a body.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.errors import CheckpointError, InputError
from apod.files import digest, only_one, read_tensors, replacing, write_tensors
from apod.models.augment import normalise
from apod.models.perceptron import FloatArray, Progress
from apod.models.picture_training import Clock, ImageSettings, Training
from apod.models.resnet import ResNet18, empty_resnet18, resnet18_from

__all__ = ["ImageSettings", "ResNetBody", "body_key", "image_embeddings", "pretrain_image_body"]

Pictures = npt.NDArray[np.uint8]
RECIPE = 1
"""Part of every key: raise it when a change here makes other weights or embeddings, and old ones are left alone."""
_EMBED_PICTURES = 32
_LEAST_SIZE = 16


@dataclass(frozen=True, eq=False)
class ResNetBody:
    """A frozen ResNet-18 that takes pictures, uint8 (n, 3, H, W), and keeps the promises of `Body`."""

    network: ResNet18 = field(repr=False)
    history: tuple[float, ...] = field(default=(), repr=False)  # mean loss of each epoch of pre-training

    def __post_init__(self) -> None:
        self.network.eval().requires_grad_(False)  # batch statistics would make a picture depend on its batch

    @property
    def width(self) -> int:
        """M, the number of columns of an embedding."""
        return self.network.fc.out_features

    def embed(self, X: npt.NDArray[Any]) -> FloatArray:
        """The embeddings (n, M) of the pictures X, uint8 (n, 3, H, W)."""
        pictures = check_pictures(X)
        out = np.empty((len(pictures), self.width), dtype=np.float32)
        batch = torch.zeros((_EMBED_PICTURES, *pictures.shape[1:]), dtype=torch.uint8)
        with torch.no_grad():
            for start in range(0, len(pictures), _EMBED_PICTURES):
                part = torch.tensor(pictures[start : start + _EMBED_PICTURES])
                batch[: len(part)] = part  # always a full batch: a picture's rounding does not hang on their number
                out[start : start + len(part)] = self.network(normalise(batch))[: len(part)].numpy()
        if not np.isfinite(out).all():
            raise InputError("The body returned NaN or infinity: its weights are damaged, or its training diverged.")
        return out

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The weights by their usual names, ready for safetensors."""
        return {name: np.array(value.numpy(), order="C") for name, value in self.network.state_dict().items()}

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any] | Tensor], history: tuple[float, ...] = ()) -> ResNetBody:
        """The body whose `state()` this is."""
        own = {name: torch.tensor(np.asarray(value)) for name, value in state.items()}
        width = own["fc.bias"].shape[0] if "fc.bias" in own else 0
        expected = {name: value.shape for name, value in empty_resnet18(width).state_dict().items()}
        if {name: value.shape for name, value in own.items()} != expected:
            raise CheckpointError("These are not the weights of a ResNet-18 body: names or shapes differ.")
        return cls(resnet18_from(own), history)


def check_pictures(X: npt.NDArray[Any], size: int | None = None) -> Pictures:
    """X as uint8 pictures (n, 3, H, W), or an error that says what is wrong."""
    pictures = np.asarray(X)
    if pictures.dtype != np.uint8 or pictures.ndim != 4 or pictures.shape[1] != 3:
        raise InputError(f"Pictures are {pictures.dtype} {pictures.shape}: pass uint8 of shape (n, 3, height, width).")
    height, width = pictures.shape[2:]
    if min(height, width) < _LEAST_SIZE:
        raise InputError(f"Pictures are {width}x{height}: the network needs at least {_LEAST_SIZE}x{_LEAST_SIZE}.")
    if size is not None and (height, width) != (size, size):
        raise InputError(f"Pictures are {width}x{height} and size is {size}: load them at that size.")
    return pictures


def body_key(pictures: Pictures, settings: ImageSettings, seed: int, name: str = "pictures") -> str:
    """What a body is known by: the training pictures, the settings, the seed and the version of the recipe."""
    plain = asdict(settings)
    if settings.weights is not None:
        plain["weights"] = digest(settings.weights.read_bytes(), size=20)
    return _digest(json.dumps([RECIPE, int(seed), name, plain], sort_keys=True), pictures)


def _digest(text: str, pictures: Pictures) -> str:
    return digest(f"{text}\n{pictures.shape}\n", pictures, size=20)


def image_embeddings(
    pictures: npt.NDArray[Any],
    train_rows: npt.ArrayLike,
    settings: ImageSettings,
    seed: int,
    cache_dir: str | Path | None,
    progress: Progress | None = None,
) -> FloatArray:
    """The embeddings (n, M) of all pictures by a body trained on `train_rows` of them alone.

    With a cache folder, body and embeddings are kept there by content (no picture is): the second call reads a file,
    and an interrupted first call goes on where it was.
    """
    pictures = check_pictures(pictures, settings.size)
    train = pictures[np.asarray(train_rows, dtype=np.int64)]
    if cache_dir is None:
        return pretrain_image_body(train, settings=settings, seed=seed, progress=progress).embed(pictures)
    key = body_key(train, settings, seed)
    kept = Path(cache_dir) / "embeddings" / f"{_digest(key, pictures)}.npy"
    if kept.is_file():
        return _read_embeddings(kept, (len(pictures), settings.width))
    folder = Path(cache_dir) / "bodies" / key
    body = pretrain_image_body(train, settings=settings, seed=seed, checkpoint_dir=folder, progress=progress)
    embeddings = body.embed(pictures)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with only_one(kept.parent / "lock"), replacing(kept) as file:
        np.save(file, embeddings, allow_pickle=False)
    return embeddings


def _read_embeddings(path: Path, shape: tuple[int, int]) -> FloatArray:
    try:
        embeddings: FloatArray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): delete it to have it made again.") from error
    if embeddings.shape != shape or embeddings.dtype != np.float32 or not np.isfinite(embeddings).all():
        raise CheckpointError(f"{path} does not hold {shape} finite numbers: delete it to have it made again.")
    return embeddings


def pretrain_image_body(
    pictures: npt.NDArray[Any],
    *,
    settings: ImageSettings | None = None,
    seed: int,
    name: str = "pictures",
    checkpoint_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> ResNetBody:
    """A ResNet-18 body trained on the pictures, uint8 (n, 3, size, size), without any label.

    With `checkpoint_dir`, the state is saved there after each epoch; called again after an interruption, training
    goes on from it to the very weights of an uninterrupted run. A finished one is read back at once.
    """
    settings = settings or ImageSettings()
    pictures = check_pictures(pictures, settings.size)
    if len(pictures) < 2:
        raise InputError(f"There are {len(pictures)} pictures to train on: a picture needs others to be told from.")
    if checkpoint_dir is None:
        return _trained(Training.start(settings, seed, name), pictures, None, progress)
    folder = Path(checkpoint_dir)
    folder.mkdir(parents=True, exist_ok=True)
    key = body_key(pictures, settings, seed, name)
    file, finished = folder / "checkpoint.safetensors", folder / "body.safetensors"
    with only_one(folder / "lock"):  # whoever comes second waits, and finds the finished body
        if finished.is_file():
            state, facts = read_tensors(finished, key)
            return ResNetBody.from_state(state, tuple(facts["history"]))
        training = Training.start(settings, seed, name)
        if file.is_file():
            training.restore(*read_tensors(file, key))
        body = _trained(training, pictures, (file, key), progress)
        weights = {label: torch.tensor(value) for label, value in body.state().items()}
        write_tensors(finished, weights, {"key": key, "history": list(body.history)})
        file.unlink(missing_ok=True)
    return body


def _trained(
    training: Training, pictures: Pictures, save: tuple[Path, str] | None, progress: Progress | None
) -> ResNetBody:
    """Run the epochs that are still to come, saving after each; the frozen body."""
    clock, all_pictures = Clock(progress), torch.tensor(pictures)
    while training.epoch < training.settings.epochs:
        training.run_epoch(all_pictures, clock)
        if save is not None:
            path, key = save
            write_tensors(path, training.tensors(), training.facts() | {"key": key})
    return ResNetBody(training.network, tuple(training.history))
