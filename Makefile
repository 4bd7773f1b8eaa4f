# Everything a fresh clone needs: `make demo`, `make test`. Only Python, make and pip are assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
# the matrices are small: waiting for a second thread costs more than it gains
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-slow check bench format clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)  ## the main job on real census data, with a report
	$(BIN)/apod run adult --seed 0 --out out/demo

test: $(READY)  ## the whole quick suite, under eight minutes on two cores
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow"

test-slow: $(READY)  ## kill storms, clusters, full-size runs
	$(BIN)/python -m pytest -m slow

check: $(READY)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## speed, as ratios within one run
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache
