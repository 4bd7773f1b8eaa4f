"""Draws how the default method works, on generated people: whom it asks, what f_a learns, what it knows of the gap.

python benchmarks/picture_method.py --out docs/images/method.png
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes

from apod.bench.figures.style import BLACK, BLUE, GREY, LIGHT, VERMILLION, new_figure, paper_style
from apod.data import make_example
from apod.method.proxy import LaplaceProxy
from apod.method.settings import PRESETS
from apod.run import Outcome, run_experiment

ANSWERS = 30
LINES = 12  # posterior draws shown


def asked(outcome: Outcome) -> np.ndarray:
    """(n, 2) merit and neighbourhood of those asked about."""
    rows = [answer["row"] for answer in outcome.result["answers"]]
    return outcome.approach.prepared.dataset.features.to_numpy()[rows]


def whom(axes: Axes, default: Outcome, paper: Outcome) -> None:
    """The pool, typical people and farthest people."""
    pool = default.approach.prepared.dataset.features.to_numpy()
    axes.scatter(pool[:, 1], pool[:, 0], s=1, color=LIGHT, rasterized=True)
    far, near = asked(paper), asked(default)
    axes.scatter(far[:, 1], far[:, 0], s=16, marker="x", linewidths=0.9, color=GREY, label="farthest person (paper)")
    axes.scatter(near[:, 1], near[:, 0], s=13, color=VERMILLION, label="typical person (default)")
    axes.set(title="1. Whom to ask", xlabel="neighbourhood", ylabel="merit")
    axes.legend(loc="lower right", handletextpad=0.1)


def learnt(axes: Axes, outcome: Outcome) -> None:
    """P(group) by f_a, the answers, and where draws from its posterior put the boundary."""
    prepared, mitigation = outcome.approach.prepared, outcome.approach.mitigation
    assert isinstance(mitigation.proxy, LaplaceProxy)
    pool = prepared.dataset.features.to_numpy()
    merit, near = (np.linspace(pool[:, c].min(), pool[:, c].max(), 80) for c in (0, 1))
    grid = np.stack(np.meshgrid(merit, near, indexing="ij"), axis=-1).reshape(-1, 2)
    encoded = torch.from_numpy(prepared.encoder.transform(pd.DataFrame(grid, columns=["merit", "neighbourhood"])))
    sure = mitigation.membership(encoded)[0, :, 1].reshape(80, 80).numpy()
    shown = axes.pcolormesh(near, merit, sure, cmap="cividis", vmin=0, vmax=1, shading="auto", rasterized=True)
    for draw in mitigation.proxy.draws(encoded)[:LINES, 0, :, 1].reshape(-1, 80, 80).numpy():
        axes.contour(near, merit, draw, levels=[0.5], colors="white", linewidths=0.4)
    people, names = asked(outcome), prepared.dataset.group_names
    told = np.array([answer["group"] for answer in outcome.result["answers"]])
    for name, marker in zip(names, ("o", "^"), strict=True):
        own = people[told == name]
        axes.scatter(own[:, 1], own[:, 0], s=12, marker=marker, color="white", edgecolor=BLACK, lw=0.5, label=name)
    axes.set(title=f"2. What {len(told)} answers teach f_a", xlabel="neighbourhood", ylabel="merit")
    axes.legend(loc="lower right", handletextpad=0.1, facecolor="white", frameon=True, framealpha=0.8)
    axes.figure.colorbar(shown, ax=axes, label=f"P({names[1]})", shrink=0.8)


def known(axes: Axes, outcome: Outcome) -> None:
    """The gap of the head that would be chosen: expected with its interval, and as it is on the test part."""
    answers = [entry["answered"] for entry in outcome.result["rounds"]]
    estimates = [estimate for estimate in outcome.approach.choices if estimate is not None]
    heads = [next(h for h in one["heads"] if h["strength"] == one["strength"]) for one in estimates]
    true = [one["test"]["gap"] for one in estimates]
    low, high = zip(*(head["interval"] for head in heads), strict=True)
    axes.fill_between(answers, low, high, color=BLUE, alpha=0.2, lw=0, label="95 % credible interval")
    axes.plot(answers, [head["gap"] for head in heads], color=BLUE, label="expected by f_a's posterior")
    axes.plot(answers, true, color=BLACK, ls="--", label="on the test part, true groups")
    axes.axhline(outcome.result["vanilla"]["gap"], color=GREY, lw=0.8, ls=":", label="plain head, test part")
    axes.set(title="3. What it knows of the gap", xlabel="answers", ylabel="gap |ΔTPR| + |ΔFPR|", ylim=(0, 1.2))
    axes.legend(loc="upper right")


def main() -> None:
    """Run the default on the example with its own questions and with the paper's, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images/method.png"))
    told = parser.parse_args()
    people, default = make_example(), PRESETS["heads"]
    ours, paper = (
        run_experiment(people, settings, seed=0, budget=ANSWERS)
        for settings in (default, replace(default, selector="apod"))
    )
    with paper_style():
        figure = new_figure(7.2, 2.5)
        panels = figure.subplots(1, 3)
        whom(panels[0], ours, paper)
        learnt(panels[1], ours)
        known(panels[2], ours)
        figure.savefig(told.out, dpi=200)


if __name__ == "__main__":
    main()
