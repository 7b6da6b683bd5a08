#!/bin/bash
# What tests/gpu.sh makes of its results, on results that are made up: a GPU is lent rarely, and its script must be right the
# first time. Usage: check_gpu.sh [ROOT]
set -eu
cd "${1:-$(dirname "$0")/..}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
problems=0 looked=0
expect() { # words, file
  looked=$((looked + 1))
  grep -qF -- "$1" "$2" && return
  echo "not in $(basename "$2"): $1"
  problems=$((problems + 1))
}

bash -n tests/gpu.sh
if ! command -v python3 >/dev/null; then
  echo "gpu: no python3 here, so only the syntax of gpu.sh was looked at"
  exit 0
fi

run() { # name, ms, hash, bytes of the measured peak
  cat >"$folder/$1.json" <<JSON
{"losses": [9.5], "grad_hash": "$3", "time": {"step_ms_median": $2, "tokens_per_s": 1000.0},
 "model": {"tokens_per_step": 65536, "model_flops": 49470000000000, "hardware_flops": 49470000000000},
 "memory": {"parameters_bytes": 1000, "gradients_bytes": 200, "optimizer_bytes": 30, "min_feasible_bytes": 1000000000,
            "keep_all_peak_bytes": 28000000000, "predicted_peak_bytes": 1048576, "measured_peak_bytes": $4},
 "plan": {"costs_measured": true, "predicted_step_ns": 98000000, "recompute_nodes": 3}}
JSON
}
shape="12 768 12 1024 50304"
run keep 100 aa 1048576
run llmc-r1 102 aa 1048576
echo '{"memory_bytes_per_s": 4000000000000}' >"$folder/device.json"
cat >"$folder/costs.json" <<'JSON'
{"costs": [{"op": "gelu tanh: bf16 [1000, 1000] -> bf16 [1000, 1000]", "cost_ns": 1000},
           {"op": "layernorm_backward: f32 [1000], absent -> += f32 [1000]", "cost_ns": 12},
           {"op": "linear in-out: bf16 [2, 500, 1000], bf16 [1000, 3000], bf16 [3000] -> bf16 [2, 500, 3000]", "cost_ns": 10000},
           {"op": "attention_backward 2/0 causal packed: bf16 [2, 32, 96], absent, absent, bf16 [2, 32, 32], f32 [2, 2, 32], bf16 [2, 32, 32] -> bf16 [2, 32, 96], absent, absent", "cost_ns": 1}]}
JSON
echo "NVIDIA H200, 1" >"$folder/gpu.csv"
printf 'build\tok\tsm_90\n' >"$folder/checks.tsv"

# shellcheck disable=SC2086
python3 tests/gpu_table.py budgets "$folder" $shape >"$folder/budgets"
expect "llmc-r1 22247376078" "$folder/budgets" # 21216.75 MiB of activations and 1230 bytes
expect "llmc-r2 19831456974" "$folder/budgets"
expect "frontier0 28000000000" "$folder/budgets"
expect "frontier9 1000000000" "$folder/budgets"
[ "$(wc -l <"$folder/budgets")" = 12 ] || problems=$((problems + 1))

python3 tests/gpu_table.py "$folder" "$folder" >/dev/null || problems=$((problems + 1))
expect "bits of plans  2 plans, 1 different" "$folder/gpu.txt"
expect "peaks  2 as predicted" "$folder/gpu.txt"
expect "keep                  100.00       -     98.00  -2.00%  0.500  0.500" "$folder/gpu.txt"
expect "llmc-r1               102.00  +2.00%     98.00  -3.92%" "$folder/gpu.txt"
expect "1.00         -      4000     1.00  gelu tanh" "$folder/gpu.txt"
expect "0.01         -      1000     0.25  layernorm_backward" "$folder/gpu.txt"
expect "10.00     600.0         -        -  linear" "$folder/gpu.txt"
expect '"tflops": 327.68' "$folder/gpu.json"

run llmc-r1 102 bb 1048577
! python3 tests/gpu_table.py "$folder" "$folder" >/dev/null || problems=$((problems + 1))
expect "failed   bits of plans" "$folder/gpu.txt"
expect "failed   peaks  not as predicted: llmc-r1" "$folder/gpu.txt"

echo "gpu: $looked lines, $problems problems"
[ "$problems" = 0 ]
