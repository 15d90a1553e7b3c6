#!/usr/bin/env bash
# Make a browser available for the tests of the explorer page: nothing is done where there is one already.
# Where none can be installed this still succeeds, and those tests are skipped with the reason.
set -euo pipefail
for name in chromium chromium-browser google-chrome google-chrome-stable chrome; do
  if command -v "$name" >/dev/null; then exit 0; fi
done
if ! command -v apt-get >/dev/null; then
  echo "no browser found, and no apt-get to install one: browser tests will be skipped" >&2
  exit 0
fi
root=()
if [ "$(id -u)" -ne 0 ]; then root=(sudo -n); fi
if ! { "${root[@]}" apt-get -qq update &&
       DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get -qq install -y --no-install-recommends chromium; } \
     >/dev/null 2>&1; then
  echo "chromium could not be installed: browser tests will be skipped" >&2
fi
