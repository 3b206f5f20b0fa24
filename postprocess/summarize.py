#!/usr/bin/env python3
"""Prints one line per run: its settings, its final metrics, its cost.

    postprocess/summarize.py RUN...
"""
import packages  # noqa: F401, says which package is missing
import numpy as np

from run_reader import open_runs, print_table
from script import Parser, run_main


def model_name(run):
    """The family and its sizes: resnet-20, wrn-16-4, bert-24-1024, deepfm-10,
    logistic, or resnet 1-1-1 of 8-16-32 where stages are given."""
    family = run.input.get("model.family", "?")
    stages, widths = (run.input.get(f"model.{key}", "auto").replace(" ", "-")
                      for key in ("stages", "widths"))
    if stages != "auto":
        return f"{family} {stages}" + f" of {widths}" * (widths != "auto")
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


def figure(value):
    """Four decimals, or four digits of a loss that exploded."""
    is_huge = value is not None and abs(value) > 1e4
    return number(value, ".4g" if is_huge else ".4f")


def rates(run):
    """Samples per second of training on this machine, and per virtual second;
    only the latter where the run has virtual time."""
    samples = run.last("train", "samples")
    is_virtual = run.has_virtual_time()
    seconds = run.last("train", "virtual_s" if is_virtual else "time_s")
    rate = number(samples / seconds if seconds > 0 else None, ".0f")
    return ["-", rate] if is_virtual else [rate, "-"]


def row(run):
    """A cell for each column of HEADER."""
    final, best = run.final_and_best(run.metric) if run.metric \
        else (None, None)
    sent = run.per_worker("bytes_sent")
    return [
        run.label, run.scheme, model_name(run),
        run.input.get("data.kind", "?"), run.workers,
        number(run.last("train", "worker_steps") / run.workers, ".0f"),
        run.state,
        figure(run.last("train", "loss")),
        run.with_unit(run.metric).replace(" ", "") if run.metric else "-",
        figure(final), figure(best),
        number(run.last("train", "time_s"), ".1f"),
        number(run.last("train", "virtual_s") if run.has_virtual_time()
               else None, ".1f"),
        *rates(run), bytes_text(np.nansum(sent)) if len(sent) else "-"]


HEADER = ["run", "scheme", "model", "data", "workers", "steps", "ended",
          "loss", "metric", "final", "best", "time s", "virtual s",
          "samples/s", "samples/virtual s", "bytes sent"]


def left_out(runs):
    """The columns that say nothing about these runs."""
    clocks = {run.has_virtual_time() for run in runs}
    names = {"samples/s"} if clocks == {True} else set()
    if clocks == {False}:
        names |= {"samples/virtual s"}
    if all(run.state == "finished" for run in runs):
        names |= {"ended"}
    return names


def main(arguments):
    parser = Parser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("runs", nargs="+", metavar="RUN",
                        help="a run's directory or its results.h5")
    runs = open_runs(parser.parse_args(arguments).runs)
    kept = [place for place, name in enumerate(HEADER)
            if name not in left_out(runs)]
    print_table([HEADER[place] for place in kept],
                [[cells[place] for place in kept] for cells in map(row, runs)])
    return 0


if __name__ == "__main__":
    run_main(main)
