#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/loss.txt: loss and gradient of PyTorch's
CrossEntropyLoss(label_smoothing=...), mean over the batch (double precision,
CPU), for tests/unit/ops/test_loss.cpp. A line: samples, classes, smoothing,
the mean loss, its gradient by the logits (samples, classes). Logits and labels
come from a formula that both programs evaluate to the same bits (made_values).

    /usr/bin/python3 tests/reference/make_loss_fixtures.py

PyTorch is needed here only; the recorded numbers were made with 2.15.
"""
import os

import torch
from made_values import bits, uniform

SIZES = [(5, 2), (4, 10), (2, 300)]
SMOOTHING = [0.0, 0.1, 0.3, 0.9]


def recorded_line(N, K, smoothing):
    logits = torch.from_numpy(16 * uniform(0, N * K)).reshape(N, K)
    labels = torch.from_numpy((bits(1, N) % K).astype("int64"))
    logits.requires_grad_()
    loss = torch.nn.CrossEntropyLoss(label_smoothing=smoothing)(logits, labels)
    loss.backward()
    values = [loss.item()] + logits.grad.reshape(-1).tolist()
    return f"{N} {K} {smoothing} " + " ".join(f"{v:.9g}" for v in values)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "fixtures", "loss.txt"), "w") as out:
        for N, K in SIZES:
            for smoothing in SMOOTHING:
                out.write(recorded_line(N, K, smoothing) + "\n")


if __name__ == "__main__":
    main()
