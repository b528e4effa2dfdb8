#!/usr/bin/env bash
# Installs what is missing, builds once, runs every test, prints the counts.
set -euo pipefail
cd "$(dirname "$0")"
tools/install-packages build test
# Tests that run ONNX models are skipped, and say so, where it cannot be had.
timeout 180 tools/get-runtime small ||
  echo "ONNX Runtime could not be fetched: tests that need it are skipped"
cmake --preset dev >/dev/null
cmake --build --preset dev
ctest --preset dev -j "$(nproc)" "$@"
