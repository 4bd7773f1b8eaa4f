"""Do the tests notice? Small changes to a module, each alone, and the module's own tests.

    python -m pip install cosmic-ray
    python tools/mutants.py --count 15

A sample of the changes that cosmic-ray knows is drawn by place, so that a line with many possible changes counts once.
Changes to annotations and docstrings are left out: they change nothing that runs. Every mutant has a process of its
own, forked after the heavy libraries are loaded. What survives is printed as a difference.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import importlib.machinery
import importlib.util
import os
import random
import resource
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parents[1]
CPU_SECONDS = 120  # longer than any of these tests take: what needs more never ends
QUIET = ["-q", "-x", "-p", "no:cacheprovider", "--no-header", "-m", "not slow", "-k", "not postgresql and not import"]

MODULES = {
    "apod.fairness.metrics": ["fairness/test_metrics.py"],
    "apod.fairness.notions": ["fairness/test_notions.py"],
    "apod.method.penalty": ["method/test_penalty.py"],
    "apod.method.posterior": ["method/test_posterior.py", "method/test_proxy_posterior.py"],
    "apod.method.sampler": ["method/test_sampler.py"],
    "apod.method.correction_choice": ["method/test_judgement.py", "method/test_correction_choice.py"],
    "apod.heads.correction": ["heads/test_correction.py"],
    "apod.campaign.state": ["campaign/test_contract.py", "campaign/test_annotator.py"],
    "apod.campaign.answering": ["campaign/test_contract.py", "campaign/test_annotator.py", "campaign/test_transfer.py"],
}
"""The most important modules and their own tests, below tests/."""


class Mutated(importlib.machinery.SourceFileLoader):
    """Loads one module from changed source."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        """The changed source, compiled."""
        return compile(self._source, self.path, "exec")

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> object:
        """This module's alone."""
        return importlib.util.spec_from_loader(name, self) if name == self.name else None


def what_runs(source: str) -> str:
    """The program without annotations and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)  # type: ignore[assignment]
    return ast.dump(tree)


def mutants(source: str, count: int, chance: random.Random) -> list[str]:
    """So many changed sources, each from another place."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    places: dict[tuple[int, int], list[tuple[Callable[[], object], int]]] = defaultdict(list)
    tree = get_ast(source)
    for name in sorted(operator_names()):
        operator = get_operator(name)
        if operator.arguments():
            continue
        found = (start for node in ast_nodes(tree) for start, _ in operator().mutation_positions(node))
        for occurrence, start in enumerate(found):
            places[start].append((operator, occurrence))
    drawn: list[str] = []
    for place in chance.sample(sorted(places), len(places)):
        operator, occurrence = chance.choice(places[place])
        changed = mutate_code(source, operator(), occurrence)
        with suppress(SyntaxError):  # some changes are no Python
            if changed is not None and what_runs(changed) != what_runs(source):
                drawn.append(changed)
        if len(drawn) == count:
            break
    return drawn


def survives(name: str, path: Path, source: str, tests: Sequence[str]) -> bool:
    """Whether all tests pass although the module is this one."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            sys.meta_path.insert(0, Mutated(name, str(path), source))  # type: ignore[arg-type]
            import pytest

            status = int(pytest.main([*QUIET, *(str(ROOT / "tests" / test) for test in tests)]))
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def main() -> None:
    """Print, for every module, how many of its mutants survive, and which."""
    parser = argparse.ArgumentParser(description="Do the tests notice small changes to the most important modules?")
    parser.add_argument("--count", type=int, default=15, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("modules", nargs="*", default=list(MODULES), help="names, instead of all ten")
    chosen = parser.parse_args()
    os.chdir(ROOT)
    for library in ("pandas", "scipy.stats", "sklearn.linear_model", "torch"):
        importlib.import_module(library)  # before the forks
    for name in chosen.modules:
        path = ROOT / "src" / Path(*name.split(".")).with_suffix(".py")
        source = path.read_text(encoding="utf-8")
        if not survives(name, path, source, MODULES[name]):
            sys.exit(f"The tests of {name} fail without any change.")
        drawn = mutants(source, chosen.count, random.Random(f"{chosen.seed} {name}"))
        alive = [changed for changed in drawn if survives(name, path, changed, MODULES[name])]
        print(f"{name}: {len(alive)} of {len(drawn)} survive", flush=True)
        for changed in alive:
            lines = difflib.unified_diff(source.splitlines(), changed.splitlines(), lineterm="", n=0)
            print("\n".join(f"    {line}" for line in list(lines)[2:]), flush=True)


if __name__ == "__main__":
    main()
