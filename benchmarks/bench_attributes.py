"""Several attributes at once: what sex and race together cost sex, what intersections gain, a known truth, and time.

    python benchmarks/bench_attributes.py adult --seeds 20 --visits 60 --data-dir data
    python benchmarks/bench_attributes.py synthetic --seeds 20 --visits 60
    python benchmarks/bench_attributes.py speed

Recorded groups answer; neither attribute is a feature. `sex alone` asks the same number of people about sex alone.
*Share* is the fall of the gap in units of the fall that the same correction reaches when everybody's groups in the
training and validation part are known. Gaps are those of the test part, over groups with 50 people or more of each
label in it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.dataset import Dataset, Grouping, Split, Task, answer_code, split_rows
from apod.data.load import load_data
from apod.data.own import FileColumns
from apod.fairness.metrics import group_counts
from apod.fairness.notions import EQUALIZED_ODDS, count_rates
from apod.method.attribute_mitigation import AttributeMitigation
from apod.method.attributes import fit_attributes
from apod.method.corrected import ModelPool, corrected, model_pool
from apod.method.correction_choice import Limits
from apod.method.correction_fit import FittedCorrection, fit_correction
from apod.method.joint import cell_codes
from apod.method.model_mitigation import ModelMitigation
from apod.models.scored import Scored
from apod.models.standard import fit_standard
from apod.randomness import generator

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LIMITS = Limits()
LEAST = 50


@dataclass(frozen=True, eq=False)
class Base:
    """People of one seed, their model, and the test part."""

    data: Dataset
    split: Split
    pool: ModelPool
    test: Scored

    @property
    def sizes(self) -> list[int]:
        return [len(one.names) for one in self.data.groupings]

    def codes(self, rows: IntArray) -> list[IntArray]:
        return [one.codes[rows] for one in self.data.groupings]

    def gaps(self, fitted: FittedCorrection | None) -> Floats:
        """Of every attribute and of the intersections, then accuracy and balanced accuracy, on the test part."""
        decided = corrected(self.pool.scored, fitted).decisions(self.test)
        rows = self.split.test
        labels, each = self.data.labels[rows], self.codes(rows)
        sizes = [*self.sizes, int(np.prod(self.sizes))]
        gaps = [
            _gap(labels, decided, codes, size)
            for codes, size in zip([*each, cell_codes(each, self.sizes)], sizes, strict=True)
        ]
        right = decided[0] == labels
        return np.array([*gaps, right.mean(), (right[labels == 1].mean() + right[labels == 0].mean()) / 2])


def _gap(labels: IntArray, decided: IntArray, codes: IntArray, size: int) -> float:
    people = np.array([[((codes == group) & (labels == label)).sum() for group in range(size)] for label in (0, 1)])
    enough = np.flatnonzero((people >= LEAST).all(axis=0))
    rates = count_rates(EQUALIZED_ODDS, group_counts(labels, decided == 1, codes, size))[0]  # (k, e, G)
    return float(EQUALIZED_ODDS.gap(rates[..., enough]))


def base_of(data: Dataset, seed: int) -> Base:
    """The default model of one seed's split."""
    split = split_rows(data.key, len(data), data.task.split, seed)
    rows, labels = data.features, data.labels
    fitted = fit_standard(rows.iloc[split.train], labels[split.train], seed)
    parts = [(rows.iloc[own], labels[own]) for own in (split.train, split.validation)]
    pool = model_pool(fitted, parts[0], parts[1])
    return Base(data, split, pool, pool.scored.score(rows.iloc[split.test]))


def asked(mitigation: ModelMitigation, visits: int, codes: Sequence[int]) -> None:
    """Ask about so many people, one after the other."""
    answers = 0
    for _ in mitigation.first_answers(lambda question: codes[question.row], visits):
        answers += 1
    while answers < visits:
        for question in mitigation.ask(1):
            mitigation.add_answer(0, question.row, codes[question.row])
        answers += 1


