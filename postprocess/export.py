#!/usr/bin/env python3
"""The results of runs as text for other programs.

    postprocess/export.py RUN... -o FILE.csv --table eval   one table
    postprocess/export.py RUN... -o FILE.json               everything
    postprocess/export.py RUN -o FILE.csv --steps           seconds per step

-o - writes to standard output (--format says as what). The rows of several
runs follow each other in one table with a column `run` before the others. As
json, several runs are a list of objects with a member "run".
"""
import csv
import json
import math
import os
import sys

import packages  # noqa: F401, says which package is missing
import numpy as np

from exit_codes import BAD_INPUT, USAGE
from run_reader import open_runs
from script import Parser, RunError, run_main, whole_file

# Schemes whose workers may take different numbers of steps within a row.
FREE_RUNNING = {"asp", "ssp", "esync", "sync_switch"}


def flat_columns(columns):
    """Per-worker columns become name_0, name_1, ...; others stay."""
    flat = {}
    for name, values in columns.items():
        if values.ndim == 1:
            flat[name] = values
        elif values.ndim == 2:
            for worker in range(values.shape[1]):
                flat[f"{name}_{worker}"] = values[:, worker]
    # Columns of time and progress come first.
    when = ["step", "worker_steps", "epoch", "samples", "time_s", "virtual_s"]
    order = [name for name in when if name in flat]
    return {name: flat[name] for name in
            order + [name for name in flat if name not in order]}


def with_table(runs, table):
    """Those that have it; the others are skipped with a note."""
    found = [run for run in runs if table in run.tables]
    for run in runs:
        if run not in found:
            line = f"{run.path}: no table {table}; it has " \
                f"{' '.join(sorted(run.tables))}"
            if not found:
                raise RunError(BAD_INPUT, line)
            print(f"note: {line}", file=sys.stderr)
    return found


def whole(value):
    """10 for 10.0: counts of a run in several files have been joined as
    floats."""
    return int(value) if value == value and float(value).is_integer() else value


def rows_of(run, table):
    """{column: its values}, equally long."""
    flat = flat_columns(run.tables[table])
    rows = max(map(len, flat.values()))
    return {name: ([whole(value) for value in values.tolist()]
                   if name in ("step", "worker_steps") else values.tolist())
            for name, values in flat.items() if len(values) == rows}


def write_csv(runs, table, file):
    """Shortest text that reads back as the same number; NaN, and what a run
    does not have, is empty."""
    kept = with_table(runs, table)
    tables = [rows_of(run, table) for run in kept]
    header = list(dict.fromkeys(name for columns in tables
                                for name in columns))
    writer = csv.writer(file, lineterminator="\n")
    names = len(runs) > 1
    writer.writerow(["run"] * names + header)
    for run, columns in zip(kept, tables):
        absent = [math.nan] * len(next(iter(columns.values())))
        for row in zip(*(columns.get(name, absent) for name in header)):
            writer.writerow([run.label] * names + [
                "" if value != value else repr(value) for value in row])


def write_steps(run, file):
    """One row per step, one column per worker: the input of compute.trace."""
    steps = run.column("train", "worker_steps")
    seconds = run.column("comm", "compute_s")
    if seconds.ndim != 2:
        raise RunError(BAD_INPUT, f"{run.path}: has no seconds by step and "
                       "worker")
    workers = seconds.shape[1]
    if run.input.get("sync.scheme") in FREE_RUNNING or \
            (np.diff(steps, prepend=0) != workers).any():
        raise RunError(BAD_INPUT, f"{run.path}: a row is not one step of "
                       "every worker: needs run.log_every = 1 and a scheme "
                       "that keeps workers in lockstep, such as bsp")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(f"worker_{worker}" for worker in range(workers))
    writer.writerows([repr(value) for value in row]
                     for row in seconds.tolist())


def json_value(value):
    if isinstance(value, np.ndarray):
        return [json_value(item) for item in value.tolist()]
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def as_json(run):
    tables = {}
    for table, columns in run.tables.items():
        tables[table] = {
            name: {"units": run.units[f"{table}/{name}"],
                   "description": run.descriptions[f"{table}/{name}"],
                   "values": json_value(values)}
            for name, values in columns.items()}
    return {"provenance": json_value(run.provenance), "input": run.input,
            "summary": json_value(run.summary), "tables": tables}


def write_json(runs, file):
    found = [as_json(run) for run in runs]
    if len(runs) > 1:
        found = [{"run": run.label, **one} for run, one in zip(runs, found)]
    json.dump(found if len(runs) > 1 else found[0], file, indent=1,
              allow_nan=False)
    file.write("\n")


def write(runs, kind, table, file):
    if table is None:
        write_steps(runs[0], file)
    elif kind == "csv":
        write_csv(runs, table, file)
    else:
        write_json(runs, file)


def main(arguments):
    parser = Parser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--table", help="csv: which table (train)")
    parser.add_argument("--steps", action="store_true",
                        help="csv: seconds of computing by step and worker")
    parser.add_argument("--format", choices=["csv", "json"],
                        help="else by the file's suffix")
    options = parser.parse_args(arguments)
    kind = options.format or os.path.splitext(options.output)[1][1:]
    if kind not in ("csv", "json"):
        raise RunError(BAD_INPUT, f"{options.output}: not .csv or .json: "
                       "say --format csv or --format json")
    if kind != "csv":
        for name in ("steps", "table"):
            if getattr(options, name):
                raise RunError(BAD_INPUT, f"--{name} is written as csv")
    if options.steps and options.table:
        raise RunError(BAD_INPUT, "--table: given together with --steps, "
                       "expected one of them")
    table = None if options.steps else options.table or "train"
    runs = open_runs(options.runs)
    if options.steps and len(runs) > 1:
        raise RunError(USAGE, f"--steps: expected one RUN, found {len(runs)}")
    if options.output == "-":
        write(runs, kind, table, sys.stdout)
        return 0
    with whole_file(options.output) as file:
        write(runs, kind, table, file)
    return 0


if __name__ == "__main__":
    run_main(main)
