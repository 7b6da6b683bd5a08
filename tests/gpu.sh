#!/bin/bash
# Everything that a GPU can show, in one command and without a network: what is there, a build for this GPU alone, the
# test program on the device, compute-sanitizer on small cases, the benchmark. Under nine minutes.
#   tests/gpu.sh [--packages FOLDER] [--out FOLDER] [--seconds N] [--build FOLDER] [--small]
# FOLDER of packages: Debian packages (*.deb) of what the machine lacks, unpacked into the build folder, never over /.
# --small: tiny models, to try this script itself where REPRISE_CUDA_LIBRARY names the emulated library.
# Writes gpu.json, gpu.txt and gpu.log to --out. Returns 0 only if a device was there and every test passed.
set -u
cd "$(dirname "$0")/.." || exit 1
packages= out=gpu-out limit=525 build=build-gpu small=0
while [ $# -gt 0 ]; do
  case $1 in
  --packages) packages=$2 && shift 2 ;;
  --out) out=$2 && shift 2 ;;
  --seconds) limit=$2 && shift 2 ;;
  --build) build=$2 && shift 2 ;;
  --small) small=1 && shift ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "$0" && exit 2 ;;
  esac
done
mkdir -p "$out" "$build" || exit 1
out=$(realpath "$out") build=$(realpath "$build")
exec > >(tee "$out/gpu.log") 2>&1
results=$build/results && rm -rf "$results" && mkdir -p "$results"

left() { echo $((limit - SECONDS)); }
# At most so many seconds, and never beyond the end.
within() { # seconds command...
  local most=$1
  shift
  [ "$most" -gt "$(left)" ] && most=$(left)
  [ "$most" -gt 2 ] || return 124
  timeout -k 5 "$most" "$@"
}
note() { printf '=== %s (%d s)\n' "$*" $SECONDS; }
# A line of the table of checks: name, ok | failed | skipped, words.
check() {
  printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$results/checks.tsv"
  note "$1: $2 $3"
}

note "what is there"
export PATH=$PATH:/usr/local/cuda/bin
nvidia-smi -q -d CLOCK,POWER 2>/dev/null | grep -E 'Product|Graphics  |SM  |Memory  |Power Limit' | head -20
nvidia-smi
for tool in nvcc cmake ninja gcc g++ clang python3 pkg-config compute-sanitizer; do
  printf '%-18s %s\n' $tool "$(command -v $tool || echo missing)"
done
nvcc --version | tail -2
python3 -c 'import torch; print("torch", torch.__version__, "cuda", torch.version.cuda, torch.cuda.is_available())' || true
ls -d /usr/local/cuda*/ 2>/dev/null
within 10 find / -xdev \( -name 'cudnn.h' -o -name 'libcudnn.so*' -o -name 'libcublasLt.so*' -o -name 'cublasLt.h' -o -name cblas.h \
  -o -name 'libcuda.so.1' -o -name uthash.h -o -name jansson.h \) -not -path '/proc/*' 2>/dev/null | sort | head -60

if [ -n "$packages" ]; then
  note "packages"
  root=$build/root
  for file in "$packages"/*.deb; do
    dpkg -x "$file" "$root" || check packages failed "$(basename "$file")"
  done
  libraries=$root/usr/lib/x86_64-linux-gnu
  sed -i "s#^prefix=/usr#prefix=$root/usr#" "$libraries"/pkgconfig/*.pc
  export CMAKE_PREFIX_PATH=$root/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export LD_LIBRARY_PATH=$libraries:$libraries/openblas-openmp${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

note "build"
sites=$(python3 -c 'import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))' 2>/dev/null || true)
architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
jobs=$(nproc)
# cuDNN loads its parts and NVRTC by their names: from where they lie, behind what the loader finds anyway.
for folder in /usr/local/cuda/lib64 ${sites:+"$sites"/nvidia/*/lib}; do
  [ -d "$folder" ] && LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
if ! within 60 cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DREPRISE_CUDA=ON -DREPRISE_EMULATOR=OFF \
  -DCMAKE_CUDA_ARCHITECTURES="${architecture:-90}-real" -DREPRISE_SITE_PACKAGES="$sites"; then
  check build failed "it does not configure"
elif ! within 240 cmake --build "$build" -j "$jobs" --target reprise_cuda test_cuda test_cudnn_plans train_gpt \
  >"$build/build.log" 2>&1; then
  grep -vE '^\[[0-9]+/[0-9]+\] ' "$build/build.log" | tail -60
  check build failed "it does not build"
else
  check build ok "sm_${architecture:-90}"
fi
train=$build/examples/train_gpt device=$build/tests/cuda/test_cuda

# The test program, one suite at a time, so that one that ends the program does not hide the others.
device_tests() { # limit of seconds, suites
  local most=$1 suite status
  shift
  for suite in "$@"; do
    within "$most" "$device" $suite/ >"$results/$suite.log" 2>&1
    status=$?
    grep -vE '^(device:|$| *CUnit| *http)' "$results/$suite.log" | tail -25
    case $status in
    0) check "test_cuda $suite" ok "$(tail -1 "$results/$suite.log")" ;;
    77) check "test_cuda $suite" skipped "$(tail -1 "$results/$suite.log")" ;;
    124 | 137) check "test_cuda $suite" failed "not done in time" ;;
    *) check "test_cuda $suite" failed "status $status: $(tail -1 "$results/$suite.log")" ;;
    esac
  done
}
# JSON of one run of train_gpt under a name.
gpt() { # seconds name flags...
  local most=$1 name=$2 begin=$SECONDS status
  shift 2
  within "$most" "$train" --backend cuda --quiet --json "$results/$name.json" "$@" 2>"$results/$name.err"
  status=$?
  if [ $status = 0 ]; then note "$name: $((SECONDS - begin)) s"; else check "run $name" failed "status $status $(tail -1 "$results/$name.err")"; fi
  return $status
}

