#!/usr/bin/env python3
"""A run's results as event files of TensorBoard.

    postprocess/tensorboard.py RUN -o DIR       then: tensorboard --logdir DIR

Every series of /train and /eval that is one number a row becomes a scalar over
the steps, /comm's columns are summed over the workers. Needs PyPI's
tensorboardX.
"""
import argparse
import calendar
import glob
import os
import time

import packages  # noqa: F401, says which package is missing
import numpy as np

from run_reader import RunError, open_run, run_main

CANNOT_CREATE = 73
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


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("-o", "--output", required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    from tensorboardX import SummaryWriter
    run = open_run(options.run)
    if glob.glob(os.path.join(options.output, "events.out.*")):
        raise RunError(CANNOT_CREATE, f"{options.output}: holds events already,"
                       " which TensorBoard would show together with these")
    begin, count = started(run), 0
    try:
        with SummaryWriter(options.output) as writer:
            if run.input:
                writer.add_text("input", "    " + str(
                    run.provenance["input"]).replace("\n", "\n    "), 0)
            for tag, (steps, seconds, values) in scalars(run).items():
                for step, second, value in zip(steps, seconds, values):
                    if np.isfinite(value):
                        writer.add_scalar(tag, float(value), int(step),
                                          begin + float(second))
                        count += 1
    except OSError as error:
        raise RunError(CANNOT_CREATE, f"{options.output}: {error.strerror}")
    print(f"{options.output}: {count} values of {run.name}")
    return 0


if __name__ == "__main__":
    run_main(main)
