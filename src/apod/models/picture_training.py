"""Contrastive training of a ResNet-18, epoch by epoch, from a state that can be saved and restored to the bit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from apod.errors import InputError
from apod.models.augment import Augmentation, random_views
from apod.models.contrastive import linear_start, nt_xent, shuffled_batches
from apod.models.perceptron import Progress
from apod.models.resnet import ResNet18, fresh_resnet18, read_resnet18, resnet18_from
from apod.randomness import generator


@dataclass(frozen=True)
class ImageSettings:
    """How a body for pictures is made. The paper has size 160; 48 takes about a tenth of the time."""

    size: int = 48  # height and width of the pictures
    width: int = 256  # M
    epochs: int = 50
    batch_size: int = 256
    lr: float = 1e-3
    temperature: float = 0.2  # the paper names none; pictures want a sharper one than table rows
    augmentation: Augmentation = field(default_factory=Augmentation)
    weights: Path | None = None  # a safetensors file with ResNet-18 weights to start from

    def __post_init__(self) -> None:
        for name in ("size", "width", "lr", "temperature"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}: pass a number above 0.")
        if self.batch_size < 2:
            raise InputError(
                f"batch_size is {self.batch_size}: a picture needs others to be told from, pass 2 or more."
            )
        least = 1 if self.weights is None else 0
        if self.epochs < least:
            raise InputError(f"epochs is {self.epochs}: pass at least {least} (0 only with weights to start from).")
        if self.weights is not None and not self.weights.is_file():
            raise InputError(f"There is no file {str(self.weights)!r} with weights: correct the path.")


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
            pair = [random_views(chosen, rng, self.settings.augmentation) for _ in range(2)]
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

    def facts(self) -> dict[str, Any]:
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

    def restore(self, saved: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
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


class Clock:
    """Tells `progress` how far the training is and how long it will still take."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._started = time.monotonic()
        self._ticks = 0

    def tick(self, done: int, total: int, loss: float) -> None:
        """One more step of this process is over: `done` of `total` in all, with those before an interruption."""
        self._ticks += 1
        if self._progress is not None:
            left = (time.monotonic() - self._started) / self._ticks * (total - done)
            self._progress(done, total, f"picture body, loss {loss:.3f}, {spell_seconds(left)} left")


def spell_seconds(seconds: float) -> str:
    """A duration as a person says it: 45 s, 12 min, 3 h 20 min."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
