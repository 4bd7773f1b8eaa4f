"""CelebA from whatever people have: folder, tar or zip, and any edition of the attribute file."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from apod.bench.unit import PictureSource
from apod.cli import main
from apod.data import load_dataset
from apod.data.pictures import PictureSet, celeba_content, decode_square, load_celeba, read_attributes
from apod.errors import DataUnavailable, InputError, UnknownName
from apod.method.settings import PRESETS
from apod.models.picture_embedder import ModulePictures
from apod.models.picture_training import ImageSettings, image_embeddings

Image = pytest.importorskip("PIL.Image", reason="needs pillow, the [images] extra")

NAMES = [f"{k:06d}.jpg" for k in range(1, 9)]


def jpeg(seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    smooth = np.kron(rng.integers(0, 256, (11, 9, 3)), np.ones((10, 10, 1)))[:109, :89].astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(smooth).save(file, format="JPEG")
    return file.getvalue()


def attribute_table() -> pd.DataFrame:
    """Ten rows, two more than pictures, in an order that is not that of the names."""
    rng = np.random.default_rng(0)
    names = [*NAMES, "000009.jpg", "000010.jpg"][::-1]
    values = rng.choice([-1, 1], (10, 4))
    return pd.DataFrame(values, index=pd.Index(names, name="filename"), columns=["Bald", "Male", "Wavy_Hair", "Young"])


def write_attributes(folder: Path, edition: str) -> None:
    table = attribute_table()
    if edition == "celeba.csv":
        table.to_csv(folder / edition)
    elif edition == "celeba.csv.zip":
        with zipfile.ZipFile(folder / edition, "w") as file:
            file.writestr("celeba.csv", table.to_csv(lineterminator="\r\n"))
    elif edition == "list_attr_celeba.csv":
        table.rename_axis("image_id").to_csv(folder / edition)
    else:
        lines = [f"{name}  {'  '.join(map(str, row))}" for name, row in zip(table.index, table.values, strict=True)]
        (folder / edition).write_text("\n".join([str(len(table)), " ".join(table.columns) + " ", *lines]) + "\n")


def write_pictures(folder: Path, layout: str, names: list[str] = NAMES) -> None:
    files = {name: jpeg(index) for index, name in enumerate(names)}
    if layout == "folder":
        (folder / "img_align_celeba").mkdir()
        for name, data in files.items():
            (folder / "img_align_celeba" / name).write_bytes(data)
    elif layout == "zip":
        with zipfile.ZipFile(folder / "img_align_celeba.zip", "w") as packed:
            for name, data in files.items():
                packed.writestr(f"img_align_celeba/{name}", data)
            packed.writestr("__MACOSX/._000001.jpg", b"not a picture")
    else:
        with tarfile.open(folder / f"pictures.{layout}", "w:gz" if layout.endswith("gz") else "w") as packed:
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                packed.addfile(member, io.BytesIO(data))


def make_celeba(root: Path, layout: str = "tar", edition: str = "celeba.csv") -> Path:
    (root / "celeba").mkdir(parents=True)
    write_attributes(root / "celeba", edition)
    write_pictures(root / "celeba", layout)
    return root


@pytest.mark.parametrize(
    ("layout", "edition"),
    [
        ("folder", "celeba.csv"),
        ("folder", "celeba.csv.zip"),
        ("tar", "celeba.csv.zip"),
        ("tar.gz", "list_attr_celeba.txt"),
        ("zip", "list_attr_celeba.csv"),
    ],
)
@pytest.mark.parametrize("task", ["hair", "young"])
def test_every_layout_gives_the_same_people(tmp_path: Path, layout: str, edition: str, task: str) -> None:
    root = make_celeba(tmp_path, layout, edition)
    loaded = load_celeba(task, root, size=32)  # type: ignore[arg-type]
    truth = attribute_table().loc[NAMES]
    assert loaded.names == tuple(NAMES)
    assert loaded.labels.tolist() == (truth[{"hair": "Wavy_Hair", "young": "Young"}[task]] == 1).astype(int).tolist()
    said = [loaded.group_names[code] for code in loaded.groups]
    assert said == ["male" if value == 1 else "female" for value in truth["Male"]]
    assert [attribute_table().index[row] for row in loaded.rows] == NAMES
    assert loaded.pictures.shape == (8, 3, 32, 32)
    for index in range(8):
        np.testing.assert_array_equal(loaded.pictures[index], decode_square(jpeg(index), 32))


def test_the_tasks_are_those_of_the_paper(tmp_path: Path) -> None:
    root = make_celeba(tmp_path)
    hair, young = load_celeba("hair", root, size=16), load_celeba("young", root, size=16)
    assert hair.group_names == ("male", "female"), "unprivileged first"
    assert young.group_names == ("female", "male")
    assert (hair.task.hidden, young.task.hidden) == ((64, 64), (128, 128))
    for loaded in (hair, young):
        assert (loaded.task.budget, loaded.task.embedding, loaded.task.metric) == (37, 256, "delta_eo")
        assert loaded.task.split == (0.25, 0.25, 0.5)
    first, second = hair.split(3), young.split(3)
    assert first.train.tolist() == second.train.tolist(), "tasks of a seed share the training part, so a body"


def test_a_picture_set_becomes_a_dataset_of_embeddings(tmp_path: Path) -> None:
    loaded = load_celeba("hair", make_celeba(tmp_path), size=16)
    embeddings = np.arange(16, dtype=np.float32).reshape(8, 2)
    dataset = loaded.dataset(embeddings)
    assert np.array_equal(dataset.features.to_numpy(), embeddings)
    assert dataset.name == "celeba-hair"
    assert (dataset.labels == loaded.labels).all()
    with pytest.raises(InputError, match="3 embeddings for 8 pictures"):
        loaded.dataset(embeddings[:3])


def test_limit_takes_the_first_by_name_and_a_short_set_is_noted(tmp_path: Path) -> None:
    root = make_celeba(tmp_path)
    assert load_celeba("hair", root, size=16, limit=3).names == tuple(NAMES[:3])
    assert load_celeba("hair", root, size=16, limit=8).notes == ()
    assert "8 pictures, not the 5000" in load_celeba("hair", root, size=16).notes[0]


def test_the_folder_itself_or_the_environment_names_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_celeba(tmp_path)
    assert len(load_celeba("hair", root / "celeba", size=16)) == 8
    monkeypatch.setenv("APOD_DATA", str(root))
    assert len(load_celeba("hair", size=16)) == 8
    monkeypatch.delenv("APOD_DATA")
    with pytest.raises(DataUnavailable, match="--data-dir"):
        load_celeba("hair", size=16)


def triangle_weights(source: int, target: int) -> np.ndarray:
    """(target, source): how much each pixel counts, by a triangle as wide as the reduction asks for."""
    scale = source / target
    reach = max(scale, 1.0)
    centres = (np.arange(target) + 0.5) * scale
    distance = np.abs(np.arange(source) + 0.5 - centres[:, None])
    weight = np.clip(1 - distance / reach, 0, None)
    return weight / weight.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("size", [16, 64, 160])
@pytest.mark.parametrize("shape", [(109, 89), (90, 120), (64, 64)])
def test_a_picture_is_its_central_square_resized_with_antialiasing(shape: tuple[int, int], size: int) -> None:
    height, width = shape
    picture = np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="PNG")
    side = min(shape)
    top, left = (height - side) // 2, (width - side) // 2
    square = picture[top : top + side, left : left + side].astype(float)
    weights = triangle_weights(side, size)
    expected = np.einsum("yi,xj,ijc->cyx", weights, weights, square)
    assert np.abs(decode_square(file.getvalue(), size) - expected).max() <= 1.5, "two roundings to whole numbers"


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK"])
def test_other_colour_modes_become_rgb(mode: str) -> None:
    file = io.BytesIO()
    Image.new(mode, (20, 20)).save(file, format="TIFF")
    assert decode_square(file.getvalue(), 16).shape == (3, 16, 16)


def test_unusable_pictures_are_named_and_counted_and_left_out_only_when_told(tmp_path: Path) -> None:
    root = make_celeba(tmp_path, layout="folder")
    folder = root / "celeba" / "img_align_celeba"
    (folder / NAMES[1]).write_bytes(b"no picture at all")
    (folder / NAMES[4]).write_bytes(jpeg(4)[:300])  # cut off in the middle
    (folder / NAMES[5]).write_bytes(b"")
    (folder / "000000.jpg").write_bytes(jpeg(9))
    with pytest.raises(InputError, match=r"3 picture\(s\) do not decode: 000002.jpg, 000005.jpg, 000006.jpg;") as error:
        load_celeba("hair", root, size=16)
    assert "1 picture(s) have no row in the attribute file: 000000.jpg" in str(error.value)
    loaded = load_celeba("hair", root, size=16, limit=9, skip_bad=True)
    assert loaded.names == tuple(NAMES[k] for k in (0, 2, 3, 6, 7))
    truth = attribute_table().loc[list(loaded.names), "Wavy_Hair"]
    assert loaded.labels.tolist() == (truth == 1).astype(int).tolist()
    assert len(loaded.notes) == 2
    assert all(note.startswith("Left out: ") for note in loaded.notes)


def test_the_comparison_names_unusable_pictures_and_leaves_them_out_only_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_celeba(tmp_path, layout="folder")
    (root / "celeba" / "img_align_celeba" / NAMES[1]).write_bytes(b"no picture at all")
    told = ["apod", "bench", "--datasets", "celeba-hair", "--data-dir", str(root), "--out", str(tmp_path / "r")]
    for more, said in (([], "1 picture(s) do not decode: 000002.jpg"), (["--skip-bad"], "Left out: ")):
        monkeypatch.setattr(sys, "argv", [*told, *more])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        assert said in " ".join(capsys.readouterr().err.split())


def test_a_picture_task_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'celeba-hair' is pictures: `apod bench`"):
        load_dataset("celeba-hair", data_dir=tmp_path)


def test_a_damaged_member_of_a_zip_is_named(tmp_path: Path) -> None:
    root = make_celeba(tmp_path, layout="zip")
    path = root / "celeba" / "img_align_celeba.zip"
    data = bytearray(path.read_bytes())
    at = data.index(b"img_align_celeba/000003.jpg") + 200
    data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"1 picture\(s\) do not decode: 000003.jpg"):
        load_celeba("hair", root, size=16)


@pytest.mark.parametrize("name", ["pictures.tar", "pictures.zip"])
def test_an_archive_that_is_none_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "celeba").mkdir()
    write_attributes(tmp_path / "celeba", "celeba.csv")
    (tmp_path / "celeba" / name).write_bytes(b"half a download")
    with pytest.raises(InputError, match=f"{name} is not a whole archive"):
        load_celeba("hair", tmp_path, size=16)


def test_two_pictures_of_one_name_are_refused(tmp_path: Path) -> None:
    root = make_celeba(tmp_path)
    write_pictures(root / "celeba", "zip")
    with pytest.raises(InputError, match=r"two pictures 000001\.jpg"):
        load_celeba("hair", root, size=16)


def test_missing_parts_are_said(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'hair'"):
        load_celeba("hairy", tmp_path)  # type: ignore[arg-type]
    with pytest.raises(DataUnavailable, match=r"No celeba\.csv or"):
        load_celeba("hair", tmp_path)
    (tmp_path / "celeba").mkdir()
    write_attributes(tmp_path / "celeba", "celeba.csv")
    with pytest.raises(DataUnavailable, match="no picture in"):
        load_celeba("hair", tmp_path)
    write_pictures(tmp_path / "celeba", "tar", names=["a.jpg", "b.jpg"])
    with pytest.raises(InputError, match=r"No picture in .* can be used"):
        load_celeba("hair", tmp_path, skip_bad=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="Male"), "no column Male"),
        (lambda t: t.assign(Male=5), "besides -1, 0 and 1"),
        (lambda t: pd.concat([t, t]), "several rows for one picture"),
    ],
)
def test_an_unusable_attribute_file_is_refused(tmp_path: Path, change: object, message: str) -> None:
    root = make_celeba(tmp_path)
    change(attribute_table()).to_csv(root / "celeba" / "celeba.csv")  # type: ignore[operator]
    with pytest.raises(InputError, match=message):
        load_celeba("hair", root, size=16)


# --- the real pictures ---


def real(shared_dir: Path, **how: int) -> PictureSet:
    if not (shared_dir / "data" / "celeba" / "celeba.csv.zip").is_file():
        pytest.skip("needs the CelebA pictures beside the project (../shared/data/celeba), which are not here")
    return load_celeba("hair", shared_dir / "data", **how)


def test_the_real_attribute_file_has_the_published_counts(shared_dir: Path) -> None:
    real(shared_dir, limit=2, size=16)
    table = read_attributes(shared_dir / "data" / "celeba")
    assert table.shape == (202_599, 40)
    assert (table["Male"] == 1).sum() == 84_434
    assert (table["Young"] == 1).sum() == 156_734


def test_real_pictures_are_read_and_embedded(shared_dir: Path, tmp_path: Path) -> None:
    loaded = real(shared_dir, limit=48, size=32)
    assert loaded.names == tuple(f"{k:06d}.jpg" for k in range(1, 49))
    how = ImageSettings(size=32, width=16, epochs=1, batch_size=16)
    embeddings = image_embeddings(loaded.pictures, np.arange(32), how, 0, tmp_path)
    assert embeddings.shape == (48, 16)
    assert embeddings.std(axis=0).min() > 0, "no column says the same of everybody"


class MeanColour(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=(2, 3))


def test_a_comparison_takes_a_pretrained_body_in_the_place_of_the_papers(tmp_path: Path) -> None:
    root, embedder = make_celeba(tmp_path), ModulePictures(MeanColour(), size=(16, 16))
    trained, embedded = PictureSource("celeba-hair", root), PictureSource("celeba-hair", root, embedder=embedder)
    settings = PRESETS["paper"]
    assert trained.fingerprint(settings) != embedded.fingerprint(settings)
    found = embedded.embeddings(settings, 0, tmp_path / "bodies", lambda done, total, text: None).numpy()
    colours = np.array([embedder.forward([embedder.prepare(jpeg(index))])[0] for index in range(8)])
    train = embedded.split(0).train
    centred = colours - colours[train].mean(axis=0)
    np.testing.assert_allclose(found, centred / np.sqrt((centred[train] ** 2).mean()), atol=1e-5)
    assert [cell == jpeg(index) for index, cell in enumerate(celeba_content(root, NAMES).cells.values)] == [True] * 8
