"""What tests/gpu.sh found, as one JSON and one text table: gpu_table.py RESULTS OUT."""
import glob
import json
import os
import sys
import time

# Dense bf16 products a second by the maker's sheet.
PEAKS = {"H200": 989.4e12, "H100": 989.4e12, "A100": 312e12, "B200": 2250e12}


def load(path):
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def row_of(name, run, peak):
    """One line of the table from a result of train_gpt or torch_gpt.py."""
    ms = run.get("time", {}).get("step_ms_median") or 0.0
    model, memory, plan = run.get("model", {}), run.get("memory", {}), run.get("plan", {})
    rate = lambda flops: flops / (ms * 1e-3) / peak if peak and ms and flops else None
    return {
        "name": name, "step_ms": ms, "tokens_per_s": run.get("time", {}).get("tokens_per_s"),
        "mfu": rate(model.get("model_flops")), "hfu": rate(model.get("hardware_flops")),
        "predicted_step_ms": (plan.get("predicted_step_ns") or 0) * 1e-6 if plan.get("costs_measured") else None,
        "predicted_peak_bytes": memory.get("predicted_peak_bytes"),
        "measured_peak_bytes": memory.get("measured_peak_bytes") or memory.get("peak_bytes"),
        "outside_bytes": memory.get("outside_bytes"), "recompute_nodes": plan.get("recompute_nodes"),
        "grad_hash": run.get("grad_hash"), "loss": (run.get("losses") or [None])[-1],
    }


def text_of(value, form):
    return "-" if value is None else format(value, form)


def main(results, out):
    gpu = open(os.path.join(results, "gpu.csv")).read().strip() if os.path.exists(os.path.join(results, "gpu.csv")) else ""
    peak = next((flops for name, flops in PEAKS.items() if name in gpu), None)
    checks = []
    if os.path.exists(os.path.join(results, "checks.tsv")):
        checks = [line.rstrip("\n").split("\t") for line in open(os.path.join(results, "checks.tsv"))]
    runs = {os.path.basename(p)[:-5]: load(p) for p in sorted(glob.glob(os.path.join(results, "*.json")))}
    rows = [row_of(name, run, peak) for name, run in runs.items() if run and "losses" in run]
    report = {"format": "reprise-gpu", "version": 1, "date": time.strftime("%Y-%m-%d", time.gmtime()), "gpu": gpu,
              "device": runs.get("device"), "checks": [dict(zip(("name", "result", "words"), c)) for c in checks],
              "rows": rows, "runs": {name: run for name, run in runs.items() if run and "losses" in run}}
    with open(os.path.join(out, "gpu.json"), "w") as file:
        json.dump(report, file, indent=1)
    lines = [f"{report['date']}  {gpu or 'no GPU'}", ""]
    lines += [f"{c[1]:8} {c[0]}  {c[2] if len(c) > 2 else ''}" for c in checks]
    head = ["run", "ms", "predicted", "MFU", "HFU", "tokens/s", "peak MiB", "plan MiB", "outside", "again", "loss"]
    lines += ["", "%-18s %9s %9s %6s %6s %10s %9s %9s %8s %6s %9s" % tuple(head)]
    mib = lambda n: None if n is None else n / 2**20
    for r in rows:
        lines.append("%-18s %9s %9s %6s %6s %10s %9s %9s %8s %6s %9s" % (
            r["name"], text_of(r["step_ms"], ".2f"), text_of(r["predicted_step_ms"], ".2f"), text_of(r["mfu"], ".3f"),
            text_of(r["hfu"], ".3f"), text_of(r["tokens_per_s"], ".0f"), text_of(mib(r["measured_peak_bytes"]), ".1f"),
            text_of(mib(r["predicted_peak_bytes"]), ".1f"), text_of(mib(r["outside_bytes"]), ".0f"),
            text_of(r["recompute_nodes"], "d"), text_of(r["loss"], ".5f")))
    text = "\n".join(lines) + "\n"
    with open(os.path.join(out, "gpu.txt"), "w") as file:
        file.write(text)
    print(text)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
