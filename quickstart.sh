#!/usr/bin/env bash
# From a fresh Debian 12 machine to a first result.
set -euo pipefail
cd "$(dirname "$0")"
tools/install-packages build
cmake --preset release >/dev/null
cmake --build --preset release
build/release/oubli --version
