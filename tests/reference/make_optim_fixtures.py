#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/optim.txt: parameters after some steps of PyTorch's Adam,
AdamW and SparseAdam (double precision, CPU), for
tests/unit/optim/test_adam.cpp. Parameters and gradients come from a formula
that both programs evaluate to the same bits (see `uniform`).

    /usr/bin/python3 tests/reference/make_optim_fixtures.py

PyTorch is needed here only; the recorded numbers were made with 1.13.
"""
import os

import numpy as np
import torch

STEPS = 6
BETAS, EPS = (0.8, 0.95), 1e-7
# As in the test: a matrix, a bias, a norm's gamma, a table.
SHAPES = {"weight": (3, 4), "bias": (5,), "norm": (4,), "table": (6, 3)}


def uniform(tensor, count):
    """Element i of tensor number `tensor`: in [-1/2, 1/2), exact in fp32."""
    with np.errstate(over="ignore"):
        x = np.arange(count, dtype=np.uint64) + np.uint64(1000003 * tensor)
        x *= np.uint64(0x9E3779B97F4A7C15)
        x ^= x >> np.uint64(32)
        x *= np.uint64(0xD6E8FEB86659FD93)
        x ^= x >> np.uint64(32)
    return (x >> np.uint64(40)).astype(np.float64) / 2**24 - 0.5


def split(flat):
    """A flat range as tensors, in the order of SHAPES."""
    tensors, begin = {}, 0
    for name, shape in SHAPES.items():
        end = begin + int(np.prod(shape))
        tensors[name] = torch.from_numpy(flat[begin:end].copy()).reshape(shape)
        begin = end
    return tensors


def touched_rows(step):
    return [row for row in range(6) if (row + step) % 3 == 0]


def parameters_after(make_optimizers, is_sparse):
    elems = sum(int(np.prod(shape)) for shape in SHAPES.values())
    x = {n: t.requires_grad_() for n, t in split(uniform(0, elems)).items()}
    optimizers = make_optimizers(x)
    for step in range(STEPS):
        for name, gradient in split(uniform(1 + step, elems)).items():
            if name == "table":
                rows = touched_rows(step)
                mask = torch.zeros(6, 1, dtype=torch.float64)
                mask[rows] = 1
                gradient = gradient * mask
                if is_sparse:
                    gradient = torch.sparse_coo_tensor(
                        [rows], gradient[rows], gradient.shape
                    ).coalesce()
            x[name].grad = gradient
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = 0.01 * (1 + step)
            optimizer.step()
    return torch.cat([t.detach().reshape(-1) for t in x.values()])


def adam(x):
    every = list(x.values())
    return [torch.optim.Adam(every, betas=BETAS, eps=EPS, weight_decay=0.05)]


def adamw(x):
    groups = [
        {"params": [x["weight"], x["table"]], "weight_decay": 0.1},
        {"params": [x["bias"], x["norm"]], "weight_decay": 0.0},
    ]
    return [torch.optim.AdamW(groups, betas=BETAS, eps=EPS)]


def sparse(x):
    others = [x["weight"], x["bias"], x["norm"]]
    return [
        torch.optim.Adam(others, betas=BETAS, eps=EPS),
        torch.optim.SparseAdam([x["table"]], betas=BETAS, eps=EPS),
    ]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "fixtures", "optim.txt"), "w") as out:
        for make in (adam, adamw, sparse):
            values = parameters_after(make, make is sparse)
            out.write(make.__name__)
            out.write("".join(f" {float(value):.12g}" for value in values))
            out.write("\n")


if __name__ == "__main__":
    main()
