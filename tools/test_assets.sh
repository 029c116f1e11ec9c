#!/usr/bin/env bash
# What the tests need beyond the build: a Python environment (.venv) from tests/requirements.txt, the
# default model, and the HF-format SmolLM2 made from it. Prints lines to be evaluated by the caller.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${OCTAVO_CACHE:-$HOME/.cache/octavo}
stamp=.venv/requirements.sha256
want=$(sha256sum tests/requirements.txt | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
  echo "Making .venv for the tests ..." >&2
  rm -rf .venv
  python3 -m venv .venv >&2
  .venv/bin/python -m pip install -q --disable-pip-version-check -r tests/requirements.txt >&2
  echo "$want" >"$stamp"
fi
gguf=$(tools/fetch_model.sh)
hf=$cache/smollm2-135m-hf
if [ ! -f "$hf/.complete" ]; then
  echo "Making the HF-format SmolLM2 (270 MB, a few seconds) ..." >&2
  rm -rf "$hf"
  .venv/bin/python tests/tools/make_hf_checkpoint.py --gguf "$gguf" --out "$hf" \
    --expect tests/golden/smollm2/expected.json >&2
  touch "$hf/.complete"
fi
echo "export OCTAVO_TEST_GGUF='$gguf' OCTAVO_TEST_HF='$hf' OCTAVO_PYTHON='$PWD/.venv/bin/python'"