def arm(base: Base, name: str, visits: int, seed: int) -> Floats:
    """What an arm reaches on the test part."""
    common = {"notion": EQUALIZED_ODDS, "cut": base.pool.scored.cut, "limits": LIMITS, "seed": seed}
    people = (base.pool.people, base.pool.labels, base.pool.training)
    train, both = base.split.train, np.concatenate([base.split.train, base.split.validation])
    sizes, intersections = base.sizes, name.endswith("intersections")
    if name == "base":
        return base.gaps(None)
    if name in ("sex alone", "sex known"):
        own = ModelMitigation(*people, n_groups=sizes[0], key=base.data.key, **common)  # type: ignore[arg-type]
        codes = base.codes(train)[0].tolist()
        if name == "sex known":
            told = {row: np.eye(sizes[0])[code] for row, code in enumerate(base.codes(both)[0])}
            return base.gaps(fit_correction(own.population, told, LIMITS, seed))
        asked(own, visits, codes)
        own.refit()
        return base.gaps(own.fitted)
    several = AttributeMitigation(
        *people,
        sizes=sizes,
        key=base.data.key,
        intersections=intersections,
        **common,  # type: ignore[arg-type]
    )
    if name.startswith("known"):
        every = [
            {row: np.eye(size)[code] for row, code in enumerate(codes)}
            for size, codes in zip(sizes, base.codes(both), strict=True)
        ]
        return base.gaps(fit_attributes(several.populations, every, LIMITS, seed, intersections=intersections))
    packed = [answer_code(own, sizes) for own in zip(*(c.tolist() for c in base.codes(train)), strict=True)]
    asked(several, visits, packed)
    several.refit()
    return base.gaps(several.fitted)


REFERENCES = {
    "sex alone": "sex known",
    "marginal": "known marginal",
    "intersections": "known intersections",
}
ARMS = ("base", "sex alone", "sex known", "marginal", "known marginal", "intersections", "known intersections")


def one_seed(data: Dataset, seed: int, visits: int, arms: Sequence[str]) -> dict[str, Floats]:
    """All arms of one seed."""
    base = base_of(data, seed)
    return {name: arm(base, name, visits, seed) for name in arms}


def adult(data_dir: str | None) -> Dataset:
    """Adult with sex and race, the three smallest races together."""
    data = load_data("adult", FileColumns(None, sensitive="sex,race"), data_dir)
    race = data.further[0]
    names = ("Black", "other", "White")
    codes = np.array([names.index(name) if name in names else 1 for name in race.names])[race.codes]
    return replace(data, further=(Grouping("race", names, codes.astype(np.int64)),))


def synthetic(seed: int, n: int = 16_000) -> Dataset:
    """People whose true gaps are known: two attributes that go together, each with a column that foretells it."""
    rng = generator(seed, "people of two attributes")
    first = rng.integers(0, 2, n)
    second = (rng.random((n, 1)) > np.cumsum([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], axis=1)[first]).sum(axis=1)
    labels = (rng.random(n) < 0.3 + 0.12 * first + 0.08 * second).astype(np.int64)
    features = {
        "merit": 1.2 * labels + rng.standard_normal(n),
        "street": 1.4 * first + rng.standard_normal(n),
        "school": 0.9 * second + rng.standard_normal(n),
        "noise": rng.standard_normal(n),
    }
    return Dataset(
        name="two attributes",
        features=pd.DataFrame(features),
        labels=labels,
        groups=first.astype(np.int64),
        group_names=("a", "b"),
        rows=np.arange(n),
        attribute="first",
        task=Task(split=(0.25, 0.25, 0.5)),
        further=(Grouping("second", ("x", "y", "z"), second.astype(np.int64)),),
    )


