#!/bin/bash
# Everything that a GPU can show, in one command and without a network: what is there, a build for this GPU alone, the
# test program on the device, compute-sanitizer on small cases, the benchmark. Under nine minutes.
#   tests/gpu.sh [--packages FOLDER] [--out FOLDER] [--peers FOLDER] [--seconds N] [--build FOLDER]
# FOLDER of packages: Debian packages (*.deb) of what the machine lacks, unpacked into the build folder, never over /.
# Peers: a folder with torch_gpt.py, the same model in PyTorch; run where torch is installed.
# Writes gpu.json, gpu.txt and gpu.log to --out. Returns 0 only if a device was there and every test passed.
set -u
cd "$(dirname "$0")/.." || exit 1
packages= out=gpu-out peers=shared/peers limit=525 build=build-gpu
while [ $# -gt 0 ]; do
  case $1 in
  --packages) packages=$2 && shift 2 ;;
  --out) out=$2 && shift 2 ;;
  --peers) peers=$2 && shift 2 ;;
  --seconds) limit=$2 && shift 2 ;;
  --build) build=$2 && shift 2 ;;
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
within 20 find / -xdev \( -name 'cudnn.h' -o -name 'libcudnn.so*' -o -name 'libcublasLt.so*' -o -name 'cublasLt.h' -o -name cblas.h \
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
if ! within 60 cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DREPRISE_CUDA=ON -DREPRISE_EMULATOR=OFF \
  -DCMAKE_CUDA_ARCHITECTURES="${architecture:-90}-real" -DREPRISE_SITE_PACKAGES="$sites"; then
  check build failed "it does not configure"
elif ! within 240 cmake --build "$build" -j "$jobs" --target reprise_cuda test_cuda train_gpt >"$build/build.log" 2>&1; then
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
  local most=$1 name=$2 status
  shift 2
  within "$most" "$train" --backend cuda --quiet --json "$results/$name.json" "$@" 2>"$results/$name.err"
  status=$?
  [ $status = 0 ] || note "$name: status $status $(tail -1 "$results/$name.err")"
  return $status
}

if [ -x "$device" ]; then
  note "on the device"
  (cd "$build/tests/cuda" && device_tests 60 promises elementwise shape sums rows update dropout math products attention)
  if command -v compute-sanitizer >/dev/null && [ "$(left)" -gt 200 ]; then
    note "compute-sanitizer"
    for tool in memcheck racecheck initcheck; do
      for filter in update/ promises/test_a_recorded_step_is_the_step; do
        within 30 compute-sanitizer --tool $tool --error-exitcode 9 "$device" $filter >"$results/sanitizer.log" 2>&1
        status=$?
        grep -E '=========' "$results/sanitizer.log" | head -12
        case $status in
        0) check "$tool $filter" ok "" ;;
        124 | 137) check "$tool $filter" skipped "not done in time" ;;
        *) check "$tool $filter" failed "status $status" ;;
        esac
      done
    done
  else
    check compute-sanitizer skipped "not there, or no time"
  fi
fi

if [ -x "$train" ]; then
  note "benchmark"
  small="--layers 12 --dim 768 --heads 12 --seq 1024 --vocab 50304 --steps 8 --batch 64"
  dtype=bf16
  "$train" --backend null --layers 1 --dim 16 --heads 2 --seq 8 --batch 1 --steps 1 --quiet --dtype bf16 || dtype=f32
  within 40 "$train" --backend cuda --quiet --layers 1 --dim 64 --heads 2 --seq 32 --batch 1 --steps 1 \
    --measure-device "$results/device.json"
  gpt 90 keep $small --dtype $dtype --measure-costs "$results/costs.json"
  gpt 60 none $small --dtype $dtype # without measured costs: the plan of every machine
  if [ -f "$results/keep.json" ]; then
    peak=$(python3 -c 'import json, sys; m = json.load(open(sys.argv[1]))["memory"]; print(m["keep_all_peak_bytes"], m["min_feasible_bytes"])' \
      "$results/keep.json")
    read -r most least <<<"$peak"
    for i in 0 1 2 3 4 5 6 7 8 9; do
      [ "$(left)" -gt 60 ] || break
      gpt 60 "frontier$i" $small --dtype $dtype --costs "$results/costs.json" --budget $((most - (most - least) * i / 9))
    done
  fi
  if [ -f "$peers/torch_gpt.py" ] && python3 -c 'import torch' 2>/dev/null; then
    for mode in none every:1 none+compile; do
      [ "$(left)" -gt 60 ] || break
      within 90 python3 "$peers/torch_gpt.py" --backend cuda --dtype $dtype --layers 12 --dim 768 --heads 12 --seq 1024 --vocab 50304 \
        --steps 8 --batch 64 --mode $mode --json "$results/torch-${mode//[:+]/-}.json" || note "torch $mode: status $?"
    done
  fi
  [ "$(left)" -gt 90 ] && gpt 120 large --layers 48 --dim 1600 --heads 25 --seq 1024 --vocab 50304 --batch 16 --steps 4 --dtype $dtype
fi

note "result"
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,power.limit --format=csv,noheader >"$results/gpu.csv" 2>/dev/null
python3 tests/gpu_table.py "$results" "$out" || exit 1
[ -f "$results/checks.tsv" ] && grep -q '^test_cuda' "$results/checks.tsv" &&
  ! grep -qE $'\tfailed\t|^test_cuda.*\tskipped\t' "$results/checks.tsv"
