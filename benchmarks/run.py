"""`make bench`: every benchmark of this folder that takes no arguments, one after the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    missed = []
    for script in sorted(HERE.glob("bench_*.py")):
        print(f"\n=== {script.name} ===", flush=True)
        if subprocess.run([sys.executable, str(script)], check=False).returncode != 0:
            missed.append(script.name)
    print("\ngoals missed in: " + (", ".join(missed) or "none"))
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
