"""The body for pictures: the usual network, honest views, training that resumes to the bit, embeddings kept once."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from apod.errors import CheckpointError, InputError
from apod.models.augment import Augmentation, crop, normalise, random_boxes, random_colours, random_views, recolour
from apod.models.contrastive import nt_xent
from apod.models.picture_training import spell_seconds
from apod.models.pictures import ImageSettings, ResNetBody, body_key, image_embeddings, pretrain_image_body
from apod.models.resnet import empty_resnet18, fresh_resnet18, read_resnet18, resnet18_from

TINY = ImageSettings(size=16, width=8, epochs=3, batch_size=8)
LUMA = np.array([0.299, 0.587, 0.114])


def generated_pictures(n: int, size: int = 16, seed: int = 0) -> np.ndarray:
    """Stripes of a random colour, width and direction on a background of another."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size]
    pictures = []
    for _ in range(n):
        angle, period = rng.uniform(0, np.pi), rng.uniform(3, 9)
        stripes = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period) > 0
        front, back = rng.integers(0, 256, (2, 3, 1, 1))
        pictures.append(np.where(stripes, front, back))
    return np.array(pictures, dtype=np.uint8)


@pytest.fixture(scope="module")
def trained() -> ResNetBody:
    return pretrain_image_body(generated_pictures(20), settings=TINY, seed=0)


# --- the network ---


def test_parameter_names_and_sizes_are_the_usual_ones() -> None:
    state = empty_resnet18(1000).state_dict()
    assert sum(v.numel() for name, v in state.items() if "running" not in name and "num_" not in name) == 11_689_512
    assert len(state) == 122
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    assert shapes["conv1.weight"] == (64, 3, 7, 7)
    assert shapes["bn1.running_var"] == (64,)
    assert shapes["layer1.0.conv1.weight"] == (64, 64, 3, 3)
    assert shapes["layer1.1.bn2.bias"] == (64,)
    assert shapes["layer2.0.downsample.0.weight"] == (128, 64, 1, 1)
    assert shapes["layer2.0.downsample.1.num_batches_tracked"] == ()
    assert shapes["layer4.1.conv2.weight"] == (512, 512, 3, 3)
    assert shapes["fc.weight"] == (1000, 512)
    assert "layer1.0.downsample.0.weight" not in shapes


