#!/usr/bin/env python3
"""Published running times against those that `syncopate simulate` predicts.

    predict_published.py [CASE...] [--KEY=VALUE...] [--markdown] [--check]

Prints published, predicted and ratio of every point, then median and worst. A
case is an input of inputs/published/, which says where its numbers come from;
without any, all cases run. Points whose figure was used to fit something are
marked and do not count.

--KEY=VALUE  such as --network.mbit_s=100: a prediction for another cluster.
             Points that differ in this key only become one, and nothing is
             compared.
--markdown   a table for a README
--check      exit code 1 if a ratio is off the one in points.csv by 2% or more
Environment: SYNCOPATE (build/release/syncopate).
"""
import csv
import functools
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from argparse import RawTextHelpFormatter

import packages  # noqa: F401, says which package is missing
import h5py

from exit_codes import BAD_INPUT, INPUT_MISSING
from script import Parser, RunError, run_main

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
INPUTS = os.path.normpath(os.path.join(FOLDER, "inputs", "published"))
BAND = 0.02  # of a ratio


class Failure(RunError):
    """A simulation that did not run."""

    def __init__(self, line):
        super().__init__(BAD_INPUT, line)


class Outcome:
    """What a simulated run took."""

    def __init__(self, path):
        with h5py.File(path) as f:
            workers = {name: f["workers"][name][...].sum()
                       for name in ("steps", "compute_s", "exposed_s")}
            self.workers = f["workers/rank"].shape[0]
            self.seconds = float(f["summary/virtual_s"][()])
            self.bytes = float(f["summary/bytes_sent"][()])
        self.steps = float(workers["steps"]) / self.workers
        self.exposed_s = float(workers["exposed_s"]) / self.workers
        self.utilization = \
            float(workers["compute_s"]) / self.workers / self.seconds


