#!/usr/bin/env bash
# Unit tests under AddressSanitizer and UndefinedBehaviorSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
cmake --preset asan >build/cmake-asan.log 2>&1 || { cat build/cmake-asan.log; exit 1; }
cmake --build build/asan -j"$(nproc)" | tail -3
UBSAN_OPTIONS=print_stacktrace=1 ctest --test-dir build/asan --output-on-failure -L unit -j2
