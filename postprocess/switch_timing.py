#!/usr/bin/env python3
"""When to switch from bsp to asp: binary search over short runs.

    postprocess/switch_timing.py next   SEARCH.csv [--runs R] [--settings M] [--beta B]
    postprocess/switch_timing.py replay RECORDED.csv [--settings M] [--beta B]
    postprocess/switch_timing.py result RUN       a run's last accuracy

Sync-Switch's off-line policy, for the share f of the work that bsp does:
lo = 0 (all asp), hi = 1 (all bsp), target = mean accuracy of the runs with
f = 1. M times: f = (lo + hi) / 2; if the mean of R runs is at least
target - beta then hi = f, else lo = f. In the end f = hi.

`next` reads rows "fraction,seed,accuracy" (a run that diverged has accuracy 0)
and says what is to be done: "run FRACTION SEED" or "use FRACTION". `replay`
decides from rows that others recorded. A fraction without rows is decided by
the nearest recorded ones on both sides if they agree; if not, the search ends
there: "undecided".
"""
import argparse
import csv
import math
import os
import sys
from collections import defaultdict

from run_reader import BAD_INPUT, INPUT_MISSING, METRICS, RunError, open_run, \
    run_main


def mean(values):
    return sum(values) / len(values)


class Search:
    """The bounds, and one decision after the other."""

    def __init__(self, settings):
        self.lo, self.hi, self.left = 0.0, 1.0, settings

    @property
    def fraction(self):
        """What to decide next; None at the end."""
        return (self.lo + self.hi) / 2 if self.left > 0 else None

    def decide(self, is_good):
        if is_good:
            self.hi = self.fraction
        else:
            self.lo = self.fraction
        self.left -= 1


def read_rows(path):
    """{fraction: {seed: accuracy}}; a missing file is an empty one."""
    rows = defaultdict(dict)
    try:
        with open(path, newline="", encoding="utf-8") as file:
            for line, row in enumerate(csv.DictReader(
                    r for r in file if not r.startswith("#")), 2):
                try:
                    fraction, accuracy = \
                        float(row["fraction"]), float(row["accuracy"])
                except (KeyError, TypeError, ValueError):
                    raise RunError(BAD_INPUT, f"{path}: row {line}: expected "
                                   "fraction,seed,accuracy")
                if not (0 <= fraction <= 1 and math.isfinite(accuracy)):
                    raise RunError(BAD_INPUT, f"{path}: row {line}: expected a "
                                   "fraction of 0 to 1 and a finite accuracy")
                rows[fraction][row["seed"]] = accuracy
    except FileNotFoundError:
        pass
    return rows


def next_action(rows, runs, settings, beta):
    """("run", fraction, seed) or ("use", fraction)."""
    def missing_seed(fraction):
        seeds = [str(seed) for seed in range(1, runs + 1)]
        return next((s for s in seeds if s not in rows.get(fraction, {})),
                    None)

    if missing_seed(1.0) is not None:
        return "run", 1.0, missing_seed(1.0)
    target = mean(rows[1.0].values())
    search = Search(settings)
    while search.fraction is not None:
        fraction = search.fraction
        if missing_seed(fraction) is not None:
            return "run", fraction, missing_seed(fraction)
        search.decide(mean(rows[fraction].values()) >= target - beta)
    return "use", search.hi


def replay(rows, settings, beta):
    """Decisions from recorded rows: a line each, the last one "use F", or
    "undecided F: use G" where the rows do not say more than G."""
    if 1.0 not in rows:
        raise RunError(BAD_INPUT, "no rows of fraction 1: no target accuracy")
    means = {fraction: mean(seeds.values()) for fraction, seeds in rows.items()}
    target = means[1.0]
    lines = [f"target {target:.4f}"]
    search = Search(settings)

    def is_good(fraction):
        return means[fraction] >= target - beta

    while search.fraction is not None:
        fraction = search.fraction
        below = max((f for f in means if f <= fraction), default=None)
        above = min(f for f in means if f >= fraction)
        near = [above] if below is None else sorted({below, above})
        text = ", ".join(f"{f:g}: {means[f]:.4f}" for f in near)
        if below is None or is_good(below) != is_good(above):
            lines.append(f"undecided {fraction:g} ({text}): use {search.hi:g}")
            return lines
        verdict = "within" if is_good(above) else "below"
        lines.append(f"{fraction:g} {verdict} ({text})")
        search.decide(is_good(above))
    lines.append(f"use {search.hi:g}")
    return lines


def last_accuracy(path):
    run = open_run(path)
    metric = run.metric
    if metric is None or not METRICS[metric]:
        raise RunError(BAD_INPUT, f"{path}: no evaluation with a metric that "
                       "is to be large")
    return float(run.last("eval", metric))


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("action", choices=("next", "replay", "result"))
    parser.add_argument("path")
    parser.add_argument("--runs", type=int, default=3, help="R (default 3)")
    parser.add_argument("--settings", type=int, default=4,
                        help="M (default 4)")
    parser.add_argument("--beta", type=float, default=0.01,
                        help="of accuracy (default 0.01)")
    options = parser.parse_args(arguments)
    if options.runs < 1 or options.settings < 1 or options.beta < 0:
        raise RunError(BAD_INPUT, "--runs, --settings: expected at least 1; "
                       "--beta: at least 0")
    if options.action == "result":
        print(repr(last_accuracy(options.path)))
        return 0
    rows = read_rows(options.path)
    if options.action == "next":
        action = next_action(rows, options.runs, options.settings,
                             options.beta)
        print(*(f"{word:.12g}" if isinstance(word, float) else word
                for word in action))
        return 0
    if not os.path.exists(options.path):
        raise RunError(INPUT_MISSING, f"{options.path}: no such file")
    print("\n".join(replay(rows, options.settings, options.beta)))
    return 0


if __name__ == "__main__":
    run_main(main)
