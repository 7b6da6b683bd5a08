#!/usr/bin/env python3
"""GPT-2 training steps in PyTorch, for speed.py and gpu.sh: the same weights, data and optimizer as train_gpt.

    torch_gpt2.py --load INIT.safetensors --data FILE --layers N --dim N --heads N --seq N --batch N --vocab N
                  --steps N --threads N --mode none|compile|every:1|sac|budget:F [--peak]
                  [--device cpu|cuda] [--dtype f32|bf16] [--json FILE]

Prints one JSON object: the median and the fastest step (the first two left out), losses, and with --peak (cuda: always)
the bytes at the peak of a step. bf16: parameters, activations and gradients; masters and moments are f32. --json writes
the object in train_gpt's fields. Needs torch 2.4 or newer.
"""
import argparse
import json
import os
import statistics
import struct
import time


def options():
    parser = argparse.ArgumentParser()
    for name in ("layers", "dim", "heads", "seq", "batch", "vocab", "steps", "threads"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--load", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--mode", default="none")
    parser.add_argument("--peak", action="store_true")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--json")
    return parser.parse_args()


OPTIONS = options()
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # read when torch is loaded
    os.environ[variable] = str(OPTIONS.threads)
os.environ["KINETO_LOG_LEVEL"] = "99"

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils import checkpoint as ckpt  # noqa: E402

PREFIX = "transformer."


def load(path):
    """{name: parameter} from a safetensors file of float32 tensors."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        body = file.read()
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", name
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(bytearray(body[begin:end]), dtype=torch.float32)
        out[name] = flat.reshape(entry["shape"]).clone().requires_grad_()
    return out


def attention(qkv, heads):
    batch, seq, _ = qkv.shape
    q, k, v = (t.reshape(batch, seq, heads, -1).transpose(1, 2) for t in qkv.chunk(3, dim=-1))
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return o.transpose(1, 2).reshape(batch, seq, -1)


def linear(x, w, b):
    return torch.addmm(b, x.flatten(0, 1), w).view(*x.shape[:-1], -1)


def block(x, heads, n1w, n1b, aw, ab, pw, pb, n2w, n2b, fw, fb, ow, ob):
    width = n1w.shape
    x = x + linear(attention(linear(F.layer_norm(x, width, n1w, n1b), aw, ab), heads), pw, pb)
    inner = F.gelu(linear(F.layer_norm(x, width, n2w, n2b), fw, fb), approximate="tanh")
    return x + linear(inner, ow, ob)


BLOCK = ("ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight",
         "attn.c_proj.bias", "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias",
         "mlp.c_proj.weight", "mlp.c_proj.bias")


def sac_context():
    """torchtitan's policy: keep fused attention and every second matrix product."""
    aten, count = torch.ops.aten, {False: 0, True: 0}
    products = (aten.mm.default, aten.addmm.default)
    kept = (aten._scaled_dot_product_flash_attention_for_cpu.default, aten._scaled_dot_product_flash_attention.default,
            aten._scaled_dot_product_cudnn_attention.default, aten._scaled_dot_product_efficient_attention.default)

    def policy(context, op, *_, **__):
        keep = op in kept
        if op in products:
            count[context.is_recompute] += 1
            keep = count[context.is_recompute] % 2 == 1
        return ckpt.CheckpointPolicy.MUST_SAVE if keep else ckpt.CheckpointPolicy.PREFER_RECOMPUTE

    return ckpt.create_selective_checkpoint_contexts(policy)


def make_loss(o, p):
    """tokens, targets -> mean loss, with the activations kept that the mode keeps."""
    more = {"every:1": {}, "sac": {"context_fn": sac_context}}.get(o.mode)

    def loss(tokens, targets):
        x = F.embedding(tokens, p[PREFIX + "wte.weight"]) + p[PREFIX + "wpe.weight"][:tokens.shape[1]]
        for i in range(o.layers):
            weights = [p[f"{PREFIX}h.{i}.{name}"] for name in BLOCK]
            if more is None:
                x = block(x, o.heads, *weights)
            else:
                x = ckpt.checkpoint(block, x, o.heads, *weights, use_reentrant=False,
                                    preserve_rng_state=False, **more)
        x = F.layer_norm(x, x.shape[-1:], p[PREFIX + "ln_f.weight"], p[PREFIX + "ln_f.bias"])
        logits = F.linear(x, p[PREFIX + "wte.weight"])
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    if o.mode.startswith("budget:"):
        import torch._functorch.config as config
        config.activation_memory_budget = float(o.mode.split(":")[1])
    elif o.mode not in ("none", "compile", "every:1", "sac"):
        raise SystemExit(f"no mode {o.mode}")
    compiled = o.mode == "compile" or o.mode.startswith("budget:")
    return torch.compile(loss, dynamic=False) if compiled else loss


