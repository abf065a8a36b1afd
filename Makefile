# `make demo` and `make test` do all of their own set-up in .venv; nothing else on the machine is touched.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test reproduce bench guarantees lint types clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: .venv/installed
	$(BIN)/python -m nacp.demo

test: lint types
	$(BIN)/python -m pytest -n 2

# Every table and figure of the paper, on simulated twins; takes some ten minutes. Writes reproduction/.
reproduce: .venv/installed
	$(BIN)/nacp reproduce all

# An environment of its own, for the peers; takes some ten minutes. Writes benchmarks/results.md.
.venv-bench/installed: pyproject.toml benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --editable . --requirement benchmarks/requirements.txt
	.venv-bench/bin/python -m pip install --quiet --no-deps torchcp==1.2.1
	touch $@

bench: .venv-bench/installed
	.venv-bench/bin/python benchmarks/run.py

# Are the promises true, and what do they cost? Takes about half an hour. Writes docs/guarantees-results.md.
guarantees: .venv/installed
	$(BIN)/python benchmarks/guarantees.py

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

clean:
	rm -rf .venv .venv-bench
