"""Training on pictures resumes to the bit, embeddings are made once and kept, and no picture is."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from striped_pictures import generated_pictures
from torch.nn import functional

from apod.errors import CheckpointError, InputError
from apod.models.picture_training import ImageSettings, body_key, image_embeddings, pretrain_image_body
from apod.models.resnet import ResNetBody, fresh_resnet18, random_views, resnet18_from

pytestmark = pytest.mark.xdist_group("picture-training")  # they share a trained body

TINY = ImageSettings(size=16, width=8, epochs=2, batch_size=8)


@pytest.fixture(scope="module")
def trained() -> ResNetBody:
    return pretrain_image_body(generated_pictures(20), settings=TINY, seed=0)


class RunsCode:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('a pickle was opened')",))


def test_a_pickled_checkpoint_is_refused_unopened(tmp_path: Path) -> None:
    (tmp_path / "resnet18.pth").write_bytes(pickle.dumps(RunsCode()))
    with pytest.raises(InputError, match="not a safetensors file"):
        pretrain_image_body(generated_pictures(4), settings=replace(TINY, weights=tmp_path / "resnet18.pth"), seed=0)


def test_a_picture_is_embedded_the_same_whatever_stands_beside_it(trained: ResNetBody) -> None:
    pictures = generated_pictures(75, seed=4)
    together = trained.embed(pictures)
    assert together.shape == (75, trained.width) == (75, 8)
    assert together.dtype == np.float32
    order = np.random.default_rng(0).permutation(75)
    np.testing.assert_allclose(trained.embed(pictures[order]), together[order], atol=1e-6)
    np.testing.assert_allclose(trained.embed(pictures[70:71])[0], together[70], atol=1e-6)
    assert trained.embed(pictures[:0]).shape == (0, 8)
    assert np.array_equal(trained.embed(pictures), together)


def test_same_seed_same_bits_and_torchs_own_generator_is_left_alone(trained: ResNetBody) -> None:
    before = torch.get_rng_state()
    again = pretrain_image_body(generated_pictures(20), settings=TINY, seed=0)
    assert torch.equal(before, torch.get_rng_state())
    assert again.history == trained.history
    for name, value in trained.state().items():
        assert np.array_equal(value, again.state()[name]), name
    other = pretrain_image_body(generated_pictures(20), settings=replace(TINY, epochs=1), seed=1)
    assert other.history[0] != trained.history[0]


def test_a_body_survives_saving(trained: ResNetBody) -> None:
    again = ResNetBody.from_state(trained.state())
    assert np.array_equal(again.embed(generated_pictures(5)), trained.embed(generated_pictures(5)))
    broken = trained.state()
    del broken["conv1.weight"]
    with pytest.raises(CheckpointError, match="not the weights"):
        ResNetBody.from_state(broken)


def strangers_before_partner(body: ResNetBody, pictures: np.ndarray) -> float:
    """How many views of other pictures are, on average, nearer to a view than its partner (by cosine)."""
    rng, n = np.random.default_rng(0), len(pictures)
    views = torch.cat([random_views(torch.tensor(pictures), rng) for _ in range(2)])
    with torch.no_grad():
        unit = functional.normalize(body.network(views), dim=1)
    similarity = (unit @ unit.T).fill_diagonal_(-2)
    partner = similarity[torch.arange(2 * n), torch.arange(2 * n).roll(n)]
    return float((similarity > partner[:, None]).sum(dim=1).float().mean())


def test_training_makes_views_of_an_unseen_picture_find_each_other() -> None:
    pictures, unseen = generated_pictures(128), generated_pictures(64, seed=9)
    how = ImageSettings(size=16, width=16, epochs=12, batch_size=32, temperature=0.2)
    body = pretrain_image_body(pictures, settings=how, seed=0)
    untrained = ResNetBody(resnet18_from(fresh_resnet18(np.random.default_rng(0), width=16)))
    assert body.history[-1] < body.history[0] - 0.5
    assert strangers_before_partner(body, unseen) < 0.8 * strangers_before_partner(untrained, unseen)


def test_progress_counts_steps_and_says_how_long_is_left() -> None:
    seen: list[tuple[int, int, str]] = []
    how = replace(TINY, epochs=2)
    pretrain_image_body(generated_pictures(20), settings=how, seed=0, progress=lambda *a: seen.append(a))
    assert [(done, total) for done, total, _ in seen] == [(k, 6) for k in range(1, 7)]
    assert all("left" in text and "loss" in text for *_, text in seen)


class Interrupt(Exception):
    """Stands for whatever ends a process in the middle of a step."""


def interrupted_at(step: int) -> object:
    def progress(done: int, total: int, text: str) -> None:
        if done == step:
            raise Interrupt

    return progress


@pytest.mark.parametrize("step", [1, 5])  # in the first and second epoch of three steps each
def test_an_interrupted_training_resumes_to_the_same_bits(trained: ResNetBody, tmp_path: Path, step: int) -> None:
    pictures = generated_pictures(20)
    arguments = {"settings": TINY, "seed": 0, "checkpoint_dir": tmp_path}
    with pytest.raises(Interrupt):
        pretrain_image_body(pictures, progress=interrupted_at(step), **arguments)  # type: ignore[arg-type]
    seen: list[int] = []
    resumed = pretrain_image_body(pictures, progress=lambda done, *_: seen.append(done), **arguments)  # type: ignore[arg-type]
    assert seen[0] == (step - 1) // 3 * 3 + 1, "it goes on with the epoch that was cut short"
    assert resumed.history == trained.history
    for name, value in trained.state().items():
        assert np.array_equal(value, resumed.state()[name]), name


KILLED = """
import os, signal, sys
import numpy as np
from apod.models.picture_training import ImageSettings, pretrain_image_body

