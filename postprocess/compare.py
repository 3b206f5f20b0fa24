#!/usr/bin/env python3
"""Compares runs that differ in one key, over seeds.

    postprocess/compare.py runs/bsp-seed* runs/asp-seed*
    postprocess/compare.py RUN... --by optimizer.lr --target 'accuracy >= 0.9'
    postprocess/compare.py runs/compare_schemes/final/*/ --by variant --markdown
Runs with different data or evaluations are refused, and so are runs of one
value of the compared key that differ in more than the seed. Further keys that
differ between the values are listed, as they may also explain the difference.

--by variant compares by the runs' names without their seeds, as jobs/sweep.sh
makes them. Diverged runs are counted separately: they enter no mean and count
as never reaching the target. Times and bytes to a target (--target, or the
run.target of all runs) are medians over all runs, of which those that did not
reach it are censored (target.py). The last line is a verdict: the best group, and
those that the runs cannot tell apart from it (verdict.py).
"""
import argparse
import math
import os
from collections import defaultdict

import packages  # noqa: F401, says which package is missing
import target as targets
from groups import NEUTRAL, common_limit, grouped, interval, metric_of, \
    refuse_unlike
from run_reader import METRICS, RunError, open_runs, \
    print_markdown, print_table, run_main
from verdict import verdict

CANNOT_CREATE = 73


def text(values, form=".4f"):
    mean, half = interval(values)
    if math.isnan(mean):
        return "-"
    return f"{mean:{form}}" + ("" if math.isnan(half) else f" ± {half:{form}}")


def differing_keys(groups, by):
    """{key: {value: groups}} of keys that differ beside the one compared. A
    key that only some runs have goes with another that is listed."""
    found = {}
    everyone = [run for runs in groups.values() for run in runs]
    every = {key for run in everyone for key in run.input}
    if common_limit(everyone):
        every.discard("run.steps")
    for key in sorted(every - NEUTRAL - {by}):
        values = defaultdict(list)
        for label, runs in groups.items():
            if key in runs[0].input:
                values[runs[0].input[key]].append(label)
        # A variant that is named after its scheme needs no remark.
        if len(values) > 1 and any([value] != labels
                                   for value, labels in values.items()):
            found[key] = values
    return found


def group_row(label, runs, metric):
    whole = [run for run in runs if not run.has_diverged]

    def last(table, column):
        return [run.last(table, column) for run in whole]

    best = max if METRICS[metric] else min
    evaluated = [run for run in whole if len(run.column("eval", metric))]
    return [label, len(runs),
            " ".join(sorted({run.input.get("run.seed", "?") for run in runs})),
            text([run.last("train", "worker_steps") / run.workers
                  for run in whole], ".0f"),
            text([run.last("eval", metric) for run in evaluated]),
            text([best(run.column("eval", metric)) for run in evaluated]),
            text(last("eval", "loss")), len(runs) - len(whole),
            text(last("train", "time_s"), ".1f"),
            text([run.last("train", "virtual_s") for run in whole
                  if run.has_virtual_time()], ".1f"),
            text([sent.mean() / 1e6 for sent in (
                run.per_worker("bytes_sent") for run in whole) if len(sent)],
                 ".1f")]


def notes(groups):
    """Remarks on what weakens the comparison."""
    seeds = {label: sorted(run.input.get("run.seed", "?") for run in runs)
             for label, runs in groups.items()}
    if len({tuple(values) for values in seeds.values()}) > 1:
        yield "seeds differ between the groups"
    everyone = [run for runs in groups.values() for run in runs]
    budgets = {run.last("train", "worker_steps") for run in everyone
               if not run.has_diverged}
    if len(budgets) > 1:
        limit = common_limit(everyone)
        yield ((f"equal virtual time, run.virtual_limit_s = {limit}: "
                if limit else "budgets differ: ") + "worker_steps "
               + ", ".join(f"{value:.0f}" for value in sorted(budgets)))
    versions = {str(run.provenance.get("git", "?")) for run in everyone
                if not run.is_published}
    if len(versions) > 1:
        yield f"the program differs: git {', '.join(sorted(versions))}"
    if any(run.is_published for run in everyone):
        yield ("published runs: times of their authors' cluster, restarts left "
               "out; neither data order nor network is compared")
    if any(run.summary.get("bytes_are_modelled") for run in everyone):
        yield "bytes of a native collective are a formula, not counted"


def write(groups, by, target, is_markdown, file):
    show = print_markdown if is_markdown else print_table
    for key, values in differing_keys(groups, by).items():
        shown = "; ".join(f"{value} in {', '.join(labels)}"
                          for value, labels in values.items())
        print(f"{'- ' * is_markdown}also different: {key} = {shown}", file=file)
    for note in notes(groups):
        print(f"{'- ' * is_markdown}note: {note}", file=file)
    if is_markdown:
        print(file=file)
    everyone = [run for runs in groups.values() for run in runs]
    metric = metric_of(everyone)
    shown = everyone[0].with_unit(metric)
    show([by, "n", "seeds", "steps", f"final {shown}", f"best {shown}",
          "eval loss", "diverged", "time s", "virtual s", "MB a worker"],
         [group_row(label, runs, metric) for label, runs in groups.items()],
         file=file)
    if target:
        print(f"\nUntil {target}:\n", file=file)
        header, rows = targets.table(groups, by, target)
        show(header, rows, file=file)
        print(file=file)
        for remark in targets.remarks(groups, target):
            print(f"{'- ' * is_markdown}{remark}", file=file)
    print("\n± is half of the 95% interval of the mean (Student's t over runs);"
          "\nMB a worker: payload sent, mean over workers\n", file=file)
    for line in verdict(groups, metric, target):
        print(line + "\n" * is_markdown, file=file)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--by", default="sync.scheme", metavar="KEY",
                        help="the key compared (sync.scheme), or variant")
    parser.add_argument("--target", metavar="METRIC>=VALUE",
                        help="also the time to reach it (run.target); "
                        "METRIC=VALUE: in the metric's better direction")
    parser.add_argument("--markdown", action="store_true",
                        help="tables of Markdown")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="write there, not to standard output")
    options = parser.parse_args(arguments)
    runs = open_runs(options.runs)
    refuse_unlike(runs, options.by)
    metric_of(runs)
    target = targets.target_of(runs, options.target)
    groups = grouped(runs, options.by)
    if not options.output:
        write(groups, options.by, target, options.markdown, None)
        return 0
    try:
        with open(options.output, "w", encoding="utf-8") as file:
            write(groups, options.by, target, options.markdown, file)
    except OSError as error:
        raise RunError(CANNOT_CREATE, f"{options.output}: "
                       f"{os.strerror(error.errno)}") from None
    return 0


if __name__ == "__main__":
    run_main(main)
