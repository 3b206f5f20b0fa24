#!/usr/bin/env python3
"""Draws how runs converged and where their time went.

    postprocess/plot.py RUN... -o FILE.png|FILE.pdf|FILE.svg
    postprocess/plot.py RUN... -o FILE.csv --data-only    the plotted points
    postprocess/plot.py RUN... --by variant -o FILE.png
        the evaluation over time and over bytes sent: means over seeds with
        95% bands, one line per variant (or value of a key)
    postprocess/plot.py RUN... --by variant --target 'accuracy >= 0.9' -o FILE.png
        the share of runs that reached it, over time and over bytes sent
    postprocess/plot.py RUN... --per-worker -o FILE.png
        a time bar for each worker of several runs, and not of means
    postprocess/plot.py RUN... --column sync/phase -o FILE.png
        any column of results.h5 over steps (or --axis)
"""
import argparse
import csv
import os

import packages  # noqa: F401, says which package is missing
import numpy as np

import plot_means
import target as targets
from run_reader import BAD_INPUT, RunError, open_runs, run_main
from styles import GREEN, PARTS, prepare, scheme_of, styles_of

CANNOT_CREATE = 73
AXES = {"steps": "steps of a worker", "samples": "training samples seen",
        "time_s": "training time on this machine (s)",
        "virtual_s": "virtual time (s)"}


def x_values(run, table, axis):
    """`axis` for the rows of /train or /eval; evaluations count samples as
    the training rows around them do."""
    steps = run.column(table, "worker_steps") / run.workers
    if axis == "steps":
        return steps
    values = run.column(table, axis)
    known = run.column("train", "worker_steps") / run.workers
    if not len(values) and axis != "samples" and len(known):
        times = run.column("train", axis)
        return np.interp(steps, known, times) if len(times) else times
    if len(values) or axis != "samples":
        return values
    samples = run.column("train", "samples")
    if not len(known):
        return values
    # All steps cover the same number of samples, so one ratio converts.
    return steps * (samples[-1] / known[-1])


def axes_of(runs):
    axes = ["steps", "samples", "time_s"]
    if any(run.has_virtual_time() for run in runs):
        axes.append("virtual_s")
    return axes


def series_of(run):
    """(table, column) of the curves: training loss, then the metric."""
    metric = run.metric
    return [("train", "loss")] + ([("eval", metric)] if metric else [])


def smooth(values, width):
    """Running mean over `width` rows, shorter at both ends."""
    kernel = np.ones(width)
    return np.convolve(values, kernel, "same") / \
        np.convolve(np.ones(len(values)), kernel, "same")


def time_parts(run):
    """Seconds by part, for one bar per worker."""
    compute, exposed = run.per_worker("compute_s"), run.per_worker("exposed_s")
    wait = run.per_worker("wait_s")
    if not len(wait):
        wait = np.zeros_like(exposed)
    wait = np.nan_to_num(wait)  # NaN: NCCL, which does not separate the two
    return {"compute": compute, "communication": exposed - wait,
            "waiting for others": wait}


def by_clock(runs):
    """{clock: runs}: in one process a worker's clock is the virtual one, which
    shares no axis with a wall clock."""
    clocks = {}
    for run in runs:
        clock = "virtual s" if run.has_virtual_time() else "s"
        clocks.setdefault(clock, []).append(run)
    return clocks


def bars_of(runs, per_worker):
    """(label, {part: seconds}, overlapped): a bar for each worker, or one of
    means over the workers for each run."""
    bars = []
    for run in runs:
        parts = time_parts(run)
        hidden = run.per_worker("overlapped_s")
        count = len(parts["compute"])
        if count == 0:
            continue
        if not len(hidden):
            hidden = np.zeros(count)
        if per_worker:
            whose = f"{run.label} " if len(runs) > 1 else "worker "
            bars += [(f"{whose}{w}", {k: v[w] for k, v in parts.items()},
                      hidden[w]) for w in range(count)]
        else:
            bars.append((run.label, {k: v.mean() for k, v in parts.items()},
                         hidden.mean()))
    return bars


def points_of(runs):
    """Every point and bar as a row: run, figure, x, y."""
    yield ["run", "y", "x", "x_value", "y_value"]
    for run in runs:
        for table, column in series_of(run):
            y = run.column(table, column)
            for axis in axes_of([run]):
                for x_value, y_value in zip(x_values(run, table, axis), y):
                    yield [run.label, f"{table} {column}", axis,
                           repr(float(x_value)), repr(float(y_value))]
        for part, values in time_parts(run).items():
            for worker, value in enumerate(values):
                yield [run.label, part, "worker", worker, repr(float(value))]


