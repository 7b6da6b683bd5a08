"""What tests/gpu.sh found, as one JSON and one text table.

    gpu_table.py RESULTS OUT       reads every file of RESULTS, writes gpu.json and gpu.txt to OUT; 1 if runs contradict
    gpu_table.py budgets RESULTS LAYERS DIM HEADS SEQ VOCAB
                                   the budgets to run next, by RESULTS/keep.json: one "name bytes" a line
"""
import glob
import json
import os
import re
import sys
import time

# Dense bf16 products a second by the maker's sheet.
PEAKS = {"H200": 989.4e12, "H100": 989.4e12, "A100": 312e12, "B200": 2250e12}
BYTES = {"f32": 4, "bf16": 2, "i32": 4}
POINTS = 10


def load(path):
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


# ---- Budgets ------------------------------------------------------------------------------------


def activations_of_llmc(tokens, shape, recompute):
    """Bytes of activations that llm.c allocates for the same model: its -r 1 makes gelu again, -r 2 norms as well."""
    layers, width, heads, sequence, vocabulary = shape
    padded = (vocabulary + 127) // 128 * 128
    tensors = 1 + layers * (5 if recompute < 2 else 3) + 4 * layers + 4 * (layers if recompute < 1 else 1) + 1
    tensors += 3 * layers + 4 + 1
    statistics = 4 * layers * tokens * 4 + 4 * layers * tokens * heads + 12 * tokens
    return 2 * tokens * width * tensors + statistics + 2 * tokens * max(3 * width, heads * sequence, padded)


def budgets(results, shape):
    run = load(os.path.join(results, "keep.json"))
    if run is None:
        return
    memory = run["memory"]
    least, most = memory["min_feasible_bytes"], memory["keep_all_peak_bytes"]
    rest = memory["parameters_bytes"] + memory["gradients_bytes"] + memory["optimizer_bytes"]
    for recompute in (1, 2):
        budget = rest + activations_of_llmc(run["model"]["tokens_per_step"], shape, recompute)
        print(f"llmc-r{recompute} {min(max(budget, least), most)}")
    for i in range(POINTS):
        print(f"frontier{i} {most - (most - least) * i // (POINTS - 1)}")


# ---- Runs ---------------------------------------------------------------------------------------


def row_of(name, run, peak):
    """One line of the table from a result of train_gpt or torch_gpt2.py."""
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


def share(part, whole):
    return part / whole - 1.0 if part and whole else None


def compare(rows):
    """Adds each row's time over that of everything kept, and how far it was predicted."""
    keep = next((r for r in rows if r["name"] == "keep"), {})
    for r in rows:
        same = r["name"].startswith(("llmc", "frontier", "model"))
        r["added"] = share(r["step_ms"], keep.get("step_ms")) if same else None
        r["predicted_off"] = share(r["predicted_step_ms"], r["step_ms"])


def check_runs(rows):
    """What runs of one model under different plans must have in common."""
    alike = [r for r in rows if r["name"].startswith(("keep", "llmc", "frontier", "model"))]
    checks = []
    if len(alike) > 1:
        hashes = {(r["grad_hash"], r["loss"]) for r in alike}
        checks.append(["bits of plans", "ok" if len(hashes) == 1 else "failed",
                       f"{len(alike)} plans, {len(hashes)} different results"])
    ours = [r for r in rows if r["predicted_peak_bytes"]]
    wrong = [r["name"] for r in ours if r["predicted_peak_bytes"] != r["measured_peak_bytes"]]
    if ours:
        checks.append(["peaks", "failed" if wrong else "ok", "not as predicted: " + ", ".join(wrong) if wrong
                       else f"{len(ours)} as predicted"])
    return checks


# ---- Kernels ------------------------------------------------------------------------------------


def product(dims):
    count = 1
    for dim in dims:
        count *= dim
    return count


def parse_op(text):
    """"gelu tanh: bf16 [2, 3] -> += bf16 [2, 3]" -> name, inputs, outputs as (type, dims) or None where absent; and the
    bytes that pass."""
    name, _, rest = text.partition(":")
    sides = []
    for side in rest.split("->"):
        found = re.findall(r"(absent)|(\+= )?(f32|bf16|i32) \[([\d, ]*)\]", side)
        sides.append([None if absent else (dtype, [int(n) for n in dims.split(",") if n.strip()], bool(added))
                      for absent, added, dtype, dims in found])
    moved = sum(BYTES[t[0]] * product(t[1]) * (2 if t[2] else 1) for side in sides for t in side if t)
    return name.split(" ")[0], name, sides[0], sides[1] if len(sides) > 1 else [], moved


