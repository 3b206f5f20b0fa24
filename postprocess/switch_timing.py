#!/usr/bin/env python3
"""When to switch from bsp to asp: binary search over runs, and what it costs.

    switch_timing.py next   SEARCH.csv [--runs R] [--settings M] [--beta B]
    switch_timing.py replay RECORDED.csv | RUN... [--settings M]
    switch_timing.py table  RUN... [--fractions F,...] [--work S]
    switch_timing.py result RUN       a run's last accuracy

Sync-Switch's off-line policy, for the share f of the work that bsp does:
lo = 0 (all asp), hi = 1 (all bsp), target = mean accuracy of the runs with
f = 1. M times: f = (lo + hi) / 2; if the mean of R runs is at least
target - beta then hi = f, else lo = f. In the end f = hi. If a run with f = 1
diverged, there is no target, and the search ends with one line.

`next` reads rows "fraction,seed,accuracy" (a run that diverged has accuracy 0)
and prints the next action: "run FRACTION SEED" or "use FRACTION". `replay`
decides from recorded rows. A fraction without rows is decided by the nearest
recorded ones on both sides if they agree; if not, the search ends there:
"undecided".

RUN is a run of syncopate or a published one (published.py). `replay` of runs
takes their last accuracies, each under its share of bsp. `table` has a row for
every share among the runs: accuracy, time, and the time that Sync-Switch's
model predicts from the rates of the runs that are all bsp and all asp,

    t = B / r_bsp + (E - B) / r_asp,   B = f S / n,   E = S - (n - 1) B

with S mini-batches in total and n workers; B and E are the steps at which the
phases end, where a step of bsp and an update of asp each count as 1. Without a
pure run of one kind, the rate is that of the published runs' phases of this
kind, and a note says so. Times of syncopate's runs are virtual if the workers
were in one process, otherwise wall time. Runs that did not finish are counted,
but are in no mean, rate or decision.
"""
import csv
import math
import os
import re
import sys
from argparse import RawTextHelpFormatter
from collections import defaultdict

import packages  # noqa: F401, says which package is missing

from exit_codes import BAD_INPUT, INPUT_MISSING
from published import is_published, open_published
from run_reader import METRICS, open_run, print_table
from script import Parser, RunError, run_main


def mean(values):
    return sum(values) / len(values)


class Search:
    """The bounds of the search, and the decision that follows from them."""

    def __init__(self, settings):
        self.lo, self.hi, self.left = 0.0, 1.0, settings

    @property
    def fraction(self):
        """The next decision; None at the end."""
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
        with open(path, newline="", encoding="utf-8-sig") as file:
            for line, row in enumerate(csv.DictReader(
                    r for r in file if not r.startswith("#")), 2):
                try:
                    fraction, seed, accuracy = float(row["fraction"]), \
                        row["seed"], float(row["accuracy"])
                except (KeyError, TypeError, ValueError):
                    raise RunError(BAD_INPUT, f"{path}: row {line}: expected "
                                   "fraction,seed,accuracy")
                if not (0 <= fraction <= 1 and math.isfinite(accuracy)):
                    raise RunError(BAD_INPUT, f"{path}: row {line}: expected "
                                   "a fraction of 0 to 1 and a finite "
                                   "accuracy")
                rows[fraction][seed] = accuracy
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RunError(BAD_INPUT, f"{path}: not readable as CSV: {error}") \
            from None
    return rows


def target_of(rows):
    """The mean accuracy of the runs that are all bsp."""
    for seed, accuracy in rows[1.0].items():
        if accuracy == 0:
            raise RunError(BAD_INPUT, f"bsp diverged with seed {seed}: no "
                           "target")
    return mean(rows[1.0].values())


def next_action(rows, runs, settings, beta):
    """("run", fraction, seed) or ("use", fraction)."""
    def missing_seed(fraction):
        seeds = [str(seed) for seed in range(1, runs + 1)]
        return next((s for s in seeds if s not in rows.get(fraction, {})),
                    None)

    if missing_seed(1.0) is not None:
        return "run", 1.0, missing_seed(1.0)
    target = target_of(rows)
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
    means = {fraction: mean(seeds.values())
             for fraction, seeds in rows.items()}
    target = target_of(rows)
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


def last_accuracy(run):
    metric = run.metric
    if metric is None or not METRICS[metric].larger_is_better:
        raise RunError(BAD_INPUT, f"{run.path}: no evaluation metric for "
                       "which larger is better")
    return float(run.last("eval", metric))


