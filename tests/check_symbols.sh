#!/bin/bash
# Every symbol that the shared library exports begins with rp_ and is declared in a public header.
# Usage: check_symbols.sh LIBRARY [ROOT]
set -eu
library=$(realpath "$1")
cd "${2:-$(dirname "$0")/..}"
problems=0 symbols=0
for symbol in $(nm -D --defined-only --format=posix "$library" | awk '{ print $1 }'); do
  case $symbol in
  __asan_* | __odr_asan* | __tsan_* | _init | _fini) continue ;; # a sanitizer's or the linker's
  esac
  symbols=$((symbols + 1))
  if [[ ${symbol%%@*} != rp_* ]]; then
    echo "$symbol does not begin with rp_"
    problems=$((problems + 1))
  elif ! grep -rqw "${symbol%%@*}" include/reprise; then
    echo "$symbol is exported but in no public header"
    problems=$((problems + 1))
  fi
done
echo "symbols: $symbols exported, $problems problems"
[ $symbols -gt 0 ] && [ $problems -eq 0 ]
