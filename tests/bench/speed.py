#!/usr/bin/env python3
"""train_gpt beside PyTorch and the BLAS, one table, everything measured in turns in one run.

    pip install torch
    tests/bench/speed.py --build build [--rounds 3] [--steps 6] [--threads 2] [--only 124m|small] [--json FILE]

Two shapes: GPT-2 124M (12 layers, 768, vocabulary 50257, batch 4, sequence 64) and 6 layers of 384 (sequence 256, batch 8,
vocabulary 256). In every round each PyTorch mode runs, then train_gpt with the peak of that mode as its budget, then
sgemm. Times are medians of the rounds' medians; a ratio below 1 is in favour of train_gpt. Quiet machine, please: the
load is printed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = {
    "124m": ({"layers": 12, "dim": 768, "heads": 12, "vocab": 50257, "batch": 4, "seq": 64}, ("none", "compile")),
    "small": ({"layers": 6, "dim": 384, "heads": 6, "vocab": 256, "batch": 8, "seq": 256},
              ("none", "compile", "every:1", "sac", "budget:0.5")),
}


def synthetic(vocab, count=1 << 18):
    """train_gpt's own data: every byte has four equally likely followers."""
    x = t = 0
    x, out, modulus = 1, bytearray(count), min(vocab, 256)
    for i in range(count):
        x = (1664525 * x + 1013904223) & 0xFFFFFFFF
        t = (5 * t + 17 + (x >> 30)) % modulus
        out[i] = t
    return bytes(out)


def last_json(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout[done.stdout.index("{"):])


class Bench:
    def __init__(self, args, shape, folder):
        self.args, self.shape = args, shape
        self.flags = [x for k, v in shape.items() for x in ("--" + k, str(v))] + ["--threads", str(args.threads)]
        self.data, self.init = os.path.join(folder, "data"), os.path.join(folder, "init.safetensors")
        with open(self.data, "wb") as file:
            file.write(synthetic(shape["vocab"]))
        self.train("max", steps=1, more=["--save-init", self.init])

    def train(self, budget, steps=None, more=None):
        program = os.path.join(self.args.build, "examples", "train_gpt")
        more = more if more is not None else ["--load", self.init]
        return last_json([program, *self.flags, "--data", self.data, "--steps", str(steps or self.args.steps),
                          "--budget", str(budget), "--quiet", "--json", "-", *more])

    def torch(self, mode, peak):
        return last_json([sys.executable, os.path.join(HERE, "torch_gpt2.py"), *self.flags, "--data", self.data,
                          "--load", self.init, "--steps", str(self.args.steps), "--mode", mode,
                          *(["--peak"] if peak else [])])

    def sgemm(self):
        os.environ["OMP_NUM_THREADS"] = str(self.args.threads)
        return last_json([os.path.join(self.args.build, "tests", "bench", "bench_sgemm")])["gflops"]

    def run(self, modes):
        rows = {m: {"torch": [], "ours": [], "peak": None} for m in modes}
        gflops = []
        for turn in range(self.args.rounds):
            for mode in modes:
                row = rows[mode]
                theirs = self.torch(mode, row["peak"] is None)
                row["peak"] = row["peak"] or theirs["peak_bytes"]
                row["torch"].append(theirs["step_ms_median"])
                row["result"] = self.train(row["peak"])
                row["ours"].append(row["result"]["time"]["step_ms_median"])
                gap = max(abs(a - b) for a, b in zip(theirs["losses"], row["result"]["losses"]))
                row["loss gap"] = max(gap, row.get("loss gap", 0.0))
                gflops.append(self.sgemm())
            print(f"round {turn + 1} of {self.args.rounds}", file=sys.stderr, flush=True)
        return rows, statistics.median(gflops)


def flops_per_step(shape, parameters):
    """6 N + 6 L C T a token, N all parameters."""
    return (6 * parameters + 6 * shape["layers"] * shape["dim"] * shape["seq"]) * shape["batch"] * shape["seq"]


def report(name, shape, rows, gflops, threads):
    print(f"\n{name}: {', '.join(f'{k} {v}' for k, v in shape.items())}; {threads} threads; sgemm {gflops:.0f} GFLOP/s")
    print(f"{'torch mode':<12} {'torch ms':>9} {'ours ms':>9} {'ratio':>6} {'budget MiB':>11} {'ours MiB':>9} "
          f"{'replayed':>8} {'of sgemm':>8} {'loss gap':>9}")
    out = {"shape": shape, "threads": threads, "sgemm_gflops": gflops, "rows": {}}
    for mode, row in rows.items():
        theirs, ours = statistics.median(row["torch"]), statistics.median(row["ours"])
        memory, plan = row["result"]["memory"], row["result"]["plan"]
        rate = flops_per_step(shape, row["result"]["model"]["params"]) / ours * 1e-6 / gflops
        share = plan["predicted_recompute_ns"] / plan["predicted_step_ns"]
        print(f"{mode:<12} {theirs:>9.1f} {ours:>9.1f} {ours / theirs:>6.3f} {row['peak'] / 2**20:>11.1f} "
              f"{memory['measured_peak_bytes'] / 2**20:>9.1f} {share:>8.1%} {rate:>8.1%} {row['loss gap']:>9.1e}")
        out["rows"][mode] = {"torch_ms": row["torch"], "ours_ms": row["ours"], "budget_bytes": row["peak"],
                             "measured_peak_bytes": memory["measured_peak_bytes"], "rate_of_sgemm": rate}
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", choices=sorted(SHAPES))
    parser.add_argument("--json")
    args = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.2f}, {len(os.sched_getaffinity(0))} cores")
    results = {}
    for name, (shape, modes) in SHAPES.items():
        if args.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                rows, gflops = Bench(args, shape, folder).run(modes)
            results[name] = report(name, shape, rows, gflops, args.threads)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