def resnet18_by_the_paper(s: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """The forward pass written out from the names of the parameters."""

    def norm(x: torch.Tensor, at: str) -> torch.Tensor:
        shape = (1, -1, 1, 1)
        mean, var = s[f"{at}.running_mean"].view(shape), s[f"{at}.running_var"].view(shape)
        return (x - mean) / (var + 1e-5).sqrt() * s[f"{at}.weight"].view(shape) + s[f"{at}.bias"].view(shape)

    x = norm(functional.conv2d(x, s["conv1.weight"], stride=2, padding=3), "bn1").clamp_min(0)
    x = functional.max_pool2d(x, 3, 2, 1)
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            at, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            out = functional.conv2d(x, s[f"{at}.conv1.weight"], stride=stride, padding=1)
            out = norm(out, f"{at}.bn1").clamp_min(0)
            out = norm(functional.conv2d(out, s[f"{at}.conv2.weight"], padding=1), f"{at}.bn2")
            if stride == 2:
                x = functional.conv2d(x, s[f"{at}.downsample.0.weight"], stride=2)
                x = norm(x, f"{at}.downsample.1")
            x = (out + x).clamp_min(0)
    return x.mean((2, 3)) @ s["fc.weight"].T + s["fc.bias"]


def test_the_forward_pass_is_that_of_the_paper() -> None:
    rng = np.random.default_rng(0)
    state = fresh_resnet18(rng, width=5)
    for value in state.values():  # batch norms that do something
        if value.ndim == 1 and value.is_floating_point():
            value += torch.tensor(rng.uniform(0, 0.3, value.shape).astype(np.float32))
    x = torch.tensor(rng.normal(size=(3, 3, 40, 40)).astype(np.float32))
    with torch.no_grad():
        ours = resnet18_from(state).eval()(x)
        expected = resnet18_by_the_paper({k: v.double() for k, v in state.items()}, x.double())
    np.testing.assert_allclose(ours.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


def test_fresh_weights_have_hes_spread_and_leave_torchs_generator_alone() -> None:
    before = torch.get_rng_state()
    state = fresh_resnet18(np.random.default_rng(0), width=64)
    resnet18_from(state)
    assert torch.equal(before, torch.get_rng_state())
    convolutions = {name: value for name, value in state.items() if value.ndim == 4}
    assert len(convolutions) == 20
    for value in convolutions.values():
        outputs, _, k, _ = value.shape
        assert float(value.std()) == pytest.approx(np.sqrt(2 / (outputs * k * k)), rel=0.05)
    assert float(state["fc.weight"].abs().max()) <= 1 / np.sqrt(512)
    assert (state["bn1.weight"] == 1).all()
    assert (state["bn1.running_mean"] == 0).all()


def test_an_imagenet_checkpoint_loads_and_its_classifier_is_replaced(tmp_path: Path) -> None:
    theirs = fresh_resnet18(np.random.default_rng(1), width=1000)
    saved = {k: v for k, v in theirs.items() if not k.endswith("num_batches_tracked")}  # older files lack them
    safetensors.torch.save_file(saved, tmp_path / "resnet18.safetensors")
    fresh = fresh_resnet18(np.random.default_rng(2), width=8)
    state = read_resnet18(tmp_path / "resnet18.safetensors", fresh)
    assert torch.equal(state["layer4.1.conv2.weight"], theirs["layer4.1.conv2.weight"])
    assert torch.equal(state["fc.weight"], fresh["fc.weight"])


def test_weights_without_training_make_a_body(tmp_path: Path) -> None:
    theirs = fresh_resnet18(np.random.default_rng(1), width=8)
    safetensors.torch.save_file(theirs, tmp_path / "r.safetensors")
    how = replace(TINY, epochs=0, weights=tmp_path / "r.safetensors")
    pictures = generated_pictures(4)
    body = pretrain_image_body(pictures, settings=how, seed=0, checkpoint_dir=tmp_path / "body")
    x = normalise(torch.tensor(pictures)).double()
    expected = resnet18_by_the_paper({k: v.double() for k, v in theirs.items()}, x)
    np.testing.assert_allclose(body.embed(pictures), expected.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("layer3.0.conv2.weight"), "layer3.0.conv2.weight is missing"),
        (lambda s: s.update({"conv1.weight": torch.zeros(64, 3, 3, 3)}), r"of shape \(64, 3, 3, 3\), not"),
        (lambda s: s.update({"layer1.2.conv1.weight": torch.zeros(1)}), "also holds layer1.2.conv1.weight"),
    ],
)
def test_another_networks_checkpoint_is_refused(tmp_path: Path, change: object, message: str) -> None:
    fresh = fresh_resnet18(np.random.default_rng(0), width=4)
    other = dict(fresh)
    change(other)  # type: ignore[operator]
    safetensors.torch.save_file(other, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match=message):
        read_resnet18(tmp_path / "other.safetensors", fresh)


class RunsCode:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('a pickle was opened')",))


def test_a_pickled_checkpoint_is_refused_unopened(tmp_path: Path) -> None:
    (tmp_path / "resnet18.pth").write_bytes(pickle.dumps(RunsCode()))
    with pytest.raises(InputError, match="not a safetensors file"):
        pretrain_image_body(generated_pictures(4), settings=replace(TINY, weights=tmp_path / "resnet18.pth"), seed=0)


# --- views ---