def bsp_share(run):
    """Of all mini-batches; refuses what is not bsp, asp, or bsp before asp."""
    names = {"1": "bsp", "0": "asp"}
    if run.scheme in ("bsp", "asp"):
        return float(run.scheme == "bsp")
    order = run.input.get("sync_switch.order", "")
    words = re.split(r"[,\s]+", order) if not set(order) <= set("01") \
        else list(order)
    phases = [names.get(word, word) for word in words]
    if run.scheme != "sync_switch" or phases not in (
            ["bsp"], ["asp"], ["bsp", "asp"]):
        raise RunError(BAD_INPUT, f"{run.path}: expected bsp, asp, or bsp "
                       f"before asp, found {order or run.scheme}")
    if len(phases) == 1:
        return float(phases == ["bsp"])
    fractions = run.input.get("sync_switch.fractions", "none")
    numbers = [] if fractions == "none" else [
        float(number) for number in re.findall(r"[\d.e+-]+", fractions)]
    if numbers:
        return round(numbers[0], 4)
    ends = [float(number) for number in re.findall(
        r"[\d.]+", run.input.get("sync_switch.train_steps", ""))]
    if len(ends) != 2:
        raise RunError(BAD_INPUT, f"{run.path}: neither sync_switch.fractions "
                       "nor sync_switch.train_steps")
    work_of_bsp = run.workers * ends[0]
    return round(work_of_bsp / (work_of_bsp + ends[1] - ends[0]), 4)


def clock(run):
    return run.column("train", "virtual_s" if run.has_virtual_time()
                      else "time_s")


def by_share(runs):
    """{share of bsp: its runs}, the largest first."""
    groups = defaultdict(list)
    for run in runs:
        groups[bsp_share(run)].append(run)
    return dict(sorted(groups.items(), reverse=True))


def finished(runs):
    return [run for run in runs if run.state == "finished"]


def recorded(runs):
    """Rows in the form of read_rows; a run that diverged has accuracy 0. Those
    that did not finish are left out with a note."""
    ended = []
    for run in runs:
        if run.state == "unfinished":
            print(f"note: {run.path}: not finished: left out", file=sys.stderr)
        else:
            ended.append(run)
    for run in ended:
        if run.has_diverged and bsp_share(run) == 1:
            raise RunError(BAD_INPUT, f"{run.path}: bsp diverged: no target")
    return {share: {i: 0.0 if run.has_diverged else last_accuracy(run)
                    for i, run in enumerate(members)}
            for share, members in by_share(ended).items()}


def rate(run, worker_steps, seconds):
    if len(seconds) < 2 or not seconds[-1] > seconds[0]:
        raise RunError(BAD_INPUT, f"{run.path}: fewer than two records with "
                       "times: no rate")
    return (worker_steps[-1] - worker_steps[0]) / (seconds[-1] - seconds[0])


def rate_in_phases(runs, scheme):
    """Mini-batches per second in the published runs' phases of a scheme."""
    rates = []
    for run in runs:
        step = run.column("train", "step")
        for name, first, last in getattr(run, "phases", []):
            # A restart is in the interval that ends at a phase's first step.
            inside = (step > first) & (step <= last)
            if name == scheme and inside.sum() > 1:
                rates.append(rate(run, run.column("train", "worker_steps")
                                  [inside], clock(run)[inside]))
    return rates


def rates_of(runs, groups):
    """({scheme: mini-batches per second}, notes); none if none is known."""
    rates, notes = {}, []
    for scheme, share in (("bsp", 1.0), ("asp", 0.0)):
        found = [rate(run, run.column("train", "worker_steps"), clock(run))
                 for run in finished(groups.get(share, []))]
        if not found:
            found = rate_in_phases(runs, scheme)
            if found:
                notes.append(f"no run is all {scheme}: its rate is that of "
                             "the others' phases")
        if found:
            rates[scheme] = mean(found)
        else:
            notes.append(f"no rate of {scheme}: no prediction")
    return rates, notes


def phase_ends(share, work, workers):
    """B and E: the steps at which the phases end."""
    of_bsp = share * work / workers
    return of_bsp, work - (workers - 1) * of_bsp


def predicted_s(share, work, workers, rates):
    """The time model. Rates are of mini-batches: a step of bsp has n."""
    of_bsp, end = phase_ends(share, work, workers)
    return of_bsp * workers / rates["bsp"] + (end - of_bsp) / rates["asp"]


def one_of(values, what):
    if len(set(values)) > 1:
        raise RunError(BAD_INPUT, f"unlike runs: {what} "
                       + ", ".join(f"{v:g}" for v in sorted(set(values))))
    return values[0]


