#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/deepfm.safetensors: the logits, the loss, all gradients and
the running statistics of one training step of a small DeepFM, and the logits of
an evaluation after it, in PyTorch (double precision, CPU), for
tests/unit/models/test_deepfm.cpp. Parameters and records come from formulas
that both programs evaluate to the same bits.

    /usr/bin/python3 tests/reference/make_deepfm_fixtures.py

PyTorch is needed here only; the recorded numbers were made with 1.13.
"""
import os

import torch
import torch.nn as nn

from made_values import uniform
from make_bert_fixtures import write

FIELD_ROWS = [3, 7, 4, 11, 2]
WIDTH, MLP, BATCH = 4, [8, 6], 7


class DeepFm(nn.Module):
    def __init__(self):
        super().__init__()
        rows = sum(FIELD_ROWS)
        self.embedding = nn.Embedding(rows, WIDTH)
        self.linear = nn.Embedding(rows, 1)
        self.bias = nn.Parameter(torch.zeros(1))
        layers, width = [], len(FIELD_ROWS) * WIDTH
        for out in MLP:
            layers += [nn.Linear(width, out), nn.BatchNorm1d(out), nn.ReLU()]
            width = out
        self.mlp = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, rows):
        v = self.embedding(rows)
        pairs = (v.sum(1) ** 2 - (v**2).sum(1)).sum(1) / 2
        first = self.linear(rows).sum((1, 2)) + self.bias
        return first + pairs + self.mlp(v.flatten(1))[:, 0]


def ours(name):
    """The name of a tensor of this script in syncopate."""
    if name == "bias":
        return "linear.bias"
    if not name.startswith("mlp."):
        return name
    _, number, what = name.split(".")
    layer, part = divmod(int(number), 3)
    if layer == len(MLP):
        return "mlp.last." + what
    return f"mlp.{layer}.{('linear', 'bn')[part]}.{what}"


def main():
    net = DeepFm().double()
    for name, p in net.named_parameters():
        number = sum(map(ord, ours(name)))
        shift = 1 if name.endswith("weight") and ".bn." in ours(name) else 0
        values = torch.from_numpy(uniform(number, p.numel()))
        p.data = (shift + values).reshape(p.shape)
    begin = torch.tensor([sum(FIELD_ROWS[:f]) for f in range(len(FIELD_ROWS))])
    n = torch.arange(BATCH)[:, None]
    f = torch.arange(len(FIELD_ROWS))
    rows = begin + (n * n + 3 * n * f + f) % torch.tensor(FIELD_ROWS)
    labels = (torch.arange(BATCH) % 3 == 1).double()

    logits = net(rows)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
    loss.backward()
    recorded = {"loss": loss, "logits": logits[:, None]}
    for name, p in net.named_parameters():
        recorded["gradient." + ours(name)] = p.grad
    for name, buffer in net.named_buffers():
        if buffer.is_floating_point():
            recorded["buffer." + ours(name)] = buffer
    net.eval()
    recorded["evaluated"] = net(rows)[:, None]
    here = os.path.dirname(os.path.abspath(__file__))
    write(os.path.join(here, "fixtures", "deepfm.safetensors"), recorded)


if __name__ == "__main__":
    main()
