#!/usr/bin/env python3
"""Compares runs that differ in one key, over seeds.

    postprocess/compare.py runs/bsp-seed* runs/asp-seed*
    postprocess/compare.py RUN... --by optimizer.lr --target 'accuracy >= 0.9'
    postprocess/compare.py runs/compare_schemes/final/*/ --by variant

Runs with different data or evaluations are refused, and so are runs of one
value of the compared key that differ in more than the seed. Further keys that
differ between the values are listed, as they may also explain the difference.

--by variant compares by the runs' names without their seeds, as jobs/sweep.sh
makes them. Means are over the n runs that finished. Diverged runs and those
that did not finish (stopped, killed, or still running) are counted separately.
Times and bytes to a target (--target, or the run.target of all runs) are
medians over all runs: those that used up their budget or diverged before do not
reach it, and those that ended early are censored (target.py). The last line is a
verdict: the best group, those that the runs cannot tell apart from it, and
those that are left out (verdict.py).
"""
import math
import sys
from collections import defaultdict

import packages  # noqa: F401, says which package is missing

import target as targets
from groups import CLOCKS_DIFFER, clocks_differ, common_limit, \
    compared_keys, grouped, interval, metric_of, \
    metric_with_interval, refuse_unlike, shown_label, shown_metric, \
    unknown_key, with_interval
from run_reader import open_runs, print_markdown, print_table
from script import Parser, RunError, run_main, whole_file
from verdict import SEPARABLE, SEPARABLE_TIMES, verdict


def quantity(values):
    """Of times and bytes, which differ by orders of magnitude: four digits of
    the mean and two of the interval, or one decimal if that is more."""
    mean, half = interval(values)
    return with_interval(values, ".1f" if mean >= 1000 else ".4g",
                         ".1f" if half >= 99.5 else ".2g")


def differing_keys(groups, known):
    """{key: {value: groups}} of keys that differ beside the known ones. A key
    that only some runs have goes with another that is listed."""
    found = {}
    everyone = [run for runs in groups.values() for run in runs]
    every = {key for run in everyone for key in compared_keys(run)}
    if common_limit(everyone):
        every.discard("run.steps")
    keys_of = {label: compared_keys(runs[0]) for label, runs in groups.items()}
    for key in sorted(every - known):
        values = defaultdict(list)
        for label, keys in keys_of.items():
            if key in keys:
                values[keys[key]].append(label)
        # A variant that is named after its scheme needs no remark.
        if len(values) > 1 and any([value] != labels
                                   for value, labels in values.items()):
            found[key] = values
    return found


def finished(runs):
    return [run for run in runs if run.state == "finished"]


def seeds_of(runs):
    return sorted((run.input.get("run.seed", "?") for run in runs),
                  key=lambda seed: (len(seed), seed))


def group_row(label, runs, metric):
    """A cell for each column of write()."""
    whole = finished(runs)
    found = [run.final_and_best(metric) for run in whole
             if len(run.column("eval", metric))]
    states = [run.state for run in runs]

    def last(table, column, some=whole):
        return [run.last(table, column) for run in some]

    return [label, len(whole), " ".join(seeds_of(whole)) or "-",
            with_interval([run.last("train", "worker_steps") / run.workers
                           for run in whole], ".0f"),
            metric_with_interval([final for final, _ in found]),
            metric_with_interval([best for _, best in found]),
            metric_with_interval(last("eval", "loss")),
            states.count("diverged"), states.count("unfinished"),
            quantity(last("train", "time_s")),
            quantity(last("train", "virtual_s", [
                run for run in whole if run.has_virtual_time()])),
            quantity([sent / 1e6 for sent in (
                run.mean_per_worker("bytes_sent") for run in whole)
                      if not math.isnan(sent)])]


def notes(groups):
    """Remarks on what weakens the comparison."""
    if len({tuple(seeds_of(runs)) for runs in groups.values()}) > 1:
        yield "seeds differ between the groups"
    everyone = [run for runs in groups.values() for run in runs]
    budgets = {run.last("train", "worker_steps") for run in finished(everyone)}
    if len(budgets) > 1:
        limit = common_limit(everyone)
        why = f"equal virtual time, run.virtual_limit_s = {limit}" if limit \
            else "budgets differ"
        if any(targets.own_target(run) for run in everyone):
            why = "some runs end where they reach run.target"
        yield (f"{why}: worker_steps "
               + ", ".join(f"{value:.0f}" for value in sorted(budgets)))
    if clocks_differ(everyone):
        yield CLOCKS_DIFFER
    versions = {str(run.provenance.get("git", "?")) for run in everyone
                if not run.is_published}
    if len(versions) > 1:
        yield f"the program differs: git {', '.join(sorted(versions))}"
    if any(run.is_published for run in everyone):
        yield ("published runs: times of their authors' cluster, restarts "
               "left out; neither data order nor network is compared")
    if any(run.summary.get("bytes_are_modelled") for run in everyone):
        yield "bytes of a native collective are a formula, not counted"


def write(groups, options, target, file):
    by, is_markdown = options.by, options.markdown
    show = print_markdown if is_markdown else print_table
    bullet = "- " * is_markdown
    known = {by, *options.varied}
    named = {shown_label(label, by): runs for label, runs in groups.items()}
    for key, values in differing_keys(named, known).items():
        shown = "; ".join(f"{value} in {', '.join(labels)}"
                          for value, labels in values.items())
        print(f"{bullet}also different: {key} = {shown}", file=file)
    for note in notes(groups):
        print(f"{bullet}note: {note}", file=file)
    if is_markdown:
        print(file=file)
    everyone = [run for runs in groups.values() for run in runs]
    metric = metric_of(everyone)
    shown = shown_metric(everyone, metric)
    show([by, "n", "seeds", "steps", f"final {shown}", f"best {shown}",
          "eval loss", "diverged", "unfinished", "time s", "virtual s",
          "MB per worker"],
         [group_row(label, runs, metric) for label, runs in groups.items()],
         file=file)
    if target:
        print(f"\nUntil {target}:\n", file=file)
        header, rows = targets.table(groups, by, target)
        show(header, rows, file=file)
        print(file=file)
        for remark in targets.remarks(groups, target):
            print(f"{bullet}{remark}", file=file)
    print("\n± is half of the 95% interval of the mean (Student's t over n "
          "runs);\nMB per worker: payload sent, mean over workers;\n"
          f"{SEPARABLE_TIMES if target else SEPARABLE}\n", file=file)
    for line in verdict(named, metric, target):
        print(line + "\n" * is_markdown, file=file)


def main(arguments):
    parser = Parser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--by", default="sync.scheme", metavar="KEY",
                        help="the key compared (sync.scheme), or variant")
    parser.add_argument("--varied", nargs="*", default=[], metavar="KEY",
                        help="keys in which the groups differ on purpose")
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
    # A sweep names what its variants set, whether or not they have runs yet.
    for key in options.varied:
        if (line := unknown_key(runs, "--varied", key)):
            print(f"note: {line}", file=sys.stderr)
    metric_of(runs)
    target = targets.target_of(runs, options.target)
    groups = grouped(runs, options.by)
    if not options.output:
        write(groups, options, target, None)
        return 0
    with whole_file(options.output) as file:
        write(groups, options, target, file)
    return 0


if __name__ == "__main__":
    run_main(main)
