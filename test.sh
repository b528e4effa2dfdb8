#!/usr/bin/env bash
# Installs what is missing, builds once, runs every test, prints the counts.
set -euo pipefail
cd "$(dirname "$0")"
tools/install-packages build test
cmake --preset dev >/dev/null
cmake --build --preset dev
ctest --preset dev -j "$(nproc)" "$@"
