#!/usr/bin/env python3
"""A run's results as text for other programs.

    postprocess/export.py RUN -o FILE.csv --table eval    one table
    postprocess/export.py RUN -o FILE.csv --steps         seconds of each step
    postprocess/export.py RUN -o FILE.json                everything
-o - writes to standard output (--format says as what).
"""
import argparse
import csv
import json
import math
import os
import sys

import packages  # noqa: F401, says which package is missing
import numpy as np

from run_reader import BAD_INPUT, RunError, open_run, run_main

CANNOT_CREATE = 73
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


def write_csv(run, table, file):
    """Shortest text that reads back as the same number; NaN is empty."""
    if table not in run.tables:
        raise RunError(BAD_INPUT, f"{run.path}: no table {table}; it has "
                       f"{' '.join(sorted(run.tables))}")
    flat = flat_columns(run.tables[table])
    rows = max(map(len, flat.values()))
    flat = {name: values for name, values in flat.items()
            if len(values) == rows}
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(flat)
    for row in zip(*(values.tolist() for values in flat.values())):
        writer.writerow("" if value != value else repr(value) for value in row)


def write_steps(run, file):
    """One row per step, one column per worker: the input of compute.trace."""
    steps = run.tables["train"]["worker_steps"]
    seconds = run.tables["comm"]["compute_s"]
    workers = seconds.shape[1]
    if run.input.get("sync.scheme") in FREE_RUNNING or \
            (np.diff(steps, prepend=0) != workers).any():
        raise RunError(BAD_INPUT, f"{run.path}: a row is not one step of every "
                       "worker: needs run.log_every = 1 and a scheme that "
                       "keeps workers in lockstep, such as bsp")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(f"worker_{worker}" for worker in range(workers))
    writer.writerows([repr(value) for value in row] for row in seconds.tolist())


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


def write(run, kind, table, file):
    if table is None:
        write_steps(run, file)
    elif kind == "csv":
        write_csv(run, table, file)
    else:
        json.dump(as_json(run), file, indent=1, allow_nan=False)
        file.write("\n")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--table", default="train",
                        help="csv: which table (train)")
    parser.add_argument("--steps", action="store_true",
                        help="csv: seconds of computing by step and worker")
    parser.add_argument("--format", choices=["csv", "json"],
                        help="else by the file's suffix")
    options = parser.parse_args(arguments)
    kind = options.format or os.path.splitext(options.output)[1][1:]
    if kind not in ("csv", "json"):
        raise RunError(BAD_INPUT, f"{options.output}: not .csv or .json: "
                       "say --format csv or --format json")
    table = None if options.steps else options.table
    if options.steps and kind != "csv":
        raise RunError(BAD_INPUT, "--steps is written as csv")
    run = open_run(options.run)
    if options.output == "-":
        write(run, kind, table, sys.stdout)
        return 0
    try:
        with open(options.output, "w", encoding="utf-8", newline="") as file:
            write(run, kind, table, file)
    except OSError as error:
        raise RunError(CANNOT_CREATE, f"{options.output}: {error.strerror}")
    return 0


if __name__ == "__main__":
    run_main(main)
