#!/usr/bin/env bash
# clang-tidy on the sources that differ from the base (OCTAVO_TIDY_BASE, default: the last commit but
# one), newest first, until the time given by the caller is used up; at most 40 files.
set -uo pipefail
cd "$(dirname "$0")/.."
tidy=$(command -v clang-tidy-14 || command -v clang-tidy)
base=${OCTAVO_TIDY_BASE:-HEAD~1}
git rev-parse -q --verify "$base" >/dev/null || exit 0
files=$(git diff --name-only --diff-filter=AM "$base" -- 'src/*.cc' | grep -vE '_(avx2|avx2_vnni|avx512|avx512_core|avx512_bf16|test)\.cc$' |
  head -40)
[ -n "$files" ] || { echo "no changed sources"; exit 0; }
[ -f build/release/compile_commands.json ] || cmake --preset release >/dev/null
echo "$files" | xargs -P "$(nproc)" -n 1 "$tidy" -p build/release --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null
