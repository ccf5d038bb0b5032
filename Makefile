# Two commands: `make demo` shows the main job, `make test` checks everything. Each sets up .venv when needed.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-ray fuzz soak bench clean

help:
	@echo "make demo   install into .venv when needed and compare Co2L without and with GPLASC, in two minutes"
	@echo "make test   install the development extras when needed and run every check"
	@echo "make fuzz   damage every kind of input by the thousand; CASES=3000 SEED=0"
	@echo "make soak   kill runs by the hundred and let the disk fail; KILLS=300 FAULTS=60 SEED=0"
	@echo "make test-ray  sweeps on a Ray cluster of two nodes on this machine, one of them killed (minutes)"
	@echo "make bench  measure how close everything is to its limit; ITEMS="overhead growth" for some of it"
	@echo "make docs   build the site into site/; open site/index.html, no server is needed"
	@echo "make clean  remove .venv and caches"

demo: .venv/installed-plain
	$(BIN)/gplasc demo

test: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

CASES ?= 3000
SEED ?= 0
fuzz: .venv/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --cases $(CASES) --seed $(SEED)

KILLS ?= 300
FAULTS ?= 60
soak: .venv/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak --kills $(KILLS) --faults $(FAULTS) --seed $(SEED)

test-ray: .venv/installed-dev .venv/installed-ray
	OMP_NUM_THREADS=1 GPLASC_TEST_RAY=1 $(BIN)/pytest tests/sweep/test_ray.py -v

ITEMS ?=
bench: .venv/installed-plain
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.speed.command $(ITEMS)

.PHONY: docs
docs: .venv/installed-docs
	$(BIN)/python scripts/docs
	$(BIN)/zensical build --clean

# The stamp is younger than what it was made from, so a second call installs nothing.
.venv/installed-%: pyproject.toml constraints.txt scripts/install
	@PYTHON="$(PYTHON)" sh scripts/install $*

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
