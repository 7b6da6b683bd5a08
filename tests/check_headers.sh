#!/bin/bash
# Each public header compiles alone, as C11 and as C++17, without a warning, and twice in a row.
# Usage: check_headers.sh [ROOT]; the compilers are $CC and $CXX, by default cc, and every C++ compiler at hand.
set -eu
cd "${1:-$(dirname "$0")/..}"
strict="-Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only"
cxx=()
for name in ${CXX:-g++ clang++}; do
  command -v "$name" >/dev/null && cxx+=("$name")
done
problems=0 compiled=0
compile() { # command...
  compiled=$((compiled + 1))
  printf '#include <%s>\n#include <%s>\ntypedef int not_empty;\n' "$header" "$header" | "$@" $strict - || problems=$((problems + 1))
}
for path in include/reprise/*.h; do
  header=${path#include/}
  compile "${CC:-cc}" -std=c11 -x c
  for name in "${cxx[@]}"; do
    compile "$name" -std=c++17 -x c++
  done
done
[ ${#cxx[@]} -gt 0 ] || echo "headers: no C++ compiler, C only"
echo "headers: $compiled compiled, $problems problems"
[ $compiled -gt 0 ] && [ $problems -eq 0 ]
