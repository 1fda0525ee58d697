#!/usr/bin/env bash
# Builds Locus with PyTorch 2.6, the oldest supported, as Debian 13 (trixie) packages it, and runs tools/build_suites.sh.
# Needs: root, debootstrap, a Debian mirror, 4 GB of disk; without root or debootstrap it ends with 77. About 5 minutes the first time, then those of the tests.
# Variables: LOCUS_TRIXIE (the folder, .cache/trixie), LOCUS_DEBIAN_MIRROR (debootstrap's own), PYTEST_ARGS.
set -euo pipefail
self=$(readlink -f "$0")
cd "$(dirname "$self")/.."

root=${LOCUS_TRIXIE:-$PWD/.cache/trixie}
log=build/log/torch26.log
packages=(python3-torch libtorch-dev pybind11-dev python3-venv python3-dev python3-pip python3-numpy python3-pytest
  python3-pytest-xdist python3-setuptools python3-scikit-build-core python3-packaging python3-pathspec g++ cmake
  ninja-build ccache libfmt-dev nlohmann-json3-dev libgtest-dev libgmock-dev libbenchmark-dev)
mkdir -p build/log

fail() {
  echo "test_torch26: $1" >&2
  [ ! -f "$log" ] || { tail -n 40 "$log"; echo "--- the whole log: $PWD/$log ---"; } >&2
  exit 1
}

lacks() {
  echo "test_torch26: $1" >&2
  exit 77
}

# Debian builds PyTorch without libuv, which its store would use.
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 USE_LIBUV=0 DEBIAN_FRONTEND=noninteractive ${TEST_ALL:+TEST_ALL=$TEST_ALL} "$@"; }

[ "$(id -u)" -eq 0 ] || lacks "needs root (debootstrap and chroot): sudo $self"
# In a mount namespace of its own: what is mounted below goes away with this script, however it ends.
[ -n "${LOCUS_UNSHARED:-}" ] || LOCUS_UNSHARED=1 exec unshare --mount --propagation private "$self"

: >"$log"
if ! command -v debootstrap >/dev/null; then
  echo "Installing debootstrap …"
  { apt-get update && apt-get install -y --no-install-recommends debootstrap; } >>"$log" 2>&1 ||
    lacks "debootstrap is not here and could not be installed: apt-get install debootstrap"
fi

if [ "$(cat "$root/.ready" 2>/dev/null)" != "${packages[*]}" ]; then
  echo "Debian 13 in $root (once, about 2 minutes, 4 GB) …"
  if [ ! -x "$root/usr/bin/apt-get" ]; then
    rm -rf "$root"
    mkdir -p "$root"
    # shellcheck disable=SC2086  # no mirror given: debootstrap's own
    debootstrap --variant=minbase trixie "$root" ${LOCUS_DEBIAN_MIRROR:-} >>"$log" 2>&1 || fail "debootstrap failed"
  fi
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  inside apt-get update >>"$log" 2>&1 || fail "apt-get update failed in $root"
  inside apt-get install -y --no-install-recommends "${packages[@]}" >>"$log" 2>&1 || fail "apt-get install failed in $root"
  printf '%s\n' "${packages[*]}" >"$root/.ready"
fi

# Tests look into /proc and /dev/shm.
for folder in proc dev; do mount --rbind "/$folder" "$root/$folder"; done

echo "Locus for Debian's PyTorch …"
mkdir -p "$root/locus"
find "$root/locus" -mindepth 1 -maxdepth 1 -not -name build -exec rm -rf {} +
git ls-files -z -co --exclude-standard | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || printf '%s\0' "$file"
done | tar -cf - --null -T - | tar -xf - -C "$root/locus"
inside sh -ec '
  cd /locus
  [ -x /venv/bin/python ] || python3 -m venv --system-site-packages /venv
  /venv/bin/pip install --no-index --verbose --no-deps --no-build-isolation --force-reinstall .
' >>"$log" 2>&1 || fail "the build failed"
inside /venv/bin/python -c 'import torch; print("PyTorch", torch.__version__)'

# shellcheck disable=SC2086  # PYTEST_ARGS is a list of words
inside /locus/tools/build_suites.sh /venv/bin/python ${PYTEST_ARGS:-}
