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
        any column of results.h5 over steps (or --axis); of one run, the
        histogram sync/staleness as a map of colours
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
from styles import PICTURES, check_ending, legend_above, marked, \
    prepare, save, scheme_of, styles_of


MOST_WORKERS = 32  # with a line each


def is_histogram(run, name):
    """Whether a row of the column counts pushes by the values 0, 1, ..., or by
    as many together as Run.bin_width() says, the last one for all that are
    larger."""
    return run.units.get(name) == "pushes"


def mean_of_rows(y):
    """NaN for rows without numbers."""
    known = np.isfinite(y)
    with np.errstate(invalid="ignore"):
        return np.where(known, y, 0).sum(axis=1) / known.sum(axis=1)


def mean_of_histograms(counts, width):
    """The mean of the values that each row counts, of those in a bin its
    middle; NaN for rows of none. Rows of fewer workers end in NaN."""
    counts = np.nan_to_num(counts)
    values = width * np.arange(counts.shape[1]) + (width - 1) / 2
    with np.errstate(invalid="ignore"):
        return counts @ values / counts.sum(axis=1)


def parts_of(run, name, y):
    """{label: values} of a run that is alone: those of each worker, or how many
    pushes had each value that there was."""
    if is_histogram(run, name):
        width, what = run.bin_width(name), name.partition("/")[2]
        return {f"{what} {width * part}" + (
                    f" to {width * part + width - 1}" if width > 1 else ""):
                y[:, part] for part in range(y.shape[1])
                if np.nansum(y[:, part]) > 0}
    return {f"worker {part}": y[:, part] for part in range(y.shape[1])}


def is_averaged(runs, y):
    """Whether a column by worker is drawn as one line, their mean."""
    return len(runs) > 1 or y.shape[1] > MOST_WORKERS


def column_lines(runs, table, column, axis):
    """(label, scheme, x, y) of a column: a line per worker (or value) for a run
    that is alone, the mean over them for each of several."""
    lines = []
    name = f"{table}/{column}"
    is_known = False
    for run in runs:
        y = run.column(table, column)
        if not len(y):
            continue
        is_known = True
        if np.isnan(y).all():
            print(f"note: {run.path}: {name} contains no finite values",
                  file=sys.stderr)
            continue
        if name in run.other_bins:
            print(f"note: {run.path}: {name} of its earlier part is left out: "
                  "it counts by other bins", file=sys.stderr)
        x = x_values(run, table, axis)
        if np.isnan(x).all():
            print(f"note: {run.path}: has no {axis}", file=sys.stderr)
            continue
        parts = parts_of(run, name, y) if y.ndim == 2 and len(runs) == 1 \
            else {}
        if parts and (is_histogram(run, name) or not is_averaged(runs, y)):
            lines += [(label, None, x, part) for label, part in parts.items()]
        else:
            if is_histogram(run, name):
                y = mean_of_histograms(y, run.bin_width(name))
            elif y.ndim == 2:
                y = mean_of_rows(y)
            lines.append((run.label, scheme_of([run]), x, y))
    if is_known and not lines:
        raise RunError(BAD_INPUT, f"--column {name}: nothing to draw")
    if not is_known:
        known = sorted(f"{group}/{name}" for group, columns in
                       runs[0].tables.items() for name in columns)
        raise RunError(BAD_INPUT, f"--column {name}: no run has it; "
                       f"{runs[0].label} has {' '.join(known)}")
    return lines


def draw_histogram(figure, panel, x, counts, width):
    """A row's counts, in bins of so many values, as a column of colours, from
    the row before to its own x; white where there are none."""
    known = np.isfinite(x)
    x, counts = x[known], counts[known]
    used = np.flatnonzero(np.nansum(counts, axis=0) > 0).max(initial=0) + 1
    cells = np.ma.masked_less_equal(np.nan_to_num(counts[:, :used].T), 0)
    mesh = panel.pcolormesh(
        np.concatenate([[0.0], x]), width * np.arange(used + 1) - 0.5,
        cells,
        cmap="viridis_r", vmin=0, rasterized=True)
    panel.yaxis.get_major_locator().set_params(integer=True)
    figure.colorbar(mesh, ax=panel, label="pushes in each row")


def draw_column(plt, runs, name, axis, path):
    table, _, column = name.partition("/")
    lines = column_lines(runs, table, column, axis)
    one = next(run for run in runs if name in run.units)
    figure, panel = plt.subplots(figsize=(6.4, 4))
    remarks = [one.units[name]] * (one.units[name] != "1")
    if is_histogram(one, name):
        counts = one.column(table, column)
        remarks = ["updates"]
        if len(runs) > 1:
            remarks.append("mean over pushes")
        elif np.nansum(counts[:, -1]) > 0:
            last = one.bin_width(name) * (counts.shape[1] - 1)
            remarks.append(f"{last}: that many or more")
    elif one.column(table, column).ndim == 2 and \
            is_averaged(runs, one.column(table, column)):
        remarks.append("mean over workers")
    if table == "comm":
        remarks.append("in each row")
    panel.set_ylabel(in_words(column.removesuffix("_s")) +
                     (f" ({'; '.join(remarks)})" if remarks else ""))
    panel.set_xlabel(AXES[axis])
    if len(runs) == 1 and is_histogram(one, name):
        draw_histogram(figure, panel, lines[0][2], counts,
                       one.bin_width(name))
        figure.tight_layout()
        save(figure, path)
        return
    looks = styles_of([scheme for _, scheme, *_ in lines])
    for (_, _, x, y), look in zip(lines, looks):
        panel.plot(x, y, **look, markevery=marked(len(y)))
    panel.grid(alpha=0.3)
    legend = 0
    if len(lines) > 1:
        legend = legend_above(figure, [label for label, *_ in lines], looks,
                              most=8)
        figure.set_figheight(4 + legend)
    figure.tight_layout(rect=(0, 0, 1, 4 / (4 + legend)))
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
