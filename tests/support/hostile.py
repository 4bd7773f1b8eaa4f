"""A folder in which somebody has put a Python file under every name that a program may import."""

from __future__ import annotations

import sys
from pathlib import Path

PACKAGES = (
    "alembic", "apod", "click", "fastapi", "joblib", "mako", "numpy", "pandas", "pip", "pyarrow", "rich", "safetensors",
    "scipy", "setuptools", "sitecustomize", "sklearn", "sqlalchemy", "starlette", "torch", "typer", "usercustomize",
    "uvicorn",
)  # fmt: skip
MODULES = tuple(sorted({*PACKAGES, *(name for name in sys.stdlib_module_names if not name.startswith("_"))}))
APOD = str(Path(sys.executable).with_name("apod"))  # the command as it is installed


def fill(folder: Path, names: tuple[str, ...] = MODULES) -> None:
    """Put a file under each name that notes that it was run."""
    for name in names:
        (folder / f"{name}.py").write_text("open(__file__ + '.ran', 'w').close()\n")


def ran(folder: Path) -> list[str]:
    """Which of them were run."""
    return sorted(path.name for path in folder.glob("*.ran"))
