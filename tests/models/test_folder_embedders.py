"""Models from a folder: standard ones, from safetensors, without any code of theirs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from apod.errors import DataUnavailable, InputError, UnknownName
from apod.models.embedders import open_picture_embedder
from apod.models.folder_embedders import open_picture_model, open_text_model

transformers = pytest.importorskip("transformers")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cook", "fries", "fish"]


@pytest.fixture(scope="module")
def sentence_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sentences")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **sizes)
    transformers.BertModel(config).save_pretrained(folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16}))
    parts = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    listed = [{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in parts]
    (folder / "modules.json").write_text(json.dumps(listed))
    return folder


def copied(folder: Path, target: Path) -> Path:
    for file in [file for file in folder.rglob("*") if file.is_file()]:
        (target / file.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
        (target / file.relative_to(folder)).write_bytes(file.read_bytes())
    return target


def test_a_sentence_is_the_mean_of_its_tokens_of_length_one(sentence_model: Path) -> None:
    embedder = open_text_model(sentence_model)
    tokens = transformers.AutoTokenizer.from_pretrained(sentence_model)(["the cook"], return_tensors="pt")
    with torch.no_grad():
        states = transformers.AutoModel.from_pretrained(sentence_model)(**tokens).last_hidden_state[0]
    mean = states.mean(dim=0)
    found = embedder.forward([embedder.prepare(b"the cook"), embedder.prepare(b"the cook fries the fish")])
    np.testing.assert_allclose(found[0], (mean / mean.norm()).numpy(), atol=1e-5)
    assert embedder.width == 16


def test_empty_and_endless_texts_have_a_row(sentence_model: Path) -> None:
    embedder = open_text_model(sentence_model)
    found = embedder.forward([embedder.prepare(b""), embedder.prepare(b"fish " * 50_000)])
    assert np.isfinite(found).all()


def test_code_of_a_folder_is_never_run(sentence_model: Path, tmp_path: Path) -> None:
    folder = copied(sentence_model, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "evil.Model"}}))
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    with pytest.raises(InputError, match="brings code of its own"):
        open_text_model(folder)


def test_a_module_that_is_not_standard_is_refused(sentence_model: Path, tmp_path: Path) -> None:
    folder = copied(sentence_model, tmp_path)
    (folder / "modules.json").write_text(json.dumps([{"path": "", "type": "evil.Module"}]))
    with pytest.raises(InputError, match="has a module of its own"):
        open_text_model(folder)


def test_pickled_weights_are_refused(sentence_model: Path, tmp_path: Path) -> None:
    folder = copied(sentence_model, tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"no model.safetensors"):
        open_text_model(folder)


def test_a_changed_file_of_weights_is_another_embedder(sentence_model: Path, tmp_path: Path) -> None:
    folder = copied(sentence_model, tmp_path)
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-2] ^= 1
    (folder / "model.safetensors").write_bytes(data)
    assert open_text_model(folder).fingerprint != open_text_model(sentence_model).fingerprint


def test_a_picture_model_pools_what_it_sees(tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.ViTConfig(image_size=16, patch_size=8, **sizes)
    transformers.ViTModel(config).save_pretrained(tmp_path)
    form = {"size": {"height": 16, "width": 16}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(form))
    embedder = open_picture_model(tmp_path)
    file = io.BytesIO()
    Image.new("RGB", (20, 20), (255, 0, 0)).save(file, "PNG")
    x = torch.tensor([1.0, -1.0, -1.0])[None, :, None, None].expand(1, 3, 16, 16)
    with torch.no_grad():
        expected = transformers.AutoModel.from_pretrained(tmp_path)(pixel_values=x).pooler_output
    np.testing.assert_allclose(embedder.forward([embedder.prepare(file.getvalue())]), expected.numpy(), atol=1e-5)


class Tiny(torch.nn.Module):
    """A body and a classifier, as timm and torchvision build them."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.body = torch.nn.Linear(3, 4)
        self.fc = torch.nn.Linear(4, classes) if classes else torch.nn.Identity()
        self.pretrained_cfg = {"input_size": (3, 16, 24), "mean": (0.0,) * 3, "std": (1.0,) * 3}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.body(x.mean(dim=(2, 3))))


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """timm and torchvision with one architecture each; neither is needed to test that they are asked for no more."""

    def create(name: str, *, pretrained: bool, num_classes: int) -> Tiny:
        assert not pretrained
        return Tiny(num_classes)

    def get(name: str, *, weights: None) -> Tiny:
        return Tiny()

    own = {"list_models": staticmethod(lambda: ["tiny", "resnet18"])}
    monkeypatch.setitem(sys.modules, "timm", type("timm", (), {**own, "create_model": staticmethod(create)}))
    monkeypatch.setitem(sys.modules, "torchvision", type("torchvision", (), {}))
    monkeypatch.setitem(sys.modules, "torchvision.models", type("models", (), {**own, "get_model": staticmethod(get)}))


