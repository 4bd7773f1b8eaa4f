"""Pictures only from their folder, only files; what cannot be shown is withdrawn and the owner is told."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from apod.campaign import Campaign
from apod.campaign.display import Pictures, read_picture
from apod.campaign.errors import NotFound
from apod.errors import InputError
from apod.testing.engines import GROUPS, Workshop


def faces(root: Path, rows: int = 20) -> pd.DataFrame:
    root.mkdir(exist_ok=True)
    for row in range(rows):
        (root / f"{row}.png").write_bytes(b"\x89PNG")
    return pd.DataFrame({"picture": [f"{row}.png" for row in range(rows)], "age": range(rows)})


def create(workshop: Workshop, frame: pd.DataFrame, root: Path, **more: object) -> Campaign:
    return workshop.create(
        rows=len(frame), display=frame, show=["age"], image_column="picture", image_root=str(root), **more
    )


@pytest.mark.parametrize(
    "path",
    [
        "../x.png", "a/../../x.png", "/etc/passwd", "out.png", "folder/x.png", "nul\x00.png", "pipe", "sub", "loop", "",
        ".", "..", "x" * 5000, "sub/",
    ],
)  # fmt: skip
def test_a_table_with_a_path_that_cannot_be_a_pictures_is_refused_with_its_first_row(
    path: str, on_sqlite: Workshop, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    frame = faces(root)
    (tmp_path / "x.png").write_bytes(b"outside")
    (root / "out.png").symlink_to(tmp_path / "x.png")
    (root / "folder").symlink_to(tmp_path)
    (root / "loop").symlink_to(root / "loop")
    (root / "sub").mkdir()
    os.mkfifo(root / "pipe")
    frame.loc[[5, 8], "picture"] = path
    with pytest.raises(InputError, match=r"'picture' has 2 paths .* first in row 5 "):
        create(on_sqlite, frame, root)
    assert not (tmp_path / "trial.db").exists()


def test_links_within_the_folder_missing_files_and_missing_cells_are_no_fault(
    on_sqlite: Workshop, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    frame = faces(root)
    (root / "sub").mkdir()
    (root / "sub" / "a.png").symlink_to(root / "1.png")
    (root / "linked").symlink_to(root / "sub")
    frame.loc[0, "picture"] = "linked/a.png"
    frame.loc[1, "picture"] = "not/there.png"
    frame.loc[2, "picture"] = None
    campaign = create(on_sqlite, frame, root, budget=20)
    for row, path in ((0, root / "1.png"), (1, root / "not" / "there.png"), (2, None)):
        question = next(q for q in asked(campaign, 20) if q.row == row)
        assert question.image == (None if path is None else str(path))


def asked(campaign: Campaign, count: int) -> list:  # type: ignore[type-arg]
    """Questions, each of somebody else."""
    return [question for number in range(count) if (question := campaign.ask(f"a{number}")) is not None]


def test_a_question_whose_picture_leads_out_is_withdrawn_from_everybody_and_the_owner_is_told(
    workshop: Workshop, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    campaign = create(workshop, faces(root), root, budget=10, overlap=2)
    first, other = campaign.ask("anna"), campaign.ask("bert")
    assert first is not None
    assert other is not None
    assert first.row == other.row
    (root / f"{first.row}.png").unlink()
    (root / f"{first.row}.png").symlink_to(tmp_path / "elsewhere.png")
    again = campaign.ask("anna")
    assert again is not None
    assert again.row != first.row
    assert campaign.ask("bert").row != first.row  # type: ignore[union-attr]
    status = campaign.status()
    assert status.withdrawn == (first.row,)
    assert (status.answered, status.pending) == (0, 2)
    with pytest.raises(NotFound):
        campaign.annotator("anna").question(first.id)
    campaign.tell(again, GROUPS[0])
    assert workshop.open().status().withdrawn == (first.row,)
    assert [entry["what"] for entry in campaign.owner.log()].count("withdrawn") == 1
    assert campaign.owner.verify_log().ok


def test_a_skip_of_what_was_withdrawn_since_does_not_bring_it_back(on_sqlite: Workshop, tmp_path: Path) -> None:
    root = tmp_path / "root"
    campaign = create(on_sqlite, faces(root), root)
    first = campaign.ask("anna")
    assert first is not None
    campaign.annotator().skip(first)
    (root / f"{first.row}.png").unlink()
    os.mkfifo(root / f"{first.row}.png")
    assert campaign.annotator("anna").undo() is None
    assert campaign.ask("anna").row != first.row  # type: ignore[union-attr]
    assert campaign.ask("bert").row != first.row  # type: ignore[union-attr]
    assert campaign.status().withdrawn == (first.row,)


def test_gold_rows_whose_picture_cannot_be_shown_are_passed_over(on_sqlite: Workshop, tmp_path: Path) -> None:
    root = tmp_path / "root"
    campaign = create(on_sqlite, faces(root), root, gold={3: GROUPS[0]}, gold_every=1)
    (root / "3.png").unlink()
    os.mkfifo(root / "3.png")
    rows = [question.row for question in asked(campaign, 5)]
    assert len(rows) == 5
    assert 3 not in rows
    assert campaign.status().withdrawn == (3,)


def test_a_pipe_a_device_and_a_folder_exchanged_for_a_link_are_not_read(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.png").write_bytes(b"inside")
    (tmp_path / "a.png").write_bytes(b"outside")
    path = Pictures(str(root)).path("sub/a.png")
    assert read_picture(path, str(root), 3) == b"insi"
    (root / "sub" / "a.png").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(tmp_path)
    with pytest.raises(OSError, match="a"):
        read_picture(path, str(root), 3)
    os.mkfifo(root / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_picture(str(root / "pipe"), str(root), 3)
    with pytest.raises(OSError, match="not a regular file"):
        read_picture("/dev/zero", "/dev", 3)
