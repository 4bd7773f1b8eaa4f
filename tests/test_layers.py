"""Imports point only downward, in no circle, and nothing happens on import."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import apod

PACKAGE = Path(apod.__file__).parent

LAYERS: list[set[str]] = [
    {"errors", "files", "processes", "randomness", "text"},
    {"data", "fairness"},
    {"heads", "maxmin"},
    {"models"},
    {"method", "audit"},
    {"campaign", "classifier", "metrics"},
    {"web", "bench", "evidence", "report", "run"},
    {"cli", "testing"},
]
"""From the bottom up: folders of src/apod, and the few flat modules. Each imports from its own row or below."""

LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = sorted(PACKAGE.rglob("*.py"))


def dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    """Names of this package's modules (or names in them) that a file imports, anywhere in it, however relative."""
    here = dotted(path).split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{source}.{alias.name}" for alias in node.names}
    return {name for name in found if name == "apod" or name.startswith("apod.")}


def top(name: str) -> str:
    """The layered unit a dotted name belongs to: apod.data.dataset -> data."""
    return name.split(".")[1]


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_every_module_has_a_layer_and_imports_only_from_it_or_below(path: Path) -> None:
    name = dotted(path)
    if name in ("apod", "apod.__main__"):
        return  # the public surface: lazy, and above everything
    unit = top(name)
    assert unit in LEVEL, f"src/apod has a new module {unit!r}: add it to LAYERS in tests/test_layers.py, at its level."
    for target in imported(path):
        if target == "apod" or top(target) not in LEVEL:
            # `from apod import X`: what is not a module is a public name, which only the outermost layers may use
            assert LEVEL[unit] >= LEVEL["web"], f"{name} imports {target} from the package's own front door."
            continue
        assert LEVEL[top(target)] <= LEVEL[unit], f"{name} (layer {LEVEL[unit]}) imports {target} from above."


def test_the_diagram_of_the_docs_shows_these_layers() -> None:
    text = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    diagram = text.split("## Layers", 1)[1].split("```")[1].strip().splitlines()
    shown = [{word for word in line.split() if word in LEVEL} for line in diagram]
    assert shown[::-1] == LAYERS


def test_no_modules_import_each_other_in_a_circle() -> None:
    names = {dotted(path) for path in MODULES}

    def module_of(target: str) -> str | None:
        return next((t for t in (target, target.rpartition(".")[0]) if t in names), None)

    graph = {dotted(p): {m for t in imported(p) if (m := module_of(t)) and m != dotted(p)} for p in MODULES}
    graph.pop("apod")
    for targets in graph.values():
        targets.discard("apod")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' -> '.join(error.args[1])}")


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ["torch", "pandas", "sklearn", "scipy", "plotly", "matplotlib", "sqlalchemy", "pyarrow"]
    code = f"import sys, apod; print(*[name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


@pytest.mark.parametrize(
    "name", [dotted(p) for p in MODULES if "migrations" not in p.parts and p.name != "__main__.py"]
)
def test_a_module_only_defines_things_when_it_is_imported(name: str) -> None:
    path = PACKAGE.parent / (name.replace(".", "/") + ".py")
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    allowed = (
        ast.Import,
        ast.ImportFrom,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.ClassDef,
        ast.Assign,
        ast.AnnAssign,
    )
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        guard = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        main = isinstance(node, ast.If) and "__main__" in ast.dump(node.test)
        assert docstring or guard or main or isinstance(node, allowed), (
            f"{name} line {node.lineno} runs {type(node).__name__} on import: move it into a function."
        )


def test_a_run_by_default_and_its_classifier_at_work_never_load_torch(tmp_path: Path) -> None:
    code = f"""
import sys
from apod.cli import main
def call(*arguments):
    sys.argv = ["apod", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
people = {str(tmp_path / "people.csv")!r}
from apod import make_example
made = make_example(300)
made.features.assign(label=made.labels, group=[made.group_names[code] for code in made.groups]).to_csv(people)
out = {str(tmp_path / "out")!r}
call("run", people, "--label", "label", "--sensitive", "group", "--budget", "10", "--out", out)
call("predict", out + "/classifier.apod", people, "--out", out + "/scored.csv")
sys.exit("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_three_modules_of_five_have_a_test_file_of_their_name() -> None:
    tests = Path(__file__).parent
    modules = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if not path.name.startswith("__")]
    modules = [path for path in modules if "migrations" not in path.parts]
    named = [path for path in modules if (tests / path.with_name(f"test_{path.name}")).is_file()]
    assert len(named) >= 0.6 * len(modules), f"{len(named)} of {len(modules)}"
