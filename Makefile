# Everything a fresh clone needs: `make demo`, `make test`. Only Python, make and pip are assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
LIGHT := $(VENV)/.light
READY := $(VENV)/.ready
WORKERS ?= 2
# the matrices are small: waiting for a second thread costs more than it gains
export OMP_NUM_THREADS ?= 1
# where it is set, every process compiles torch anew: 3 seconds each
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test-fast test test-slow check docs dist hashes bench format clean

$(LIGHT): pyproject.toml constraints.txt
	@echo "Creating the environment in $(VENV) (once): what apod itself needs, about 1.2 GB; torch is most of it ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -e .
	@touch $@

$(READY): $(LIGHT)
	@echo "Adding what tests, checks and documentation need to $(VENV) (once), about 1 GB ..."
	@$(PIP) -e '.[dev]'
	@touch $@

demo: $(LIGHT)  ## the main job on real census data, with a report
	$(BIN)/apod run adult --seed 0 --compare paper --out out/demo

test-fast: $(READY)  ## what takes milliseconds and starts no process, browser or database server
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --fast

test: $(READY)  ## the quick suite, without kill storms, clusters and full-size runs
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow"

test-slow: $(READY)  ## kill storms, clusters, full-size runs
	@$(PIP) -e '.[models-test]' || echo "XGBoost or CatBoost could not be installed; their tests will say so and skip."
	$(BIN)/python -m pytest -m slow

check: $(READY)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(READY)  ## the documentation site, in build/site; works offline
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site
	@echo "Open build/site/index.html"

dist: $(READY)  ## sdist and wheel, in dist/
	$(BIN)/python -m build --outdir dist .

hashes: $(READY)  ## constraints-hashed.txt: the sha256 of every file that constraints.txt means on this platform
	$(BIN)/python tools/hashed_constraints.py constraints.txt constraints-hashed.txt

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## speed, as ratios within one run
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache
