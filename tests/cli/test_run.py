"""The `apod` command as a user meets it: exit status, one-line errors, files, JSON."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apod.campaign import Campaign
from apod.cli import build_app, main
from apod.data import make_example
from apod.method.model_mitigation import ModelMitigation
from support.commands import Done, apod

pytestmark = pytest.mark.xdist_group("cli")  # they share a run

FAST = ["--budget", "12"]


@pytest.fixture(scope="module")
def people_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    example = make_example(n=400, seed=5)
    frame = example.features.assign(
        hired=["yes" if label else "no" for label in example.labels],
        gender=[example.group_names[code] for code in example.groups],
    )
    path = tmp_path_factory.mktemp("own") / "people.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def own_run(people_csv: Path) -> tuple[Done, Path]:
    folder = people_csv.parent
    done = apod(
        "run", people_csv, "--label", "hired", "--sensitive", "gender", *FAST, "--out", "out", "--json", folder=folder
    )
    return done, folder / "out"


def test_own_file_gives_report_and_result_and_prints_json(
    own_run: tuple[Done, Path],
) -> None:
    done, out = own_run
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed == json.loads((out / "result.json").read_text())
    assert printed["n_train"] == 240  # .6 of 400
    assert "gender" not in json.dumps(printed["settings"])
    assert "<html" in (out / "report.html").read_text()
    assert all(file.stat().st_mode & 0o077 == 0 for file in (out / "report.html", out / "result.json"))
    assert (out / "checkpoint" / "answers.jsonl").stat().st_mode & 0o077 == 0


def test_an_answer_row_is_the_row_of_the_file(own_run: tuple[Done, Path], people_csv: Path) -> None:
    frame = pd.read_csv(people_csv)
    for answer in json.loads(own_run[0].stdout)["answers"]:
        assert frame.loc[answer["row"], "gender"] == answer["group"]


def test_a_person_at_the_terminal_can_answer(people_csv: Path, tmp_path: Path) -> None:
    arguments = ["run", people_csv, "--label", "hired", "--groups", "circle,triangle", *FAST, "--out", tmp_path / "o"]
    leaking = apod(*arguments, folder=tmp_path, stdin="")
    assert leaking.returncode == 2
    assert "holds the groups themselves" in leaking.stderr
    arguments += ["--drop", "gender"]
    done = apod(*arguments, folder=tmp_path, stdin="x\n0\n" + "1\n2\n" * 6)
    assert done.returncode == 0, done.stderr
    answers = json.loads((tmp_path / "o" / "result.json").read_text())["answers"]
    assert [answer["group"] for answer in answers[:3]] == [None, "circle", "triangle"]
    assert "Please type a number" in done.stderr
    assert "asked about" not in done.stderr  # who answers sees no guess of the model
    assert "accuracy 0" not in done.stderr


def test_input_that_ends_too_early_keeps_the_answers_for_resume(people_csv: Path, tmp_path: Path) -> None:
    arguments = ["run", people_csv, "--label", "hired", "--groups", "circle,triangle", *FAST, "--out", tmp_path / "o"]
    arguments += ["--drop", "gender"]
    done = apod(*arguments, folder=tmp_path, stdin="1\n2\n1\n")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("--resume.")
    assert not (tmp_path / "o" / "result.json").exists()
    again = apod(*arguments, folder=tmp_path, stdin="1\n")
    assert again.returncode == 2
    assert "answers of an earlier run" in again.stderr
    rest = apod(*arguments, "--resume", folder=tmp_path, stdin="2\n1\n" * 5)
    assert rest.returncode == 0, rest.stderr


def test_ctrl_c_keeps_what_was_answered_and_the_run_resumes(
    people_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["run", people_csv, "--label", "hired", "--sensitive", "gender", *FAST, "--out", tmp_path / "o"]
    refit, refits = ModelMitigation.refit, []

    def pressed(engine: ModelMitigation) -> None:
        refits.append(engine)
        if len(refits) == 3:
            signal.raise_signal(signal.SIGINT)
        refit(engine)

    with monkeypatch.context() as patch:
        patch.setattr(ModelMitigation, "refit", pressed)
        done = apod(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("error: Interrupted.")
    kept = (tmp_path / "o" / "checkpoint" / "answers.jsonl").read_text().splitlines()
    assert len(kept) == 1 + 10
    assert not (tmp_path / "o" / "result.json").exists()
    rest = apod(*arguments, "--resume", folder=tmp_path)
    assert rest.returncode == 0, rest.stderr
    assert len(json.loads((tmp_path / "o" / "result.json").read_text())["answers"]) == 12


@pytest.mark.parametrize(
    ("strength", "said"),
    [
        (0.0, "base model: accuracy 80.0%, gap 10.0 points; it would be kept"),
        (0.5, "strength 0.5 would be chosen: accuracy 79.0%, gap 5.0 points"),
    ],
)
def test_a_round_tells_of_the_head_that_would_be_chosen(
    strength: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from apod.cli.progress import TerminalListener

    plain = {"strength": 0.0, "accuracy": 0.8, "gap": 0.1, "validation_score": 1.0}
    other = {"strength": 0.7, "accuracy": 0.6, "gap": 0.2, "validation_score": 2.0}
    choice = {"strength": strength, "test": {"accuracy": 0.79, "gap": 0.05}, "outlook": None, "withheld": None}
    entry = {"round": 3, "answered": 9, "curve": [plain, other], "choice": choice, "estimate": None}
    TerminalListener().round(entry, [], 30)
    assert said in " ".join(capsys.readouterr().err.split())


BAD = {
    "pictures": (["run", "celeba-hair"], "`apod bench`"),
    "no such file": (["run", "nobody.csv", "--label", "hired", "--sensitive", "gender"], "nobody.csv"),
    "unknown dataset": (["run", "adlut"], "did you mean 'adult'"),
    "missing label": (["run", "{csv}", "--label", "hird", "--sensitive", "gender"], "hird"),
    "missing sensitive": (["run", "{csv}", "--label", "hired", "--sensitive", "gendre"], "gendre"),
    "a label that few have": (["run", "{csv}", "--label", "x0", "--sensitive", "gender"], "has the label"),
    "nobody answers": (["run", "{csv}", "--label", "hired"], "--sensitive"),
    "budget too large": (["run", "{csv}", "--label", "hired", "--sensitive", "gender", "--budget", "9999"], "9999"),
    "budget too small": (
        ["run", "{csv}", "--label", "hired", "--sensitive", "gender", "--budget", "1"],
        "one per group",
    ),
    "unknown preset": (["run", "example", "--preset", "papr"], "did you mean 'paper'"),
    "unknown selector": (["run", "example", "--selector", "apdo"], "did you mean 'apod'"),
    "unknown notion": (["run", "example", "--notion", "equalised_odds"], "did you mean 'equalized_odds'"),
    "notion that is measured only": (["run", "example", "--notion", "predictive_parity"], "Mitigate equalized_odds"),
    "both names of the notion": (
        ["run", "example", "--notion", "demographic_parity", "--penalty", "equalized_odds"],
        "give --notion alone",
    ),
    "strength zero": (["run", "example", "--strengths", "0,1"], "positive"),
    "strengths text": (["run", "example", "--strengths", "a,b"], "numbers"),
    "split": (["run", "example", "--split", "0.5,0.5"], "three positive shares"),
    "split of nan": (["run", "example", "--split", "nan,0.5,0.5"], "three positive shares"),
    "compare with nothing": (["run", "example", "--compare", "papr"], "did you mean 'paper'"),
    "compare by hand": (
        ["run", "{csv}", "--label", "hired", "--groups", "a,b", "--drop", "gender", "--compare", "paper"],
        "recorded groups",
    ),
    "score of heads": (["run", "example", "--preset", "paper", "--score", "merit"], "a model to correct"),
    "no score": (["run", "example", "--score", "modle"], "no column 'modle'"),
    "scores that are none": (["run", "example", "--score", "merit"], "outside [0, 1]"),
    "threshold": (["run", "example", "--threshold", "2"], "between 0 and 1"),
    "nothing to resume": (["run", "example", "--resume", "--out", "empty"], "no run to resume"),
    "unknown reference": (["run", "example", "--reference", "trangle"], "did you mean 'triangle'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line_with_status_2_and_nothing_written(
    case: str,
    people_csv: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments, expected = BAD[case]
    csv = people_csv
    if case == "a label that few have":
        csv = tmp_path.parent / f"{tmp_path.name}.csv"
        frame = pd.read_csv(people_csv)
        frame["x0"] = frame[frame.columns[0]].round().astype(int)
        frame.to_csv(csv, index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["apod", *[a.replace("{csv}", str(csv)) for a in arguments]])
    with pytest.raises(SystemExit) as ended:
        main()
    stderr = capsys.readouterr().err
    assert ended.value.code == 2, stderr
    lines = [line for line in stderr.strip().splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert "Traceback" not in stderr
    assert expected in lines[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["/proc/nowhere", "people.txt/inside"])
def test_a_folder_that_cannot_be_written_is_one_clear_line(out: str, people_csv: Path, tmp_path: Path) -> None:
    (tmp_path / "people.txt").write_text("in the way")
    arguments = ["run", people_csv, "--label", "hired", "--sensitive", "gender", *FAST, "--out", out]
    done = apod(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert "Cannot write to" in done.stderr
    assert "Traceback" not in done.stderr


def test_datasets_lists_every_name_and_as_json(tmp_path: Path) -> None:
    text, as_json = apod("datasets", folder=tmp_path), apod("datasets", "--json", folder=tmp_path)
    names = {row["name"] for row in json.loads(as_json.stdout)}
    assert {"adult", "meps", "loan", "german", "bank", "example"} <= names
    assert all(name in text.stdout for name in names)


def test_every_command_has_help_with_an_example() -> None:
    for command in build_app().registered_commands:
        assert "Example: apod" in (command.callback.__doc__ or "")


def test_select_prints_the_farthest_rows_of_a_subgroup(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    matrix, labels, groups = rng.normal(size=(200, 4)), rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    for name, array in (("e", matrix), ("y", labels), ("g", groups), ("a", np.array([3, 5]))):
        np.save(tmp_path / f"{name}.npy", array)
    files = ["e.npy", "--answered", "a.npy", "--labels", "y.npy", "--groups", "g.npy", "--subgroup", "1,0"]
    done = apod("select", *files, "-k", 3, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    answered, expected = [3, 5], []
    inside = [row for row in range(200) if (groups[row], labels[row]) == (1, 0) and row not in answered]
    for _ in range(3):
        nearest = {row: min(np.linalg.norm(matrix[row] - matrix[a]) for a in answered) for row in inside}
        best = max(inside, key=lambda row: (nearest[row], -row))
        expected.append((best, pytest.approx(nearest[best])))
        answered.append(best)
        inside.remove(best)
    assert [(pick["row"], pick["distance"]) for pick in json.loads(done.stdout)["picks"]] == expected


def test_select_says_when_fewer_were_there_and_that_the_first_is_infinitely_far(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.arange(6.0).reshape(3, 2))
    done = apod("select", "e.npy", "-k", 5000, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "only 3 people were there to pick from, of 5000 asked for" in done.stderr
    assert done.stdout.splitlines()[0].endswith("\tinf")
    assert "None" not in done.stdout


def test_a_whole_campaign_from_the_command_line(people_csv: Path, tmp_path: Path) -> None:
    new = ["campaign", "new", "hiring.db", people_csv, "--label", "hired", "--groups", "circle,triangle"]
    made = apod(*new, "--budget", 2, "--sensitive", "gender", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    frame = pd.read_csv(people_csv)
    for _ in range(2):
        question = json.loads(apod("ask", "hiring.db", "--annotator", "maria", "--json", folder=tmp_path).stdout)
        assert "gender" not in question["display"]
        told = apod("tell", "hiring.db", question["id"], frame.loc[question["row"], "gender"], folder=tmp_path)
        assert told.returncode == 0, told.stderr
    status = json.loads(apod("status", "hiring.db", "--json", folder=tmp_path).stdout)
    assert (status["answered"], status["pending"], status["budget"]) == (2, 0, 2)
    assert "budget is spent" in apod("ask", "hiring.db", folder=tmp_path).stdout
    assert apod("log", "verify", "hiring.db", folder=tmp_path).returncode == 0
    assert apod("tell", "hiring.db", "9-9", "circle", folder=tmp_path).returncode == 2


def test_a_campaign_pauses_and_resumes_from_the_command_line(people_csv: Path, tmp_path: Path) -> None:
    new = ["campaign", "new", "h.db", people_csv, "--label", "hired", "--groups", "circle,triangle", "--budget", 9]
    new += ["--preset", "heads"]
    refused = apod(*new, "--sensitive", "gender", "--least-gain", 3, folder=tmp_path)
    assert refused.returncode == 2
    assert "least gain is 3.0" in refused.stderr
    assert apod(*new, "--sensitive", "gender", "--least-gain", 0.01, folder=tmp_path).returncode == 0
    assert apod("campaign", "pause", "h.db", folder=tmp_path).returncode == 0
    assert "paused" in apod("ask", "h.db", folder=tmp_path).stdout
    assert "apod campaign resume" in apod("status", "h.db", folder=tmp_path).stdout
    assert apod("campaign", "resume", "h.db", folder=tmp_path).returncode == 0
    assert "row" in json.loads(apod("ask", "h.db", "--json", folder=tmp_path).stdout)
    assert json.loads(apod("status", "h.db", "--json", folder=tmp_path).stdout)["outlook"] is None
    assert apod("campaign", "close", "h.db", folder=tmp_path).returncode == 0
    assert "has ended" in apod("campaign", "resume", "h.db", folder=tmp_path).stderr


def test_the_status_says_what_stands_what_was_erased_the_groups_and_the_end(people_csv: Path, tmp_path: Path) -> None:
    rules = {"label": "hired", "groups": ["circle", "triangle"], "sensitive": "gender", "audit_share": 0.0}
    with Campaign.create_from_table(tmp_path / "h.db", people_csv, budget=5, refit="demand", **rules) as campaign:  # type: ignore[arg-type]
        for who, answer in (("otto", "declined"), ("otto", "cannot_tell"), ("maria", "circle")):
            campaign.tell(campaign.ask(who), answer)  # type: ignore[arg-type]
        old = campaign.ask("maria")
        assert old is not None
        campaign.tell(old, "circle")
        again = campaign.annotator("maria").undo()
        assert again is not None
        campaign.annotator().skip(again)
        campaign.owner.erase(annotator="otto")
        status = campaign.status()
        assert (status.answered, status.standing, status.declined, status.cannot_tell) == (3, 1, 0, 0)
        assert [one.answered for one in campaign.owner.annotators()] == [1, 0]
    told = apod("tell", "h.db", old.id, "circle", folder=tmp_path)
    assert (told.returncode, told.stderr.count("\n")) == (2, 1)
    assert f"taken back: the question is {again.id} now" in told.stderr
    handed = apod("export", "h.db", "out.json", "--tasks", 2, folder=tmp_path).stdout
    assert handed.startswith("1 answers and 2 open questions in out.json.")
    assert "put to nobody else until 20" in handed
    assert apod("campaign", "close", "h.db", folder=tmp_path).returncode == 0
    lines = apod("status", "h.db", folder=tmp_path).stdout.splitlines()
    assert lines[0] == "h: 1 of 5 answers, 2 assigned"
    assert "  closed: nothing more is asked" in lines
    assert "  groups: circle, triangle" in lines
    assert "  2 more erased; they stay paid from the budget, which has 0 left" in lines
    assert not any("declined" in line or "cannot tell" in line for line in lines)


def test_ctrl_c_ends_a_command_with_one_line_and_status_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apod.campaign.campaigns", lambda *_: signal.raise_signal(signal.SIGINT))
    done = apod("campaign", "list", "hiring.db", folder=tmp_path)
    assert done.returncode == 130
    assert done.stderr.splitlines() == ["interrupted: what was written before stays; run the command again to resume."]
