"""The pages through a server that dies, and with pictures to decide on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browsing import PHONE, Site, chromium, free_port, new_campaign, serving, table, visit
from PIL import Image

from apod.campaign import Campaign

pytestmark = pytest.mark.xdist_group("browser-trouble")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def start(database: Path, port: int) -> subprocess.Popen[str]:
    """`apod serve` as a process of its own; returns when it listens."""
    command = [sys.executable, "-m", "apod", "serve", str(database), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("owner: "):
            return process
    raise AssertionError("the server ended before it listened")


def kill(process: subprocess.Popen[str]) -> None:
    """As a power failure would: the server and whoever refits for it."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_killed_server_loses_nothing_and_the_page_goes_on_when_it_is_back(browser: Any, tmp_path: Path) -> None:
    new_campaign(tmp_path, budget=5).close()
    port = free_port()
    server = start(tmp_path / "trial.db", port)
    try:
        with Campaign.open(tmp_path / "trial.db", refit="demand") as campaign:
            site = Site(campaign, f"http://127.0.0.1:{port}")
            with visit(browser, site) as maria:
                case = maria.case()
                given = [maria.press("1")]
                case = maria.case(case)
                maria.delivered()
                kill(server)
                maria.cut = True
                given.append(maria.press("2"))
                case = maria.case(case)
                maria.says("1 answer is kept in this browser", "#queue")
                server = start(tmp_path / "trial.db", port)
                maria.page.get_by_role("button", name="Try now").click()
                maria.delivered()
                given.append(maria.press("1"))
                maria.case(case)
                maria.delivered()
                assert maria.page.locator("#mine").inner_text() == "3 answers by you"
            assert sorted(site.recorded()) == sorted(zip(given, ["female", "male", "female"], strict=True))
    finally:
        kill(server)


@pytest.fixture
def gallery(tmp_path: Path) -> Iterator[Site]:
    """A campaign about generated pictures: stripes, one colour each."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(0)
    _, labels = table(40)
    for row in range(40):
        stripes = np.repeat(rng.integers(40, 220, (16, 1, 3)), 16, axis=1).astype(np.uint8)
        Image.fromarray(stripes).resize((96, 96), Image.Resampling.NEAREST).save(folder / f"p{row}.png")
    frame = pd.DataFrame({"file": [f"p{row}.png" for row in range(40)]})
    campaign = Campaign.create(
        tmp_path / "pictures.db",
        rng.normal(size=(40, 8)),
        labels,
        groups=["striped", "plain"],
        budget=4,
        display=frame,
        show=["file"],
        image_column="file",
        image_root=str(folder),
        engine_options={"body": "precomputed", "epochs": 1, "strengths": [0.5]},
    )
    with serving(campaign) as site:
        yield site


def test_pictures_are_shown_large_and_the_next_one_is_there_already(browser: Any, gallery: Site) -> None:
    with visit(browser, gallery) as maria:
        case = maria.case()
        maria.page.wait_for_function("() => document.querySelector('.picture img').naturalWidth === 96")
        assert maria.page.locator(".picture img").bounding_box()["width"] > 200
        assert maria.page.locator("#case").inner_text().strip() == ""  # neither the file's name nor anything else
        asked = maria.page.evaluate(
            "() => performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('/picture')).length"
        )
        assert asked >= 2
        maria.page.wait_for_timeout(200)
        maria.cut = True  # from now on no picture arrives, the one after the next included
        maria.page.route("**/picture", lambda route: route.abort())
        maria.press("1")
        maria.case(case)
        assert maria.page.evaluate("() => document.querySelector('.picture img').naturalWidth") == 96
        maria.delivered()
    assert [answer for _, answer in gallery.recorded()] == ["striped"]


def test_a_picture_that_is_gone_is_said_to_be(browser: Any, gallery: Site, tmp_path: Path) -> None:
    for picture in (tmp_path / "pictures").iterdir():
        picture.unlink()
    with visit(browser, gallery, **PHONE) as maria:
        maria.case()
        maria.cut = True
        maria.says("The picture cannot be shown. Skip this case and tell the owner.")
        maria.complaints.clear()
