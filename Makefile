# Each target makes its own virtual environment on first use; nothing else is needed but Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers
PEERS_READY := $(PEERS)/.ready
BENCH := --benchmark-columns=median,iqr,rounds --benchmark-sort=name -q -s

.PHONY: help demo test lint bench bench-peers peers-test soak docs clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "session-engine needs Python 3.11 or newer; set PYTHON=/path/to/it")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' $(MAKEFILE_LIST)

demo: $(READY) ## kill a writer and a gateway in mid-flight and show that nothing acknowledged is lost
	$(BIN)/python -m examples.demo

test: $(READY) ## the whole suite
	$(BIN)/python -m pytest -n 2 tests

lint: $(READY) ## ruff, mypy --strict, one-way imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(READY) ## speed, as ratios to baselines measured in the same run
	$(BIN)/python -m pytest benchmarks $(BENCH)

$(PEERS_READY): pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,peers]'
	@touch $(PEERS_READY)

bench-peers: $(PEERS_READY) ## the store against other session layers; writes benchmarks/results.md and routing.svg
	$(PEERS)/bin/python -m pytest benchmarks/test_store.py benchmarks/test_peers.py $(BENCH) --write-results -W ignore

peers-test: $(PEERS_READY) ## the same commands on the store and on hermes-agent give the same sessions
	$(PEERS)/bin/python -m pytest -m peers tests/differential

soak: $(READY) ## the same fault and property tests with bigger numbers
	SOAK=10 $(BIN)/python -m pytest -n 2 tests/faults tests/properties

docs: $(READY) ## regenerate docs/events.md from the event classes
	$(BIN)/python -m engine.domain.catalogue > docs/events.md

clean: ## remove everything the other targets made
	rm -rf $(VENV) $(PEERS) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
