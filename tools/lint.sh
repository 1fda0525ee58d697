#!/usr/bin/env bash
# Checks the form of every C++ and Python file; `--fix` formats them in place. Usage: tools/lint.sh [--fix]
# Takes its tools from $VENV (requirements/lint.txt). clang-tidy looks at the rooms without torch.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

bin=${VENV:-.venv}/bin
jobs=${JOBS:-$(nproc)}
failed=

step() {
  local title=$1
  shift
  if "$@"; then echo "  $title: ok"; else failed="$failed $title"; echo "  $title: FAILED"; fi
}

mapfile -t cpp < <(git ls-files -co --exclude-standard '*.cc' '*.h' | xargs -r ls -d 2>/dev/null)
mapfile -t tidy < <(git ls-files -co --exclude-standard 'locus/engine/*.cc' 'locus/report/*.cc' 'locus/sim/*.cc' | xargs -r ls -d 2>/dev/null)

clang_format() { [ ${#cpp[@]} -eq 0 ] || "$bin/clang-format" "$@" "${cpp[@]}"; }

clang_tidy() {
  [ ${#tidy[@]} -eq 0 ] && return
  printf '%s\0' "${tidy[@]}" | xargs -0 -n 4 -P "$jobs" "$bin/clang-tidy" -p build/release --quiet --warnings-as-errors='*'
}

if [ "${1:-}" = --fix ]; then
  clang_format -i
  "$bin/ruff" check --quiet --fix .
  "$bin/ruff" format --quiet .
  exit 0
fi
step clang-format clang_format --dry-run --Werror
step "ruff check" "$bin/ruff" check --quiet .
step "ruff format" "$bin/ruff" format --quiet --check .
step clang-tidy clang_tidy
[ -z "$failed" ]
