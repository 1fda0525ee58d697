#!/usr/bin/env bash
# Checks the form of every C++ and Python file; `--fix` formats them in place. Usage: tools/lint.sh [--fix | --bridge]
# Takes its tools from $VENV (requirements/lint.txt). clang-tidy looks at the rooms without torch; with --bridge at the
# bridge, and at nothing else: half a minute a file, for torch's headers.
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
mapfile -t tidy < <(git ls-files -co --exclude-standard 'locus/engine/*.cc' 'locus/order/*.cc' 'locus/report/*.cc' 'locus/sim/*.cc' | xargs -r ls -d 2>/dev/null)

clang_format() { [ ${#cpp[@]} -eq 0 ] || "$bin/clang-format" "$@" "${cpp[@]}"; }

clang_tidy() {
  [ ${#tidy[@]} -eq 0 ] && return
  printf '%s\0' "${tidy[@]}" | xargs -0 -n 1 -P "$jobs" "$bin/clang-tidy" -p build/release --quiet --warnings-as-errors='*'
}

# Needs the types of torch and pytest: those of the environment that Locus is built in, where the tools have their own.
mypy() {
  local python=$bin/python
  "$python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))' || python=.venv/bin/python
  "$bin/mypy" --python-executable "$python" --no-error-summary
}

# The bridge is built in batches of files; clang-tidy wants one at a time, with the batches' flags.
bridge_commands() {
  local built
  # shellcheck disable=SC2012  # the names are ours
  built=$(ls -td build/release-torch*/compile_commands.json 2>/dev/null | head -n 1)
  if [ -z "$built" ]; then
    echo "lint: the bridge has not been built here: run \`make build\` first" >&2
    return 2
  fi
  "$bin/python" - "$built" <<'PYTHON'
import glob, json, os, sys

batch = next(row for row in json.load(open(sys.argv[1])) if "locus_bridge.dir/Unity" in row["file"])
rows = [
    {**batch, "file": path, "command": batch["command"].replace(batch["file"], path)}
    for path in map(os.path.abspath, sorted(glob.glob("locus/bridge/*/*.cc")))
]
os.makedirs("build/lint-bridge", exist_ok=True)
json.dump(rows, open("build/lint-bridge/compile_commands.json", "w"))
PYTHON
}

if [ "${1:-}" = --bridge ]; then
  bridge_commands || exit
  printf '%s\0' locus/bridge/*/*.cc |
    xargs -0 -n 1 -P "$jobs" "$bin/clang-tidy" -p build/lint-bridge --quiet --warnings-as-errors='*'
  exit
fi
if [ "${1:-}" = --fix ]; then
  clang_format -i
  "$bin/ruff" check --quiet --fix .
  "$bin/ruff" format --quiet .
  exit 0
fi
step clang-format clang_format --dry-run --Werror
step "ruff check" "$bin/ruff" check --quiet .
step "ruff format" "$bin/ruff" format --quiet --check .
step mypy mypy
step clang-tidy clang_tidy
[ -z "$failed" ]
