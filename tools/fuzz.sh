#!/usr/bin/env bash
# Builds every fuzz target with clang and runs each for a number of seconds on its kept corpus.
#   tools/fuzz.sh [seconds]      default 10
# A finding leaves its input in build/fuzz-findings/ and ends with exit 1.
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10}

mkdir -p build/fuzz-findings
cmake --preset fuzz >build/cmake-fuzz.log 2>&1 || { cat build/cmake-fuzz.log; exit 1; }
targets=$(ls tests/fuzz/fuzz_*.cc | xargs -n1 basename | sed 's/\.cc$//')
cmake --build build/fuzz -j"$(nproc)" --target $targets >build/build-fuzz.log 2>&1 ||
  { tail -40 build/build-fuzz.log; exit 1; }

bad=0
for target in $targets; do
  corpus=tests/fuzz/corpus/$target
  grown=build/fuzz-corpus/$target
  mkdir -p "$corpus" "$grown"
  if [ "$target" = fuzz_canary ]; then
    # The canary crashes on purpose: a fuzz lane that cannot find it finds nothing.
    if build/fuzz/$target -max_total_time="$seconds" -artifact_prefix=build/fuzz-canary- "$grown" \
      >build/fuzz-$target.log 2>&1; then
      echo "FAILED $target: the planted bug was not found"; bad=1
    else
      echo "ok     $target (found, as it must be)"
    fi
    continue
  fi
  if build/fuzz/$target -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
    -artifact_prefix=build/fuzz-findings/$target- "$grown" "$corpus" \
    >build/fuzz-$target.log 2>&1; then
    echo "ok     $target: $(grep -oE 'Done [0-9]+ runs' build/fuzz-$target.log)"
  else
    tail -30 build/fuzz-$target.log
    echo "FAILED $target (input in build/fuzz-findings/)"; bad=1
  fi
done
exit $bad
