#!/usr/bin/env python3
"""Compares losses of syncopate with those of its PyTorch peer; curves.sh calls
it. Exit 0 if they agree, 1 if not.

    curves.py steps RESULTS.h5 SAME OTHER...   step by step: SAME within the
        tolerance, each OTHER, trained otherwise, beyond it
    curves.py seeds --ours RESULTS.h5... --theirs LOSSES...
"""
import argparse
import itertools
import sys

import h5py
import numpy as np

SIGNIFICANCE = 0.01


def read(path):
    """A loss a step, of a run's results or of the peer's text."""
    if path.endswith(".h5"):
        with h5py.File(path) as file:
            return file["train/loss"][...]
    return np.loadtxt(path, ndmin=1)


def compare_steps(options):
    ours = read(options.ours)

    def difference(path):
        theirs = read(path)
        if len(theirs) != len(ours) or not np.isfinite(ours + theirs).all():
            return float("inf")
        return np.max(np.abs(theirs - ours) / np.abs(ours))

    same = difference(options.same)
    others = {path: difference(path) for path in options.other}
    print(f"{len(ours)} steps from the same values: loss {ours[0]:.4f} to "
          f"{ours[-1]:.4f}, apart by {same:.1e} at most, tolerance "
          f"{options.tolerance:g}")
    for path, value in others.items():
        print(f"    another {path.rpartition('/')[2]} would be apart by "
              f"{value:.1e}")
    if same > options.tolerance:
        print("not the same training: the losses differ")
        return 1
    if min(others.values(), default=np.inf) <= options.tolerance:
        print("this comparison would not notice another training")
        return 1
    return 0


def largest_gap(a, b):
    """Over windows: the means' distance in standard deviations within the
    groups. a, b (seeds, windows)."""
    spread = np.sqrt((a.var(0, ddof=1) + b.var(0, ddof=1)) / 2)
    return np.max(np.abs(a.mean(0) - b.mean(0)) / np.maximum(spread, 1e-12))


def compare_seeds(options):
    curves = np.array([read(path) for path in options.ours + options.theirs])
    if not np.isfinite(curves).all():
        print("a loss is not finite")
        return 1
    windows = np.array([part.mean(1) for part in
                        np.array_split(curves, options.windows, axis=1)]).T
    count, all_of_them = len(options.ours), range(len(curves))
    a, b = windows[:count], windows[count:]
    for window, (mine, other) in enumerate(zip(a.T, b.T), 1):
        print(f"window {window}/{options.windows}: syncopate "
              f"{mine.mean():.4f} +- {mine.std(ddof=1):.4f}, PyTorch "
              f"{other.mean():.4f} +- {other.std(ddof=1):.4f}")
    # If both draw from one distribution, every split of the runs into two
    # groups is as likely as the one there was.
    gaps = [largest_gap(windows[list(chosen)],
                        np.delete(windows, list(chosen), axis=0))
            for chosen in itertools.combinations(all_of_them, count)]
    p = np.mean(np.array(gaps) >= largest_gap(a, b) - 1e-9)
    print(f"{count} and {len(b)} runs: largest gap {largest_gap(a, b):.2f} "
          f"standard deviations, p = {p:.3f} of {len(gaps)} splits")
    if 2 / len(gaps) > SIGNIFICANCE:
        print(f"too few runs to tell at {SIGNIFICANCE:g}: at least 5 each")
        return 1
    if p < SIGNIFICANCE:
        print("not the same training: the curves differ")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    kinds = parser.add_subparsers(required=True)
    steps = kinds.add_parser("steps")
    steps.add_argument("ours")
    steps.add_argument("same")
    steps.add_argument("other", nargs="*")
    steps.add_argument("--tolerance", type=float, default=1e-3)
    steps.set_defaults(run=compare_steps)
    seeds = kinds.add_parser("seeds")
    seeds.add_argument("--ours", nargs="+", required=True)
    seeds.add_argument("--theirs", nargs="+", required=True)
    seeds.add_argument("--windows", type=int, default=5)
    seeds.set_defaults(run=compare_seeds)
    options = parser.parse_args()
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
