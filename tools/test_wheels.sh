#!/usr/bin/env bash
# Installs each wheel of dist/ for this Python into a clean environment with PyTorch, and finds a first mistake with it,
# where no compiler is in sight. Variables: PYTHON (python3), TORCHES ("2.13.0"), WHEELS (dist).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
tag=$("$python" -c 'import sys; print(f"cp{sys.version_info[0]}{sys.version_info[1]}")')
wheel=$(ls "${WHEELS:-dist}"/torch_locus-*-"$tag"-*.whl | tail -n 1)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" # a PATH without g++, cmake and ninja
for torch in ${TORCHES:-2.13.0}; do
  "$python" -m venv "$folder/venv-$torch"
  bin=$folder/venv-$torch/bin
  "$bin/pip" install --quiet "torch==$torch" numpy
  started=$(date +%s.%N)
  "$bin/pip" install --quiet --no-index "$wheel"
  took=$(awk -v a="$started" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
  status=0
  said=$(cd "$folder" && env -i PATH="$folder/bin" HOME="$folder" "$bin/python" -m locus check \
    -c 'import torch; print(torch.ones(3, device="cuda") * torch.ones(3))' 2>&1) || status=$?
  if [ $status -ne 1 ] || ! grep -q 'error\[LOC004\]' <<<"$said"; then
    echo "$said" >&2
    echo "test_wheels: PyTorch $torch: no finding (exit status $status)" >&2
    exit 1
  fi
  echo "  PyTorch $("$bin/python" -c 'import torch; print(torch.__version__)'): installed in $took s, first finding without a compiler"
done
echo "test_wheels: passed with $(basename "$wheel")"
