#!/usr/bin/env python3
"""Makes the golden files beside it: GPT-2-shaped models trained by PyTorch in float64.

    python3 tests/golden/make_golden.py        # needs torch (2.15.0 made the committed ones) and numpy

Each file is a safetensors file with
    losses            F64 [20]   the loss of each step, before its update
    <parameter name>  F32 [...]  its gradient in step 0 (computed in float64, rounded once), names as in GPT2LMHeadModel

Neither weights nor tokens are stored: both sides make them from one formula (`unit`, `tokens`), whose values are exact
in float32. Model, loss and AdamW are the ones that examples/train_gpt documents; dropout is 0. The weights are larger
than a usual initialisation, so that softmax and gelu are far from linear. tests/autograd/test_golden.c reads the files.
"""
import json
import math
import os
import struct

import numpy as np
import torch
import torch.nn.functional as F

STEPS, LR = 20, 1e-3
MODELS = {
    "gpt2_tied": dict(layers=2, dim=32, heads=4, seq=16, batch=2, accum=1, vocab=64, tied=True),
    "gpt2_untied": dict(layers=1, dim=24, heads=3, seq=9, batch=1, accum=2, vocab=41, tied=False),
}


def mix(x):
    """32-bit integers, well mixed, elementwise (the finaliser of MurmurHash3)."""
    x = x.astype(np.uint64)
    for multiplier, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13)):
        x = ((x ^ (x >> np.uint64(shift))) * np.uint64(multiplier)) & np.uint64(0xFFFFFFFF)
    return x ^ (x >> np.uint64(16))


def unit(parameter, count):
    """Element e of parameter p, in [-1, 1): a multiple of 2^-15, so exact in float32."""
    e = np.arange(count, dtype=np.uint64)
    return (mix(e + np.uint64(parameter * 1000003 + 1)) >> np.uint64(16)).astype(np.float64) / 32768.0 - 1.0


def tokens(count, vocab):
    return (mix(np.arange(count, dtype=np.uint64) + np.uint64(77777777)) % np.uint64(vocab)).astype(np.int64)


def parameters(layers, dim, seq, vocab, tied, **_):
    """(name, shape) in the order in which they are counted."""
    yield "transformer.wte.weight", (vocab, dim)
    yield "transformer.wpe.weight", (seq, dim)
    for i in range(layers):
        for name, shape in (("ln_1.weight", (dim,)), ("ln_1.bias", (dim,)),
                            ("attn.c_attn.weight", (dim, 3 * dim)), ("attn.c_attn.bias", (3 * dim,)),
                            ("attn.c_proj.weight", (dim, dim)), ("attn.c_proj.bias", (dim,)),
                            ("ln_2.weight", (dim,)), ("ln_2.bias", (dim,)),
                            ("mlp.c_fc.weight", (dim, 4 * dim)), ("mlp.c_fc.bias", (4 * dim,)),
                            ("mlp.c_proj.weight", (4 * dim, dim)), ("mlp.c_proj.bias", (dim,))):
            yield f"transformer.h.{i}.{name}", shape
    yield "transformer.ln_f.weight", (dim,)
    yield "transformer.ln_f.bias", (dim,)
    if not tied:
        yield "lm_head.weight", (vocab, dim)


def initial(name, p, shape):
    """Norm weights 1 + u/4, everything else u/4."""
    value = unit(p, math.prod(shape)) / 4
    if "ln_" in name and name.endswith("weight"):
        value = 1 + value
    return torch.tensor(value.reshape(shape), dtype=torch.float64, requires_grad=True)


def attention(x, heads):
    b, t, width = x.shape
    q, k, v = (y.reshape(b, t, heads, -1).transpose(1, 2) for y in x.split(width // 3, dim=2))
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    masked = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf)
    return (masked.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1)


def loss_sum(w, ids, targets, layers, dim, heads, tied, **_):
    """Summed over rows and positions."""
    def norm(x, name):
        return F.layer_norm(x, (dim,), w[name + ".weight"], w[name + ".bias"], 1e-5)

    def conv(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"]
    for i in range(layers):
        h = f"transformer.h.{i}."
        x = x + conv(attention(conv(norm(x, h + "ln_1"), h + "attn.c_attn"), heads), h + "attn.c_proj")
        x = x + conv(F.gelu(conv(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh"), h + "mlp.c_proj")
    head = w["transformer.wte.weight" if tied else "lm_head.weight"]
    logits = norm(x, "transformer.ln_f") @ head.T
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")


def train(model):
    w = {name: initial(name, p, shape) for p, (name, shape) in enumerate(parameters(**model))}
    groups = [{"params": [v for v in w.values() if v.dim() >= 2], "weight_decay": 0.1},
              {"params": [v for v in w.values() if v.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.999), eps=1e-8)
    batch, seq, accum = model["batch"], model["seq"], model["accum"]
    data = torch.tensor(tokens(STEPS * accum * batch * seq + 1, model["vocab"]))
    losses, gradients = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for micro in range(accum):
            at = (step * accum + micro) * batch * seq
            ids, targets = data[at:at + batch * seq], data[at + 1:at + 1 + batch * seq]
            loss = loss_sum(w, ids.reshape(batch, seq), targets.reshape(batch, seq), **model) / (accum * batch * seq)
            loss.backward()
            total += loss.item()
        losses.append(total)
        if step == 0:
            gradients = {name: v.grad.numpy().astype(np.float32) for name, v in w.items()}
        optimizer.step()
    return {"losses": np.array(losses, dtype=np.float64), **gradients}


def write_safetensors(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, value in tensors.items():
        kind = {"float32": "F32", "float64": "F64"}[str(value.dtype)]
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    for name, model in MODELS.items():
        result = train(model)
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".safetensors")
        write_safetensors(path, result, {"torch": torch.__version__, "lr": repr(LR),
                                         **{k: str(v) for k, v in model.items()}})
        print(name, os.path.getsize(path), "bytes, losses", result["losses"][[0, 1, -1]])


if __name__ == "__main__":
    main()
