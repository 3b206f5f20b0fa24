#!/usr/bin/env python3
"""Compares runs that differ in one key, over seeds.

    postprocess/compare.py runs/bsp-seed* runs/asp-seed*
    postprocess/compare.py RUN... --by optimizer.lr --target accuracy=0.9
Runs on unlike data or evaluation are refused, and so are runs of one value of
the compared key that differ in more than the seed. Further keys that differ
between the values are listed: they may explain the difference just as well.
"""
import argparse
import math
from collections import defaultdict

import numpy as np

from run_reader import BAD_INPUT, METRICS, RunError, open_runs, print_table, \
    run_main

# Two-sided 95% points of Student's t, by degrees of freedom 1..30.
T95 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
       2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
       2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]
# Keys that name a run, or that a comparison over seeds varies.
NEUTRAL = {"run.name", "run.directory", "run.seed", "run.log_every",
           "run.time_limit_s", "checkpoint.every", "checkpoint.keep",
           "checkpoint.resume", "data.prefetch"}
EVALUATION = ("eval.on", "eval.model", "data.validation")


def interval(values):
    """Mean and half-width of its 95% interval; no width for one value."""
    values = np.asarray(values, float)
    if len(values) < 2:
        return values.mean() if len(values) else math.nan, math.nan
    freedom = len(values) - 1
    # Beyond the table: 1.960 and the first term of the expansion in 1/df.
    t = T95[freedom - 1] if freedom <= len(T95) else 1.960 + 2.372 / freedom
    return values.mean(), t * values.std(ddof=1) / math.sqrt(len(values))


def text(values, form=".4f"):
    mean, half = interval(values)
    if math.isnan(mean):
        return "-"
    return f"{mean:{form}}" + ("" if math.isnan(half) else f" ± {half:{form}}")


def refuse_unlike(runs, by):
    """One line and exit 65 where a comparison would be unfair."""
    first = runs[0]
    for run in runs[1:]:
        mine, theirs = first.data_identity(), run.data_identity()
        for key in sorted(mine.keys() | theirs.keys()):
            if mine.get(key) != theirs.get(key) and key != by:
                raise RunError(BAD_INPUT, f"unlike data: {key} is "
                               f"{mine.get(key)} in {first.label}, "
                               f"{theirs.get(key)} in {run.label}")
        for key in EVALUATION:
            if first.input.get(key) != run.input.get(key) and key != by:
                raise RunError(BAD_INPUT, f"unlike evaluation: {key} is "
                               f"{first.input.get(key)} in {first.label}, "
                               f"{run.input.get(key)} in {run.label}")
        if first.metric != run.metric:
            raise RunError(BAD_INPUT, f"unlike evaluation: {first.label} has "
                           f"{first.metric}, {run.label} has {run.metric}")


def grouped(runs, by):
    """{value of `by`: its runs}, which are alike in all but the seed."""
    groups = defaultdict(list)
    for run in runs:
        groups[run.input.get(by, "(unset)")].append(run)
    for first, *others in groups.values():
        with_seed = {first.input.get("run.seed"): first}
        for run in others:
            refuse_pooling(first, run)
            seed = run.input.get("run.seed")
            if seed in with_seed:
                raise RunError(BAD_INPUT, f"repeated seed: run.seed is {seed} "
                               f"in {with_seed[seed].label} and {run.label}")
            with_seed[seed] = run
    return groups


def refuse_pooling(first, run):
    """One line and exit 65 where one interval would cover unlike runs."""
    differing = [key for key in first.input.keys() | run.input.keys()
                 if first.input.get(key) != run.input.get(key)
                 and key not in NEUTRAL]
    if differing:
        # A key of one run only follows from one of both, as sync.scheme.
        key = min(differing, key=lambda key: (
            key not in first.input or key not in run.input, key))
        raise RunError(BAD_INPUT, f"unlike runs: {key} is "
                       f"{first.input.get(key, '(unset)')} in {first.label}, "
                       f"{run.input.get(key, '(unset)')} in {run.label}: "
                       f"--by {key} would compare them")


