#!/usr/bin/env bash
# train.sh PROGRAM: oubli train and oubli predict on a small made-up data set: results do not depend
# on the number of jobs, wrong input has its exit code and leaves nothing, Ctrl-C ends cleanly.
set -euo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OUBLI_DATA=$work/data
mkdir -p data/mnist

# Ten classes, each with its own bright row; 600 images to train on, 100 to test.
/usr/bin/python3 - <<'PYTHON'
import random, struct
random.seed(1)
for prefix, count in (("train", 600), ("t10k", 100)):
    labels = bytes(i % 10 for i in range(count))
    pixels = bytearray(random.randrange(80) for _ in range(count * 784))
    for i, label in enumerate(labels):
        for x in range(28):
            pixels[i * 784 + (2 * label + 4) * 28 + x] = 200
    for kind, content in (("images-idx3", struct.pack(">IIII", 0x803, count, 28, 28) + pixels),
                          ("labels-idx1", struct.pack(">II", 0x801, count) + labels)):
        with open(f"data/mnist/{prefix}-{kind}-ubyte", "wb") as file:
            file.write(content)
PYTHON

fail() { echo "train.sh: $*" >&2; exit 1; }
expect() { # expect CODE WORDS COMMAND...: exit code, and words in what it says
  local code=$1 words=$2 found=0
  shift 2
  "$@" >out 2>err || found=$?
  [ "$found" = "$code" ] || fail "exit code $found, wanted $code: $*: $(cat err)"
  grep -qF -- "$words" out err || fail "'$words' not in what was said: $*: $(cat out err)"
}

expect 0 'accuracy 100.00 %' "$program" -q train mnist --epochs 4 --learning-rate 0.01 -o model.onnx
expect 2 'exists' "$program" train mnist --epochs 1 -o model.onnx
expect 0 '"test_images": 90' "$program" -q train mnist --without 3 --epochs 1 --json \
  -o retrained.onnx
expect 2 "no class 'three'" "$program" train mnist --without three -o other.onnx
expect 2 "no class '10' among 10" "$program" train mnist --without 10 -o other.onnx
expect 7 'oubli get-data cifar10' "$program" train cifar10 -o other.onnx
expect 2 'no data set' "$program" train emnist -o other.onnx
expect 6 'missing.json' "$program" train mnist --network missing.json -o other.onnx
format='"format": "oubli-network", "version": 1'
echo "{$format, \"layers\": [{\"kind\": \"conv\", \"units\": 4, \"kernel\": 40}]}" >large.json
expect 3 'the window is larger than the image' "$program" train mnist --network large.json \
  -o other.onnx
[ ! -e other.onnx ] || fail "a failed training left a file"

cat >own.json <<END
{$format,
 "layers": [{"kind": "conv", "units": 8, "kernel": 3, "stride": 2}, {"kind": "relu"}]}
END
expect 0 'accuracy' "$program" -q train mnist --network own.json --epochs 2 -o own.onnx

# The same bytes for any number of jobs, and other ones for another model.
expect 0 'model-0003.onnx' "$program" -q train mnist --models 4 --epochs 1 --seed 5 --jobs 1 -o one
expect 0 'model-0003.onnx' "$program" -q train mnist --models 4 --epochs 1 --seed 5 --jobs 3 \
  -o three
diff -r one three || fail "models depend on the number of jobs"
! cmp -s one/model-0000.onnx one/model-0001.onnx || fail "two models are the same"

expect 0 'accuracy 100.00 %' "$program" predict model.onnx --data mnist -o logits.npy \
  --features f.npy --labels y.npy
expect 2 'exists' "$program" predict model.onnx --data mnist -o logits.npy
sum=$(sha256sum <model.onnx)
expect 2 'inputs are never overwritten' "$program" predict model.onnx --data mnist -o model.onnx \
  --force
expect 2 'inputs are never overwritten' "$program" predict model.onnx --data mnist -o l2.npy \
  --features model.onnx --force
expect 2 'two outputs' "$program" predict model.onnx --data mnist -o l2.npy --labels l2.npy
echo >sheet.png
expect 2 'inputs are never overwritten' "$program" invert mnist --model model.onnx \
  --start sheet.png -o . --force
[ "$(sha256sum <model.onnx)" = "$sum" ] || fail "the model was changed"
echo '{}' >description.json
expect 2 'inputs are never overwritten' "$program" train mnist --network description.json \
  -o description.json --force
expect 0 'on 90 images' "$program" predict retrained.onnx --data mnist -o retrained.npy
# A receipt also verifies where the processor has other instructions: rounding is all that differs.
expect 0 '-> filtered.onnx, 9 left' env OUBLI_ONNXRUNTIME=/nonexistent \
  "$program" -q forget model.onnx --class 3 --data mnist -o filtered.onnx
expect 0 'passed    the new head, computed anew' env OUBLI_ONNXRUNTIME=/nonexistent \
  DNNL_MAX_CPU_ISA=SSE41 ONEDNN_MAX_CPU_ISA=SSE41 \
  "$program" verify filtered.onnx.receipt.json --model filtered.onnx --original model.onnx \
  --data mnist
head -c 100 model.onnx >cut.onnx
expect 3 'cut.onnx' "$program" predict cut.onnx --data mnist -o other.npy
/usr/bin/python3 - <<'PYTHON'
import json, numpy, onnx
from onnx import numpy_helper
import hashlib
pixels = open("data/mnist/t10k-images-idx3-ubyte", "rb").read()[16:]
labels = open("data/mnist/t10k-labels-idx1-ubyte", "rb").read()[8:]
samples = hashlib.sha256()
for i, label in enumerate(labels):
    samples.update(b"%d 28 28 1\n" % label + pixels[i * 784 : (i + 1) * 784])
receipt = json.load(open("filtered.onnx.receipt.json"))
assert receipt["calibration"]["data_files"] == [
    {"role": "data", "name": "mnist", "bytes": 100 * 784, "sha256": samples.hexdigest()}
], receipt["calibration"]
model = onnx.load("model.onnx")
onnx.checker.check_model(model, full_check=True)
assert model.ir_version == 8 and model.opset_import[0].version == 17
meta = {p.key: p.value for p in model.metadata_props}
assert json.loads(meta["class_names"]) == [str(i) for i in range(10)]
weights = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
f, z, y = numpy.load("f.npy"), numpy.load("logits.npy"), numpy.load("y.npy")
assert z.shape == (100, 10) and f.shape == (100, 50)
assert abs(f @ weights["head.weight"].T + weights["head.bias"] - z).max() < 1e-4
assert (z.argmax(1) == y).all()
PYTHON

# Interrupted: exit code 130, no model, no temporaries.
"$program" -q train mnist --models 2 --epochs 1000000 -o stopped 2>err &
pid=$!
sleep 2
kill -INT "$pid"
code=0
wait "$pid" || code=$?
[ "$code" = 130 ] || fail "interrupted: exit code $code, wanted 130"
[ -z "$(ls -A stopped)" ] || fail "interrupted: left $(ls -A stopped)"
echo "train.sh: passed"
