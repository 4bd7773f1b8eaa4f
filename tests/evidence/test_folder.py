"""A folder of evidence: the numbers of its source, nobody's group, and a stranger finds every changed byte."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from apod.evidence.folder import encoded, sha256
from apod.evidence.verification import leaves
from support.commands import apod

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs" / "evidence.schema.json").read_text())


def stored(folder: Path) -> dict:
    return json.loads((folder / "evidence.json").read_text())


def reseal(folder: Path) -> None:
    """Make the manifest fit the files again, as a forger would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = {name: sha256((folder / name).read_bytes()) for name in manifest["files"]}
    (folder / "manifest.json").write_bytes(encoded(manifest))


def test_a_run_and_an_audit_give_evidence_of_the_published_schema(
    evidence: Path, audit_file: Path, tmp_path: Path
) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(stored(evidence), SCHEMA)
    done = apod("report", audit_file, "--evidence", "of-audit", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    jsonschema.validate(stored(tmp_path / "of-audit"), SCHEMA)
    assert apod("verify", "of-audit", "--data", audit_file, folder=tmp_path).returncode == 0


def test_numbers_are_those_of_the_result_to_the_digit(evidence: Path, run_folder: Path) -> None:
    result = json.loads((run_folder / "result.json").read_text())
    (attribute,) = stored(evidence)["attributes"].values()
    for when, name in (("before", "vanilla"), ("after", "selected")):
        found = attribute["measured"][when]
        if found is None:
            continue
        assert {group: one["people"]["value"] for group, one in found["groups"].items()} == {
            group: one["n"] for group, one in result[name]["groups"].items()
        }
        for metric in ("gap", "accuracy", "balanced_accuracy"):
            assert found["metrics"][metric]["value"] == result[name][metric]
            ends = [found["metrics"][metric][end] for end in ("low", "high")]
            assert ends == result[name]["intervals"][metric]
        for group, one in found["groups"].items():
            for rate in ("tpr", "fpr", "selection_rate"):
                if not one[rate]["suppressed"]:
                    assert one[rate]["value"] == result[name]["groups"][group][rate]
                    ends = [one[rate][end] for end in ("low", "high")]
                    assert ends == result[name]["intervals"]["groups"][group][rate]
    if attribute["measured"]["change"]:
        for metric, ends in result["differences"].items():
            found = attribute["measured"]["change"][metric]
            assert [found["low"], found["high"]] == ends
    assert attribute["measured"]["unknown"] == result["vanilla"]["excluded"] > 0


def test_the_criterion_of_the_run_has_its_verdict(evidence: Path, run_folder: Path) -> None:
    result, found = json.loads((run_folder / "result.json").read_text()), stored(evidence)["criterion"]
    assert found["text"] == "gap <= 0.1"
    assert found["answers_then"] == 0
    low, high = result["selected"]["intervals"]["gap"]
    assert found["measured"] == ("met" if high <= 0.1 else "not met" if low > 0.1 else "not decided")


def test_no_file_says_about_whom_was_asked(evidence: Path, run_folder: Path) -> None:
    result = json.loads((run_folder / "result.json").read_text())
    paths = dict(leaves(stored(evidence)))
    assert not any(
        word in path for path in paths for word in ("row", "answers[") if "ll144" not in path and path != "scope.rows"
    )
    listed = [str([answer["row"] for answer in result["answers"]])[1:12]]
    for file in evidence.iterdir():
        assert not any(text in file.read_text() for text in listed)


def test_one_changed_byte_anywhere_is_found_and_named(evidence: Path, run_folder: Path) -> None:
    whole = apod("verify", evidence, folder=evidence.parent)
    assert whole.returncode == 0, whole.stdout
    noted = whole.stdout.split("manifest ")[1].strip()
    for file in sorted(evidence.iterdir()):
        data = file.read_bytes()
        place = data.rindex(b"1") if b"1" in data else len(data) - 2
        file.write_bytes(data[:place] + b"2" + data[place + 1 :])
        found = apod("verify", evidence, "--manifest", noted, folder=evidence.parent)
        assert found.returncode != 0, file.name
        assert file.name in found.stdout + found.stderr
        file.write_bytes(data)
    assert apod("verify", evidence, "--manifest", noted, folder=evidence.parent).returncode == 0


@pytest.mark.parametrize(
    "path",
    [
        ("measured", "before", "metrics", "gap", "value"),
        ("measured", "before", "metrics", "accuracy", "low"),
        ("measured", "before", "bounds", "high"),
        ("ll144", "rows", 0, "impact_ratio"),
        ("ll144", "unknown"),
    ],
)
def test_a_forged_number_is_found_though_the_manifest_fits(evidence: Path, path: tuple[str | int, ...]) -> None:
    facts = stored(evidence)
    (attribute,) = facts["attributes"].values()
    inner = attribute
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] += 1
    (evidence / "evidence.json").write_bytes(encoded(facts))
    reseal(evidence)
    found = apod("verify", evidence, "--json", folder=evidence.parent)
    assert found.returncode == 1
    name = ".".join(str(key) for key in path).replace(".0.", "[0].")
    assert any(name in problem for problem in json.loads(found.stdout)["problems"])