def differing_keys(runs, by):
    """{key: {value: runs}} of keys that differ beside the one compared."""
    schemes = {run.scheme for run in runs}
    found = {}
    for key in sorted(set().union(*(run.input for run in runs))):
        # A scheme's own section exists only where the scheme is chosen.
        if key in NEUTRAL or key == by or (key.split(".")[0] in schemes
                                           and by == "sync.scheme"):
            continue
        values = defaultdict(list)
        for run in runs:
            values[run.input.get(key, "(unset)")].append(run.label)
        if len(values) > 1:
            found[key] = values
    return found


def parse_target(argument):
    name, _, value = argument.partition("=")
    try:
        if name in METRICS:
            return name, float(value)
    except ValueError:
        pass
    raise RunError(BAD_INPUT, f"--target {argument}: not METRIC=NUMBER with "
                   f"one of {' '.join(METRICS)}")


def reached_at(run, name, target):
    """The first evaluation that meets the target; None if none does."""
    values = run.column("eval", name)
    hits = values >= target if METRICS[name] else values <= target
    return int(np.argmax(hits)) if hits.any() else None


def target_row(label, runs, name, target):
    rows = [(run, reached_at(run, name, target)) for run in runs]
    reached = [(run, row) for run, row in rows if row is not None]

    def mean_of(column, scale=lambda run: 1):
        return text([run.column("eval", column)[row] / scale(run)
                     for run, row in reached
                     if len(run.column("eval", column))], ".1f")

    return [label, f"{len(reached)} of {len(runs)}",
            mean_of("worker_steps", lambda run: run.workers),
            mean_of("time_s"), mean_of("virtual_s")]


def group_row(label, runs, metric):
    def last(column):
        return [run.last("eval", column) for run in runs]

    best = max if METRICS[metric] else min
    return [label, len(runs),
            " ".join(sorted({run.input.get("run.seed", "?") for run in runs})),
            text([run.last("train", "worker_steps") / run.workers
                  for run in runs], ".0f"),
            text(last(metric)),
            text([best(run.column("eval", metric)) for run in runs]),
            text(last("loss")), text([run.last("train", "time_s")
                                      for run in runs], ".1f"),
            text([run.per_worker("bytes_sent").sum() / 1e6
                  for run in runs], ".1f")]


def notes(groups):
    """What makes the comparison weaker, in words."""
    seeds = {label: sorted(run.input.get("run.seed", "?") for run in runs)
             for label, runs in groups.items()}
    if len({tuple(values) for values in seeds.values()}) > 1:
        yield "seeds differ between the groups"
    if min(len(runs) for runs in groups.values()) < 2:
        yield "a group of one run has no interval"
    budgets = {run.last("train", "worker_steps")
               for runs in groups.values() for run in runs}
    if len(budgets) > 1:
        yield ("budgets differ: worker_steps "
               + ", ".join(f"{value:.0f}" for value in sorted(budgets)))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--by", default="sync.scheme", metavar="KEY",
                        help="the key compared (sync.scheme)")
    parser.add_argument("--target", metavar="METRIC=VALUE",
                        help="also the time to reach it")
    options = parser.parse_args(arguments)
    target = parse_target(options.target) if options.target else None
    runs = open_runs(options.runs)
    refuse_unlike(runs, options.by)
    metric = runs[0].metric
    if metric is None:
        raise RunError(BAD_INPUT, f"{runs[0].path}: no evaluations to compare")

    groups = grouped(runs, options.by)
    for key, values in differing_keys(runs, options.by).items():
        shown = "; ".join(f"{value}: {', '.join(labels)}"
                          for value, labels in values.items())
        print(f"differs too: {key} = {shown}")
    for note in notes(groups):
        print(f"note: {note}")
    print_table([options.by, "n", "seeds", "steps", f"final {metric}",
                 f"best {metric}", "eval loss", "time s", "MB sent"],
                [group_row(label, group, metric)
                 for label, group in groups.items()])
    if target:
        name, value = target
        print(f"\nuntil {name} {'>=' if METRICS[name] else '<='} {value:g} "
              "(means over the runs that reached it)")
        print_table([options.by, "reached by", "steps", "time s", "virtual s"],
                    [target_row(label, group, name, value)
                     for label, group in groups.items()])
    print("± is half of the 95% interval of the mean (Student's t over runs)")
    return 0


if __name__ == "__main__":
    run_main(main)