def bilinear(picture: np.ndarray, box: np.ndarray) -> np.ndarray:
    """A crop stretched to full size, one output pixel at a time; beyond the border lies the border's colour."""
    _, height, width = picture.shape
    left, right, top, bottom = box
    out = np.zeros_like(picture)
    for i in range(height):
        for j in range(width):
            y = (top + (bottom - top) * (i + 0.5) / height) * height - 0.5
            x = (left + (right - left) * (j + 0.5) / width) * width - 0.5
            y, x = np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)
            y0, x0 = min(int(y), height - 2), min(int(x), width - 2)
            b, a = y - y0, x - x0
            corner = picture[:, y0 : y0 + 2, x0 : x0 + 2]
            out[:, i, j] = np.einsum("cij,i,j->c", corner, [1 - b, b], [1 - a, a])
    return out


def test_crops_are_bilinear_pieces_of_the_picture() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((5, 3, 12, 12))
    boxes = np.array([[0, 1, 0, 1], [1, 0, 0, 1], *random_boxes(rng, 3, Augmentation())])
    ours = crop(torch.tensor(x.astype(np.float32)), boxes).numpy()
    np.testing.assert_allclose(ours[0], x[0], atol=1e-5)
    np.testing.assert_allclose(ours[1], x[1, :, :, ::-1], atol=1e-5)
    for index in range(5):
        np.testing.assert_allclose(ours[index], bilinear(x[index], boxes[index]), atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 1.0))
def test_boxes_lie_in_the_picture_and_are_not_too_small(seed: int, least: float) -> None:
    left, right, top, bottom = random_boxes(np.random.default_rng(seed), 200, Augmentation(least_area=least)).T
    for edge in (left, right, top, bottom):
        assert edge.min() >= -1e-12
        assert edge.max() <= 1 + 1e-12
    area = np.abs(right - left) * (bottom - top)
    assert area.min() > least * 3 / 4 - 1e-9, "a box too long for the picture is cut, by a quarter at most"


def test_flips_and_greys_come_at_their_rates() -> None:
    n, how = 20_000, Augmentation()
    left, right, *_ = random_boxes(np.random.default_rng(0), n, how).T
    assert np.mean(left > right) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(n))
    matrix, contrast = random_colours(np.random.default_rng(1), n, how)
    grey = np.abs(matrix - matrix[:, :1]).max(axis=(1, 2)) < 1e-9  # all three output channels are the same
    assert grey.mean() == pytest.approx(0.2, abs=4 * 0.4 / np.sqrt(n))
    assert (contrast == 1).mean() == pytest.approx(0.2, abs=4 * 0.4 / np.sqrt(n)), "jitter leaves a fifth alone"
    assert 0.6 <= contrast.min() < 0.61
    assert 1.39 < contrast.max() <= 1.4


def only(**reach: float) -> Augmentation:
    none = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0, "grey": 0.0, "jitter": 1.0}
    return Augmentation(**(none | reach))


def coloured(how: Augmentation, x: np.ndarray) -> np.ndarray:
    matrix, contrast = random_colours(np.random.default_rng(0), len(x), how)
    return recolour(torch.tensor(x.astype(np.float32)), matrix, contrast).numpy()


def luma(x: np.ndarray) -> np.ndarray:
    return np.einsum("c,bcij->bij", LUMA, x)


def test_each_colour_change_is_what_its_name_says() -> None:
    x = np.random.default_rng(3).uniform(0.35, 0.65, (40, 3, 6, 6))  # far from black and white: nothing is cut off
    close = {"rtol": 0, "atol": 2e-4}
    np.testing.assert_allclose(coloured(only(), x), x, **close)
    grey = coloured(only(grey=1.0), x)
    np.testing.assert_allclose(grey, np.repeat(luma(x)[:, None], 3, axis=1), **close)

    brighter = coloured(only(brightness=0.3), x) / x
    assert np.ptp(brighter.reshape(40, -1), axis=1).max() < 1e-3, "one factor for the whole picture"
    assert brighter.min() >= 0.699
    assert brighter.max() <= 1.301
    assert np.ptp(brighter) > 0.4

    centre = luma(x).mean(axis=(1, 2))[:, None, None, None]
    stretched = (coloured(only(contrast=0.3), x) - centre) / (x - centre)
    factor = np.median(stretched.reshape(40, -1), axis=1)[:, None, None, None]
    np.testing.assert_allclose(coloured(only(contrast=0.3), x), factor * x + (1 - factor) * centre, **close)
    assert np.ptp(factor) > 0.3

    level = luma(x)[:, None]
    faded = coloured(only(saturation=0.3), x)
    factor = np.median(((faded - level) / (x - level)).reshape(40, -1), axis=1)[:, None, None, None]
    np.testing.assert_allclose(faded, factor * x + (1 - factor) * level, **close)
    assert np.ptp(factor) > 0.3

    turned = coloured(only(hue=0.5), x)
    np.testing.assert_allclose(luma(turned), luma(x), **close)
    assert np.abs(turned - x).max() > 0.05


