#!/usr/bin/env bash
# Layout is clang-format's; nobody discusses it. --fix rewrites the files.
set -euo pipefail
cd "$(dirname "$0")/.."
format=$(command -v clang-format-14 || command -v clang-format)
mode=(--dry-run --Werror)
[ "${1:-}" = --fix ] && mode=(-i)
git ls-files '*.cc' '*.h' | xargs "$format" "${mode[@]}"
