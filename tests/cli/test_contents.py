"""Commands over pictures and texts: from a folder to a report, to a campaign, and on to new people."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from apod.campaign import Campaign
from apod.data.load import load_contents
from apod.data.own import FileColumns
from support.commands import apod

PEOPLE = 90
SIZE = ("--picture-size", "32x32", "--no-embed-cache")


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures whose shade says the label and whose stripes say the group."""
    folder, rng = tmp_path_factory.mktemp("faces"), np.random.default_rng(0)
    (folder / "faces").mkdir()
    rows = []
    for number in range(PEOPLE):
        label, group = int(rng.random() < 0.5), int(rng.random() < 0.5)
        pixels = rng.normal(60 + 110 * label, 30, (24, 24))
        stripes = pixels if group else pixels.T
        stripes[::4] += 60
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / "faces" / f"{number:03}.png")
        words = ["bright", "sunny"] if rng.random() < 0.2 + 0.6 * label else ["dark", "rainy"]
        rows.append((f"{number:03}.png", label, "ab"[group], number % 7, " ".join([*words, "day"])))
    table = pd.DataFrame(rows, columns=["file", "wavy", "group", "age", "letter"])
    table.to_csv(folder / "labels.csv", index=False)
    with zipfile.ZipFile(folder / "faces.zip", "w") as zipped:
        for file in sorted((folder / "faces").iterdir()):
            zipped.write(file, file.name)
    data = [(folder / "faces" / name).read_bytes() for name in table["file"]]
    table.assign(photo=data).drop(columns="file").to_parquet(folder / "people.parquet")
    return folder


def run(faces: Path, out: Path, *words: object) -> dict[str, object]:
    own = ("--label", "wavy", "--sensitive", "group", "--budget", 12, "--out", out)
    done = apod("run", *words, *own, folder=faces)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "result.json").read_text())


def test_texts_and_columns_teach_together_and_the_classifier_reads_both_of_new_people(
    faces: Path, tmp_path: Path
) -> None:
    result = run(faces, tmp_path / "out", "labels.csv", "--text", "letter", "--drop", "file")
    assert result["vanilla"]["accuracy"] > 0.6  # type: ignore[index]
    classifier = tmp_path / "out" / "classifier.apod"
    new = pd.DataFrame({"age": [1, 2, 3], "letter": ["bright sunny day", "dark rainy day", None]})
    new.to_csv(tmp_path / "new.csv", index=False)
    done = apod("predict", classifier, "new.csv", "--out", "scored.csv", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert pd.read_csv(tmp_path / "scored.csv")["base"].tolist()[:2] == [1, 0]
    new.drop(columns="letter").to_csv(tmp_path / "lost.csv", index=False)
    done = apod("predict", classifier, "lost.csv", "--out", "scored.csv", folder=tmp_path)
    assert "There is no column 'letter' in lost.csv" in done.stderr


def test_pictures_of_a_folder_get_a_report_and_a_classifier_that_reads_those_of_an_archive(
    faces: Path, tmp_path: Path
) -> None:
    result = run(faces, tmp_path / "out", "faces", "--labels", "labels.csv", *SIZE)
    assert "'file' is 1280 numbers by efficientnet-lite0 at 32 x 32" in " ".join(result["notes"])  # type: ignore[arg-type]
    words = ("predict", tmp_path / "out" / "classifier.apod", "labels.csv", "--pictures", "faces.zip")
    done = apod(*words, "--out", tmp_path / "scored.csv", folder=faces)
    assert done.returncode == 0, done.stderr
    scored = pd.read_csv(tmp_path / "scored.csv")
    assert (scored["base"] == pd.read_csv(faces / "labels.csv")["wavy"]).mean() > 0.8


def test_the_report_shows_pictures_of_those_asked_about_only_when_it_is_told_to(faces: Path, tmp_path: Path) -> None:
    words = ("faces", "--labels", "labels.csv", *SIZE)
    run(faces, tmp_path / "plain", *words)
    plain = (tmp_path / "plain" / "report.html").read_text()
    assert "<img" not in plain
    assert "img-src" not in plain
    result = run(faces, tmp_path / "shown", *words, "--thumbnails")
    page = (tmp_path / "shown" / "report.html").read_text()
    asked = [answer["row"] for answer in result["answers"]]  # type: ignore[index, attr-defined]
    assert [int(row) for row in re.findall(r'alt="Picture of row (\d+)"', page)] == asked
    assert "img-src data:" in page
    for row, data in zip(asked, re.findall(r"data:image/jpeg;base64,([^\"]+)", page), strict=True):
        with (
            Image.open(io.BytesIO(base64.b64decode(data))) as small,
            Image.open(faces / "faces" / f"{row:03}.png") as own,
        ):
            assert abs(np.asarray(small.convert("L")).mean() - np.asarray(own).mean()) < 8
    done = apod("run", "labels.csv", "--label", "wavy", "--sensitive", "group", "--thumbnails", folder=faces)
    assert done.returncode != 0
    assert "There are no pictures to show: leave --thumbnails out." in done.stderr


@pytest.mark.parametrize("place", ["faces", "faces.zip", "people.parquet"])
def test_the_same_pictures_are_read_from_a_folder_an_archive_and_a_table(faces: Path, place: str) -> None:
    said = FileColumns("wavy", "group", picture="photo" if place == "people.parquet" else None)
    labels = None if place == "people.parquet" else faces / "labels.csv"
    (content,) = load_contents(faces / place, said, labels).contents
    with content.cells.opened() as read:
        assert read(7) == (faces / "faces" / "007.png").read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["faces"], "faces holds no .parquet file|holds pictures: name the table of their labels"),
        (["labels.csv", "--labels", "labels.csv"], "There is no picture in labels.csv"),
        (["labels.csv", "--text", "leter"], "did you mean 'letter'"),
        (["labels.csv", "--text", "group"], "'group' is named for two purposes"),
        (["faces", "--labels", "labels.csv", "--picture-size", "big"], "--picture-size takes width x height"),
        (["faces", "--labels", "labels.csv", "--picture-size", "4x4"], "give sides from 16 to 1024"),
        (["faces", "--labels", "labels.csv", "--embed", "resnet"], "There is no picture embedder 'resnet'"),
    ],
)
def test_what_cannot_be_is_one_line(faces: Path, tmp_path: Path, words: list[str], said: str) -> None:
    done = apod("run", *words, "--label", "wavy", "--sensitive", "group", "--out", tmp_path / "o", folder=faces)
    assert done.returncode == 2
    assert re.search(said, done.stderr), done.stderr
    assert not (tmp_path / "o").exists()


