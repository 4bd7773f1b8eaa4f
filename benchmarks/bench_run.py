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

from apod.data import Dataset, load_dataset
from apod.method.prepare import prepare
from apod.method.settings import PRESETS
from apod.processes import one_thread
from apod.run.approach import Approach
from apod.run.correction import CorrectionOfModel
from apod.run.heads import HeadsOnBody

GOALS = {"apod run, seconds": 15.0, "apod run, peak GB": 1.5, "refit and next question, seconds": 0.1,
         "import apod, seconds": 0.5}  # fmt: skip
AT_LEAST = {"apod run": 3.0, "refit and next question": 5.0}
"""Times as fast as heads on a body, the default before, in the same minutes: by processor seconds, which other work on
the machine changes little."""


def run_with_peak(command: list[str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and peak resident gigabytes of a command."""
    start, peak, used = time.perf_counter(), 0, 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                peak = max(peak, watched.memory_info().rss)
                used = sum(watched.cpu_times()[:2])
            except psutil.NoSuchProcess:
                break
            time.sleep(0.02)
        error = process.communicate()[1]
    if process.returncode != 0:
        raise SystemExit(error)
    return time.perf_counter() - start, used, peak / 1e9


def import_seconds() -> float:
    """Seconds that `import apod` adds to starting Python, the median of five."""

    def started(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    return median(started("import apod") - started("pass") for _ in range(5))


def measure(dataset: str, preset: str) -> dict[str, float]:
    """One run from its command line, start-up and report included."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "apod", "run", dataset, "--preset", preset, "--out", folder]
        seconds, used, peak = run_with_peak(command)
        result = json.loads((Path(folder) / "result.json").read_text())
    print(f"{dataset}, --preset {preset}: {len(result['answers'])} answers; {seconds:.1f} s; {result['timing']}")
    return {"seconds": seconds, "apod run": used, "peak": peak}


@one_thread()
def refit_seconds(dataset: Dataset, preset: str, answers: int = 20) -> float:
    """Processor seconds of one question, its answer and the refit, the median."""
    settings = PRESETS[preset]
    approach: Approach
    if settings.corrects:
        approach = CorrectionOfModel(dataset, settings, 0)
    else:
        approach = HeadsOnBody(prepare(dataset, settings, 0), settings, 30, 0)
    mitigation, train = approach.mitigation, approach.split.train
    mitigation.first_answers(lambda question: int(dataset.groups[train[question.row]]), 8)
    mitigation.refit()
    taken = []
    for _ in range(answers):
        start = time.process_time()
        for question in mitigation.ask(1):
            mitigation.add_answer(question.trajectory, question.row, int(dataset.groups[train[question.row]]))
        mitigation.refit()
        taken.append(time.process_time() - start)
    return median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="adult")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, in turn; medians count")
    arguments = parser.parse_args()
    dataset = load_dataset(arguments.dataset)
    runs: dict[str, list[dict[str, float]]] = {"default": [], "heads": []}
    for _ in range(arguments.repeats):
        for preset, found in runs.items():
            refit = {"refit and next question": refit_seconds(dataset, preset)}
            found.append(measure(arguments.dataset, preset) | refit)
    now, before = ({name: median(run[name] for run in found) for name in found[0]} for found in runs.values())
    measured = {
        "apod run, seconds": now["seconds"],
        "apod run, peak GB": now["peak"],
        "refit and next question, seconds": now["refit and next question"],
        "import apod, seconds": import_seconds(),
    }
    missed = False
    for name, value in measured.items():
        missed |= value > GOALS[name]
        print(f"{name:<40} {value:8.3f}   goal {GOALS[name]:g}   {'ok' if value <= GOALS[name] else 'MISSED'}")
    for name, least in AT_LEAST.items():
        faster = before[name] / now[name]
        missed |= faster < least
        said = f"{before[name]:.2f} processor seconds with heads, {faster:.1f} times as fast"
        print(f"{name:<40} {now[name]:8.3f}   {said}, at least {least:g}   {'ok' if faster >= least else 'MISSED'}")
    sys.exit(missed)


if __name__ == "__main__":
    main()
