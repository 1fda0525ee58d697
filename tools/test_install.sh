#!/usr/bin/env bash
# Installs Locus the way a user does: a fresh virtual environment, `pip install .` with build isolation, no Makefile.
# Checks the refusal without PyTorch, the install, a second install, and that uninstalling leaves nothing behind.
# Needs: pip's package sources, 2 GB of disk for a while. About 4 minutes. Variables: TORCH (2.13.0), PYTHON (python3).
set -euo pipefail
cd "$(dirname "$0")/.."

torch=${TORCH:-2.13.0}
mkdir -p build/log
log=$PWD/build/log/install.log
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
: >"$log"

fail() {
  echo "test_install: $1" >&2
  tail -n 30 "$log" >&2
  echo "--- the whole log: $log ---" >&2
  exit 1
}

# timed TITLE LIMIT COMMAND…: runs it, says how long it took, fails past LIMIT seconds of two cores' work.
# Work, not the clock: other programs on the machine must not fail this test.
timed() {
  local title=$1 limit=$2 spent TIMEFORMAT='%R %U %S'
  shift 2
  spent=$({ time "$@" >>"$log" 2>&1; } 2>&1) || fail "$title failed"
  echo "$spent" | awk -v title="$title" -v limit="$limit" '{
    work = ($2 + $3) / 2
    printf "  %s: %.0f s (%.0f s of two cores)\n", title, $1, work
    exit work > limit
  }' || fail "$title took more than $limit s of two cores"
}

# A copy, so that the first install finds no objects of an earlier one.
mkdir "$folder/source"
git ls-files -z -co --exclude-standard | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || printf '%s\0' "$file"
done | tar -cf - --null -T - | tar -xf - -C "$folder/source"
cd "$folder/source"
export CCACHE_DISABLE=1
pip=$folder/venv/bin/pip

"${PYTHON:-python3}" -m venv "$folder/venv"
if LOCUS_TORCH_DIR='' "$pip" install . >"$folder/refusal" 2>&1; then
  echo "  (PyTorch was found outside the new environment: the refusal is not tested)"
  "$pip" uninstall -y torch-locus >>"$log" 2>&1
elif grep -q "no PyTorch was found" "$folder/refusal"; then
  echo "  without PyTorch: refused, with the way out"
else
  cat "$folder/refusal" >>"$log"
  fail "without PyTorch, the message is another"
fi

timed "PyTorch $torch" 1800 "$pip" install "torch==$torch"
before=$(find "$folder/venv" -type f -not -name '*.pyc' | sort)
timed "pip install ." 180 "$pip" install .
timed "pip install . again" 30 "$pip" install .
(cd / && "$folder/venv/bin/locus" --version) || fail "the command does not run"
(cd / && "$folder/venv/bin/python" -c "from locus import _load; _load.load_bridge()") || fail "the bridge does not load"
timed "pip uninstall" 30 "$pip" uninstall -y torch-locus
after=$(find "$folder/venv" -type f -not -name '*.pyc' | sort)
new=$(comm -13 <(echo "$before") <(echo "$after") | grep -i locus || true)
[ -z "$new" ] || fail "left behind: $new"
[ -z "$(find "$folder/venv" -ipath '*site-packages/*locus*' | head -n 1)" ] || fail "left something behind in site-packages"
echo "1 passed, 0 failed"
