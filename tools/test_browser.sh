#!/usr/bin/env bash
# Looks at the HTML report in a real browser: installs Chromium where it is missing and can be, then tests/browser.
# Needs: root for the installation, or a Chromium; else it says so and ends with 77. About half a minute.
# Variables: VENV (.venv).
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=${VENV:-.venv}
mkdir -p build/log

found() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

if ! found >/dev/null; then
  if command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } >build/log/browser.log 2>&1 ||
      { tail -n 5 build/log/browser.log >&2; }
  fi
fi
if ! found >/dev/null; then
  echo "test_browser: there is no Chromium here, and it could not be installed. As root: apt-get install chromium" >&2
  exit 77
fi
if [ ! -x "$VENV/bin/locus" ]; then
  echo "test_browser: Locus is not built in $VENV. Run \`make build\` first" >&2
  exit 77
fi
exec "$VENV/bin/python" -m pytest tests/browser
