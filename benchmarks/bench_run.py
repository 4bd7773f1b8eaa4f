"""What a newcomer waits for: `apod run adult`, one refit and question, `import apod`; time and peak memory.

python benchmarks/bench_run.py            # status 1 where a goal is missed
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

GOALS = {"apod run, seconds": 40.0, "apod run, peak GB": 1.5, "refit and next question, seconds": 1.0,
         "import apod, seconds": 0.5}  # fmt: skip


def run_with_peak(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak resident gigabytes of a command and its children."""
    start, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                family = [watched, *watched.children(recursive=True)]
                peak = max(peak, sum(member.memory_info().rss for member in family))
            except psutil.NoSuchProcess:
                break
            time.sleep(0.02)
        error = process.communicate()[1]
    if process.returncode != 0:
        raise SystemExit(error)
    return time.perf_counter() - start, peak / 1e9


def import_seconds() -> float:
    """Seconds that `import apod` adds to starting Python, the median of five."""

    def started(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    return median(started("import apod") - started("pass") for _ in range(5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="adult")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "apod", "run", arguments.dataset, "--out", folder]
        seconds, peak = run_with_peak(command)
        result = json.loads((Path(folder) / "result.json").read_text())
    measured = {
        "apod run, seconds": seconds,
        "apod run, peak GB": peak,
        "refit and next question, seconds": median(entry["seconds"] for entry in result["rounds"][1:]),
        "import apod, seconds": import_seconds(),
    }
    print(f"{arguments.dataset}: {len(result['answers'])} answers, {len(result['tradeoff'])} strengths")
    print("where the time goes:", result["timing"])
    for name, value in measured.items():
        print(f"{name:<36} {value:8.3f}   goal {GOALS[name]:g}   {'ok' if value <= GOALS[name] else 'MISSED'}")
    sys.exit(any(value > GOALS[name] for name, value in measured.items()))


if __name__ == "__main__":
    main()