def test_with_the_data_every_number_is_computed_again(evidence: Path, run_folder: Path) -> None:
    done = apod("verify", evidence, "--data", run_folder, "--json", folder=evidence.parent)
    found = json.loads(done.stdout)
    assert found["ok"], found["problems"]
    assert found["from_data"] > 100
    facts = stored(evidence)
    (attribute,) = facts["attributes"].values()
    attribute["inferred"]["before"]["metrics"]["gap"]["value"] = 0.001
    (evidence / "evidence.json").write_bytes(encoded(facts))
    reseal(evidence)
    found = json.loads(apod("verify", evidence, "--data", run_folder, "--json", folder=evidence.parent).stdout)
    assert any("inferred.before.metrics.gap.value: 0.001" in problem for problem in found["problems"])


def test_half_a_folder_and_other_versions_are_refused_in_a_line(evidence: Path, tmp_path: Path) -> None:
    facts = stored(evidence)
    for change, said in (({"schema_version": 9}, "version 9"), ({"schema_version": None}, "version None")):
        (evidence / "evidence.json").write_bytes(encoded(facts | change))
        done = apod("verify", evidence, folder=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
    (evidence / "evidence.json").unlink()
    assert "not a whole folder" in apod("verify", evidence, folder=tmp_path).stderr
    assert "is not there" in apod("verify", tmp_path / "nowhere", folder=tmp_path).stderr
    (evidence / "evidence.json").write_text("[]")
    assert "damaged" in apod("verify", evidence, folder=tmp_path).stderr


def test_evidence_never_mixes_with_other_files(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    done = apod("report", run_folder, "--evidence", tmp_path, folder=tmp_path)
    assert done.returncode == 2
    assert "mine.txt" in done.stderr
    assert (tmp_path / "mine.txt").read_text() == "kept"


def test_an_unfinished_run_has_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"schema_version": 2, "finished": false, "criterion": null}')
    done = apod("report", tmp_path, "--evidence", tmp_path / "evidence", folder=tmp_path)
    assert done.returncode == 2
    assert "not ended yet" in done.stderr


def test_pages_need_no_script_and_escape_names(evidence: Path) -> None:
    from apod.evidence.documents import documents

    facts = stored(evidence)
    facts["scope"]["system"] = "<script>alert(1)</script> | `x`"
    made = documents(facts)
    assert b"<script" not in made["evidence.html"]
    assert b"\\<script>alert(1)\\</script>" not in made["model-card.md"] or b"\\|" in made["model-card.md"]
    assert b"@page" in made["evidence.html"]
