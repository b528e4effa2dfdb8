#!/usr/bin/env bash
# tests/reproduce.sh PROGRAM single|mpi: `oubli reproduce` loses nothing when it is killed,
# interrupted, grown, when trials fail (single), or when it is spread over MPI ranks and one of them
# dies (mpi): results.json is the same byte for byte.
set -euo pipefail
oubli=$(realpath "$1")
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
pids=()
cleanup() { for p in "${pids[@]}"; do kill -9 "$p" 2>/dev/null || true; done; rm -rf "$work"; }
trap cleanup EXIT
cd "$work"
export OUBLI_DATA=$work/data OMP_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"$source/tools/get-data" fashion-mnist >/dev/null

die() { echo "FAILED: $*"; exit 1; }
common="fashion-mnist --epochs 1 --samples 10,all"
run() { "$oubli" -q reproduce $common --models 4 "$@" >/dev/null; }
# In the background, its own process id in $pid (a function with & would give a subshell's).
start() { "$oubli" -q reproduce $common --models 4 "$@" >/dev/null & pid=$!; pids+=($pid); }
same() { cmp "$1/results.json" reference/results.json || die "$1: results.json differs: $2"; }
done_in() { find "$1/trials" -name '*.json' 2>/dev/null | wc -l; }
wait_for() { # wait_for RUN COUNT: until so many trials are done
  for _ in $(seq 4000); do [ "$(done_in "$1")" -ge "$2" ] && return 0; sleep 0.05; done
  die "$1: no $2 trials after 200 s"
}

rank_1() { # rank_1 RUN: the process that is rank 1, once it works on something
  local found
  for _ in $(seq 200); do
    found=$(cat "$1"/underway/* 2>/dev/null | grep -o 'rank 1, process [0-9]*' |
      grep -o '[0-9]*$' || true)
    [ -n "$found" ] && { echo "$found"; return 0; }
    sleep 0.02
  done
  die "rank 1 never worked on anything" >&2
}

if [ "${2:-single}" = mpi ]; then
  ldd "$oubli" >libraries
  grep -q libmpi libraries || { echo "built without MPI: nothing to test"; exit 77; }
  command -v mpirun >/dev/null || { echo "no mpirun here"; exit 77; }
fi

echo "reference"
"$oubli" reproduce $common --models 4 --run reference --jobs 2 >tables.txt 2>log
grep -q 'normalization' tables.txt || die "no summary on the screen"
grep -q 'accuracy  verdict' tables.txt || die "no verdicts on the screen"
grep -q '<html' reference/report.html || die "no report.html"
"$oubli" status reference >status.txt; grep -q finished status.txt ||
  die "status does not say finished"
before=$(stat -c %Y reference/logits/mlp50-seen-000.npy)
run --run reference
[ "$before" = "$(stat -c %Y reference/logits/mlp50-seen-000.npy)" ] ||
  die "a finished trial ran again"

if [ "${2:-single}" = single ]; then

echo "one thread"
run --run one --jobs 1
same one "one thread instead of two"

echo "kill -9 at several moments, then the same command"
for count in 1 4 7 12; do
  start --run killed --jobs 2
  wait_for killed "$count"
  [ "$count" = 12 ] && sleep 0.5   # among the audits
  kill -9 $pid 2>/dev/null || true
  wait $pid 2>/dev/null || true
done
run --run killed
same killed "after kill -9"

echo "a second process is refused"
start --run busy --jobs 1
wait_for busy 1
code=0; "$oubli" reproduce $common --run busy 2>refused >/dev/null || code=$?
[ $code = 2 ] || die "exit code $code of the second process, wanted 2"
grep -q "process $pid" refused || die "the message does not name the process: $(cat refused)"
"$oubli" status busy >status.txt; grep -q 'works on it' status.txt ||
  die "status does not say who works"
"$oubli" status busy --json >status.txt; grep -q '"training_seconds_left"' status.txt ||
  die "status --json"

echo "an interruption ends it soon with exit code 130"
kill -INT $pid; code=0; wait $pid || code=$?
[ $code = 130 ] || die "exit code $code after SIGINT, wanted 130"
run --run busy
same busy "after SIGINT"

echo "more models later"
"$oubli" -q reproduce $common --models 2 --run grown >/dev/null
run --run grown
same grown "--models 4 after --models 2"

echo "each class in turn"
"$oubli" -q reproduce $common --models 2 --each-class --run each --full >each.txt
[ "$(grep -c '^unlearned  trouser' each.txt)" -ge 8 ] ||
  die "no rows for each class: $(tail -30 each.txt)"

echo "a failed trial is a row"
mkdir -p broken/logits/mlp50-seen-002.npy/full
code=0; run --run broken 2>message || code=$?
[ $code = 8 ] || die "exit code $code with a failed trial, wanted 8"
grep -q 'mlp50-seen-002' message || die "the failed trial is not named"
grep -q '"id": "mlp50-seen-002"' broken/results.json ||
  die "the failed trial is not in results.json"
"$oubli" status broken >status.txt; grep -q 'failed: mlp50-seen-002' status.txt ||
  die "status does not show the failure"
rm -r broken/logits/mlp50-seen-002.npy
run --run broken
same broken "after the failed trial was run again"

else

echo "three MPI ranks"
mpirun --oversubscribe -n 3 "$oubli" -q reproduce $common --models 4 --run ranks >/dev/null
same ranks "three ranks"

echo "one of three ranks killed"
mpirun --oversubscribe -n 3 "$oubli" -q reproduce $common --models 4 \
  --run dead >/dev/null 2>mpi.log & pid=$!; pids+=($pid)
wait_for dead 3
victim=$(rank_1 dead)
kill -9 "$victim"
code=0; wait $pid || code=$?
[ $code != 0 ] || die "mpirun succeeded without rank 1"
grep -q 'rank 1' mpi.log || die "the dead rank is not reported: $(cat mpi.log)"
"$oubli" status dead >/dev/null
mpirun --oversubscribe -n 3 "$oubli" reproduce $common --models 4 --run dead >/dev/null 2>again.log
grep -q 'was under way on rank 1' again.log ||
  die "what rank 1 left is not reported: $(cat again.log)"
same dead "after a rank was killed and the job run again"

echo "one of three ranks out of memory"
mpirun --oversubscribe -n 3 "$oubli" -q reproduce $common --models 4 \
  --run poor >/dev/null 2>poor.log & pid=$!; pids+=($pid)
wait_for poor 3
victim=$(rank_1 poor)
prlimit --data=1 --pid "$victim"  # files can still be mapped
code=0; wait $pid || code=$?
[ $code != 0 ] || die "mpirun succeeded though rank 1 had no memory"
grep -q 'out of memory' poor.log || die "no word of memory: $(cat poor.log)"
! grep -q 'bad_alloc\|internal error' poor.log || die "not in our words: $(cat poor.log)"
mpirun --oversubscribe -n 3 "$oubli" -q reproduce $common --models 4 --run poor >/dev/null
same poor "after a rank ran out of memory and the job was run again"

fi
echo "all the same"