if [ -x "$device" ]; then
  # Which plans the cuDNN of this machine has, by the processor alone: a shape without one is served by our own kernel.
  (within 200 "$build/tests/cuda/test_cudnn_plans" "sm_${architecture:-90}" >"$results/plans.log" 2>&1
    echo $? >"$results/plans.status") &
  plans=$!
  note "on the device"
  (cd "$build/tests/cuda" && device_tests 90 promises attention products elementwise rows sums shape update dropout math)
  wait $plans
  status=$(cat "$results/plans.status")
  [ "$status" = 0 ] || head -40 "$results/plans.log"
  case $status in
  0) check "cuDNN plans" ok "$(tail -1 "$results/plans.log")" ;;
  77 | 124) check "cuDNN plans" skipped "$(tail -1 "$results/plans.log")" ;;
  *) check "cuDNN plans" failed "$(tail -1 "$results/plans.log")" ;;
  esac
fi

if [ -x "$train" ]; then
  note "benchmark"
  shape="12 768 12 1024 50304" batch=64 large="--layers 48 --dim 1600 --heads 25 --seq 1024 --vocab 50304 --batch 16"
  [ $small = 0 ] || shape="2 32 2 32 128" batch=2 large="--layers 3 --dim 32 --heads 2 --seq 32 --vocab 128 --batch 1"
  read -r layers dim heads seq vocab <<<"$shape"
  flags="--layers $layers --dim $dim --heads $heads --seq $seq --vocab $vocab --batch $batch --steps 8"
  python3 -c 'import sys; sys.path.insert(0, "tests/bench"); import speed; open(sys.argv[1], "wb").write(speed.synthetic(int(sys.argv[2])))' \
    "$results/data.bin" "$vocab"
  ours="$flags --dtype bf16 --data $results/data.bin"
  within 40 "$train" --backend cuda --quiet --layers 1 --dim 64 --heads 2 --seq 32 --batch 1 --steps 1 \
    --measure-device "$results/device.json"
  # shellcheck disable=SC2086
  gpt 120 keep $ours --measure-costs "$results/costs.json" --save-init "$results/init.safetensors"
  # shellcheck disable=SC2086
  python3 tests/gpu_table.py budgets "$results" $shape >"$results/budgets"
  while read -r name budget; do
    [ "$(left)" -gt 60 ] || break
    # shellcheck disable=SC2086
    gpt 60 "$name" $ours --costs "$results/costs.json" --budget "$budget" </dev/null
  done <"$results/budgets"
  # shellcheck disable=SC2086
  [ "$(left)" -gt 100 ] && gpt 120 large $large --steps 5 --dtype bf16
  if python3 -c 'import torch' 2>/dev/null; then
    for mode in none every:1 compile; do
      [ "$(left)" -gt 50 ] || break
      # shellcheck disable=SC2086
      within 100 env -u LD_LIBRARY_PATH python3 tests/bench/torch_gpt2.py --device cuda --dtype bf16 $flags --threads "$jobs" --mode $mode \
        --load "$results/init.safetensors" --data "$results/data.bin" --json "$results/torch-${mode//:/-}.json" \
        >"$results/torch.log" 2>&1 || note "torch $mode: status $? $(tail -3 "$results/torch.log")"
    done
  fi
  # Without measured costs: the plan of every machine.
  # shellcheck disable=SC2086
  [ "$(left)" -gt 40 ] && gpt 40 model $ours
fi

if [ -x "$device" ] && command -v compute-sanitizer >/dev/null; then
  note "compute-sanitizer"
  for run in memcheck:update/ racecheck:rows/test_layernorm memcheck:promises/test_a_recorded_step_is_the_step initcheck:update/ \
    racecheck:sums/ memcheck:attention/test_attention_packed; do
    tool=${run%%:*} filter=${run#*:}
    [ "$(left)" -gt 15 ] || break
    within 30 compute-sanitizer --tool "$tool" --error-exitcode 9 "$device" "$filter" >"$results/sanitizer.log" 2>&1
    status=$?
    grep -E '=========' "$results/sanitizer.log" | head -12
    case $status in
    0) check "$tool $filter" ok "" ;;
    124 | 137) check "$tool $filter" skipped "not done in time" ;;
    *) check "$tool $filter" failed "status $status" ;;
    esac
  done
else
  check compute-sanitizer skipped "not there"
fi

note "result"
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,power.limit --format=csv,noheader >"$results/gpu.csv" 2>/dev/null
python3 tests/gpu_table.py "$results" "$out" || exit 1
[ -s "$results/keep.json" ] || exit 1
[ -f "$results/checks.tsv" ] && grep -q '^test_cuda' "$results/checks.tsv" &&
  ! grep -qE $'\tfailed\t|^test_cuda.*\tskipped\t' "$results/checks.tsv"