def test_views_depend_on_the_generator_alone() -> None:
    pictures = torch.tensor(generated_pictures(6))
    first, again, other = (random_views(pictures, np.random.default_rng(k), Augmentation()) for k in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == pictures.shape
    assert first.is_contiguous(memory_format=torch.channels_last)


def test_the_network_gets_pictures_centred_as_checkpoints_expect() -> None:
    pictures = generated_pictures(4)
    mean, spread = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = (pictures / 255 - mean[:, None, None]) / spread[:, None, None]
    np.testing.assert_allclose(normalise(torch.tensor(pictures)).numpy(), expected, atol=1e-5)


# --- the body and its training ---


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
    views = torch.cat([random_views(torch.tensor(pictures), rng, Augmentation()) for _ in range(2)])
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


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.6, "60 s"), (150, "2 min"), (5940, "99 min"), (12_000, "3 h 20 min")]
)
def test_durations_are_spelled_as_people_do(seconds: float, text: str) -> None:
    assert spell_seconds(seconds) == text


class Interrupt(Exception):
    """Stands for whatever ends a process in the middle of a step."""


def interrupted_at(step: int) -> object:
    def progress(done: int, total: int, text: str) -> None:
        if done == step:
            raise Interrupt

    return progress


@pytest.mark.parametrize("step", [1, 8])  # in the first and third epoch of three steps each
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
from apod.models.pictures import ImageSettings, pretrain_image_body

def progress(done, total, text):
    if done == 5:
        os.kill(os.getpid(), signal.SIGKILL)

how = ImageSettings(size=16, width=8, epochs=3, batch_size=8)
pretrain_image_body(np.load(sys.argv[1]), settings=how, seed=0, checkpoint_dir=sys.argv[2], progress=progress)
"""


def test_a_killed_training_leaves_a_usable_checkpoint_and_no_lock(trained: ResNetBody, tmp_path: Path) -> None:
    np.save(tmp_path / "pictures.npy", generated_pictures(20))
    folder = tmp_path / "body"
    command = [sys.executable, "-c", KILLED, str(tmp_path / "pictures.npy"), str(folder)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert (folder / "checkpoint.safetensors").is_file()
    resumed = pretrain_image_body(generated_pictures(20), settings=TINY, seed=0, checkpoint_dir=folder)
    assert len(resumed.history) == 3
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


# --- embeddings, kept by content ---


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


def test_the_key_of_a_body_changes_with_everything_it_depends_on() -> None:
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
        body_key(pictures, replace(TINY, augmentation=Augmentation(hue=0.2)), 0),
    ]
    assert len(set(keys)) == len(keys)
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


def test_a_step_follows_the_gradient_of_the_loss() -> None:
    """Autograd through the definition of the loss gives the gradient that the training hands on."""
    out = torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    unit = functional.normalize(out, dim=1)
    similarity = (unit @ unit.T / 0.5).masked_fill(torch.eye(8, dtype=torch.bool), -torch.inf)
    functional.cross_entropy(similarity, torch.arange(8).roll(4)).backward()
    _, gradient = nt_xent(out.detach(), 0.5)
    np.testing.assert_allclose(gradient.numpy(), out.grad.numpy(), atol=1e-12)
