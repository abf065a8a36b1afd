# `make demo` and `make test` do all of their own set-up in .venv; nothing else on the machine is touched.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-minimum test-label-studio coverage sanitize fuzz docs release-check reproduce bench bench-scale audit guarantees estimation lint types clean

.venv/installed: pyproject.toml setup.py $(wildcard src/nacp/engine/*.[ch])
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[plot,sklearn]'
	touch $@

# What tests, linter, types and documentation need besides: among others PyTorch, in the version of the constraints.
.venv/dev: .venv/installed tests/constraints.txt
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint tests/constraints.txt
	touch $@

demo: .venv/installed
	$(BIN)/nacp demo

test: lint types
	$(BIN)/python -m pytest -n 2

# The fast tests with the lowest versions of all dependencies, in an environment of 6 GB; needs Python 3.11 or 3.12. Warnings
# of old versions about new ones are no errors here.
.venv-minimum/installed: pyproject.toml setup.py tests/minimum.txt $(wildcard src/nacp/engine/*.[ch])
	$(PYTHON) -m venv .venv-minimum
	.venv-minimum/bin/python -m pip install --quiet --editable . --requirement tests/minimum.txt
	touch $@

test-minimum: .venv-minimum/installed
	.venv-minimum/bin/python -m pytest -n 2 tests -m "not slow" -W default::DeprecationWarning

# Branch coverage of src/nacp by the fast tests, with the commands that they start; fails below the level in pyproject.toml.
coverage: .venv/dev
	rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run -m pytest -n 2 -m "not slow"
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

# The compiled engine under the address and undefined-behaviour sanitizers, in an installation of its own.
sanitize: .venv/dev
	rm -rf build/sanitize
	CFLAGS='-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all' \
	LDFLAGS='-fsanitize=address,undefined' \
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --target build/sanitize .
	PYTHONPATH=build/sanitize NACP_ENGINE=native ASAN_OPTIONS=detect_leaks=0 \
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
	$(BIN)/python -m pytest -s -p no:cacheprovider tests/engine/test_verbs.py -k 'not torch'

# Damaged and invented input for every reader, the C verbs and `calibrate`; takes an hour. docs/trust.md has the figures.
fuzz: .venv/dev
	$(BIN)/python scripts/fuzz.py --seconds 3600

# The documentation, with warnings as errors. Writes docs/_build/index.html.
docs: .venv/dev
	rm -rf docs/_build docs/_generated docs/jupyter_execute
	$(BIN)/python -m sphinx -q -n -W --keep-going -d docs/_build/.doctrees docs docs/_build

.venv-label-studio/installed:
	$(PYTHON) -m venv .venv-label-studio
	.venv-label-studio/bin/python -m pip install --quiet label-studio
	touch $@

# A round trip through a real Label Studio on the loopback interface. Not part of "test".
test-label-studio: .venv/installed .venv-label-studio/installed
	.venv/bin/python scripts/check_label_studio.py .venv-label-studio/bin/label-studio

# Builds the last commit twice and checks sdist, wheel, workflows and other files for services.
.venv-release/installed: scripts/release-requirements.txt
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip install --quiet --requirement scripts/release-requirements.txt
	touch $@

release-check: .venv-release/installed
	.venv-release/bin/python scripts/check_release.py

# Every table and figure of the paper, on simulated twins; takes some ten minutes. Writes reproduction/.
reproduce: .venv/installed
	$(BIN)/nacp reproduce all

# An environment of its own, for the peers; takes some ten minutes. Writes results/.
.venv-bench/installed: pyproject.toml benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --editable . --requirement benchmarks/requirements.txt
	.venv-bench/bin/python -m pip install --quiet --no-deps torchcp==1.2.1
	touch $@

bench: .venv-bench/installed
	.venv-bench/bin/python benchmarks/run.py

# Dask arrays: against reading the files, one process, and one worker against two; some minutes. Writes results/scale.md.
bench-scale: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[dask]'
	$(BIN)/python benchmarks/scale.py

# Are the promises kept, in all ways of calibrating? Takes about an hour. Fails if one is broken; writes results/audit.md.
audit: .venv/installed
	$(BIN)/python benchmarks/audit.py

# Excess coverage of the guarantees. Writes results/guarantees.md and, if NACP_BENCHMARK_DATA is the path of the folder of
# real outputs, results/checked.md and results/groups.md.
guarantees: .venv/installed
	$(BIN)/python benchmarks/guarantees.py
	$(if $(NACP_BENCHMARK_DATA),$(BIN)/python benchmarks/checked.py)
	$(if $(NACP_BENCHMARK_DATA),$(BIN)/python benchmarks/groups_real.py)

# Estimated noise, and the sets that it leads to. Takes over an hour. Writes results/estimation.md.
estimation: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[cleanlab]'
	$(BIN)/python benchmarks/estimation.py

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

clean:
	rm -rf .venv .venv-bench .venv-label-studio .venv-minimum .venv-release
