#!/usr/bin/env bash
# Unit tests under AddressSanitizer and UndefinedBehaviorSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
cmake --preset asan -DOCTAVO_TESTS=ON -DOCTAVO_FAULT_HOOKS=ON >build/cmake-asan.log 2>&1 || { cat build/cmake-asan.log; exit 1; }
cmake --build build/asan -j"$(nproc)" --target unit_tests | tail -3
UBSAN_OPTIONS=print_stacktrace=1 ctest --test-dir build/asan --output-on-failure -L unit -j2
