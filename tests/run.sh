#!/bin/bash
# Installs what is missing, builds, and runs every test.
#   tests/run.sh          gcc: everything; clang and ASan + UBSan: every test, with a quarter of the samples
#                         (RP_TEST_BRIEF=1); under 15 minutes on two cores
#   tests/run.sh --long   also ThreadSanitizer, the emulated kernels of CUDA under all sanitizers, and what the tests leave
#                         out to save time (RP_TEST_LONG=1)
# With the CUDA Toolkit (nvcc 12.8 or newer on the path or in CUDA_HOME) the first tree has the CUDA backend, too; what needs
# a GPU is skipped where there is none, and said to be.
# Build trees: build-tests/<name>; logs beside them. Ends with "N passed, N failed" and returns non-zero on any failure.
set -u
cd "$(dirname "$0")/.." || exit 1

long=0
for argument in "$@"; do
  case $argument in
  --long) long=1 ;;
  --help | -h)
    sed -n '2,9s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  *)
    echo "tests/run.sh: unknown argument $argument (--help lists them)" >&2
    exit 2
    ;;
  esac
done
[ $long = 1 ] && export RP_TEST_LONG=1
without=long # labels of ctest
[ $long = 1 ] && without=none

bash .ci/install.sh || exit 1

jobs=$(nproc 2>/dev/null || echo 2)
passed=0 failed=0 skipped=0 broken=()

# The first tree has the CUDA backend where it can be built. Without a device its test program is skipped, CI or not, and
# without cuDNN the check of its plans.
nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null || true)
cuda=() emulator=() may_skip=0 cuda_words="not built: there is no nvcc on the path or in ${CUDA_HOME:-/usr/local/cuda}/bin"
if [ -n "$nvcc" ]; then
  cuda=(-DREPRISE_CUDA=ON -DCMAKE_CUDA_COMPILER="$nvcc")
  cuda_words="built for every architecture with $nvcc"
fi

# Sums what ctest reports of one tree: for a CUnit program the tests of its summary, for anything else one. A program
# that died counts as a failure besides what its summary says, one that could not start as well.
count() { # JUnit file
  awk '
    /<testcase / { p = 0; f = 0; seen = 0; absent = 0; match($0, /status="[a-z]*"/); status = substr($0, RSTART + 8, RLENGTH - 9) }
    /<skipped / { absent = !/SKIP_RETURN_CODE/ }
    { sub(/<system-out>/, "") }
    $1 == "tests" && NF == 6 && $2 ~ /^[0-9]+$/ { seen = 1; p += $4; f += $5 }
    /<\/testcase>/ {
      if (status == "run") { P += seen ? p : 1; F += f }
      else if (status == "fail") { P += p; F += f > 0 ? f : 1 }
      else if (absent) F++
      else S++
    }
    END { print P + 0, F + 0, S + 0 }' "$1"
}

# Configures, builds and tests one tree. What fails is told and does not stop the others.
tree() { # name, ctest arguments as one word, then cmake arguments
  local name=$1 select=$2 dir=build-tests/$1 start=$SECONDS
  shift 2
  mkdir -p "$dir"
  echo "=== $name: building"
  if ! cmake -G Ninja -S . -B "$dir" -DREPRISE_WERROR=ON "$@" >"$dir/configure.log" 2>&1; then
    cat "$dir/configure.log"
    broken+=("$name does not configure")
    return
  fi
  if ! cmake --build "$dir" -j "$jobs" >"$dir/build.log" 2>&1; then
    grep -vE '^\[[0-9]+/[0-9]+\] ' "$dir/build.log" | tail -n 100
    broken+=("$name does not build")
    return
  fi
  echo "=== $name: built in $((SECONDS - start)) s, testing"
  rm -f "$dir/results.xml"
  # shellcheck disable=SC2086
  ctest --test-dir "$dir" -j "$jobs" --output-on-failure --no-tests=error --output-junit results.xml \
    --test-output-size-passed 4194304 --test-output-size-failed 4194304 $select || broken+=("$name has tests that fail")
  local p=0 f=0 s=0
  [ ! -f "$dir/results.xml" ] || read -r p f s < <(count "$dir/results.xml")
  [ "$p" -gt 0 ] || broken+=("$name ran no test")
  [ "$s" -le "$may_skip" ] || [ -z "${CI:-}" ] || broken+=("$name skipped a check, which CI must not")
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  summary+=("$(printf '%-10s %6d passed %4d failed %4d skipped %5d s' "$name" "$p" "$f" "$s" $((SECONDS - start)))")
}

# The compiler has no say in a plan: every tree gives the same one for a graph that the first saves.
compare_plans() { # names of trees
  local graph=build-tests/graph.json name hash first=
  build-tests/$1/examples/train_gpt --backend null --layers 6 --batch 16 --steps 1 --save-graph "$graph" --quiet
  for name in "$@"; do
    hash=$(set -o pipefail
      build-tests/$name/examples/plan_graph "$graph" --budget 50% --quiet --json - | grep -o '"plan_hash": *"[0-9a-f]*"') || hash=
    first=${first:-$hash}
    [ -n "$hash" ] && [ "$hash" = "$first" ] && continue
    broken+=("the plans of $1 and $name differ")
    return
  done
  passed=$((passed + 1))
}

# In a function, so that the shell has read all of it before a tree it builds can change this file.
main() {
  # The machine is shared with whoever works on it: threads that wait for each other sleep instead of spinning.
  export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
  export TSAN_OPTIONS=ignore_noninstrumented_modules=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
  summary=()
  [ ${#cuda[@]} = 0 ] || may_skip=2
  tree gcc "-LE $without" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=gcc "${cuda[@]}"
  if [ ${#cuda[@]} -gt 0 ] && grep -q '<testcase name="test_cuda".*status="notrun"' build-tests/gcc/results.xml 2>/dev/null; then
    cuda_words+="; the tests on a device were skipped: no device here"
  fi
  may_skip=0
  export RP_TEST_BRIEF=1
  tree clang "-LE check" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=clang
  # The emulator takes the toolkit's headers alone.
  [ $long = 0 ] || [ ${#cuda[@]} = 0 ] || emulator=(-DREPRISE_EMULATOR=ON)
  # With their checks -O2 compiles longer than -O1, and the tests gain nothing clear; kernels have -O3 all the same. With
  # -O1 gcc sees too little to tell which texts fit.
  tree sanitize "-LE check" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++ \
    -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g -DNDEBUG -Wno-format-truncation" -DREPRISE_SANITIZE=address,undefined "${emulator[@]}"
  if [ $long = 1 ]; then
    tree thread "-LE check" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
      -DREPRISE_SANITIZE=thread "${emulator[@]}"
  fi
  compare_plans gcc clang sanitize

  echo
  printf '%s\n' "${summary[@]}"
  echo "CUDA backend: $cuda_words"
  [ ${#broken[@]} -eq 0 ] || printf 'problem: %s\n' "${broken[@]}"
  echo "took $SECONDS s"
  # What did not build or run at all counts as a failure, too.
  [ ${#broken[@]} -gt 0 ] && [ $failed = 0 ] && failed=${#broken[@]}
  echo "$passed passed, $failed failed"
  [ $failed = 0 ] && [ $passed -gt 0 ]
}

main
exit $?
