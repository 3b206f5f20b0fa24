#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/auc.txt: scikit-learn's roc_auc_score and log_loss, for
tests/unit/data/test_auc.cpp. Scores and labels come from a formula that both
programs evaluate to the same bits (see `made`).

    python3 -m pip install --target /tmp/x scikit-learn
    PYTHONPATH=/tmp/x python3 tests/reference/make_auc_fixtures.py

A line: samples, different scores, share of positives in 1/256, how much labels
follow scores in 1/256, AUC, log loss.
"""
import os

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from made_values import bits


def made(samples, different, share, follow):
    """Logits k / 64 of `different` values around 0, and labels."""
    level = (bits(1, samples) % np.uint64(different)).astype(np.int64)
    logits = (level - different // 2).astype(np.float32) / np.float32(64)
    threshold = np.full(samples, share)
    follows = (bits(2, samples) % np.uint64(256)).astype(np.int64) < follow
    threshold[follows] = np.where(level[follows] * 2 >= different, 230, 25)
    positive = (bits(3, samples) % np.uint64(256)).astype(np.int64) < threshold
    return logits, positive


def main():
    folder = os.path.join(os.path.dirname(__file__), "fixtures")
    with open(os.path.join(folder, "auc.txt"), "w", encoding="ascii") as file:
        for case in [(2, 5, 128, 0), (10, 3, 128, 128), (100, 7, 64, 128),
                     (1000, 1500, 64, 0), (1000, 1, 128, 0),
                     (1000, 513, 250, 100), (5000, 2, 128, 256),
                     (20000, 600, 66, 90), (100003, 1 << 11, 40, 200),
                     (100003, 300, 128, 255)]:
            logits, positive = made(*case)
            p = 1 / (1 + np.exp(-logits.astype(np.float64)))
            figures = (roc_auc_score(positive, logits.astype(np.float64)),
                       log_loss(positive, p))
            print(*case, *(float(x).hex() for x in figures), file=file)


if __name__ == "__main__":
    main()
