"""`make test-fast` (`pytest --fast`): what starts no process, browser or database server and takes milliseconds."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from types import CodeType, FunctionType

import pytest

TESTS = Path(__file__).resolve().parents[1]

STARTERS = {
    "subprocess",
    "multiprocessing",
    "psutil",
    "chromium",
    "throwaway_postgres",
    "SmallCluster",
    "fork",
    "by_pip",
}
"""Names by which a test, or its fixtures, reach for another process."""

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "os.exec"}
"""What Python says (`sys.audit`) when a process is started."""

LONG = {
    "bench",
    "campaign/test_audit_sample.py",
    "campaign/test_contract.py",
    "campaign/test_correction_engine.py",
    "campaign/test_erasure.py",
    "campaign/test_failures.py",
    "campaign/test_formats.py",
    "campaign/test_heads_engine.py",
    "campaign/test_log.py",
    "campaign/test_measuring.py",
    "campaign/test_refit.py",
    "campaign/test_stateful.py",
    "campaign/test_transfer.py",
    "classifier/test_correction.py",
    "classifier/test_estimator.py",
    "classifier/test_fitting.py",
    "classifier/test_inputs.py",
    "classifier/test_saving_models.py",
    "cli/test_hostile_text.py",
    "cli/test_run.py",
    "data/test_named.py",
    "data/test_pictures.py",
    "evidence/test_campaign.py",
    "evidence/test_folder.py",
    "evidence/test_reevaluation.py",
    "heads/test_bank.py",
    "method/test_correction_fit.py",
    "method/test_model_mitigation.py",
    "method/test_sampler.py",
    "method/test_selection.py",
    "models/test_picture_training.py",
    "report/test_campaign_page.py",
    "report/test_run_page.py",
    "run/test_correction.py",
    "run/test_experiment.py",
    "run/test_files.py",
    "run/test_known_groups.py",
    "test_distribution.py",
    "test_models_page.py",
    "test_notebooks.py",
    "web",
}
"""Files and folders that train, draw or serve: `make test` runs them."""


def is_long(path: Path) -> bool:
    """Whether a file or folder is left out of the fast suite as a whole."""
    return path.is_relative_to(TESTS) and path.relative_to(TESTS).as_posix() in LONG


def starts_processes(item: pytest.Item) -> bool:
    """Whether a test, a fixture of it, or a helper that one of them calls reaches for another process."""
    if getattr(getattr(item, "callspec", None), "params", {}).get("place") == "postgresql":
        return True
    fixtures = getattr(item, "_fixtureinfo", None)
    definitions = fixtures.name2fixturedefs.values() if fixtures is not None else ()
    used = [definition.func for known in definitions for definition in known]
    seen: set[object] = set()
    return not STARTERS.isdisjoint(getattr(item, "fixturenames", ())) or any(
        _reaches(one, seen) for one in [getattr(item, "obj", None), *used]
    )


def _reaches(function: object, seen: set[object]) -> bool:
    function = getattr(function, "__wrapped__", function)  # context managers, hypothesis
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType) or function in seen or "site-packages" in function.__code__.co_filename:
        return False
    seen.add(function)
    names = set(_names(function.__code__))
    return bool(names & STARTERS) or any(_reaches(function.__globals__.get(name), seen) for name in names)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


class NoProcess:
    """Fails a test that starts a process after all."""

    def __init__(self) -> None:
        self._testing = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: object) -> None:
        if self._testing and event in STARTS:
            raise RuntimeError(f"a test of the fast suite starts a process ({event}): see tests/support/tiers.py")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self._testing = True
        try:
            return (yield)
        finally:
            self._testing = False
