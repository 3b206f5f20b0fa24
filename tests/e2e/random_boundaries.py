#!/usr/bin/env python3
"""Evaluates random runs often and never, which must end alike.

    random_boundaries.py FIRST COUNT SCHEME

$SYNCOPATE is the program; SCHEME one under which a boundary changes nothing in
virtual time. For each seed from FIRST on, draws an input as random_runs.py does,
with links that no message fills, where messages from before and after a boundary
could meet, and steps of random length. (Workers that leave an average at the same
moment may still ask for the last steps in another order: of 300 seeds, that parted
two.) The parameters, moving averages, clocks and steps of a run with evaluations and
checkpoints at every step must be those of one without, to the bit. A finding is
printed as the keys that repeat it.
"""
import os
import pathlib
import subprocess
import sys

import h5py
import numpy as np

import compare_runs
import random_runs

FILLED = ("mbit_s", "group_mbit_s", "uplink_mbit_s", "device_mbit_s",
          "message_us")


class Draw(random_runs.Draw):
    """The keys of one input."""

    def __init__(self, seed, scheme):
        super().__init__(seed, scheme)
        for key in ["eval.every", "checkpoint.every",
                    *(f"network.{name}" for name in FILLED)]:
            self.keys.pop(key, None)
        if self.keys.get("compute.law", "constant") == "constant":
            self.set("compute.law", "gamma")
            self.set("compute.spread", .3)
        self.maybe(0.4, "eval.model", ["ema"])


def reached(run):
    """Its parameters, their moving averages, and each worker's clock and
    steps."""
    values = []
    for path in sorted(compare_runs.newest(run).glob("*.h5")):
        with h5py.File(path) as file:
            values += [compare_runs.flat(file[name])
                       for name in ("parameters", "ema", "virtual_s", "steps")
                       if name in file]
    return np.concatenate(values)


def compare(words):
    """"equal", "refused", "diverged", or what differs."""
    subprocess.run(["rm", "-rf", "runs"], check=True)
    ends = []
    for every in (0, 1):
        run = subprocess.run(
            [os.environ["SYNCOPATE"], "train", "base.ini", *words,
             f"--run.name=every-{every}", f"--eval.every={every}",
             f"--checkpoint.every={every}"],
            text=True, capture_output=True, timeout=300, check=False)
        if run.returncode in (65, 76):
            return "refused" if run.returncode == 65 else "diverged"
        if run.returncode != 0:
            return f"exit code {run.returncode}: {run.stderr}"
        ends.append(reached(pathlib.Path(f"runs/every-{every}")))
    if not np.array_equal(*ends):
        return f"they end up to {np.abs(ends[0] - ends[1]).max():.3g} apart"
    return "equal"


def main(words):
    with open("base.ini", "w", encoding="utf-8") as file:
        file.write(random_runs.BASE)
    return random_runs.compare_many(
        Draw, lambda draw: compare(draw.words()), *words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