def saved_weights(path: Path) -> Tiny:
    torch.manual_seed(1)
    model = Tiny()
    save_file(model.state_dict(), path)
    return model


def red(size: tuple[int, int] = (20, 20)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (255, 0, 0)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(("package", "size"), [("timm", (24, 16)), ("torchvision", (224, 224))])
def test_an_architecture_by_name_reads_weights_from_disk_without_its_classifier(
    package: str, size: tuple[int, int], libraries: None, tmp_path: Path
) -> None:
    model = saved_weights(tmp_path / "own.safetensors")
    embedder = open_picture_embedder(f"{package}:tiny:{tmp_path / 'own.safetensors'}")
    assert (embedder.size, embedder.width) == (size, 4)
    colour = torch.tensor([1.0, 0.0, 0.0])
    if package == "torchvision":
        colour = (colour - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
    expected = model.body(colour).detach().numpy()
    np.testing.assert_allclose(embedder.forward([embedder.prepare(red())])[0], expected, atol=1e-5)
    again = open_picture_embedder(embedder.name)
    assert again.fingerprint == embedder.fingerprint


def test_a_folder_of_timm_names_its_architecture(libraries: None, tmp_path: Path) -> None:
    saved_weights(tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "tiny", "num_features": 4}))
    assert open_picture_embedder(str(tmp_path)).width == 4


def test_weights_that_do_not_fit_or_are_damaged_are_refused(libraries: None, tmp_path: Path) -> None:
    path = tmp_path / "own.safetensors"
    saved_weights(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    with pytest.raises(InputError, match="does not load"):
        open_picture_embedder(f"timm:tiny:{path}")
    path.write_bytes(b"\xff" * 64)
    with pytest.raises(InputError, match="does not load"):
        open_picture_embedder(f"timm:tiny:{path}")
    save_file({"body.weight": torch.zeros(4, 3)}, path)
    with pytest.raises(InputError, match=r"'body.bias' is missing or too much"):
        open_picture_embedder(f"timm:tiny:{path}")
    save_file({**Tiny().state_dict(), "evil": torch.zeros(1)}, path)
    with pytest.raises(InputError, match=r"'evil' is missing or too much"):
        open_picture_embedder(f"torchvision:tiny:{path}")
    save_file({**Tiny().state_dict(), "body.weight": torch.zeros(9, 9)}, path)
    with pytest.raises(InputError, match="does not load"):
        open_picture_embedder(f"timm:tiny:{path}")


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("timm:tinny:{}/own.safetensors", UnknownName, "tiny"),
        ("timm:hf-hub:someone/model", InputError, "is no file of safetensors"),
        ("timm:tiny:{}/own.pth", InputError, "pickled ones are never read"),
        ("timm:tiny", UnknownName, "timm:NAME:FILE.safetensors"),
        ("{}/own.safetensors", InputError, "is no folder: name a model's folder, or timm:NAME:"),
    ],
)
def test_what_cannot_be_opened_is_said_with_the_remedy(
    name: str, error: type[Exception], said: str, libraries: None, tmp_path: Path
) -> None:
    saved_weights(tmp_path / "own.safetensors")
    with pytest.raises(error, match=said):
        open_picture_embedder(name.format(tmp_path))


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    saved_weights(tmp_path / "own.safetensors")
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(DataUnavailable, match=r"timm cannot be used .*: pip install timm, in the version"):
        open_picture_embedder(f"timm:tiny:{tmp_path / 'own.safetensors'}")
