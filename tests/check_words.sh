#!/bin/bash
# Words that must not be there: open ends anywhere; in the library whatever ends the process, writes to a standard
# stream, or takes memory behind the context's back. Usage: check_words.sh [ROOT]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "${1:-$root}"
problems=0 files=0
complain() {
  echo "$1"
  problems=$((problems + $(wc -l <<<"$1")))
}
found=$(grep -rnwE 'TODO|FIXME|XXX|HACK' --exclude=check_words.sh --exclude=check_selftest.sh \
  include planner ops autograd examples tests CMakeLists.txt README.md 2>/dev/null || true)
[ -z "$found" ] || complain "$found"

library=$(find include planner ops autograd -name '*.[ch]' -o -name '*.cu' | LC_ALL=C sort)
for file in $library; do
  files=$((files + 1))
  # Without comments and strings' contents; line numbers stay.
  [[ $file == *.cu ]] && language=c++ || language=c
  code=$(gcc -x $language -fpreprocessed -dD -E "$file" 2>/dev/null | sed -E '/^# /d; s/"([^"\\]|\\.)*"/""/g')
  if [ $language = c++ ] && [ "$(grep -c __global__ <<<"$code")" != "$(grep -c __launch_bounds__ <<<"$code")" ]; then
    complain "$file: a kernel without __launch_bounds__"
  fi
  if found=$(grep -nE '\b(printf|vprintf|puts|putchar|perror|exit|_exit|_Exit|quick_exit|abort|assert|raise|setenv)[[:space:]]*\(|\b(stdout|stderr)\b' <<<"$code"); then
    complain "$(sed "s|^|$file: |" <<<"$found")"
  fi
  # autograd/context.c holds the default allocator; everybody else asks the context.
  if [ "$file" != autograd/context.c ] &&
    found=$(grep -nE '\b(malloc|calloc|realloc|free|strdup|strndup|asprintf|aligned_alloc|posix_memalign|alloca)[[:space:]]*\(' <<<"$code"); then
    complain "$(sed "s|^|$file: |" <<<"$found")"
  fi
done

echo "words: $files files, $problems problems"
[ $files -gt 0 ] && [ $problems -eq 0 ]
