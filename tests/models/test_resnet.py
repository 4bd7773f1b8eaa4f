"""The usual ResNet-18: its names, its forward pass, its checkpoints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from striped_pictures import generated_pictures
from torch.nn import functional

from apod.errors import InputError
from apod.models.picture_training import ImageSettings, pretrain_image_body
from apod.models.resnet import empty_resnet18, fresh_resnet18, normalise, read_resnet18, resnet18_from

TINY = ImageSettings(size=16, width=8, epochs=3, batch_size=8)


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


def test_weights_without_training_make_a_body(tmp_path: Path) -> None:
    theirs = fresh_resnet18(np.random.default_rng(1), width=8)
    safetensors.torch.save_file(theirs, tmp_path / "r.safetensors")
    how = replace(TINY, epochs=0, weights=tmp_path / "r.safetensors")
    pictures = generated_pictures(4)
    body = pretrain_image_body(pictures, settings=how, seed=0, checkpoint_dir=tmp_path / "body")
    x = normalise(torch.tensor(pictures)).double()
    expected = resnet18_by_the_paper({k: v.double() for k, v in theirs.items()}, x)
    np.testing.assert_allclose(body.embed(pictures), expected.numpy(), rtol=1e-3, atol=1e-4)
