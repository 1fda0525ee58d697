# `make demo` and `make test` do everything on a fresh Debian machine. Variables: PYTHON (python3), TORCH (2.13.0),
# VENV (.venv), JOBS (the number of cores), PYTEST_ARGS. The stages are in tools/stages.sh.

TORCH ?= 2.13.0
VENV ?= .venv
PYTHON ?= python3
JOBS ?= $(shell nproc)
PYTEST_ARGS ?=
PYTHONS ?=
TORCHES ?=
export TORCH VENV PYTHON JOBS PYTEST_ARGS

.DEFAULT_GOAL := help
.PHONY: wheels test-wheels sdist docs help build demo test test-cpp test-python test-all bench lint lint-bridge format clean distclean

help:            ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20
build:           ## .venv with PyTorch, and Locus built and installed into it
	@tools/stages.sh build
demo:            ## build, then show Locus at work
	@tools/stages.sh demo
test:            ## build, then every test suite (C++, ASan+UBSan, TSan, Python)
	@tools/stages.sh test
test-cpp:        ## the C++ suites only (needs no PyTorch)
	@tools/stages.sh test-cpp
test-python:     ## the Python suites only
	@tools/stages.sh test-python
test-all:        ## `make test`, then other PyTorch versions and builds (long; says what it needs)
	@tools/stages.sh test-all
bench:           ## build, then the benchmarks
	@tools/stages.sh bench
lint:            ## clang-format, clang-tidy, ruff and mypy; changes nothing
	@tools/stages.sh lint
lint-bridge:     ## clang-tidy over the bridge, with PyTorch's headers (long)
	@tools/stages.sh lint-bridge
format:          ## formats every C++ and Python file in place
	@tools/stages.sh format
wheels:          ## wheels into dist/, with bridges for several PyTorch versions (PYTHONS=3.11 TORCHES=2.13.0,2.14.1)
	@$(PYTHON) tools/make_wheels.py --pythons "$(PYTHONS)" --torch "$(TORCHES)"
test-wheels:     ## installs them into clean environments without a compiler, and finds a first mistake
	@tools/test_wheels.sh
sdist:           ## the source archive, into dist/
	@tools/stages.sh sdist
docs:            ## the documentation as a site, into build/site
	@tools/stages.sh docs
clean:           ## removes what was built, keeps .venv
	rm -rf build
distclean: clean ## removes .venv too
	rm -rf --one-file-system .venv .venv-cuda* .cache