def progress(done, total, text):
    if done == 5:
        os.kill(os.getpid(), signal.SIGKILL)

how = ImageSettings(size=16, width=8, epochs=2, batch_size=8)
pretrain_image_body(np.load(sys.argv[1]), settings=how, seed=0, checkpoint_dir=sys.argv[2], progress=progress)
"""


def test_a_killed_training_leaves_a_usable_checkpoint_and_no_lock(trained: ResNetBody, tmp_path: Path) -> None:
    np.save(tmp_path / "pictures.npy", generated_pictures(20))
    folder = tmp_path / "body"
    command = [sys.executable, "-c", KILLED, str(tmp_path / "pictures.npy"), str(folder)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert (folder / "checkpoint.safetensors").is_file()
    resumed = pretrain_image_body(generated_pictures(20), settings=TINY, seed=0, checkpoint_dir=folder)
    assert len(resumed.history) == 2
    np.testing.assert_allclose(resumed.history, trained.history, rtol=1e-4)
    assert sorted(p.name for p in folder.iterdir()) == ["body.safetensors", "lock"]


def test_a_finished_body_is_read_back_without_training(trained: ResNetBody, tmp_path: Path) -> None:
    pictures = generated_pictures(20)
    first = pretrain_image_body(pictures, settings=TINY, seed=0, checkpoint_dir=tmp_path)
    again = pretrain_image_body(
        pictures,
        settings=TINY,
        seed=0,
        checkpoint_dir=tmp_path,
        progress=interrupted_at(1),  # type: ignore[arg-type]
    )
    assert again.history == first.history == trained.history
    assert np.array_equal(again.embed(pictures), first.embed(pictures))


def test_a_folder_of_another_training_is_refused(tmp_path: Path) -> None:
    how = replace(TINY, epochs=1)
    pretrain_image_body(generated_pictures(8), settings=how, seed=0, checkpoint_dir=tmp_path)
    with pytest.raises(CheckpointError, match="another seed"):
        pretrain_image_body(generated_pictures(8), settings=how, seed=1, checkpoint_dir=tmp_path)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    how = replace(TINY, epochs=1)
    pretrain_image_body(generated_pictures(8), settings=how, seed=0, checkpoint_dir=tmp_path)
    file = tmp_path / "body.safetensors"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(CheckpointError, match=r"body.safetensors is damaged"):
        pretrain_image_body(generated_pictures(8), settings=how, seed=0, checkpoint_dir=tmp_path)


def no_training(done: int, total: int, text: str) -> None:
    raise AssertionError("a body was trained that was there already")


def test_embeddings_are_made_once_and_a_body_serves_new_pictures(tmp_path: Path) -> None:
    pictures, train, how = generated_pictures(12), np.arange(8), replace(TINY, epochs=1)
    first = image_embeddings(pictures, train, how, 0, tmp_path)
    assert first.shape == (12, 8)
    assert np.array_equal(image_embeddings(pictures, train, how, 0, tmp_path, no_training), first)
    assert np.array_equal(image_embeddings(pictures, train, how, 0, None), first)
    changed = pictures.copy()
    changed[11] = 255 - changed[11]  # not a training picture
    second = image_embeddings(changed, train, how, 0, tmp_path, no_training)
    assert np.array_equal(second[:11], first[:11])
    assert not np.array_equal(second[11], first[11])


def test_the_body_sees_no_picture_outside_the_training_part() -> None:
    pictures, how = generated_pictures(12), replace(TINY, epochs=1)
    changed = pictures.copy()
    changed[8:] = 0
    first, second = (image_embeddings(p, np.arange(8), how, 0, None) for p in (pictures, changed))
    assert np.array_equal(first[:8], second[:8])


def test_no_picture_is_kept_in_the_cache(tmp_path: Path) -> None:
    pictures = generated_pictures(12)
    image_embeddings(pictures, np.arange(8), replace(TINY, epochs=1), 0, tmp_path)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert not any(picture.tobytes() in data for picture in pictures)


def test_the_key_of_a_body_changes_with_everything_it_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = generated_pictures(4)
    other = pictures.copy()
    other[3, 2, 15, 15] ^= 1
    keys = [
        body_key(pictures, TINY, 0),
        body_key(pictures[::-1], TINY, 0),
        body_key(other, TINY, 0),
        body_key(pictures, TINY, 1),
        body_key(pictures, TINY, 0, "others"),
        *(body_key(pictures, replace(TINY, **change), 0) for change in ({"epochs": 4}, {"width": 9}, {"lr": 0.1})),
    ]
    monkeypatch.setattr("apod.models.resnet.HUE", 0.2)
    keys.append(body_key(pictures, TINY, 0))
    assert len(set(keys)) == len(keys)
    monkeypatch.undo()
    assert body_key(pictures.copy(), TINY, 0) == keys[0]


@pytest.mark.parametrize("damage", ["cut", "shape", "pickle"])
def test_damaged_embeddings_are_named(tmp_path: Path, damage: str) -> None:
    pictures, how = generated_pictures(6), replace(TINY, epochs=1)
    image_embeddings(pictures, np.arange(4), how, 0, tmp_path)
    (file,) = (tmp_path / "embeddings").glob("*.npy")
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:150])
    elif damage == "shape":
        np.save(file, np.zeros((6, 7), dtype=np.float32))
    else:
        np.save(file, np.array([RunsCode()], dtype=object), allow_pickle=True)
    with pytest.raises(CheckpointError, match="delete it to have it made again"):
        image_embeddings(pictures, np.arange(4), how, 0, tmp_path)


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        (np.zeros((4, 3, 16, 16)), "float64"),
        (np.zeros((4, 16, 16, 3), dtype=np.uint8), r"\(4, 16, 16, 3\)"),
        (np.zeros((4, 3, 8, 8), dtype=np.uint8), "at least 16x16"),
        (np.zeros((4, 3, 16, 20), dtype=np.uint8), "20x16 and size is 16"),
        (np.zeros((1, 3, 16, 16), dtype=np.uint8), "1 pictures to train on"),
    ],
)
def test_unusable_pictures_are_refused(pictures: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pretrain_image_body(pictures, settings=TINY, seed=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 1}, "batch_size is 1"),
        ({"temperature": 0}, "temperature is 0"),
        ({"weights": Path("nowhere.safetensors")}, "no file 'nowhere.safetensors'"),
    ],
)
def test_unusable_settings_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(TINY, **change)  # type: ignore[arg-type]


def test_a_training_that_diverges_says_so() -> None:
    how = replace(TINY, lr=1e30)
    with pytest.raises(InputError, match="diverged in epoch"):
        pretrain_image_body(generated_pictures(20), settings=how, seed=0)