def column_lines(runs, table, column, axis):
    """(label, x, y) of a column: a line a worker (or other part) for a run that
    is alone, the mean over them for each of several."""
    lines = []
    for run in runs:
        y = run.column(table, column)
        if not len(y):
            continue
        x = x_values(run, table, axis)
        if y.ndim == 2 and len(runs) == 1 and y.shape[1] <= 32:
            lines += [(f"[{part}]", x, y[:, part])
                      for part in range(y.shape[1])]
        else:
            lines.append((run.label, x, np.nanmean(y, axis=1) if y.ndim == 2 else y))
    if not lines:
        known = sorted(f"{group}/{name}" for group, columns in
                       runs[0].tables.items() for name in columns)
        raise RunError(BAD_INPUT, f"--column {table}/{column}: no run has it; "
                       f"{runs[0].label} has {' '.join(known)}")
    return lines


def draw_column(plt, runs, name, axis, path):
    table, _, column = name.partition("/")
    lines = column_lines(runs, table, column, axis)
    figure, panel = plt.subplots(figsize=(6.4, 4), layout="constrained")
    schemes = [scheme_of([run]) for run in runs] if len(lines) == len(runs) \
        else [None] * len(lines)
    for (label, x, y), style in zip(lines, styles_of(schemes)):
        if len(y) > 60:
            style["marker"] = None
        panel.plot(x, y, label=label, **style)
    unit = next(run.units[name] for run in runs if name in run.units)
    of_mean = " (mean over workers)" if len(runs) > 1 and any(
        run.column(table, column).ndim == 2 for run in runs) else ""
    panel.set_ylabel(f"{column.replace('_', ' ')}"
                     f"{'' if unit == '1' else f' ({unit})'}{of_mean}")
    panel.set_xlabel(AXES[axis])
    panel.grid(alpha=0.3)
    if len(lines) > 1:
        panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0),
                     ncol=8 if len(runs) == 1 else 4, frameon=False)
    figure.savefig(path, dpi=150)


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
            for label, x, y in column_lines(runs, table, column, options.axis)
            for x_value, y_value in zip(x, y)]
    else:
        rows = points_of(runs)
    rows = list(rows)  # fails, if at all, before the file is opened
    with open(options.output, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def draw_curves(figure, grid, runs, axes):
    """Two rows of panels: training loss above, the metric below."""
    styles = styles_of([scheme_of([run]) for run in runs])
    drawn, above = {}, {}  # above: the panel of the column's first row
    for row in range(2):
        shared = None
        for place, axis in enumerate(axes):
            panel = figure.add_subplot(grid[row, place], sharey=shared,
                                       sharex=above.get(place))
            shared = shared or panel
            above.setdefault(place, panel)
            for index, run in enumerate(runs):
                if row >= len(series_of(run)):
                    continue
                table, column = series_of(run)[row]
                x, y = x_values(run, table, axis), run.column(table, column)
                if not len(x) or not np.isfinite(x + y).any():
                    continue
                style = {**styles[index], "label": run.label}
                if row == 0 and len(x) > 1:
                    style["marker"] = None
                if row == 1:
                    line, = panel.plot(x, y, **style)
                elif len(y) > 60:
                    panel.plot(x, y, color=style["color"], alpha=0.25,
                               linewidth=0.7)
                    line, = panel.plot(x, smooth(y, len(y) // 30), **style)
                else:
                    line, = panel.plot(x, y, **style)
                drawn[run.label] = line
            if not panel.lines:
                panel.text(0.5, 0.5, "no finite values", ha="center",
                           transform=panel.transAxes)
            panel.grid(alpha=0.3)
            if place == 0:
                names = {run.with_unit(run.metric) for run in runs
                         if run.metric} or {"metric"}
                panel.set_ylabel("training loss" if row == 0 else
                                 "evaluation " + ", ".join(
                                     sorted(names)).replace("_", " "))
            else:
                panel.tick_params(labelleft=False)
            if row == 1:
                panel.set_xlabel(AXES[axis])
            else:
                panel.tick_params(labelbottom=False)
            panel.margins(x=0.02)
            panel.set_xlim(left=0)
            # Few ticks, so that the labels of adjacent panels do not overlap.
            panel.locator_params(axis="x", nbins=4)
            panel.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4),
                                   useMathText=True)
    return drawn


def draw_bars(panel, clock, bars, of_means):
    """Stacked bars: parts of a worker's time; thin: hidden communication."""
    for place, (_, parts, hidden) in enumerate(bars):
        left = 0.0
        for part, colour in PARTS.items():
            panel.barh(place, parts[part], left=left, height=0.55,
                       color=colour, edgecolor="white", linewidth=0.5,
                       label=part if place == 0 else None)
            left += parts[part]
        panel.barh(place + 0.37, hidden, height=0.14, color=GREEN,
                   label="communication under computation"
                   if place == 0 else None)
    # The legend has the full names; the margin fits 16 letters.
    panel.set_yticks(range(len(bars)),
                     [label if len(label) <= 16 else "…" + label[-15:]
                      for label, *_ in bars])
    panel.invert_yaxis()
    panel.set_xlabel(f"where a worker's time went ({clock}"
                     f"{', mean over workers' if of_means else ''})")
    panel.grid(axis="x", alpha=0.3)
    panel.set_axisbelow(True)


def draw_convergence(plt, runs, path, per_worker):
    axes = axes_of(runs)
    of_means = not per_worker and (len(runs) > 1 or runs[0].workers > 16)
    bars = {clock: bars_of(alike, per_worker=not of_means)
            for clock, alike in by_clock(runs).items()}
    bars = {clock: rows for clock, rows in bars.items() if rows}
    bar_heights = [0.55 + 0.26 * len(rows) for rows in bars.values()]
    names_height = 0.22 * -(-len(runs) // 3) + 0.1
    height = 5.2 + sum(bar_heights) + names_height
    figure = plt.figure(figsize=(3.1 * len(axes) + 0.8, height))
    rows = [2.5, 2.5] + bar_heights
    grid = figure.add_gridspec(
        len(rows), len(axes), height_ratios=rows, left=0.085, right=0.985,
        bottom=0.5 / height, top=1 - names_height / height - 0.01,
        hspace=0.14 * len(rows))
    # The rows of curves are closer to each other than to the bars below.
    curves = grid[0:2, :].subgridspec(2, len(axes), hspace=0.1, wspace=0.14)
    drawn = draw_curves(figure, curves, runs, axes)
    if drawn:
        figure.legend(drawn.values(), drawn.keys(), loc="upper center",
                      ncol=min(3, len(drawn)), frameon=False)
    for row, (clock, rows) in enumerate(bars.items(), start=2):
        # Leave space for the legend to the right of the bars.
        below = grid[row, :].subgridspec(1, 2, width_ratios=[4, 1.25])
        panel = figure.add_subplot(below[0, 0])
        draw_bars(panel, clock, rows, of_means)
        if row == 2:
            panel.legend(loc="center left", bbox_to_anchor=(1.01, 0.5),
                         frameon=False)
    figure.savefig(path, dpi=150)


def draw(runs, options):
    plt = prepare()
    if options.target:
        targets.draw(plt, runs, options.by,
                     targets.target_of(runs, options.target),
                     options.output)
    elif options.by:
        plot_means.draw(plt, runs, options.by, options.output)
    elif options.column:
        draw_column(plt, runs, options.column, options.axis, options.output)
    else:
        draw_convergence(plt, runs, options.output, options.per_worker)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--data-only", action="store_true",
                        help="write the points drawn as csv, draw nothing")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--by", metavar="KEY", help="means over seeds, a line a "
                      "value of this key, or variant")
    kind.add_argument("--column", metavar="TABLE/NAME", help="this column")
    kind.add_argument("--per-worker", action="store_true",
                      help="a time bar for each worker of several runs")
    parser.add_argument("--target", metavar="METRIC>=VALUE",
                        help="with --by: the share of runs that reached it")
    parser.add_argument("--axis", choices=list(AXES), default="steps",
                        help="of --column (steps)")
    options = parser.parse_args(arguments)
    if options.target and not options.by:
        raise RunError(BAD_INPUT, "--target needs --by KEY: whose runs are "
                       "counted together")
    suffix = os.path.splitext(options.output)[1]
    accepted = [".csv"] if options.data_only else [".png", ".pdf", ".svg"]
    if suffix not in accepted:
        raise RunError(BAD_INPUT, f"{options.output}: the name must end in "
                       f"{' or '.join(accepted)}")
    runs = open_runs(options.runs)
    try:
        if options.data_only:
            write_data(runs, options)
        else:
            draw(runs, options)
    except OSError as error:
        raise RunError(CANNOT_CREATE, f"{options.output}: {error.strerror}")
    return 0


if __name__ == "__main__":
    run_main(main)