def table(runs, work, shares):
    """The lines of `table`: header, rows, notes."""
    workers = one_of([run.workers for run in runs], "run.workers")
    one_of([float(run.is_published) for run in runs],
           "published runs (1) and syncopate's (0) in one table: found")
    groups = by_share(runs)
    rates, notes = rates_of(runs, groups)
    if not work:
        whole = finished(runs) or runs
        most = max(run.last("train", "worker_steps") for run in whole)
        last = max((run.last("eval", "worker_steps", 0.0) for run in whole))
        work = max(most, last)
        # Updates that ASP had in flight at its end do not count: published
        # runs stop up to two updates per worker late, and their work is a
        # round number.
        work -= work % 100 if runs[0].is_published else 0
    rows = []
    for share in sorted({*groups, *shares}, reverse=True):
        members = groups.get(share, [])
        states = [run.state for run in members]
        whole = finished(members)
        seconds = mean([clock(run)[-1] for run in whole]) if whole else None
        model = predicted_s(share, work, workers, rates) \
            if len(rates) == 2 else None
        of_bsp, end = phase_ends(share, work, workers)
        accuracies = [last_accuracy(run) for run in whole if run.metric]
        rows.append([
            f"{share:g}", len(members), f"{of_bsp:.0f}", f"{end:.0f}",
            f"{mean(accuracies):.4f}" if accuracies else "-",
            states.count("diverged"),
            "-" if seconds is None else f"{seconds:.1f}",
            "-" if model is None else f"{model:.1f}",
            "-" if None in (model, seconds)
            else f"{100 * (model / seconds - 1):+.1f}",
            "-" if model is None
            else f"{model / predicted_s(1, work, workers, rates):.3f}",
            states.count("unfinished")])
    for scheme, value in rates.items():
        in_steps = value / (workers if scheme == "bsp" else 1)
        notes.append(f"{scheme}: {in_steps:.4g} "
                     f"{'steps' if scheme == 'bsp' else 'updates'} per second")
    notes.append(f"{work:.0f} mini-batches, {workers} workers")
    unfinished = sum(run.state == "unfinished" for run in runs)
    if unfinished:
        notes.append(f"{unfinished} of {len(runs)} runs did not finish: in no "
                     "mean and no rate")
    return ["bsp share", "n", "B", "E", "accuracy", "diverged", "time s",
            "model s", "error %", "model/bsp", "unfinished"], rows, notes


def numbers_of(text):
    try:
        shares = [float(word) for word in text.split(",") if word]
    except ValueError:
        shares = [math.nan]
    if not all(0 <= share <= 1 for share in shares):
        raise RunError(BAD_INPUT, f"--fractions {text}: expected numbers of 0 "
                       "to 1, separated by commas")
    return shares


def runs_of(paths, workers):
    runs = [open_published(path, workers) if is_published(path)
            else open_run(path) for path in paths]
    for run in runs:
        if not len(run.column("train", "worker_steps")) or \
                not len(clock(run)):
            raise RunError(BAD_INPUT, f"{run.path}: no steps of training with "
                           "times")
    return runs


def is_recorded(paths):
    """Whether `replay` reads rows "fraction,seed,accuracy"."""
    if len(paths) != 1 or os.path.isdir(paths[0]):
        return False
    if not os.path.exists(paths[0]):
        raise RunError(INPUT_MISSING, f"{paths[0]}: no such file")
    with open(paths[0], "rb") as file:
        return b"fraction" in file.read(4096)


def parse(arguments):
    parser = Parser(description=__doc__,
                    formatter_class=RawTextHelpFormatter)
    parser.add_argument("action", choices=("next", "replay", "table",
                                           "result"))
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--runs", type=int, default=3, help="R (default 3)")
    parser.add_argument("--settings", type=int, default=4,
                        help="M (default 4)")
    parser.add_argument("--beta", type=float, default=0.01,
                        help="of accuracy (default 0.01)")
    parser.add_argument("--fractions", default="", metavar="F,...",
                        help="further shares of bsp to predict")
    parser.add_argument("--work", type=int, default=0, metavar="S",
                        help="mini-batches in all (the runs')")
    parser.add_argument("--workers", type=int, default=0, metavar="N",
                        help="of published runs (8; 16 below cluster_16)")
    options = parser.parse_args(arguments)
    if options.runs < 1 or options.settings < 1 or not options.beta >= 0:
        raise RunError(BAD_INPUT, "--runs, --settings: expected at least 1; "
                       "--beta: at least 0")
    if options.work < 0 or options.workers < 0:
        raise RunError(BAD_INPUT, "--work, --workers: expected at least 0")
    if options.action in ("next", "result") and len(options.paths) > 1:
        raise RunError(BAD_INPUT, f"{options.action}: expected one path")
    return options


def main(arguments):
    options = parse(arguments)
    if options.action == "result":
        run = open_run(options.paths[0])
        if run.state != "finished":
            raise RunError(BAD_INPUT, f"{run.path}: {run.state}: its accuracy "
                           "is not that of a whole run")
        print(repr(last_accuracy(run)))
    elif options.action == "next":
        action = next_action(read_rows(options.paths[0]), options.runs,
                             options.settings, options.beta)
        print(*(f"{word:.17g}" if isinstance(word, float) else word
                for word in action))
    elif options.action == "table":
        header, rows, notes = table(
            runs_of(options.paths, options.workers), options.work,
            numbers_of(options.fractions))
        print_table(header, rows)
        print("", *notes, sep="\n")
    else:
        rows = read_rows(options.paths[0]) if is_recorded(options.paths) \
            else recorded(runs_of(options.paths, options.workers))
        print("\n".join(replay(rows, options.settings, options.beta)))
    return 0


if __name__ == "__main__":
    run_main(main)
