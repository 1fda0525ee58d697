#!/usr/bin/env bash
# The stages behind the Makefile: one line for each, long output in build/log, nothing done twice.
# Usage: tools/stages.sh build|demo|test|test-cpp|test-python|test-all|bench|lint|lint-bridge|format
set -euo pipefail
cd "$(dirname "$0")/.."

TORCH=${TORCH:-2.13.0}
VENV=${VENV:-.venv}
PYTHON=${PYTHON:-python3}
JOBS=${JOBS:-$(nproc)}
PYTEST_ARGS=${PYTEST_ARGS:-}
LOG=build/log
STAMPS=$VENV/.locus
export PIP_DISABLE_PIP_VERSION_CHECK=1 CTEST_PARALLEL_LEVEL=$JOBS CMAKE_BUILD_PARALLEL_LEVEL=$JOBS
mkdir -p "$LOG"

# Two runs at once would build into the same folders: the later one waits.
lock() {
  exec 9>build/.lock
  if ! flock -n 9; then
    echo "Another make is building here; waiting for it …"
    flock 9
  fi
}
unlock() { exec 9>&-; }

# --- One stage -------------------------------------------------------------------------------------------------------

ERROR='error: |CMake Error|^E: |^ERROR: |undefined reference'
stage_number=0
stage_count=0

