#!/usr/bin/env python3
"""The results of runs as event files of TensorBoard.

    postprocess/tensorboard.py RUN... -o DIR    then: tensorboard --logdir DIR

The events of one run are in DIR, those of several in DIR/RUN. Every series of
/train and /eval that is one number per row becomes a scalar over the steps,
/comm's columns are summed over the workers. Needs PyPI's tensorboardX.
"""
import calendar
import glob
import os
import time

import packages  # noqa: F401, says which package is missing
import numpy as np

from exit_codes import CANNOT_CREATE
from run_reader import open_runs
from script import Parser, RunError, run_main

POSITION = ("step", "worker_steps", "epoch", "time_s", "virtual_s")


def scalars(run):
    """{tag: (steps, seconds since the start, values)}."""
    found = {}
    for table, columns in sorted(run.tables.items()):
        if "step" not in columns or table not in ("train", "eval", "comm"):
            continue
        steps = columns["step"]
        seconds = columns.get("time_s", np.zeros(len(steps)))
        for name, values in columns.items():
            if name in POSITION or len(values) != len(steps):
                continue
            if table == "comm":
                values = np.nansum(values, axis=1)
            if values.ndim == 1:
                found[f"{table}/{name}"] = steps, seconds, values
    if "comm/exposed_s" in found:
        steps, seconds, exposed = found["comm/exposed_s"]
        busy = exposed + found["comm/compute_s"][2]
        with np.errstate(invalid="ignore", divide="ignore"):
            found["comm/exposed_share"] = steps, seconds, exposed / busy
    return found


def started(run):
    """Seconds since the epoch at the start of the run, or 0."""
    try:
        text = str(run.provenance.get("started_utc", ""))
        return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return 0


def folders_of(runs, directory):
    """The directory itself for one run, a folder in it for each of several."""
    if len(runs) == 1:
        return [directory]
    return [os.path.join(directory, run.label.strip(os.sep)
                         .replace(os.sep, "-")) for run in runs]


def write_events(run, folder, summary_writer):
    """Writes a run's event file and returns how many values it has."""
    begin, count = started(run), 0
    with summary_writer(folder) as writer:
        if "input" in run.provenance:
            writer.add_text("input", "    " + str(
                run.provenance["input"]).replace("\n", "\n    "), 0)
        for tag, (steps, seconds, values) in scalars(run).items():
            for step, second, value in zip(steps, seconds, values):
                if np.isfinite(value):
                    writer.add_scalar(tag, float(value), int(step),
                                      begin + float(second))
                    count += 1
    return count


def main(arguments):
    parser = Parser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("-o", "--output", required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    from tensorboardX import SummaryWriter
    runs = open_runs(options.runs)
    folders = folders_of(runs, options.output)
    for folder in folders:
        if glob.glob(os.path.join(glob.escape(folder), "events.out.*")):
            raise RunError(CANNOT_CREATE, f"{folder}: holds events already, "
                           "which TensorBoard would show with these")
    for run, folder in zip(runs, folders):
        try:
            count = write_events(run, folder, SummaryWriter)
        except OSError as error:
            raise RunError(CANNOT_CREATE, f"{folder}: {error.strerror}")
        print(f"{folder}: {count} values of {run.label}")
    return 0


if __name__ == "__main__":
    run_main(main)
