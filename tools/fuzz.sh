#!/bin/sh
# Runs every libFuzzer target of the preset asan for so many seconds, as many at a time as there are
# cores.  A crash, a leak, an input of more than 25 seconds or 2 GB is a failure; its input stays.
# FUZZ_SEED=N repeats a run as far as the time goes; CI does, so that luck does not fail it.
#   tools/fuzz.sh SECONDS [TARGET...]   as  tools/fuzz.sh 600 npy case
# What is found beyond tests/fuzz/corpus goes to build/fuzz/<target> and is where the next run starts.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: tools/fuzz.sh SECONDS [TARGET...]" >&2; exit 2; }
seconds=$1
shift
[ $# -gt 0 ] || set -- safetensors npy manifest case fingerprint checkpoint

binaries=$PWD/build/asan/tests/fuzz
work=$PWD/build/fuzz
mkdir -p "$work"
cores=$(nproc)
# Files of an input need no disk; threads of a library that never ends are no leak.
[ ! -d /dev/shm ] || export TMPDIR=/dev/shm
export KMP_HOT_TEAMS_MAX_LEVEL=0 OMP_NUM_THREADS=1

one() {
  mkdir -p "$work/$1"
  if ! "$binaries/fuzz_$1" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -seed="${FUZZ_SEED:-0}" \
      -artifact_prefix="$work/$1-" -print_final_stats=1 "$work/$1" "$PWD/tests/fuzz/corpus/$1" \
      >"$work/$1.log" 2>&1; then
    echo "fuzz: $1: FAILED"
    tail -n 40 "$work/$1.log"
    return 1
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$1.log")
  memory=$(sed -n 's/^stat::peak_rss_mb: *//p' "$work/$1.log")
  echo "fuzz: $1: $runs inputs in $seconds s, at most $memory MB: clean"
}

if [ -n "${FUZZ_ONE:-}" ]; then
  one "$FUZZ_ONE"
  exit
fi
printf '%s\n' "$@" | xargs -P "$cores" -I{} env FUZZ_ONE={} "$PWD/tools/fuzz.sh" "$seconds"
