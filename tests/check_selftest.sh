#!/bin/bash
# The checks can fail: each gets a tree with one planted fault, must refuse it and name it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
planted=0 missed=0

# A tree that every check accepts.
fresh() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree"/{include/reprise,planner,ops/cpu,autograd,examples,tests/ops}
  cd "$work/tree" || exit 1
  cp "$here/../.clang-format" .
  for folder in include/reprise planner ops autograd examples tests/ops; do
    printf 'int rp_one(int x);\n' >$folder/a.h
    printf '#include "a.h"\n\nint rp_one(int x) {\n    return x;\n}\n' >$folder/a.c
  done
  printf '#include "a.h"\n' >tests/ops/test_a.c
  printf 'RP_SUITE_ROW(a)\n' >tests/ops/suite_list.h
  printf 'add_executable(test_ops\n  test_a.c)\n' >tests/ops/CMakeLists.txt
}

# The real table of bug cases, and tests of the names that it asks for.
fresh_cases() {
  fresh
  cp "$here/cases.md" tests/
  local id files file
  while IFS='|' read -r _ id _ files _; do
    [[ $files == *later* ]] && continue
    id=${id// /}
    for file in ${files//,/ }; do
      mkdir -p "tests/$(dirname "$file")"
      echo "RP_TEST(test_${id/-/_}_goes_right)," >>"tests/$file"
    done
  done < <(grep -E '^\| [A-Z]+-[0-9]+ ' tests/cases.md)
}

# The check refuses the tree, and what it prints contains `word`.
refuses() { # check word
  planted=$((planted + 1))
  local output
  output=$(bash "$here/check_$1.sh" "$work/tree" 2>&1)
  local status=$?
  if [ $status = 77 ]; then
    echo "check_$1: skipped"
  elif [ $status = 0 ] || [[ $output != *"$2"* ]]; then
    echo "check_$1 does not see this: $2"
    sed 's/^/    /' <<<"$output"
    missed=$((missed + 1))
  fi
}

for check in includes sizes format words headers suites cases; do
  if [ $check = cases ]; then fresh_cases; else fresh; fi
  output=$(bash "$here/check_$check.sh" "$work/tree" 2>&1)
  status=$?
  if [ $status != 0 ] && [ $status != 77 ]; then
    echo "check_$check refuses a clean tree:"
    sed 's/^/    /' <<<"$output"
    missed=$((missed + 1))
  fi
done

fresh && echo '#include "../ops/a.h"' >>planner/a.c && refuses includes "planner/a.c: includes ops/a.h"
fresh && echo '#include "../planner/a.h"' >>ops/a.c && refuses includes "ops/a.c: includes planner/a.h"
fresh && echo '#include "../autograd/a.h"' >>ops/cpu/b.c && refuses includes "ops/cpu/b.c: includes autograd/a.h"
fresh && echo '# include "../autograd/a.h"' >>examples/a.c && refuses includes "examples/a.c: includes autograd/a.h"
fresh && echo '#include "nowhere.h"' >>autograd/a.c && refuses includes "nowhere.h"
fresh && echo '#include <reprise/nowhere.h>' >>autograd/a.c && refuses includes "nowhere.h"
fresh && echo '#include <cblas.h>' >>autograd/a.c && refuses includes "cblas.h"
fresh && echo '#include <uthash.h>' | tee -a autograd/a.c >>planner/a.c && refuses includes "one wrapper"
fresh && { echo 'int rp_long(void) {'; yes '' | head -n 99; echo '}'; } >ops/b.c && refuses sizes "rp_long has 101 lines"
fresh && yes '' | head -n 801 >planner/b.c && refuses sizes "planner/b.c: 801 lines"
fresh && echo 'int  x;' >>planner/a.c && refuses format "planner/a.c:6"
fresh && printf '/* %0100d */\n' 0 >>planner/a.c && refuses format "planner/a.c:6: 106 columns"
fresh && echo '#!/bin/sh' >tests/run.sh && refuses format "tests/run.sh: is not executable"
fresh && echo '/* TODO */' >>examples/a.c && refuses words "examples/a.c:6"
for call in 'printf("x")' 'exit (1)' 'abort()' 'assert(x)' 'fputs("x", stderr)' 'malloc(4)' 'free(x)'; do
  fresh && echo "void f(void) { $call; }" >>ops/cpu/b.c && refuses words "ops/cpu/b.c: 1:"
done
fresh && echo '__global__ void f() {}' >>ops/a.cu && refuses words "ops/a.cu: a kernel without __launch_bounds__"
fresh && echo 'size_t f(void);' >>include/reprise/a.h && refuses headers "size_t"
fresh && echo 'int f(int class);' >>include/reprise/a.h && refuses headers "class"
fresh && echo >tests/ops/suite_list.h && refuses suites "tests/ops/test_a.c has no row"
fresh && echo >tests/ops/test_b.c && refuses suites "tests/ops/test_b.c is not in"
fresh_cases && sed -i '/test_BW_04/d' tests/autograd/test_backward.c && refuses cases "BW-04: tests/autograd/test_backward.c has no"
fresh_cases && sed -i '/BW-04/d' tests/cases.md && refuses cases "no row for BW-04, tested in"
fresh_cases && sed -i '/RNG-07/d' tests/cases.md && refuses cases "no row for RNG-07"
fresh_cases && sed -i -E '/^\| RNG-07/s/(\|[^|]*\|[^|]*\|)[^|]*/\1 later: needs CUDA /' tests/cases.md &&
  refuses cases "RNG-07 is left for later, but"
fresh_cases && echo 'RP_TEST(test_GA_01_DT_99_goes_right)' >>tests/ops/test_a.c && refuses cases "no row for DT-99, tested in"
fresh_cases && sed -i -E '/^\| RNG-07/s/(\|[^|]*\|[^|]*\|)[^|]*/\1 later: no time /' tests/cases.md && refuses cases '"later: no time" is none'
fresh_cases && sed -i '/_GR_/d; /_ME_/d' tests/*/*.c &&
  sed -i -E '/^\| (GR|ME)-/s/(\|[^|]*\|[^|]*\|)[^|]*/\1 later: needs CUDA /' tests/cases.md && refuses cases "only 62 ids"

echo "selftest: $planted faults planted, $missed missed"
[ $planted -gt 0 ] && [ $missed -eq 0 ]
