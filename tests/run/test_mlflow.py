"""The MLflow recipe of the documentation works as it stands, and logs nobody's group."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mlflow.md"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # MLflow's own
def test_the_recipe_logs_every_round_the_result_and_nobodys_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    (recipe,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {"__name__": "recipe"}
    exec(compile(recipe, PAGE.name, "exec"), names)
    result = names["outcome"].result  # type: ignore[attr-defined]
    client = mlflow.tracking.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("hiring").experiment_id])
    assert run.data.params["budget"] == "12"
    for name in ("vanilla", "selected"):
        assert run.data.metrics[f"{name}_gap"] == pytest.approx(result[name]["gap"])
    history = client.get_metric_history(run.info.run_id, "gap")
    assert [entry.step for entry in history] == [entry["answered"] for entry in result["rounds"]]
    assert [entry.value for entry in history] == pytest.approx(
        [entry["choice"]["test"]["gap"] for entry in result["rounds"]]
    )
    logged = json.loads(Path(client.download_artifacts(run.info.run_id, "result.json")).read_text())
    assert "answers" not in logged
    assert logged["selected"] == result["selected"]
    answered = {(entry["row"], entry["group"]) for entry in result["answers"]}
    assert answered
    for file in (tmp_path / "mlruns").rglob("*"):
        if file.is_file():
            text = file.read_text()
            assert not any(f'"group": "{group}", "label"' in text for _, group in answered)
