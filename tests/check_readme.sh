#!/bin/bash
# The README's program is examples/minimal.c, and builds and runs as the README says: against the installed library.
# Usage: check_readme.sh BUILD [ROOT]
set -eu
build=$(realpath "$1") claims=0
cd "${2:-$(dirname "$0")/..}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' README.md >"$work/minimal.c"
[ -s "$work/minimal.c" ] || { echo "readme: no \`\`\`c block in README.md"; exit 1; }
lines=$(grep -vcE '^ *($|/\*.*\*/$)' "$work/minimal.c") # neither blank nor a comment
[ "$lines" -le 30 ] || { echo "readme: the program has $lines lines of code, 30 are promised"; exit 1; }
diff -u examples/minimal.c "$work/minimal.c" || { echo "readme: the program differs from examples/minimal.c"; exit 1; }

# Every command of the form `test_PROGRAM FILTER` names tests that exist.
while read -r program filter; do
  claims=$((claims + 1))
  [ -n "$("$build/$program" --list $filter)" ] || { echo "readme: $program has no test whose name contains $filter"; exit 1; }
done < <(grep -oE '`tests/[a-z]+/test_[a-z]+( [A-Za-z0-9_/]+)?`' README.md | tr -d '`')
[ $claims -gt 0 ] || { echo "readme: no promise names a test"; exit 1; }

cmake --install "$build" --prefix "$work/installed" >"$work/log" || { cat "$work/log"; exit 1; }
flags=(-std=c11 -Wall -Wextra -Wpedantic -Werror -I"$work/installed/include")
"${CC:-cc}" "${flags[@]}" "$work/minimal.c" -L"$work/installed/lib" -lreprise -Wl,-rpath,"$work/installed/lib" -o "$work/minimal"
(cd "$work" && ./minimal >output) || { echo "readme: the program ended with status $?"; exit 1; }
[ -s "$work/output" ] || { echo "readme: the program printed nothing"; exit 1; }
echo "readme: $claims promises name tests; $lines lines of C built and ran; last line: $(tail -n 1 "$work/output")"
