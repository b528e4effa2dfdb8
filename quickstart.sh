#!/usr/bin/env bash
# From a fresh Debian 12 machine to a forgotten class and a report, with what this script installs.
# A second run does no work twice. Results go to quickstart/.
set -euo pipefail
cd "$(dirname "$0")"
out=quickstart
oubli=build/release/oubli
mkdir -p "$out"

# Says what is being done, and afterwards how long that took.
step() {
  local begin=$SECONDS
  echo
  echo "== $1"
  shift
  "$@"
  echo "-- done, $((SECONDS - begin)) s"
}
build() {
  cmake --preset release >/dev/null
  cmake --build --preset release
}
train() {
  [ -e "$out/model.onnx" ] || $oubli train fashion-mnist --network mlp --seed 1 -o "$out/model.onnx"
}
forget() {
  [ -e "$out/without-t-shirt.onnx" ] ||
    $oubli forget "$out/model.onnx" --class t-shirt --data fashion-mnist \
           -o "$out/without-t-shirt.onnx" --report "$out/forget.html"
}
# Models of others are run on it; ours run without.
runtime() {
  $oubli get-runtime || echo "continuing without; 'oubli get-runtime' tries again"
}
attack() {
  $oubli reproduce fashion-mnist --models 30 --run "$out/run" | tee "$out/verdict.txt"
}

step "1 of 7: install the Debian packages that are missing" tools/install-packages build
step "2 of 7: build the program (a few minutes, once)" build
step "3 of 7: fetch ONNX Runtime, which runs models of others (11 MB, once)" runtime
step "4 of 7: fetch Fashion-MNIST (30 MB, once)" $oubli get-data fashion-mnist
step "5 of 7: train a classifier of ten kinds of clothes" train
step "6 of 7: forget one of them: a new model file, its receipt, and what still leaks" forget
step "7 of 7: the attacker's view: 30 networks that saw the class against 30 that never did" attack

echo
echo "Done in $SECONDS s. Look at:"
echo "  $out/without-t-shirt.onnx  the new model (its receipt beside it)"
echo "  $out/forget.html           what the request did, and what the logits still tell"
echo "  $out/run/report.html       the audit over populations of networks (text: $out/verdict.txt)"
