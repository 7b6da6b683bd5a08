#!/bin/bash
# Every source is as clang-format 14 writes it, and no line of C has more than 100 columns. Other versions of the tool
# differ in details, so only that one counts. Scripts can be executed. Usage: check_format.sh [ROOT]; exit status 77: no
# clang-format 14.
set -eu
cd "${1:-$(dirname "$0")/..}"
tool=
for name in clang-format-14 clang-format; do
  if command -v $name >/dev/null && $name --version | grep -q 'version 14\.'; then
    tool=$name
    break
  fi
done
if [ -z "$tool" ]; then
  echo "format: skipped, clang-format 14 is not installed"
  exit 77
fi
mapfile -t files < <(find include planner ops autograd examples tests -name '*.[ch]' -o -name '*.cu' | LC_ALL=C sort)
status=0
if ! messages=$($tool --style=file --dry-run -Werror "${files[@]}" 2>&1); then
  status=1
  grep 'error:' <<<"$messages" | head -n 20 # each comes with two lines of source
fi
# The tool leaves comments alone.
awk '{ gsub(/[\x80-\xbf]/, "") } length($0) > 100 { print FILENAME ":" FNR ": " length($0) " columns, 100 are allowed"; bad = 1 }
     END { exit bad }' "${files[@]}" || status=1
while read -r script; do
  echo "$script: is not executable"
  status=1
done < <(find examples tests .ci -name '*.sh' ! -perm -u+x 2>/dev/null | LC_ALL=C sort)
echo "format: ${#files[@]} files, $([ $status = 0 ] && echo no || echo some) problems"
exit $status