def table(found: Sequence[Mapping[str, Floats]], names: Sequence[str]) -> list[str]:
    """Means over seeds, shares, and the paired loss of the first attribute."""
    means = {name: np.mean([own[name] for own in found], axis=0) for name in found[0]}
    lines = ["| | " + " | ".join(f"gap of {name}" for name in names) + " | accuracy lost | balanced lost |"]
    lines.append("| --- |" + " --- |" * (len(names) + 2))
    for name, own in means.items():
        lost = means["base"][-2:] - own[-2:]
        cells = [f"{value:.3f}" for value in own[:-2]] + [f"{value:+.4f}" for value in lost]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for name, best in (
        ("sex alone", "sex known"),
        ("marginal", "known marginal"),
        ("intersections", "known intersections"),
    ):
        if name not in means:
            continue
        fell, could = means["base"] - means[name], means["base"] - means[best]
        shares = ", ".join(f"{what} {_share(found, name, best, at)}" for at, what in enumerate(names))
        lines.append(f"share, {name}: {shares} (falls {np.round(fell[:-2], 3)} of {np.round(could[:-2], 3)})")
    for name in ("marginal", "intersections"):
        loss = np.array([own[name][0] - own["sex alone"][0] for own in found])
        error = loss.std(ddof=1) / np.sqrt(len(loss)) if len(loss) > 1 else float("nan")
        lines.append(f"paired loss of {names[0]}, {name} against alone: {loss.mean():+.4f} +- {error:.4f}")
    return lines


def _share(found: Sequence[Mapping[str, Floats]], name: str, best: str, at: int) -> str:
    base, own, known = (np.array([one[arm][at] for one in found]) for arm in ("base", name, best))
    drawn = np.random.default_rng(0).integers(0, len(found), (2000, len(found)))
    ratios = (base - own)[drawn].mean(axis=1) / (base - known)[drawn].mean(axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return f"{(base - own).mean() / (base - known).mean():.0%} ({low:.0%} to {high:.0%})"


def speed(n: int = 12_000, visits: int = 40) -> list[str]:
    """Seconds of the processor, a refit after each question: one attribute of two groups, three of four."""
    rng = generator(0, "speed of several attributes")
    columns = rng.standard_normal((n, 12))
    labels = (columns[:, 0] + rng.standard_normal(n) > 0).astype(np.int64)
    codes = [np.clip((1.2 * columns[:, 1 + at] + rng.standard_normal(n) + 2).astype(np.int64), 0, 3) for at in range(3)]
    data = Dataset(
        name="speed", features=pd.DataFrame(columns).add_prefix("x"), labels=labels, groups=codes[0] // 2,
        group_names=("a", "b"), rows=np.arange(n), task=Task(split=(0.25, 0.25, 0.5)),
    )  # fmt: skip
    base = base_of(data, 0)
    people = (base.pool.people, base.pool.labels, base.pool.training)
    common = {"notion": EQUALIZED_ODDS, "cut": base.pool.scored.cut, "limits": LIMITS, "seed": 0}
    one = ModelMitigation(*people, n_groups=2, **common)  # type: ignore[arg-type]
    three = AttributeMitigation(*people, sizes=(4, 4, 4), **common)  # type: ignore[arg-type]
    rows, seconds = base.split.train, []
    packed = [answer_code(own, (4, 4, 4)) for own in zip(*(c[rows].tolist() for c in codes), strict=True)]
    for mitigation, told in ((one, (codes[0] // 2)[rows].tolist()), (three, packed)):
        started = time.process_time()
        mitigation.first_answers(lambda question, told=told: told[question.row], visits)  # type: ignore[misc]
        mitigation.refit()
        for _ in range(visits - len(mitigation.answers[0])):
            for question in mitigation.ask(1):
                mitigation.add_answer(0, question.row, told[question.row])
            mitigation.refit()
        seconds.append(time.process_time() - started)
    ratio = seconds[1] / seconds[0]
    return [f"one attribute of two: {seconds[0]:.1f} s, three of four: {seconds[1]:.1f} s, {ratio:.2f} times"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("adult", "synthetic", "speed"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--visits", type=int, default=60)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    if options.what == "speed":
        print("\n".join(speed()))
        return
    arms = options.arms.split(",")
    data = adult(options.data_dir) if options.what == "adult" else None
    found = []
    for seed in range(options.seeds):
        found.append(one_seed(data or synthetic(seed), seed, options.visits, arms))
        print(seed, {name: np.round(own, 3).tolist() for name, own in found[-1].items()}, flush=True)
    names = [one.name for one in (data or synthetic(0)).groupings] + ["intersections"]
    print("\n".join(table(found, names)))


if __name__ == "__main__":
    main()
