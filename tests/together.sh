#!/usr/bin/env bash
# together.sh: folders that release builds compile as a whole (cmake/OubliTogether.cmake) can be.
# Parses them and generates nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --preset release -B "$work" -DOUBLI_PRECOMPILE=OFF -DOUBLI_WITH_MPI=OFF \
      -DCMAKE_CXX_FLAGS_RELEASE="-fsyntax-only -w" >/dev/null
objects=$(ninja -C "$work" -t targets all | grep -oE '^[^:]*unity_[^:]*\.o(:|$)' | tr -d :)
[ -n "$objects" ] || { echo "no folder is compiled as a whole"; exit 1; }
# shellcheck disable=SC2086  # one word each
ninja -C "$work" -k 0 $objects >"$work/log" || { grep 'error:' "$work/log"; exit 1; }
echo "$(echo "$objects" | wc -l) folders can be compiled as a whole"
