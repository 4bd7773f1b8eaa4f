"""Models from a folder: standard ones, from safetensors, without any code of theirs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from apod.errors import InputError
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
