#!/usr/bin/env bash
# consumer.sh BUILD [SANITIZERS]: installs BUILD into a fresh folder, then builds and runs a project that finds it
# (with the sanitizers that BUILD was made with).
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${2:-}" ]; then export CXXFLAGS="-fsanitize=$2" LDFLAGS="-fsanitize=$2"; fi
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$here/consumer" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/build/consumer"
"$work/prefix/bin/oubli" --version
