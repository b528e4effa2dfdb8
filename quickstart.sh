#!/usr/bin/env bash
# From a fresh Debian 12 machine to a forgotten class and a report, with what this script installs.
# A second run does no work twice. Results go to quickstart/.
set -euo pipefail
cd "$(dirname "$0")"
tools/install-packages build
cmake --preset release >/dev/null
cmake --build --preset release
oubli=build/release/oubli
out=quickstart
mkdir -p "$out"

tools/get-data fashion-mnist

echo
echo "== 1. A classifier of ten kinds of clothes"
[ -e "$out/model.onnx" ] || $oubli train fashion-mnist --network mlp --seed 1 -o "$out/model.onnx"

echo
echo "== 2. Forget one of them: a new model file, its receipt, and what still leaks"
[ -e "$out/without-sandal.onnx" ] ||
  $oubli forget "$out/model.onnx" --class sandal --data fashion-mnist \
         -o "$out/without-sandal.onnx" --report "$out/forget.html"

echo
echo "== 3. The attacker's view: networks that saw the class against networks that never did"
$oubli reproduce fashion-mnist --models 10 --run "$out/run" >"$out/tables.txt"

echo
echo "Look at:"
echo "  $out/without-sandal.onnx   the new model (its receipt beside it)"
echo "  $out/forget.html           what the request did, and what the logits still tell"
echo "  $out/run/report.html       the audit over populations of networks (text: $out/tables.txt)"
