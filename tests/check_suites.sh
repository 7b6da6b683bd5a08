#!/bin/bash
# Every file of tests is built and listed: a suite that nobody runs cannot fail. Usage: check_suites.sh [ROOT]
set -eu
cd "${1:-$(dirname "$0")/..}"
problems=0 suites=0
complain() {
  echo "$1"
  problems=$((problems + 1))
}
for file in tests/*/test_*.c; do
  folder=$(dirname "$file") name=$(basename "$file" .c)
  [ -f "$folder/suite_list.h" ] || continue
  suites=$((suites + 1))
  grep -qxE "RP_SUITE_ROW\(${name#test_}\)" "$folder/suite_list.h" || complain "$file has no row in $folder/suite_list.h"
  grep -qE "^ *$name\.c\)?$" "$folder/CMakeLists.txt" || complain "$file is not in $folder/CMakeLists.txt"
done
echo "suites: $suites files, $problems problems"
[ $suites -gt 0 ] && [ $problems -eq 0 ]
