#!/usr/bin/env bash
# tests/methods.sh PROGRAM: `oubli reproduce methods` fills its table on one thread or two, killed
# and continued, with the same figures; only times differ.
set -euo pipefail
oubli=$(realpath "$1")
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 $pid 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
export OUBLI_DATA=$work/data
"$source/tools/get-data" fashion-mnist >/dev/null

die() { echo "FAILED: $*"; exit 1; }
common="methods fashion-mnist --epochs 1 --models 4 --classes 2,3"
figures() { # what does not depend on the time it took
  /usr/bin/python3 - "$1" <<'PYTHON'
import json, sys
result = json.load(open(sys.argv[1] + "/methods.json"))
del result["retraining"]["seconds"]
names = [row["name"] for row in result["methods"]]
assert {"naive", "normalization", "explained", "LEACE", "retraining, 3 epochs"} <= set(names), names
for row in result["methods"]:
    del row["seconds"]
    assert row["networks"] == 8 and not row["failed"], row
    assert row["ten_answers"]["value"] is not None, row
print(json.dumps(result, sort_keys=True))
PYTHON
}

echo "two threads, killed in between"
"$oubli" -q reproduce $common --run killed --jobs 2 >/dev/null & pid=$!
for _ in $(seq 2400); do
  [ "$(find killed/methods -name '*.json' 2>/dev/null | wc -l)" -ge 60 ] && break
  sleep 0.05
done
kill -9 $pid; wait $pid 2>/dev/null || true
pid=
[ "$(find killed/methods -name '*.json' | wc -l)" -ge 60 ] || die "nothing unlearned after 120 s"
[ ! -e killed/methods.json ] || die "it was done before it was killed"
"$oubli" -q reproduce $common --run killed --jobs 2 >table.txt
grep -q 'curvature step, guarded' table.txt || die "no table on the screen"
grep -q '<svg' killed/methods.html || die "no picture"
figures killed >killed.txt

echo "one thread"
"$oubli" -q reproduce $common --run one --jobs 1 >/dev/null
figures one >one.txt
cmp killed.txt one.txt || die "figures differ between one thread and two"

echo "some methods, and those alone"
"$oubli" -q reproduce $common --run one --methods ssd >some.txt
grep -q 'SSD, alpha 3' some.txt && grep -q 'naive' some.txt || die "not what --methods names"
! grep -q 'LEACE' some.txt || die "more than --methods names"

echo "what is wrong is refused before any work"
code=0; "$oubli" reproduce methods faces --run none 2>refused >/dev/null || code=$?
[ $code = 2 ] && [ ! -e none ] || die "faces: exit code $code, or a folder was made"
code=0; "$oubli" reproduce methods --methods sdd --run none 2>refused >/dev/null || code=$?
[ $code = 2 ] && [ ! -e none ] || die "--methods sdd: exit code $code, or a folder was made"
grep -q 'did you mean ssd' refused || die "--methods sdd: $(cat refused)"
code=0; "$oubli" reproduce mnist cifar10 --run none 2>refused >/dev/null || code=$?
[ $code = 2 ] && [ ! -e none ] || die "mnist cifar10: exit code $code, or a folder was made"
echo "passed"
