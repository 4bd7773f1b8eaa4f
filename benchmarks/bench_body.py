"""What pre-training a body costs: for a table the size of adult's training part, and per picture at 64 and 96 px.

    python benchmarks/bench_body.py [--threads 2] [--cpu] [--json]

Every cost stands beside the bare work that cannot be saved (the matrix products, the convolutions), measured in the
same run. All data is generated. On a machine that is busy with other things, `--threads 1 --cpu` counts this
process's own processor time instead of the clock's.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch.nn import functional

from apod.models.body import Clock, nt_xent
from apod.models.perceptron import pretrain_body
from apod.models.picture_training import ImageSettings, Training
from apod.models.resnet import ResNetBody, random_views
from apod.processes import one_thread

CATEGORIES = (7, 16, 7, 14, 6, 5, 41)  # with six numbers beside them: the columns of adult


Clocked = Callable[[Callable[[], object], int], float]


def best(clock: Callable[[], float], work: Callable[[], object], repeat: int) -> float:
    """Seconds of the fastest of `repeat` calls; after one that warms up where there are several."""
    if repeat > 1:
        work()
    times = []
    for _ in range(repeat):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def generated_table(n: int) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 6)), *(np.eye(k)[rng.integers(0, k, n)] for k in CATEGORIES)]
    blocks = [*range(6), *(6 + i for i, k in enumerate(CATEGORIES) for _ in range(k))]
    return np.hstack(parts).astype(np.float32), blocks


def bare_table_products(d: int, width: int, batch: int) -> None:
    """The matrix products of one contrastive step: two layers forward and back, similarities and their gradient."""
    x, hidden = torch.ones(2 * batch, d), torch.ones(2 * batch, width)
    weight, square, similarity = torch.ones(width, d), torch.ones(width, width), torch.ones(2 * batch, 2 * batch)
    _ = x @ weight.T, hidden @ square.T, hidden @ hidden.T
    _ = similarity @ torch.ones(2 * batch, 2 * width), hidden @ square, hidden.T @ hidden, hidden.T @ x


def autograd_nt_xent(projections: torch.Tensor) -> None:
    out = projections.clone().requires_grad_()
    unit = functional.normalize(out, dim=1)
    similarity = (unit @ unit.T).fill_diagonal_(-torch.inf)
    functional.cross_entropy(similarity, torch.arange(len(out)).roll(len(out) // 2)).backward()


def table_body(seconds: Clocked, n: int = 7540, width: int = 64, epochs: int = 50) -> dict[str, float]:
    X, blocks = generated_table(n)
    train = partial(pretrain_body, X, width=width, blocks=blocks, seed=0, name="bench", epochs=epochs)
    total = seconds(train, 1)
    projections = torch.randn(512, width)
    with one_thread():
        bare = seconds(partial(bare_table_products, X.shape[1], width, 256), 50)
        by_hand = seconds(partial(nt_xent, projections), 50)
        by_autograd = seconds(partial(autograd_nt_xent, projections), 50)
    step = total / (epochs * -(-n // 256))
    return {
        "seconds, 50 epochs": total,
        "ms per step": step * 1e3,
        "ms of bare matrix products": bare * 1e3,
        "step / bare products": step / bare,
        "ms of NT-Xent by hand": by_hand * 1e3,
        "ms of NT-Xent by autograd": by_autograd * 1e3,
    }


def convolutions(size: int) -> list[tuple[int, int, int, int, int]]:
    """Inputs, outputs, kernel, stride and input size of each of the network's twenty convolutions."""
    shapes = [(3, 64, 7, 2, size)]
    inputs, side = 64, size // 4
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        if stride == 2:
            shapes.append((inputs, outputs, 1, 2, side))
        shapes.append((inputs, outputs, 3, stride, side))
        inputs, side = outputs, side // stride
        shapes += [(outputs, outputs, 3, 1, side)] * 3
    return shapes


def bare_convolutions(seconds: Clocked, batch: int, size: int, repeat: int) -> float:
    """Seconds for all convolutions of the network, forward and backward, and nothing in between."""
    total = 0.0
    for inputs, outputs, kernel, stride, side in convolutions(size):
        x = torch.randn(batch, inputs, side, side).to(memory_format=torch.channels_last)
        weight = torch.randn(outputs, inputs, kernel, kernel).to(memory_format=torch.channels_last)
        x.requires_grad_(inputs > 3)
        weight.requires_grad_()
        gradient = torch.randn_like(functional.conv2d(x, weight, stride=stride, padding=kernel // 2))

        def both(x=x, weight=weight, stride=stride, kernel=kernel, gradient=gradient) -> None:
            x.grad = weight.grad = None
            functional.conv2d(x, weight, stride=stride, padding=kernel // 2).backward(gradient)

        total += seconds(both, repeat)
    return total


def picture_body(seconds: Clocked, size: int, batch: int = 128, repeat: int = 3) -> dict[str, float]:
    rng = np.random.default_rng(0)
    pictures = torch.from_numpy(rng.integers(0, 256, (batch, 3, size, size), dtype=np.uint8))
    settings = replace(ImageSettings(), size=size, batch_size=batch)
    training = Training.start(settings, seed=0, name="bench")
    views = torch.cat([random_views(pictures, rng) for _ in range(2)])

    def forward_backward() -> None:
        training.adam.zero_grad(set_to_none=True)
        out = training.projection(training.network(views))
        out.backward(nt_xent(out.detach())[1])

    both = seconds(forward_backward, repeat) / len(views)
    augment = seconds(partial(random_views, pictures, rng), repeat) / batch
    whole = seconds(partial(training.run_epoch, pictures, Clock(None)), repeat) / len(views)
    bare = bare_convolutions(seconds, len(views), size, repeat) / len(views)
    embed = seconds(partial(ResNetBody(training.network).embed, pictures.numpy()), repeat) / batch
    return {
        "ms per view, forward + backward": both * 1e3,
        "ms per view, making it": augment * 1e3,
        "ms per view, whole step": whole * 1e3,
        "ms per view, bare convolutions": bare * 1e3,
        "whole step / bare convolutions": whole / bare,
        "ms per picture, embedding": embed * 1e3,
        "minutes for 1250 pictures, 50 epochs": whole * 2 * 1250 * 50 / 60,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--cpu", action="store_true", help="processor time, for a busy machine")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    seconds: Clocked = partial(best, time.process_time if options.cpu else time.perf_counter)
    jobs: dict[str, Callable[[], dict[str, float]]] = {
        "table body (7540 x 102, M = 64)": partial(table_body, seconds),
        "picture body at 64 px": partial(picture_body, seconds, 64),
        "picture body at 96 px": partial(picture_body, seconds, 96),
        "this process": lambda: {"peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3},
    }
    results = {}
    for title, job in jobs.items():
        results[title] = job()
        if not options.json:
            print(title, *(f"  {name:<38}{value:>10.2f}" for name, value in results[title].items()), sep="\n")
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
