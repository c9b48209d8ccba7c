# Everything a fresh machine needs is set up by the targets themselves, in .venv; a second run
# finds it there. Needed before: CPython 3.11 or newer, pip or ensurepip, a C++20 compiler.
#
#   make demo     the product in small, on real text     (ARGS="--batches 50 --trace demo/trace.png")
#   make test     the C++ and the Python tests           (TESTS="tests/work -k mixture")
#   make lint     formatters, linters, type checker
#   make sanitize the C++ tests and the native property tests under ASan and UBSan
#   make bench    zephon beside its peers and the machine's limits; writes docs/performance.md
#                 (about 20 minutes; the first time the peers are installed)  (ARGS="--only stream")
#   make bench-quick    the same in small, without peers; writes nothing
#   make bench-gate     instructions of every kernel, calls of every path, against the baseline
#                 (bench-gate-record REASON="...": a new baseline; bench-gate-proof: that it closes)
#   make bench-kernels  times of every kernel, for developers  (ARGS="--only pack --compare before")
#   make dev      editable install: Python at once, native parts rebuilt on import
#   make wheel, make sdist: into dist/
#   make wheels   wheels for x86-64 and aarch64 built with zig, and the audits of them: dist/wheels
#                 (ARGS=--again: built twice and compared)
#   make wheel-test  use them where there is no compiler and nothing can be written (root, Debian)
#   make compat   the tests with the oldest and the newest numpy, torch, pyarrow and tokenizers
#   make clean    remove all that these made

PYTHON ?= python3
ARGS ?=
TESTS ?= -m "not slow"

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help demo test lint sanitize dev wheel sdist wheels wheel-test compat clean
.PHONY: bench bench-quick bench-gate bench-gate-record bench-gate-proof bench-kernels

VENV := .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# What is tested is what was installed, never the source tree beside it.
export PYTHONSAFEPATH := 1
unexport PYTHONPATH PYTHONHOME

STEP := tools/step
PIP := $(VENV)/bin/python -m pip
# Without index and isolation: the build sees this environment and nothing else.
INSTALL := $(PIP) install --quiet --no-index --no-deps --no-build-isolation \
           --config-settings=cmake.define.ZEPHON_WERROR=ON

# Folders are in the list because removing a file changes only its folder.
SOURCES := CMakeLists.txt pyproject.toml README.md LICENSE \
           $(shell find zephon src_cpp cmake -not -path '*/__pycache__*' -not -name '*.so')
CPP := $(shell find src_cpp tests/cpp -name '*.[ch]pp' 2>/dev/null)

help:
	@sed -n '/^#   make/s/^# *//p' Makefile

$(VENV)/.stamp-venv:
	@$(STEP) "Make a virtual environment in $(VENV) with $(PYTHON)" tools/make-venv "$(PYTHON)" $(VENV)
	@touch $@

$(VENV)/.stamp-torch: $(VENV)/.stamp-venv constraints.txt
	@$(STEP) "Install torch, as pinned in constraints.txt" $(PIP) install --quiet torch -c constraints.txt
	@touch $@

$(VENV)/.stamp-tools: $(VENV)/.stamp-torch constraints.txt pyproject.toml tools/requirements.py
	@$(VENV)/bin/python tools/requirements.py > $(VENV)/requirements.txt
	@$(STEP) "Install what builds and tests the package" \
	  $(PIP) install --quiet -r $(VENV)/requirements.txt -c constraints.txt
	@touch $@

$(VENV)/.stamp-package: $(VENV)/.stamp-tools $(SOURCES)
	@$(STEP) "Build and install the package" $(INSTALL) --force-reinstall .
	@touch $@

demo: $(VENV)/.stamp-package
	@$(STEP) "Demo" $(VENV)/bin/zephon demo $(ARGS)

test: $(VENV)/.stamp-package
	@$(STEP) "C++ tests" tests/cpp/run.sh
	@$(STEP) "Python tests" $(VENV)/bin/pytest -n auto --durations=12 $(TESTS)

lint: $(VENV)/.stamp-package
	@$(STEP) "ruff check" $(VENV)/bin/ruff check
	@$(STEP) "ruff format" $(VENV)/bin/ruff format --check
	@$(STEP) "mypy" $(VENV)/bin/mypy
	@$(STEP) "cython-lint" $(VENV)/bin/cython-lint zephon/_native
	@$(STEP) "clang-format" $(VENV)/bin/clang-format --dry-run -Werror $(CPP)

# CI=true: hypothesis then sets no time limit for an example; instrumented code is slow.
sanitize: $(VENV)/.stamp-tools
	@$(STEP) "C++ tests under ASan and UBSan" tests/cpp/run.sh "address;undefined"
	@$(STEP) "Native property tests under ASan and UBSan" \
	  env CI=true PYTHON=$(VENV)/bin/python tests/sanitize_python.sh "address;undefined"

bench: $(VENV)/.stamp-package
	@$(STEP) "Benchmarks" $(VENV)/bin/python benchmarks/run.py $(ARGS)

bench-quick: $(VENV)/.stamp-package
	@$(STEP) "Benchmarks in small, without peers" $(VENV)/bin/python benchmarks/run.py --quick $(ARGS)

bench-gate: $(VENV)/.stamp-package
	@$(STEP) "Count instructions and calls" $(VENV)/bin/python benchmarks/gate/gate.py $(ARGS)

bench-gate-record: $(VENV)/.stamp-package
	@$(VENV)/bin/python benchmarks/gate/gate.py --record "$(REASON)"

bench-gate-proof: $(VENV)/.stamp-package
	@$(STEP) "See the gate close on a slowed kernel" $(VENV)/bin/python benchmarks/gate/prove.py

bench-kernels: $(VENV)/.stamp-package
	@$(VENV)/bin/python benchmarks/micro.py $(ARGS)

dev: $(VENV)/.stamp-tools
	@rm -f $(VENV)/.stamp-package
	@$(STEP) "Install the package in place (editable)" $(INSTALL) --editable .

wheel sdist: $(VENV)/.stamp-tools
	@$(STEP) "Build the $@ into dist" $(VENV)/bin/python -m build --no-isolation --$@ --outdir dist .

$(VENV)/.stamp-wheels: $(VENV)/.stamp-tools tools/wheels/requirements.txt
	@$(STEP) "Install zig and what audits wheels (400 MB)" \
	  $(PIP) install --quiet -r tools/wheels/requirements.txt
	@touch $@

wheels: $(VENV)/.stamp-wheels
	@$(STEP) "Build and audit wheels" $(VENV)/bin/python tools/wheels/build.py $(ARGS)

wheel-test: $(VENV)/.stamp-venv
	@$(STEP) "Use the wheels without compilers" $(VENV)/bin/python tools/wheels/test.py $(ARGS)

compat: $(VENV)/.stamp-tools
	@$(STEP) "Test the ends of the declared ranges" $(VENV)/bin/python tools/compat.py $(ARGS)

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
