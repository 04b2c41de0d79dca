# Each target makes its own virtual environment on first use; nothing else is needed but Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PAGES := build/pages
PEERS := .venv-peers
PEERS_READY := $(PEERS)/.ready
WHEEL := .venv-wheel
# The order of sets must not differ from run to run.
export PYTHONHASHSEED := 0
BENCH := --benchmark-columns=median,iqr,rounds --benchmark-sort=name -q -s

.PHONY: help demo test lint bench bench-peers peers-test wheel-test soak torture docs clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "session-engine needs Python 3.11 or newer; set PYTHON=/path/to/it")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' $(MAKEFILE_LIST)

demo: $(READY) ## kill a writer and a gateway in mid-flight, show that nothing is lost, and ask what happened
	$(BIN)/python -m examples.demo build/demo

test: $(READY) ## the whole suite, with the same choices of chance every time
	$(BIN)/python -m pytest -n 2 tests

lint: $(READY) ## ruff, mypy --strict and pyright, also over the code in the docs; one-way imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/python -m tests.docs.pages $(PAGES)
	MYPYPATH=. $(BIN)/mypy $(PAGES)
	$(BIN)/pyright $(PAGES)
	$(BIN)/lint-imports --no-cache

bench: $(READY) ## speed, as ratios to baselines measured in the same run
	$(BIN)/python -m pytest benchmarks $(BENCH)

$(PEERS_READY): pyproject.toml benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' -r benchmarks/peers.txt
	@touch $(PEERS_READY)

bench-peers: $(PEERS_READY) ## the store against other session layers; writes benchmarks/results.md and routing.svg
	$(PEERS)/bin/python -m pytest benchmarks/test_store.py benchmarks/test_peers.py $(BENCH) --write-results -W ignore

peers-test: $(PEERS_READY) ## the same commands on the store and on hermes-agent give the same sessions
	$(PEERS)/bin/python -m pytest -m peers tests/differential

wheel-test: $(READY) ## builds sdist and wheel, and tries the wheel in a clean environment, without the source tree
	rm -rf build dist $(WHEEL)
	$(BIN)/python -m build --outdir dist . > dist.log 2>&1 || { cat dist.log; rm dist.log; exit 1; }
	@rm dist.log
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	$(WHEEL)/bin/python -I -W error tests/wheel/check.py dist
	cp examples/gateway.py $(WHEEL)/gateway.py
	cd $(WHEEL) && ../$(BIN)/mypy --strict --cache-dir=/dev/null --python-executable=bin/python gateway.py

SOAKED := tests/replay/test_decision_properties.py tests/replay/test_past_properties.py tests/replay/test_salvaging.py
soak: $(READY) ## the fault, property and simulation tests with bigger numbers and from a new seed
	SOAK=10 $(BIN)/python -m pytest -n 2 tests/faults tests/properties tests/simulation $(SOAKED)

SCALE ?= 1
PARTS ?=
torture: $(READY) ## power loss, I/O errors, kills, flipped bits, cancellations, full disks in big numbers; writes docs/reliability.md
	$(BIN)/python -m tests.torture $(PARTS) --scale $(SCALE)

docs: $(READY) ## regenerate docs/reference and the recorded incident, and write into the pages what their blocks print
	$(BIN)/python -m devtools.reference
	$(BIN)/python -m tests.replay.incident docs/incident
	$(BIN)/python -m tests.docs.update

clean: ## remove everything the other targets made
	rm -rf $(VENV) $(PEERS) $(WHEEL) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
