#!/usr/bin/env bash
# On a machine with a GPU and a CUDA build of PyTorch: builds Locus for the PyTorch that PYTHON has (build_beside.sh), hides
# the card, and runs tools/build_suites.sh. Variables: PYTHON (python3), JOBS (the number of cores), PYTEST_ARGS.
set -euo pipefail
cd "$(dirname "$0")/.."

export CUDA_VISIBLE_DEVICES=''
# shellcheck source=tools/build_beside.sh
source tools/build_beside.sh hidden-card
# shellcheck disable=SC2086  # PYTEST_ARGS is a list of words
PYTEST_WORKERS=$jobs exec tools/build_suites.sh "$python" ${PYTEST_ARGS:-}
