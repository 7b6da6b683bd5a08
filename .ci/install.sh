#!/bin/bash
# Installs the Debian packages that are missing, and says nothing when none is.
#   .ci/install.sh build   what building the library, its programs and its tests takes
#   .ci/install.sh         that, and what tests/run.sh needs besides
set -eu

packages=(gcc libc6-dev cmake ninja-build pkg-config libopenblas-openmp-dev uthash-dev libcunit1-dev libjansson-dev)
if [ "${1:-all}" != build ]; then
  packages+=(g++ clang libomp-dev clang-format-14 universal-ctags)
fi

if ! command -v dpkg-query >/dev/null; then
  echo "install.sh: no dpkg here; what Debian calls these is needed: ${packages[*]}" >&2
  exit 0 # what is really missing shows when it is used
fi

missing=()
for package in "${packages[@]}"; do
  # A virtual package (pkg-config is one in Ubuntu) counts when something installed provides it.
  if ! dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' &&
    ! dpkg-query -W -f '${db:Status-Abbrev}${Provides}\n' | grep -E '^ii' | grep -qE "(^ii |, )$package( |,|$)"; then
    missing+=("$package")
  fi
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install.sh: missing: ${missing[*]}" >&2
    echo "install.sh: run this as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
  [ -t 0 ] || as_root=(sudo -n) # nobody is there to type a password
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" </dev/null >/dev/null
}
echo "installing ${missing[*]}"
apt update || echo "install.sh: apt-get update failed; trying with the lists at hand" >&2
if ! apt install -y --no-install-recommends "${missing[@]}"; then
  echo "install.sh: apt-get could not install: ${missing[*]}" >&2
  exit 1
fi
