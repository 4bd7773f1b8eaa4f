"""A ResNet-18 trained on pictures without labels, and its embeddings: made once, and kept.

`pretrain_image_body` trains (two random views of a picture attract each other, all others repel), saves after each
epoch and resumes to the bit where it was interrupted. `image_embeddings` does it once per content: training pictures,
settings and seed. Labels play no part, so tasks that differ by their labels alone share a body.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from apod.errors import CheckpointError, InputError
from apod.files import Unchecked, digest, only_one, read_arrays, replacing, write_arrays
from apod.models.body import Clock, FloatArray, Progress, linear_start, nt_xent, shuffled_batches
from apod.models.resnet import (
    Pictures,
    ResNet18,
    ResNetBody,
    check_pictures,
    fresh_resnet18,
    random_views,
    read_resnet18,
    resnet18_from,
    view_settings,
)
from apod.randomness import generator

RECIPE = 1
"""Part of every key: raise it when a change here makes other weights or embeddings, and old ones are left alone."""


@dataclass(frozen=True)
class ImageSettings:
    """How a body for pictures is made. The paper has size 160; 48 takes about a tenth of the time."""

    size: int = 48  # height and width of the pictures
    width: int = 256  # M
    epochs: int = 50
    batch_size: int = 256
    lr: float = 1e-3
    temperature: float = 0.2  # the paper names none; pictures want a sharper one than table rows
    weights: Path | None = None  # a safetensors file with ResNet-18 weights to start from

    def __post_init__(self) -> None:
        for name in ("size", "width", "lr", "temperature"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}: pass a number above 0.")
        if self.batch_size < 2:
            raise InputError(f"batch_size is {self.batch_size}: a picture is compared with others, pass 2 or more.")
        least = 1 if self.weights is None else 0
        if self.epochs < least:
            raise InputError(f"epochs is {self.epochs}: pass at least {least} (0 only with weights to start from).")
        if self.weights is not None and not self.weights.is_file():
            raise InputError(f"There is no file {str(self.weights)!r} with weights: correct the path.")


class TrainingFacts(TypedDict):
    """What is not a tensor of the state of pre-training."""

    epoch: int
    history: list[float]
    steps: int


@dataclass(eq=False)
class Training:
    """A body on its way: everything that the next epoch depends on."""

    settings: ImageSettings
    seed: int
    name: str
    network: ResNet18
    projection: nn.Sequential  # only serves the training, then thrown away
    adam: torch.optim.Adam
    epoch: int = 0
    history: list[float] = field(default_factory=list)  # mean loss of each epoch

    @classmethod
    def start(cls, settings: ImageSettings, seed: int, name: str) -> Training:
        """The state before the first epoch, by seed and name alone."""
        rng = generator(seed, "images", name, "start")
        state = fresh_resnet18(rng, settings.width)
        if settings.weights is not None:
            state = read_resnet18(settings.weights, fresh=state)
        network = resnet18_from(state)
        with torch.device("meta"):  # no values yet, and no draw from torch's own generator
            projection = nn.Sequential(nn.ReLU(), nn.Linear(settings.width, settings.width))
        weight, bias = linear_start(rng, settings.width, settings.width)
        projection.load_state_dict({"1.weight": weight, "1.bias": bias}, assign=True)
        parameters = [*network.parameters(), *projection.parameters()]
        adam = torch.optim.Adam(parameters, lr=settings.lr, fused=True)
        return cls(settings, seed, name, network, projection, adam)

    def run_epoch(self, pictures: Tensor, clock: Clock) -> None:
        """Every picture (n, 3, size, size) once, in random order, as two views."""
        self.network.train()
        key = ("images", self.name, "epoch", self.epoch)
        order = generator(self.seed, *key)
        batches = list(shuffled_batches(order, len(pictures), self.settings.batch_size, least=2))
        losses = []
        for step, batch in enumerate(batches):
            rng = generator(self.seed, *key, "step", step)
            chosen = pictures[torch.from_numpy(batch)]
            pair = [random_views(chosen, rng) for _ in range(2)]
            losses.append(self._step(torch.cat(pair)))
            clock.tick(self.epoch * len(batches) + step + 1, self.settings.epochs * len(batches), losses[-1])
        self.history.append(float(np.mean(losses)))
        self.epoch += 1

    def _step(self, views: Tensor) -> float:
        out = self.projection(self.network(views))  # (2B, M)
        loss, gradient = nt_xent(out.detach(), self.settings.temperature)
        if not torch.isfinite(loss):
            raise InputError(f"Pre-training diverged in epoch {self.epoch + 1}: lower lr or raise temperature.")
        self.adam.zero_grad(set_to_none=True)
        out.backward(gradient)
        self.adam.step()
        return float(loss)

    def facts(self) -> TrainingFacts:
        """What is not a tensor of the state."""
        first = self.adam.param_groups[0]["params"][0]
        return {"epoch": self.epoch, "history": self.history, "steps": int(self.adam.state[first]["step"])}

    def tensors(self) -> dict[str, Tensor]:
        """The state's tensors by name: both modules and Adam's moments."""
        modules = {"network": self.network, "projection": self.projection}
        saved = {f"{a}.{b}": value for a, module in modules.items() for b, value in module.state_dict().items()}
        for index, parameter in enumerate(self.adam.param_groups[0]["params"]):
            moments = self.adam.state[parameter]
            saved[f"mean.{index}"], saved[f"square.{index}"] = moments["exp_avg"], moments["exp_avg_sq"]
        return saved

    def restore(self, saved: Mapping[str, Tensor], facts: Unchecked) -> None:
        """Take over the state that `tensors` and `facts` gave."""
        self.epoch, self.history = int(facts["epoch"]), list(facts["history"])
        with torch.no_grad():
            for prefix, module in (("network.", self.network), ("projection.", self.projection)):
                for name, value in module.state_dict().items():
                    value.copy_(saved[prefix + name])
        for index, parameter in enumerate(self.adam.param_groups[0]["params"]):
            like = parameter.detach()
            self.adam.state[parameter] = {
                "step": torch.tensor(float(facts["steps"])),
                # in the parameter's own memory layout, which the fused step takes for granted
                "exp_avg": torch.empty_like(like).copy_(saved[f"mean.{index}"]),
                "exp_avg_sq": torch.empty_like(like).copy_(saved[f"square.{index}"]),
            }


def body_key(pictures: Pictures, settings: ImageSettings, seed: int, name: str = "pictures") -> str:
    """What a body is known by: the training pictures, the settings, the seed and the version of the recipe."""
    plain = asdict(settings) | {"augmentation": view_settings()}
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
    and an interrupted first call resumes where it was.
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
    resumes from it to the very weights of an uninterrupted run. A finished one is read back at once.
    """
    settings = settings or ImageSettings()
    pictures = check_pictures(pictures, settings.size)
    if len(pictures) < 2:
        raise InputError(
            f"There are {len(pictures)} pictures to train on: pass at least 2, each is compared with the others."
        )
    if checkpoint_dir is None:
        return _trained(Training.start(settings, seed, name), pictures, None, progress)
    folder = Path(checkpoint_dir)
    folder.mkdir(parents=True, exist_ok=True)
    key = body_key(pictures, settings, seed, name)
    file, finished = folder / "checkpoint.safetensors", folder / "body.safetensors"
    with only_one(folder / "lock"):  # whoever comes second waits, and finds the finished body
        if finished.is_file():
            state, facts = read_arrays(finished, key)
            return ResNetBody.from_state(state, tuple(facts["history"]))
        training = Training.start(settings, seed, name)
        if file.is_file():
            arrays, facts = read_arrays(file, key)
            training.restore({label: torch.from_numpy(own) for label, own in arrays.items()}, facts)
        body = _trained(training, pictures, (file, key), progress)
        write_arrays(finished, body.state(), {"key": key, "history": list(body.history)})
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
            arrays = {label: value.numpy() for label, value in training.tensors().items()}
            write_arrays(path, arrays, training.facts() | {"key": key})
    return ResNetBody(training.network, tuple(training.history))