# stage TITLE KEY COMMAND…: runs COMMAND unless it last succeeded with this KEY ("-": run always, "": run never).
stage() {
  local title=$1 key=$2 name started
  shift 2
  name=${1#stage_}
  stage_number=$((stage_number + 1))
  printf '[%d/%d] %s … ' "$stage_number" "$stage_count" "$title"
  if [ -z "$key" ] || { [ "$key" != - ] && [ "$(cat "$STAMPS/$name" 2>/dev/null)" = "$key" ]; }; then
    echo ready
    return
  fi
  started=$SECONDS
  # `if ! command` would switch off `set -e` inside the stage; so would `stage … && …`.
  set +e
  (set -e; "$@") >"$LOG/$name.log" 2>&1 </dev/null 9>&-
  local status=$?
  set -e
  if [ $status -ne 0 ]; then
    echo "FAILED after $((SECONDS - started)) s"
    if grep -qE "$ERROR" "$LOG/$name.log"; then
      echo "--- the first errors ---" >&2
      grep -E "$ERROR" "$LOG/$name.log" | head -n 8 >&2
    fi
    echo "--- the last lines of $LOG/$name.log ---" >&2
    tail -n 30 "$LOG/$name.log" >&2
    echo "--- the whole log: $PWD/$LOG/$name.log ---" >&2
    echo "locus: stage \"$title\" failed" >&2
    exit 1
  fi
  if [ "$key" != - ]; then
    mkdir -p "$STAMPS"
    printf '%s\n' "$key" >"$STAMPS/$name"
  fi
  echo "$((SECONDS - started)) s"
}

hash_of() { cat "$@" | sha256sum | cut -c1-16; }

# --- Debian packages -------------------------------------------------------------------------------------------------

missing_packages() {
  local wanted=(g++ cmake ninja-build ccache libgtest-dev libgmock-dev libbenchmark-dev nlohmann-json3-dev libfmt-dev)
  command -v dpkg-query >/dev/null || return 0
  # Another Python than Debian's brings its own venv and headers.
  case $(command -v "$PYTHON" || echo /usr/bin/python3) in
    /usr/bin/*) wanted+=(python3 python3-venv python3-dev) ;;
  esac
  comm -23 <(printf '%s\n' "${wanted[@]}" | sort) \
    <(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^ii *//p' | sort -u)
}

stage_packages() {
  local sudo=
  if ! command -v apt-get >/dev/null; then
    echo "This is not a Debian machine. Install the equivalents of: $*"
    return 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "These Debian packages are missing: $*"
      echo "Run as root, or have someone run: apt-get install $*"
      return 1
    fi
    sudo=sudo
  fi
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get update
  $sudo apt-get install -y --no-install-recommends "$@"
}

packages() {
  local missing
  missing=$(missing_packages | tr '\n' ' ')
  # shellcheck disable=SC2086  # one word each
  stage "Debian packages" "${missing:+-}" stage_packages $missing
}

# --- Python ----------------------------------------------------------------------------------------------------------

python_key() { echo "$(command -v "$PYTHON") $("$PYTHON" --version 2>&1)"; }

stage_venv() {
  rm -rf "$VENV"
  "$PYTHON" -m venv "$VENV"
}

# The build of PyTorch (CPU or CUDA) is the one that this machine's pip configuration offers.
stage_torch() { "$VENV/bin/pip" install "torch==$TORCH" -r requirements/runtime.txt; }

stage_lint_tools() { "$VENV/bin/pip" install -r requirements/lint.txt; }

stage_tools() { "$VENV/bin/pip" install -r requirements/build.txt -r requirements/test.txt; }

python_environment() {
  stage "Python environment" "$(python_key)" stage_venv
  stage "PyTorch $TORCH" "$TORCH $(hash_of requirements/runtime.txt)" stage_torch
  stage "Build and test tools" "$(hash_of requirements/build.txt requirements/test.txt)" stage_tools
}

# --- C++ and the package ---------------------------------------------------------------------------------------------

# The same way that users take, but for the isolated environment.
stage_package() {
  "$VENV/bin/pip" uninstall --yes locus # what the distribution was called once
  "$VENV/bin/pip" install --verbose --no-deps --no-build-isolation --force-reinstall .
  find python -name __pycache__ -prune -exec rm -rf {} +
}

package_key() {
  local sources
  sources=$(find CMakeLists.txt cmake locus python pyproject.toml tools/*.py -type f -not -name '*.pyc' | LC_ALL=C sort)
  # shellcheck disable=SC2086  # no path of ours has a space
  echo "$TORCH $({ echo "$sources"; cat $sources; } | sha256sum | cut -c1-16)"
}

package() { stage "Locus, built and installed into $VENV" "$(package_key)" stage_package; }

# What nearly every target begins with: five stages.
prepare() {
  packages
  python_environment
  package
}

stage_cpp_release() { cmake --preset release && cmake --build --preset release; }
stage_cpp_configured() { cmake --preset release; }
stage_cpp_asan() { cmake --preset asan && cmake --build --preset asan; }
stage_cpp_tsan() { cmake --preset tsan && cmake --build --preset tsan; }

cpp() {
  stage "C++, optimized" - stage_cpp_release
  stage "C++, ASan + UBSan" - stage_cpp_asan
  stage "C++, TSan" - stage_cpp_tsan
}

stage_sdist() {
  "$VENV/bin/pip" install build -r requirements/build.txt
  "$VENV/bin/python" -m build --sdist --no-isolation --outdir dist
}

# What the pages say of the source is not on the site: links to it are not followed there.
stage_docs() {
  "$VENV/bin/pip" install -r requirements/docs.txt
  "$VENV/bin/python" -m mkdocs build --strict --site-dir build/site
}

# --- Suites ----------------------------------------------------------------------------------------------------------

closing=
failed=

# suite TITLE LOGNAME CLOSING-PATTERN COMMAND…: runs it, remembers its time and closing lines, goes on after a failure.
suite() {
  local title=$1 log=$LOG/$2.log pattern=$3 started status lines seconds
  shift 3
  started=$(date +%s.%N)
  set +e
  "$@" >"$log" 2>&1 </dev/null
  status=$?
  set -e
  seconds=$(awk -v a="$started" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f s", b - a }')
  lines=$(grep -E "$pattern" "$log" | tail -n 12 || true)
  if [ $status -eq 0 ]; then
    printf '  %-22s %9s  ok\n' "$title" "$seconds"
  else
    printf '  %-22s %9s  FAILED (log: %s)\n' "$title" "$seconds" "$log"
    failed="$failed${failed:+, }$title"
    echo "--- the last lines of $log ---" >&2
    tail -n 60 "$log" >&2
  fi
  closing="$closing$title
$lines
"
}

ctest_suite() {
  local preset=$1 title=$2 wrap=()
  # ThreadSanitizer needs the address layout that this gives, where the machine allows it.
  if [ "$preset" = tsan ] && setarch -R true 2>/dev/null; then wrap=(setarch -R); fi
  suite "$title" "ctest-$preset" '^[0-9]+% tests passed|^Total Test time|^No tests were found' \
    ${wrap[@]+"${wrap[@]}"} ctest --preset "$preset" --no-tests=error
}

cpp_suites() {
  ctest_suite release "C++"
  ctest_suite asan "C++, ASan + UBSan"
  ctest_suite tsan "C++, TSan"
}

python_suites() {
  # shellcheck disable=SC2086  # PYTEST_ARGS is a list of words
  suite "Python" "pytest" "^(PyTorch's|An H200's) |^=+ .*(passed|failed|error|no tests ran).* in .*=+\$" \
    "$VENV/bin/python" -m pytest -n 2 --dist worksteal $PYTEST_ARGS
}

summary() {
  echo
  printf '%s' "$closing"
  if [ -n "$failed" ]; then
    echo "locus: failed: $failed (logs in $PWD/$LOG)" >&2
    exit 1
  fi
}

# --- Demo and benchmarks ---------------------------------------------------------------------------------------------

# show COMMAND…: prints the command as a person would type it, then runs it.
show() {
  echo "\$ $*"
  "$VENV/bin/$1" "${@:2}"
}

run_demo() {
  echo "A program for two GPUs, on a machine that needs none:"
  show locus run --devices 2 examples/train_two_gpus.py
  # The help lists the commands this version has.
  if "$VENV/bin/locus" --help | grep -qE '^ +check '; then
    echo
    echo "The same program with five tensors on the wrong device, all found in one run:"
    show locus check examples/broken_training.py || [ $? -eq 1 ] # 1: there were findings
  fi
}

run_bench() {
  if [ ! -f bench/run.py ]; then
    echo "locus: bench/run.py is missing" >&2
    exit 1
  fi
  "$VENV/bin/python" bench/run.py
}

# --- Targets ---------------------------------------------------------------------------------------------------------

case ${1:-} in
  build)
    lock
    stage_count=5
    prepare
    ;;
  demo)
    lock
    stage_count=5
    prepare
    unlock
    echo
    run_demo
    ;;
  test)
    lock
    stage_count=8
    prepare
    cpp
    unlock
    echo
    cpp_suites
    python_suites
    summary
    ;;
  test-cpp)
    lock
    stage_count=4
    packages
    cpp
    unlock
    echo
    cpp_suites
    summary
    ;;
  test-python)
    lock
    stage_count=5
    prepare
    unlock
    echo
    python_suites
    summary
    ;;
  test-all)
    # The slow tests too, wherever tests run: all samples of PyTorch's databases, all of a real GPU's verdicts.
    export TEST_ALL=1
    echo "make test-all: the everyday suites and the slow tests (20 minutes), then"
    echo "  the HTML report in Chromium tools/test_browser.sh      root, or a Chromium that is there"
    echo "  a fresh install by pip      tools/test_install.sh      2 GB for a while"
    echo "and verdict tables, databases, features and corpora (tools/build_suites.sh) with"
    echo "  CUDA builds of 2.11, 2.14   tools/test_cuda_build.sh   several GB each from pip, no GPU needed"
    echo "  PyTorch 2.6, Debian trixie  tools/test_torch26.sh      root, debootstrap, 4 GB"
    echo
    left_out=
    # part NAME COMMAND…: goes on after a failure. Status 77: something is missing here, and the part has said what.
    part() {
      local name=$1 status=0
      shift
      echo "=== $name"
      "$@" || status=$?
      case $status in
        0) ;;
        77) left_out="$left_out${left_out:+, }$name" ;;
        *) failed="$failed${failed:+, }$name" ;;
      esac
      echo
    }
    part "everyday suites and slow tests" tools/stages.sh test
    part "the HTML report in Chromium" tools/test_browser.sh
    part "a fresh install by pip" tools/test_install.sh
    for version in 2.11.0 2.14.1; do
      part "a CUDA build of PyTorch $version" env -u VENV TORCH=$version tools/test_cuda_build.sh
    done
    part "PyTorch 2.6" env -u TORCH -u VENV tools/test_torch26.sh
    [ -z "$left_out" ] || echo "locus: not done, for what is missing here: $left_out"
    [ -z "$failed" ] || { echo "locus: failed: $failed" >&2; exit 1; }
    ;;
  bench)
    lock
    stage_count=6
    prepare
    stage "C++, optimized" - stage_cpp_release
    unlock
    echo
    run_bench
    ;;
  lint)
    lock
    stage_count=6
    packages
    python_environment
    stage "Lint tools" "$(hash_of requirements/lint.txt)" stage_lint_tools
    stage "C++, configured" - stage_cpp_configured
    unlock
    echo
    exec tools/lint.sh
    ;;
  lint-bridge)
    lock
    stage_count=6
    prepare
    stage "Lint tools" "$(hash_of requirements/lint.txt)" stage_lint_tools
    unlock
    echo
    exec tools/lint.sh --bridge
    ;;
  sdist)
    lock
    stage_count=2
    stage "Python environment" "$(python_key)" stage_venv
    stage "Source archive, in dist" - stage_sdist
    ;;
  docs)
    lock
    stage_count=2
    stage "Python environment" "$(python_key)" stage_venv
    stage "Documentation, in build/site" - stage_docs
    ;;
  format)
    lock
    stage_count=2
    stage "Python environment" "$(python_key)" stage_venv
    stage "Lint tools" "$(hash_of requirements/lint.txt)" stage_lint_tools
    unlock
    exec tools/lint.sh --fix
    ;;
  *)
    sed -n '2,3s/^# //p' "$0" >&2
    exit 2
    ;;
esac