def create(faces: Path, tmp_path: Path, *words: object) -> Campaign:
    own = ("--label", "wavy", "--groups", "a,b", "--budget", 20, "--sensitive", "group")
    done = apod("campaign", "new", tmp_path / "faces.db", *words, *own, folder=faces)
    assert done.returncode == 0, done.stderr
    return Campaign.open(tmp_path / "faces.db", refit="demand")


def test_annotators_of_a_campaign_over_a_folder_see_the_pictures(faces: Path, tmp_path: Path) -> None:
    with create(faces, tmp_path, "faces", "--labels", "labels.csv", *SIZE) as campaign:
        question = campaign.ask("annotator-1")
        assert question is not None
        assert question.image is not None
        assert Path(question.image).read_bytes() == (faces / "faces" / Path(question.image).name).read_bytes()
        assert "file" not in question.display


def test_pictures_of_an_archive_are_unpacked_for_annotators_where_the_owner_says(faces: Path, tmp_path: Path) -> None:
    words = ("faces.zip", "--labels", "labels.csv", *SIZE)
    own = ("--label", "wavy", "--groups", "a,b", "--budget", 20, "--sensitive", "group")
    done = apod("campaign", "new", tmp_path / "no.db", *words, *own, folder=faces)
    assert "name a folder to unpack them to (--image-root)" in done.stderr
    with create(faces, tmp_path, *words, "--image-root", tmp_path / "shown") as campaign:
        question = campaign.ask("annotator-1")
        assert question is not None
        shown = Path(str(question.image))
        assert shown.parent == (tmp_path / "shown").resolve()
        assert shown.read_bytes() == (faces / "faces" / f"{question.row:03}.png").read_bytes()
        assert shown.stat().st_mode & 0o077 == 0


def test_a_campaign_over_texts_shows_them_as_they_are_and_its_classifier_reads_them(
    faces: Path, tmp_path: Path
) -> None:
    with create(faces, tmp_path, "labels.csv", "--text", "letter", "--drop", "file") as campaign:
        table = pd.read_csv(faces / "labels.csv")
        for _ in range(8):
            question = campaign.ask("annotator-1")
            assert question is not None
            assert question.display["letter"] == table["letter"][question.row]
            campaign.tell(question, table["group"][question.row])
        classifier = campaign.classifier()
        assert campaign.owner.verify_log().problems == ()
    classifier.save(tmp_path / "c.apod")
    table[["age", "letter"]].to_csv(tmp_path / "new.csv", index=False)
    done = apod("predict", "c.apod", "new.csv", "--out", "scored.csv", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "scored.csv")) == PEOPLE
