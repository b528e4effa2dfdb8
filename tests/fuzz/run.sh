#!/usr/bin/env bash
# tests/fuzz/run.sh [--seconds S | --runs N] [--jobs J] [--longest BYTES] [TARGET...]: runs the fuzz
# targets (all of them unless named), J at a time (default: one per core), each for S seconds
# (default 6) or N executions, from the files in tests/fuzz/TARGET, with inputs of up to BYTES
# (default: 4096, more where a format needs it). Builds them first (preset fuzz: clang, libFuzzer,
# address and undefined sanitizers). Prints one line per target when it is done; fails at the first
# find, whose input is kept in build/fuzz/finds. A single allocation may take 160 MiB: the parsers'
# limits are 64 MiB + 16 times the input.
set -euo pipefail
cd "$(dirname "$0")/../.."
all=(npy npz safetensors onnx pickle hdf5 tflite folder idx cifar pgm image config receipt report
  envelope bundle)
budget=(-max_total_time=6)
jobs=$(nproc)
export LONGEST=""
targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) budget=("-max_total_time=$2"); shift 2 ;;
    --runs) budget=("-runs=$2"); shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    --longest) LONGEST=$2; shift 2 ;;
    -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
    *) targets+=("$1"); shift ;;
  esac
done
[ "${#targets[@]}" -gt 0 ] || targets=("${all[@]}")
command -v clang++ >/dev/null ||
  { echo "run.sh: clang++ is not installed (tools/install-packages check)"; exit 77; }
cmake --preset fuzz >/dev/null
log=build/fuzz/build.log
cmake --build --preset fuzz -j "$jobs" --target "${targets[@]/%/_fuzz}" >"$log" 2>&1 ||
  { tail -40 "$log"; exit 1; }
# Without entropic scheduling, which takes four fifths of the time of targets with many features.
# Short stack traces of allocations and a small quarantine: twice the executions.
export ASAN_OPTIONS=malloc_context_size=8:quarantine_size_mb=32
mkdir -p build/fuzz/finds
printf '%-12s %12s %9s %8s %10s %9s\n' target executions "per s" edges "corpus" "peak MiB"
# fuzz TARGET: status 255 on a find, which ends xargs.
fuzz() {
  local target=$1 work=build/fuzz corpus dictionary name longest log
  corpus="$work/corpus/$target"
  mkdir -p "$corpus"
  dictionary=()
  for name in "$target" json; do
    [ -f "tests/fuzz/$name.dict" ] || continue
    { [ "$name" = "$target" ] || [ "$target" = config ] || [ "$target" = receipt ] ||
      [ "$target" = report ] || [ "$target" = folder ]; } &&
      dictionary=("-dict=tests/fuzz/$name.dict")
  done
  longest=4096
  [ "$target" = cifar ] && longest=16384  # an image has 3073 bytes
  [ "$target" = receipt ] && longest=8192
  [ "$target" = hdf5 ] && longest=16384
  longest=${LONGEST:-$longest}
  log="$work/$target.log"
  if ! "$work/${target}_fuzz" "$BUDGET" "${dictionary[@]}" -seed=1 -entropic=0 -max_len="$longest" \
      -timeout=10 -malloc_limit_mb=160 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="$work/finds/$target-" "$corpus" "tests/fuzz/$target" >"$log" 2>&1; then
    tail -60 "$log"
    echo "$target: a find; its input is in $work/finds"
    exit 255
  fi
  awk -v target="$target" '
    /stat::number_of_executed_units/ {runs = $2}
    /stat::average_exec_per_sec/ {rate = $2}
    /stat::peak_rss_mb/ {peak = $2}
    / cov: / {
      for (i = 1; i < NF; ++i) {
        if ($i == "cov:") edges = $(i + 1)
        if ($i == "corp:") corpus = $(i + 1)
      }
    }
    END {printf "%-12s %12s %9s %8s %10s %9s\n", target, runs, rate, edges, corpus, peak}' "$log"
}
export -f fuzz
export BUDGET="${budget[*]}"
printf '%s\n' "${targets[@]}" |
  xargs -P "$jobs" -I TARGET bash -c 'set -euo pipefail; fuzz TARGET'
