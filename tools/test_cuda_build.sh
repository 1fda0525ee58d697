#!/usr/bin/env bash
# Builds Locus with a CUDA build of PyTorch, in a .venv of its own, and runs tools/build_suites.sh there; needs no GPU and
# no CUDA toolkit.
# Needs: a pip configuration that offers that build, 10 GB of disk; where one is missing it ends with 77. Downloads
# several GB: 5 to 20 minutes the first time, then those of the tests. Variables: TORCH (2.14.1), VENV
# (.venv-cuda-TORCH), PYTEST_ARGS.
set -euo pipefail
cd "$(dirname "$0")/.."

export TORCH=${TORCH:-2.14.1}
export VENV=${VENV:-.venv-cuda-$TORCH}
if [ ! -d "$VENV" ]; then
  echo "PyTorch $TORCH, CUDA build, into $VENV: several GB, once …"
  free=$(df --output=avail -B1G . | tail -n 1 | tr -d ' ')
  if [ "$free" -lt 10 ]; then
    echo "test_cuda_build: only $free GB free here; 10 are needed" >&2
    exit 77
  fi
fi
tools/stages.sh build
cuda=$("$VENV/bin/python" -c 'import torch; print(torch.version.cuda or "")')
if [ -z "$cuda" ]; then
  echo "test_cuda_build: pip offers only a CPU build of PyTorch $TORCH here; set TORCH to a version with a CUDA build" >&2
  exit 77
fi
echo "PyTorch $TORCH, CUDA $cuda"
# A card that is there must not be seen: devices are simulated.
# shellcheck disable=SC2086  # PYTEST_ARGS is a list of words
CUDA_VISIBLE_DEVICES='' exec tools/build_suites.sh "$VENV/bin/python" ${PYTEST_ARGS:-}
