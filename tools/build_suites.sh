#!/usr/bin/env bash
# The suites that are run on every build of PyTorch but the everyday one: what a simulated device gives must be what the
# CPU gives there, and what it refuses what a card refuses. Verdict tables, first samples of PyTorch's databases,
# features, programs of the corpora. All samples, docs/simulated.md (which is about the everyday build) and the rest of the
# suites run there only.
# Usage: tools/build_suites.sh PYTHON [PYTEST-ARGUMENT …]; with TEST_ALL=1 the whole of the verdict tables.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
shift
workers=()
if "$python" -c 'import xdist' 2>/dev/null; then workers=(-n "${PYTEST_WORKERS:-2}"); fi
exec "$python" -m pytest "${workers[@]}" \
  tests/conformance --deselect tests/conformance/test_databases.py::test_all_samples \
  --ignore tests/conformance/test_simulated_page.py \
  tests/check/test_wrong.py tests/check/test_clean.py tests/python/test_features.py tests/e2e/test_simulate_programs.py \
  "$@"