def flops_of(op, words, inputs, outputs):
    """Of products and attention, 2 a multiply-add, causal scores by half; else None."""
    if op == "linear":
        return 2 * product(inputs[0][1]) * outputs[0][1][-1]
    if op == "linear_backward_input":
        return 2 * product(inputs[0][1]) * outputs[0][1][-1]
    if op == "linear_backward_weight" and inputs[0]:
        return 2 * product(inputs[0][1]) * inputs[1][1][-1]
    if op in ("attention", "attention_backward"):
        o = outputs[0] if op == "attention" else inputs[3]
        keys = (inputs[1] or inputs[0])[1][1]
        forward = 4 * product(o[1]) * keys // (2 if " causal" in words else 1)
        return forward if op == "attention" else forward * 5 // 2
    return None


def kernels(costs):
    rows = []
    for cost in (costs or {}).get("costs", []):
        op, words, inputs, outputs, moved = parse_op(cost["op"])
        ns = cost["cost_ns"] or 1
        flops = flops_of(op, words, inputs, outputs)
        gathers = op in ("embedding", "embedding_backward")
        rows.append({"op": cost["op"], "us": ns * 1e-3, "tflops": flops / ns * 1e-3 if flops else None,
                     "gb_per_s": None if flops or gathers else moved / ns})
    return rows


# ---- Text ---------------------------------------------------------------------------------------


def text_of(value, form):
    return "-" if value is None else format(value, form)


def lines_of_runs(rows):
    head = ["run", "ms", "added", "predicted", "off", "MFU", "HFU", "tokens/s", "peak MiB", "plan MiB", "outside", "again",
            "loss"]
    form = "%-18s %9s %7s %9s %7s %6s %6s %10s %9s %9s %8s %6s %9s"
    lines = [form % tuple(head)]
    mib = lambda n: None if n is None else n / 2**20
    for r in rows:
        lines.append(form % (
            r["name"], text_of(r["step_ms"], ".2f"), text_of(r["added"], "+.2%"), text_of(r["predicted_step_ms"], ".2f"),
            text_of(r["predicted_off"], "+.2%"), text_of(r["mfu"], ".3f"), text_of(r["hfu"], ".3f"),
            text_of(r["tokens_per_s"], ".0f"), text_of(mib(r["measured_peak_bytes"]), ".1f"),
            text_of(mib(r["predicted_peak_bytes"]), ".1f"), text_of(mib(r["outside_bytes"]), ".0f"),
            text_of(r["recompute_nodes"], "d"), text_of(r["loss"], ".5f")))
    return lines


def lines_of_kernels(rows, copy):
    """`copy`: bytes a second of a sum that no cache holds, in the same run."""
    lines = ["%10s %9s %9s %8s  %s" % ("us", "TFLOP/s", "GB/s", "of copy", "kernel")]
    for r in rows:
        lines.append("%10.2f %9s %9s %8s  %s" % (
            r["us"], text_of(r["tflops"], ".1f"), text_of(r["gb_per_s"], ".0f"),
            text_of(r["gb_per_s"] * 1e9 / copy if copy and r["gb_per_s"] else None, ".2f"), r["op"]))
    return lines


def main(results, out):
    path = lambda name: os.path.join(results, name)
    gpu = open(path("gpu.csv")).read().strip() if os.path.exists(path("gpu.csv")) else ""
    peak = next((flops for name, flops in PEAKS.items() if name in gpu), None)
    checks = []
    if os.path.exists(path("checks.tsv")):
        checks = [line.rstrip("\n").split("\t") for line in open(path("checks.tsv"))]
    runs = {os.path.basename(p)[:-5]: load(p) for p in sorted(glob.glob(path("*.json")))}
    device = runs.get("device")
    rows = [row_of(name, run, peak) for name, run in runs.items() if run and "losses" in run]
    compare(rows)
    found = check_runs(rows)
    of_kernels = kernels(runs.get("costs"))
    copy = (device or {}).get("memory_bytes_per_s")
    report = {"format": "reprise-gpu", "version": 1, "date": time.strftime("%Y-%m-%d", time.gmtime()), "gpu": gpu,
              "device": device, "checks": [dict(zip(("name", "result", "words"), c)) for c in checks + found],
              "rows": rows, "kernels": of_kernels, "costs": runs.get("costs"),
              "runs": {name: run for name, run in runs.items() if run and "losses" in run}}
    with open(os.path.join(out, "gpu.json"), "w") as file:
        json.dump(report, file, indent=1)
    lines = [f"{report['date']}  {gpu or 'no GPU'}", ""]
    lines += [f"{c[1]:8} {c[0]}  {c[2] if len(c) > 2 else ''}" for c in checks + found]
    lines += [""] + lines_of_runs(rows) + [""] + lines_of_kernels(of_kernels, copy)
    text = "\n".join(lines) + "\n"
    with open(os.path.join(out, "gpu.txt"), "w") as file:
        file.write(text)
    print(text)
    return any(c[1] == "failed" for c in found)


if __name__ == "__main__":
    if sys.argv[1] == "budgets":
        budgets(sys.argv[2], [int(number) for number in sys.argv[3:8]])
    else:
        sys.exit(main(sys.argv[1], sys.argv[2]))