@functools.cache
def simulate(case, keys):
    program = os.environ.get("SYNCOPATE") or os.path.normpath(
        os.path.join(FOLDER, "build", "release", "syncopate"))
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "run.h5")
        run = subprocess.run(
            [program, "simulate", os.path.join(INPUTS, case + ".ini"),
             "--output=" + output, *keys], capture_output=True, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
        if run.returncode:
            raise Failure(f"{case} {' '.join(keys)}: "
                          f"{run.stderr.strip() or run.returncode}")
        return Outcome(output)


def local_steps(keys):
    found = [key for key in keys if key.startswith("--local_sgd.steps=")]
    return float(found[-1].split("=")[1]) if found else 1


def sync_ms(point, _):
    """Blocked on communication, by sync, in ms."""
    run = point.run()
    return 1000 * run.exposed_s / (run.steps / local_steps(point.keys))


def bandwidth(point, utilization):
    """Gbit/s of the links with which the utilization is reached."""
    def suffices(mbit_s):
        return simulate(point.case, (*point.keys,
                                     f"--network.mbit_s={mbit_s:.6g}")
                        ).utilization >= utilization

    low, high = 1.0, 1e7
    if not suffices(high):
        raise Failure(f"{point.case}: no bandwidth up to {high / 1000:g} "
                      f"Gbit/s gives a utilization of {utilization:g}")
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high / 1000


# A point's figure, from the point and the number behind the colon.
QUANTITIES = {
    "seconds": lambda point, _: point.run().seconds,
    # of a run of so many steps, from one of a few
    "hours": lambda point, steps:
        point.run().seconds / point.run().steps * steps / 3600,
    # so many with each step of all workers
    "per_s": lambda point, each:
        point.run().steps / point.run().seconds * each,
    "utilization": lambda point, _: 100 * point.run().utilization,
    "sync_ms": sync_ms,
    "bandwidth": bandwidth,
    # so much of the bytes that were sent
    "MB_per_s": lambda point, share:
        share * point.run().bytes / point.run().seconds / 1e6,
    # how many times as long as `against`
    "times": lambda point, _: (point.run().seconds / point.run().steps) / (
        point.other().seconds / point.other().steps),
}


class Point:
    """A row of points.csv, and what the program predicts for it."""

    def __init__(self, row, overrides):
        self.case, self.name = row["case"], row["point"]
        self.unit = row["unit"]
        self.published = float(row["published"])
        self.is_fitted = row["fitted"] == "yes"
        self.recorded = float(row["ratio"]) if row["ratio"] else None
        self.quantity, _, argument = row["quantity"].partition(":")
        self.argument = float(argument or 0)
        names = {key.partition("=")[0] for key in overrides}

        def with_overrides(keys):
            kept = (key for key in shlex.split(keys)
                    if key.partition("=")[0] not in names)
            return (*kept, *overrides)
        self.keys = with_overrides(row["keys"])
        self.against = with_overrides(row["against"])

    def run(self):
        return simulate(self.case, self.keys)

    def other(self):
        return simulate(self.case, self.against)

    def predict(self):
        self.predicted = QUANTITIES[self.quantity](self, self.argument)
        self.ratio = self.predicted / self.published

    def is_off(self):
        return self.recorded is None or \
            abs(self.ratio / self.recorded - 1) >= BAND


def read_points(cases, overrides):
    with open(os.path.join(INPUTS, "points.csv"), newline="",
              encoding="utf-8") as f:
        points = [Point(row, overrides) for row in csv.DictReader(f)]
    known = sorted({point.case for point in points})
    for case in cases:
        if case not in known:
            raise Failure(f"{case}: no such case, expected one of "
                          f"{', '.join(known)}")
    return [point for point in points if not cases or point.case in cases]


def report(points, is_markdown):
    bar = "| {} | {} | {:.5g} | {:.5g} | {} | {}{} |" if is_markdown else \
        "{:26} {:34} {:>9.5g} {:>9.5g}  {:8} {:>6}{}"
    if is_markdown:
        print("| case | point | published | predicted | | ratio |\n"
              "|---|---|---:|---:|---|---:|")
    else:
        print(f"{'case':26} {'point':34} {'published':>9} {'predicted':>9}"
              f"  {'':8} {'ratio':>6}")
    for point in points:
        point.predict()
        print(bar.format(point.case, point.name, point.published,
                         point.predicted, point.unit, f"{point.ratio:.2f}",
                         ", fitted" if point.is_fitted else ""), flush=True)
    scored = [point for point in points if not point.is_fitted]
    if not scored:
        return
    # Twice and half are equally wrong.
    error = {point: max(point.ratio, 1 / point.ratio) for point in scored}
    worst = max(scored, key=error.get)
    print(f"\n{len(scored)} points, off by a factor of "
          f"{statistics.median(error.values()):.3f} (median), "
          f"{error[worst]:.3f} (worst: {worst.case}, {worst.name})")


def report_predictions(points):
    """Under other keys nothing is published, and some points do not exist."""
    seen, predicted, refused = set(), [], None
    for point in points:
        what = (point.case, point.quantity, point.argument, point.keys,
                point.against)
        if what in seen:
            continue
        seen.add(what)
        try:
            point.predict()
        except Failure as failure:
            refused = failure
            continue
        print(f"{point.case:26} {point.predicted:>9.5g}  {point.unit:8} "
              f"{' '.join(point.keys)}", flush=True)
        predicted.append(point)
    if not predicted and refused:
        raise refused


def predict(options, overrides):
    """The exit code."""
    points = read_points(options.cases, overrides)
    if overrides:
        report_predictions(points)
        return 0
    report(points, options.markdown)
    off = [point for point in points if options.check and point.is_off()]
    for point in off:
        print(f"error: {point.case}, {point.name}: the ratio is "
              f"{point.ratio:.3f}, recorded {point.recorded}", file=sys.stderr)
    return 1 if off else 0


def main(words):
    parser = Parser(description=__doc__, formatter_class=RawTextHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--check", action="store_true")
    overrides = tuple(word for word in words
                      if re.match(r"--\w+\.\w+=", word))
    options = parser.parse_args(
        [word for word in words if word not in overrides])
    try:
        return predict(options, overrides)
    except (FileNotFoundError, PermissionError) as error:
        raise RunError(INPUT_MISSING, f"{error.filename}: {error.strerror}") \
            from None


if __name__ == "__main__":
    run_main(main)
