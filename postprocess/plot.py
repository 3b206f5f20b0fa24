#!/usr/bin/env python3
"""Draws how runs converged and where their time went.

    postprocess/plot.py RUN... -o FILE.png|FILE.pdf|FILE.svg
    postprocess/plot.py RUN... -o FILE.csv --data-only    the plotted points
    postprocess/plot.py RUN... --by variant -o FILE.png
        the evaluation over time and over bytes sent: means over seeds with
        95% bands, one line per variant (or value of a key)
    postprocess/plot.py RUN... --by variant --target 'loss <= 0.3' -o FILE.png
        the share of runs that reached it, over time and over bytes sent
    postprocess/plot.py RUN... --per-worker -o FILE.png
        a time bar for each worker of several runs, and not of means
    postprocess/plot.py RUN... --column sync/phase -o FILE.png
        any column of results.h5 over steps (or --axis)
"""
import csv
import sys

import packages  # noqa: F401, says which package is missing
import numpy as np

import plot_means
import plot_runs
import target as targets
from exit_codes import BAD_INPUT
from plot_runs import AXES, x_values
from run_reader import in_words, open_runs
from script import Parser, RunError, run_main, whole_file
from styles import PICTURES, check_ending, legend_above, prepare, save, \
    scheme_of, styles_of


def part_of(run, name):
    """What the parts of a row are: those of a histogram count pushes."""
    return "column" if run.units.get(name) == "pushes" else "worker"


def mean_of_rows(y):
    """NaN for rows without numbers."""
    known = np.isfinite(y)
    with np.errstate(invalid="ignore"):
        return np.where(known, y, 0).sum(axis=1) / known.sum(axis=1)


def column_lines(runs, table, column, axis):
    """(label, scheme, x, y) of a column: a line per worker (or other part) for
    a run that is alone, the mean over them for each of several."""
    lines = []
    for run in runs:
        y = run.column(table, column)
        if not len(y):
            continue
        if np.isnan(y).all():
            print(f"note: {run.path}: {table}/{column} holds no numbers",
                  file=sys.stderr)
            continue
        x = x_values(run, table, axis)
        if np.isnan(x).all():
            print(f"note: {run.path}: has no {axis}", file=sys.stderr)
            continue
        if y.ndim == 2 and len(runs) == 1 and y.shape[1] <= 32:
            whose = part_of(run, f"{table}/{column}")
            lines += [(f"{whose} {part}", None, x, y[:, part])
                      for part in range(y.shape[1])]
        else:
            lines.append((run.label, scheme_of([run]), x,
                          mean_of_rows(y) if y.ndim == 2 else y))
    if not lines:
        known = sorted(f"{group}/{name}" for group, columns in
                       runs[0].tables.items() for name in columns)
        raise RunError(BAD_INPUT, f"--column {table}/{column}: no run has it; "
                       f"{runs[0].label} has {' '.join(known)}")
    return lines


def draw_column(plt, runs, name, axis, path):
    table, _, column = name.partition("/")
    lines = column_lines(runs, table, column, axis)
    looks = styles_of([scheme for _, scheme, *_ in lines])
    figure, panel = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for (_, _, x, y), look in zip(lines, looks):
        panel.plot(x, y, **look, markevery=max(1, len(y) // 8))
    one = next(run for run in runs if name in run.units)
    remarks = [one.units[name]] * (one.units[name] != "1")
    if len(runs) > 1 and one.column(table, column).ndim == 2:
        remarks.append(f"mean over {part_of(one, name)}s")
    if table == "comm":
        remarks.append("in each row")
    panel.set_ylabel(in_words(column.removesuffix("_s")) +
                     (f" ({'; '.join(remarks)})" if remarks else ""))
    panel.set_xlabel(AXES[axis])
    panel.grid(alpha=0.3)
    if len(lines) > 1:
        legend = legend_above(figure, [label for label, *_ in lines], looks,
                              most=8)
        figure.set_figheight(4 + legend)
        figure.get_layout_engine().set(rect=(0, 0, 1, 4 / (4 + legend)))
    save(figure, path)


def write_data(runs, options):
    if options.target:
        rows = targets.rows_of(runs, options.by,
                               targets.target_of(runs, options.target))
    elif options.by:
        rows = plot_means.rows_of(runs, options.by)
    elif options.column:
        table, _, column = options.column.partition("/")
        rows = [["line", options.axis, column]] + [
            [label, repr(float(x_value)), repr(float(y_value))]
            for label, _, x, y in column_lines(runs, table, column,
                                               options.axis)
            for x_value, y_value in zip(x, y)]
    else:
        rows = plot_runs.points_of(runs)
    with whole_file(options.output) as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def draw(runs, options):
    if options.target:
        figure = targets.figure_of(
            prepare(), runs, options.by,
            targets.target_of(runs, options.target))
        save(figure, options.output)
    elif options.by:
        plot_means.draw(prepare(), runs, options.by, options.output)
    elif options.column:
        draw_column(prepare(), runs, options.column, options.axis,
                    options.output)
    else:
        plot_runs.draw(runs, options.output, options.per_worker)


def main(arguments):
    parser = Parser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--data-only", action="store_true",
                        help="write the points drawn as csv, draw nothing")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--by", metavar="KEY", help="means over seeds, a line "
                      "per value of this key, or variant")
    kind.add_argument("--column", metavar="TABLE/NAME", help="this column")
    kind.add_argument("--per-worker", action="store_true",
                      help="a time bar for each worker of several runs")
    parser.add_argument("--target", metavar="METRIC>=VALUE",
                        help="with --by: the share of runs that reached it")
    parser.add_argument("--axis", choices=list(AXES),
                        help="of --column (steps)")
    options = parser.parse_args(arguments)
    if options.axis and not options.column:
        raise RunError(BAD_INPUT, "--axis needs --column TABLE/NAME: other "
                       "pictures have axes of their own")
    options.axis = options.axis or "steps"
    if options.target and not options.by:
        raise RunError(BAD_INPUT, "--target needs --by KEY: whose runs are "
                       "counted together")
    check_ending(options.output, [".csv"] if options.data_only else PICTURES)
    runs = open_runs(options.runs)
    if options.data_only:
        write_data(runs, options)
    else:
        draw(runs, options)
    return 0


if __name__ == "__main__":
    run_main(main)
