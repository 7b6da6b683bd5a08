#!/bin/bash
# Functions have at most 100 lines, files at most 800. Usage: check_sizes.sh [ROOT]
set -eu
cd "${1:-$(dirname "$0")/..}"
folders=()
for folder in include planner ops autograd examples tests .ci; do
  [ -d $folder ] && folders+=($folder)
done

problems=0 files=0
while IFS= read -r file; do
  files=$((files + 1))
  lines=$(wc -l <"$file")
  if [ "$lines" -gt 800 ]; then
    echo "$file: $lines lines, 800 are allowed"
    problems=$((problems + 1))
  fi
done < <(find "${folders[@]}" \( -name '*.[ch]' -o -name '*.cu' -o -name '*.sh' -o -name '*.py' -o -name '*.txt' \) |
  LC_ALL=C sort)

# Name, file, first and last line of every function.
table=$(find "${folders[@]}" -name '*.[ch]' -o -name '*.cu' |
  ctags -L - -x --languages=C,C++ --langmap=C:.c.h,C++:.cu --kinds-C=f --kinds-C++=f --_xformat='%N %F %n %e')
functions=$(grep -c . <<<"$table" || true)
long=$(awk '$4 - $3 + 1 > 100 { printf "%s:%d: %s has %d lines, 100 are allowed\n", $2, $3, $1, $4 - $3 + 1 }' <<<"$table")
if [ -n "$long" ]; then
  echo "$long"
  problems=$((problems + $(wc -l <<<"$long")))
fi
median=$(awk 'NF == 4 { print $4 - $3 + 1 }' <<<"$table" | sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }')

echo "sizes: $files files, $functions functions (median $median lines), $problems problems"
[ "$functions" -gt 0 ] && [ $problems -eq 0 ]
