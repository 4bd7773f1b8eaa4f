"""`apod serve`, `apod invite`, `apod access` as people type them: real processes."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import hostile
import httpx2
import pytest
from served_people import serving
from typer.testing import CliRunner
from web_people import GROUPS, turn

from apod.cli import build_app
from apod.web.server import listen
from apod.web.settings import ServeSettings
from support.waiting import PATIENCE, until

ROOT = Path(__file__).resolve().parents[2]


def test_serve_prints_a_link_serves_and_ends_quietly(database: Path) -> None:
    with serving(database) as (origin, token, process):
        with httpx2.Client(base_url=origin, headers={"X-Apod": "1"}, timeout=PATIENCE) as client:
            assert origin.startswith("http://127.0.0.1:")
            assert client.post("/api/v1/session", json={"token": token}).json()["role"] == "owner"
            assert len(turn(client)["questions"]) == 2
        assert run("invite", str(database), "bob").startswith(f"{origin}/enter#")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        assert "Traceback" not in err
        assert token not in out + err


def test_a_server_and_its_children_import_nothing_from_the_current_folder(database: Path) -> None:
    hostile.fill(database.parent)
    with serving(database, command=(hostile.APOD,)) as (origin, token, process):
        headers = {"X-Apod": "1"}
        with httpx2.Client(base_url=f"{origin}/api/v1", headers=headers, timeout=PATIENCE) as client:
            client.post("/session", json={"token": token})
            for number in range(4):
                case = until(lambda: client.post("/turn", json={}).json().get("questions"))[0]
                client.post(f"/questions/{case['id']}/answer", json={"answer": GROUPS[number % 2], "key": str(number)})
            until(lambda: client.get("/dashboard").json().get("history"))  # the process that refits has done so
            client.post("/downloads/classifier", json={})
            until(lambda: client.get("/downloads/classifier").json().get("state") == "ready")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert hostile.ran(database.parent) == []


def test_a_host_that_others_reach_is_warned_about(database: Path) -> None:
    with serving(database, "--host", "0.0.0.0") as (origin, _, process):
        assert httpx2.get(f"{origin}/api/v1/me", timeout=PATIENCE).status_code == 401
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
        assert "nothing is encrypted" in err


def run(*words: str) -> str:
    found = CliRunner().invoke(build_app(), words)
    assert found.exit_code == 0, (found.output, found.exception)
    return found.stdout


def test_invite_list_and_revoke(database: Path) -> None:
    url = str(database)
    link = run("invite", url, "maria", "--url", "https://annotate.example.org").strip()
    assert link.startswith("https://annotate.example.org/enter#")
    made = json.loads(run("invite", url, "robot", "--token", "--days", "2", "--json"))
    assert re.fullmatch(r"[0-9a-f]{16}\.[\w-]{43}", made["token"])
    owner = run("invite", url, "me", "--owner")
    assert owner.startswith("http://127.0.0.1:8000/enter#")
    listed = json.loads(run("access", "list", url, "--json"))
    assert {(entry["name"], entry["what"], entry["role"]) for entry in listed} == {
        ("maria", "link", "annotator"),
        ("robot", "token", "annotator"),
        ("me", "link", "owner"),
    }
    shown = run("access", "list", url)
    assert link.split(".")[-1] not in shown
    assert "1 ended" in run("access", "revoke", url, "maria")
    assert "1 ended" in run("access", "revoke", url, made["id"])
    states = {entry["name"]: entry["state"] for entry in json.loads(run("access", "list", url, "--json"))}
    assert states == {"maria": "revoked", "robot": "revoked", "me": "active"}
    again = CliRunner().invoke(build_app(), ["access", "revoke", url, "nobody"])
    assert again.exit_code != 0


def test_a_taken_port_is_an_error_in_one_line(database: Path) -> None:
    with listen(ServeSettings(port=0)) as taken:
        words = ["serve", str(database), "--port", str(taken.getsockname()[1])]
        found = subprocess.run([sys.executable, "-m", "apod", *words], capture_output=True, text=True)
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert "choose another --port" in found.stderr


@pytest.mark.slow
def test_the_wheel_carries_pages_scripts_and_styles(tmp_path: Path) -> None:
    copy = tmp_path / "project"  # building leaves things behind
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    words = ["wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(copy)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True)
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    folder = ROOT / "src"
    shipped = [path for part in ("pages", "static") for path in (folder / "apod/web" / part).rglob("*")]
    wanted = {path.relative_to(folder).as_posix() for path in shipped if path.is_file()}
    assert len(wanted) > 5
    assert wanted <= names
