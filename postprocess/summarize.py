#!/usr/bin/env python3
"""Prints one line per run: its settings, its final metrics, its cost.

    postprocess/summarize.py RUN...
"""
import argparse

import packages  # noqa: F401, says which package is missing
import numpy as np

from run_reader import METRICS, open_runs, print_table, run_main


def model_name(run):
    """The family and its sizes: resnet-20, wrn-16-4, bert-24-1024, deepfm-10,
    logistic."""
    family = run.input.get("model.family", "?")
    sizes = {"resnet": ["depth"], "wrn": ["depth", "width"],
             "bert": ["layers", "hidden"], "deepfm": ["embedding"]}
    return "-".join([family] + [
        run.input[f"model.{size}"] for size in sizes.get(family, [])
        if f"model.{size}" in run.input])


def bytes_text(count):
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" else \
                f"{count:.1f} {unit}"
        count /= 1000


def number(value, form):
    return "-" if value is None or not np.isfinite(value) else \
        format(value, form)


def final_and_best(run):
    values = run.column("eval", run.metric) if run.metric else np.empty(0)
    values = values[np.isfinite(values)]
    if not len(values):
        return None, None
    return values[-1], max(values) if METRICS[run.metric] else min(values)


def row(run):
    final, best = final_and_best(run)
    seconds = run.last("train", "time_s")
    samples = run.last("train", "samples")
    rate = samples / seconds if seconds > 0 else float("nan")
    sent = run.per_worker("bytes_sent")
    return [
        run.label, run.scheme, model_name(run), run.input.get("data.kind", "?"),
        run.workers,
        number(run.last("train", "worker_steps") / run.workers, ".0f"),
        number(run.last("train", "loss"), ".4f"),
        run.with_unit(run.metric).replace(" ", "") if run.metric else "-",
        number(final, ".4f"), number(best, ".4f"), number(seconds, ".1f"),
        number(run.last("train", "virtual_s") if run.has_virtual_time()
               else None, ".1f"),
        number(rate, ".0f"), bytes_text(sent.sum()) if len(sent) else "-"]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="RUN",
                        help="a run's directory or its results.h5")
    options = parser.parse_args(arguments)
    header = ["run", "scheme", "model", "data", "workers", "steps", "loss",
              "metric", "final", "best", "time s", "virtual s", "samples/s",
              "bytes sent"]
    print_table(header, [row(run) for run in open_runs(options.runs)])
    return 0


if __name__ == "__main__":
    run_main(main)