def windows(o, data, step):
    starts = [((step * o.batch + row) * o.seq) % (len(data) - o.seq - 1) for row in range(o.batch)]
    both = torch.stack([data[s:s + o.seq + 1] for s in starts])
    return both[:, :-1].contiguous(), both[:, 1:].contiguous()


def allocated_peak(step):
    """Bytes that the CPU allocator handed out at the peak of step(), above those at its start."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as prof:
        step()
    live = peak = 0
    for event in sorted(prof.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


class Parameters:
    """What the model computes with, and what the optimizer updates: in f32 the same tensors, else masters in f32."""

    def __init__(self, o):
        masters = load(o.load)
        if o.device != "cpu":
            masters = {name: t.detach().to(o.device).requires_grad_() for name, t in masters.items()}
        self.masters = list(masters.values())
        self.used = masters
        if o.dtype == "bf16":
            self.used = {name: t.detach().bfloat16().requires_grad_() for name, t in masters.items()}
        self.tensors = list(self.used.values())
        self.optimizer = torch.optim.AdamW(
            [{"params": [t for t in self.masters if t.dim() >= 2], "weight_decay": 0.1},
             {"params": [t for t in self.masters if t.dim() < 2], "weight_decay": 0.0}], lr=3e-4, eps=1e-8, fused=True)

    def clear(self):
        for t in self.tensors:
            t.grad = None

    def update(self):
        if self.tensors[0] is not self.masters[0]:
            for master, t in zip(self.masters, self.tensors):
                master.grad = t.grad.float()
        self.optimizer.step()
        if self.tensors[0] is self.masters[0]:
            return
        with torch.no_grad():
            torch._foreach_copy_(self.tensors, self.masters)
        for master in self.masters:
            master.grad = None

    def steady_bytes(self):
        """Parameters, masters and moments."""
        own = 0 if self.tensors[0] is self.masters[0] else sum(t.numel() * t.element_size() for t in self.tensors)
        return own + 3 * sum(t.numel() * t.element_size() for t in self.masters)


def model_flops(o, p):
    """Of a step, as train_gpt counts: three times the products forward, causal scores by half."""
    products = sum(t.numel() for name, t in p.used.items() if t.dim() == 2 and "wpe" not in name)
    return 3 * o.batch * o.seq * (2 * products + 2 * o.layers * o.seq * o.dim)


def write_json(o, p, result, peak):
    median = result["step_ms_median"]
    with open(o.json, "w", encoding="utf-8") as file:
        json.dump({"program": "torch_gpt2", "version": torch.__version__, "losses": result["losses"],
                   "model": {"tokens_per_step": o.batch * o.seq, "model_flops": model_flops(o, p)},
                   "memory": {"peak_bytes": peak}, "plan": {"strategy": o.mode},
                   "time": {"step_ms_median": median, "step_ms_min": result["step_ms_min"],
                            "tokens_per_s": 1e3 * o.batch * o.seq / median}}, file)


def main(o):
    torch.set_num_threads(o.threads)
    with open(o.data, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long().to(o.device)
    parameters = Parameters(o)
    loss_of = make_loss(o, parameters.used)
    losses, ms = [], []

    def step(number):
        parameters.clear()
        loss = loss_of(*windows(o, data, number))
        loss.backward()
        parameters.update()
        value = loss.item()
        if o.device == "cuda":
            torch.cuda.synchronize()
        return value

    for number in range(o.steps):
        begin = time.perf_counter()
        losses.append(step(number))
        ms.append(1e3 * (time.perf_counter() - begin))
    timed = ms[2:] or ms
    result = {"program": "torch_gpt2", "version": torch.__version__, "mode": o.mode, "losses": losses,
              "step_ms_median": statistics.median(timed), "step_ms_min": min(timed)}
    peak = torch.cuda.max_memory_allocated() if o.device == "cuda" else None
    if o.peak and o.device == "cpu":
        parameters.clear()
        peak = parameters.steady_bytes() + allocated_peak(lambda: step(o.steps))
    if peak is not None:
        result["peak_bytes"] = peak
    if o.json:
        write_json(o, parameters, result, peak)
    print(json.dumps(result))


if __name__ == "__main__":
    main(OPTIONS)
