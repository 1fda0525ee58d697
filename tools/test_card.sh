#!/usr/bin/env bash
# On a machine with a GPU and a CUDA build of PyTorch: builds Locus for the PyTorch that PYTHON has (build_beside.sh), and
# runs a command with it: `tools/test_card.sh python -m pytest tests/gpu`, `tools/test_card.sh python bench/gpu.py`.
# `python` is PYTHON (python3). Without a command: tests/gpu. Variables: PYTHON, JOBS (the number of cores).
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=tools/build_beside.sh
source tools/build_beside.sh card
if [ $# -eq 0 ]; then
  workers=()
  if "$python" -c 'import xdist' 2>/dev/null; then workers=(-n "$jobs"); fi
  set -- python -m pytest ${workers[@]+"${workers[@]}"} tests/gpu
fi
if [ "$1" = python ]; then shift; set -- "$python" "$@"; fi
exec "$@"
