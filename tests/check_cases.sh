#!/bin/bash
# The table of bug cases, tests/cases.md, says what the tests say: every file in a row has a registered test with the
# row's id in its name, every id in a test's name has a row, and no id of the groups below is without one. What is left
# for later gives one of a few reasons. Usage: check_cases.sh [ROOT]
set -eu
cd "${1:-$(dirname "$0")/..}"
groups=(
  "RNG 01 02 03 04 05 07 08"
  "IP 01 02 03 04 05 07 08 09"
  "GR 01 03 04 05 06 07 08 09 10 11 12 14 15 16 17 18 19"
  "FZ 01 02 03 04 05 06"
  "ST 01 02 03 05 06"
  "DT 01 03 04 05 06"
  "ME 01 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19 20 21 22"
  "PL 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18"
  "BW 01 02 03 04 06 07 08 09 10 11"
  "GA 01 02 03")
reasons='needs (CUDA|Llama'\''s ops|offload|the optimal planner)'
least=65

problems=0 tests=0
complain() {
  echo "$1"
  problems=$((problems + 1))
}

# id -> the files with a test of it; a name may carry several ids.
declare -A tested row
while IFS=: read -r file name; do
  tests=$((tests + 1))
  for id in $(grep -oE '[A-Z]{2,3}_[0-9]{2}' <<<"$name"); do
    tested[${id/_/-}]+=" ${file#tests/} "
  done
done < <(grep -oE 'RP_TEST\(test_([A-Z]{2,3}_[0-9]{2}_)+' tests/*/*.c || true)

while IFS='|' read -r _ id _ where _; do
  id=${id// /} where=$(sed -E 's/^ +| +$//g' <<<"$where")
  [ -z "${row[$id]:-}" ] || complain "tests/cases.md: $id has two rows"
  row[$id]=$where
  if [[ $where == later:* ]]; then
    [[ $where =~ ^later:\ ($reasons)$ ]] || complain "tests/cases.md: $id: \"$where\" is none of the reasons for later"
    [ -z "${tested[$id]:-}" ] || complain "tests/cases.md: $id is left for later, but tested in${tested[$id]}"
    continue
  fi
  [ -n "$where" ] || complain "tests/cases.md: $id names no file"
  for file in ${where//,/ }; do
    [[ ${tested[$id]:-} == *" $file "* ]] || complain "tests/cases.md: $id: tests/$file has no test of it"
  done
done < <(grep -E '^\| [A-Z]+-[0-9]+ \|' tests/cases.md)

for id in $(printf '%s\n' "${!tested[@]}" | LC_ALL=C sort); do
  [ -n "${row[$id]:-}" ] || complain "tests/cases.md: no row for $id, tested in${tested[$id]}"
done

ids=0 covered=0
for group in "${groups[@]}"; do
  read -r prefix numbers <<<"$group"
  for number in $numbers; do
    ids=$((ids + 1))
    where=${row[$prefix-$number]:-}
    [ -n "$where" ] || complain "tests/cases.md: no row for $prefix-$number"
    [ -z "${tested[$prefix-$number]:-}" ] || covered=$((covered + 1))
  done
done
[ $covered -ge $least ] || complain "only $covered ids are covered, $least are needed"

echo "cases: $covered of $ids ids covered by a test ($least are needed), $tests tests carry an id, $problems problems"
[ $ids -gt 0 ] && [ $problems -eq 0 ]
