"""plot.py without --by and --column: a row of panels for the training loss and
one for each metric, a line per run, and bars of where the workers' time went.
"""
import math

import numpy as np

from run_reader import METRICS, in_words
from styles import HIDDEN, PARTS, TIMES, legend_above, mark_divergence, \
    marked, plain, prepare, save, scheme_of, styles_of, width_in

AXES = {"steps": "steps (worker_steps / workers)",
        "samples": "training samples seen", **TIMES}
MOST_LETTERS = 40  # of a bar's label
MOST_RAW = 60  # rows of a loss that is drawn as it is, not smoothed
ROW, GAP = 2.35, 0.6  # inches: a row of panels, what is between two of bars


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
    if not len(known) or not len(samples):
        return np.full(len(steps), math.nan)
    # All steps cover the same number of samples, so one ratio converts.
    return steps * (samples[-1] / known[-1])


def axes_of(runs):
    axes = ["steps", "samples", "time_s"]
    if any(run.has_virtual_time() for run in runs):
        axes.append("virtual_s")
    return axes


def series_of(run):
    """{title: (table, column)} of the curves: training loss and metric."""
    series = {"training loss": ("train", "loss")}
    if run.metric:
        title = f"evaluation {in_words(run.with_unit(run.metric))}"
        series[title] = ("eval", run.metric)
    return series


def rows_of(runs):
    """{title: [(run's place, table, column)]}: a row of panels for each
    quantity."""
    rows = {}
    for place, run in enumerate(runs):
        for title, series in series_of(run).items():
            rows.setdefault(title, []).append((place, *series))
    return rows


def time_parts(run):
    """Seconds by part, for one bar per worker."""
    return parts_of(*(run.per_worker(name) for name in (
        "compute_s", "exposed_s", "wait_s")))


def mean_time_parts(run):
    """The same as means over the workers, of whom there may have been more or
    fewer in some rows."""
    return parts_of(*(run.mean_per_worker(name) for name in (
        "compute_s", "exposed_s", "wait_s")))


def parts_of(compute, exposed, wait):
    # NCCL does not separate the two, nor do files without the column.
    is_known = np.isfinite(wait) if np.size(wait) else np.zeros_like(
        exposed, dtype=bool)
    wait = np.where(is_known, wait, 0) if np.size(wait) else 0 * exposed
    return {"compute": compute,
            "communication": np.where(is_known, exposed - wait, 0),
            "communication and waiting": np.where(is_known, 0, exposed),
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
            whose = f"{run.label}, " if len(runs) > 1 else ""
            bars += [(f"{whose}worker {w}", {k: v[w] for k, v in parts.items()},
                      hidden[w]) for w in range(count)]
        else:
            bars.append((run.label, mean_time_parts(run), np.nan_to_num(
                run.mean_per_worker("overlapped_s"))))
    return bars


def points_of(runs):
    """Every point and bar as a row: run, figure, x, y."""
    yield ["run", "y", "x", "x_value", "y_value"]
    for run in runs:
        for table, column in series_of(run).values():
            y = run.drawable(table, column)
            for axis in axes_of([run]):
                for x_value, y_value in zip(x_values(run, table, axis), y):
                    yield [run.label, f"{table} {column}", axis,
                           repr(float(x_value)), repr(float(y_value))]
        for part, values in time_parts(run).items():
            for worker, value in enumerate(values):
                yield [run.label, part, "worker", worker, repr(float(value))]


def smooth(values, width):
    """Running mean over `width` rows, shorter at both ends."""
    kernel = np.ones(width)
    return np.convolve(values, kernel, "same") / \
        np.convolve(np.ones(len(values)), kernel, "same")


def finite_of(runs, lines):
    """The finite values of lines of a row, in one array."""
    values = np.concatenate([runs[place].drawable(table, column)
                             for place, table, column in lines] or [[]])
    return values[np.isfinite(values)]


def scale_of(runs, lines):
    """("linear" or "log", (low, high) or None) of a row's axis. Runs that
    diverged have no say in it beside others, unless the metric is bounded."""
    if METRICS[lines[0][2]].high < math.inf:
        return "linear", None
    whole = [line for line in lines if not runs[line[0]].has_diverged]
    values = finite_of(runs, whole)
    if len(values) and len(whole) < len(lines):
        margin = 0.05 * (values.max() - values.min()) or 0.05
        return "linear", (values.min() - margin, values.max() + margin)
    values = finite_of(runs, lines)
    exploded = not whole and len(values) and \
        values.max() > 100 * values.min() > 0
    return "log" if exploded else "linear", None


def draw_run(panel, run, x, y, look, is_loss):
    """A run's line, of a long loss the running mean over a pale line. Where it
    diverged the line ends with a cross."""
    known = np.isfinite(x + y)
    x, y = x[known], y[known]
    look = {**look, "markevery": marked(len(x))}
    if is_loss and len(x) > MOST_RAW:
        panel.plot(x, y, color=look["color"], alpha=0.25, linewidth=0.7)
        y = smooth(y, len(y) // 30)
    panel.plot(x, y, **look)
    if run.has_diverged:
        mark_divergence(panel, x[-1], y[-1], look["color"])


def draw_panel(panel, runs, lines, axis, looks):
    """The lines of a row over one axis."""
    scale, limits = scale_of(runs, lines)
    panel.set_yscale(scale)
    if limits:
        panel.set_ylim(limits)
    for place, table, column in lines:
        run = runs[place]
        x, y = x_values(run, table, axis), run.drawable(table, column)
        if len(x) and np.isfinite(x + y).any():
            draw_run(panel, run, x, y, looks[place], table == "train")
    if not panel.lines:
        panel.text(0.5, 0.5, "no finite values", ha="center",
                   transform=panel.transAxes)
    panel.grid(alpha=0.3)
    panel.margins(x=0.02)
    panel.set_xlim(left=0)
    # Few ticks, so that the labels of adjacent panels do not overlap.
    panel.locator_params(axis="x", nbins=4)
    panel.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4),
                           useMathText=True)


def draw_curves(figure, grid, runs, axes, looks):
    """A row of panels for each quantity, a panel for each axis."""
    rows = rows_of(runs)
    above = {}  # the panel of the column's first row
    for row, (title, lines) in enumerate(rows.items()):
        shared = None
        for place, axis in enumerate(axes):
            panel = figure.add_subplot(grid[row, place], sharey=shared,
                                       sharex=above.get(place))
            shared = shared or panel
            above.setdefault(place, panel)
            draw_panel(panel, runs, lines, axis, looks)
            if place == 0:
                panel.set_ylabel(title)
            else:
                panel.tick_params(labelleft=False)
            if row == len(rows) - 1:
                panel.set_xlabel(AXES[axis])
            else:
                panel.tick_params(labelbottom=False)
                panel.xaxis.offsetText.set_visible(False)


def draw_bars(panel, clock, bars, of_means):
    """Stacked bars: parts of a worker's time; thin: hidden communication."""
    # A legend entry of its own only where some bar has it.
    shown = [part for part in PARTS if part != "communication and waiting" or
             any(parts[part] > 0 for _, parts, _ in bars)]
    for place, (_, parts, hidden) in enumerate(bars):
        left = 0.0
        for part, colour in PARTS.items():
            if part not in shown:
                continue
            panel.barh(place, parts[part], left=left, height=0.55,
                       color=colour, edgecolor="white", linewidth=0.5,
                       label=part if place == 0 else None)
            left += parts[part]
        panel.barh(place + 0.37, hidden, height=0.14, color=HIDDEN,
                   label="communication during computation"
                   if place == 0 else None)
    panel.set_yticks(range(len(bars)))
    panel.set_yticklabels([plain(label if len(label) <= MOST_LETTERS
                                 else "…" + label[1 - MOST_LETTERS:])
                           for label, *_ in bars])
    panel.set_ylim(len(bars) - 0.4, -0.45)
    panel.set_xlabel(f"where a worker's time went ({clock}"
                     f"{', mean over workers' if of_means else ''})")
    panel.grid(axis="x", alpha=0.3)
    panel.set_axisbelow(True)


def bars_by_clock(runs, per_worker):
    """({clock: bars}, whether they are means over workers)."""
    of_means = not per_worker and (len(runs) > 1 or runs[0].workers > 16)
    bars = {clock: bars_of(alike, per_worker=not of_means)
            for clock, alike in by_clock(runs).items()}
    return {clock: rows for clock, rows in bars.items() if rows}, of_means


def add_bars(figure, bars, of_means, bottom, heights):
    """A panel of bars for each clock, below `bottom`, and one legend to the
    right of the first of them."""
    width, height = figure.get_size_inches()
    legend = None
    for (clock, rows), part in zip(bars.items(), heights):
        bottom -= GAP + part
        grid = figure.add_gridspec(1, 1, top=(bottom + part) / height,
                                   bottom=bottom / height)
        panel = figure.add_subplot(grid[0, 0])
        draw_bars(panel, clock, rows, of_means)
        legend = legend or panel.legend(
            loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        labels = [width_in(figure, label) for label in panel.get_yticklabels()]
        grid.update(left=(max(*labels, 0.6) + 0.25) / width,
                    right=1 - (width_in(figure, legend) + 0.2) / width)


def label_of(run):
    """Its label in the legend, and whether it diverged."""
    if not run.has_diverged:
        return run.label
    is_drawn = any(np.isfinite(run.drawable(*series)).any()
                   for series in series_of(run).values())
    return f"{run.label} (diverged{'' if is_drawn else ', no finite values'})"


def figure_of(plt, runs, per_worker):
    """From the top: the legend, a row of panels per quantity, bars per clock.
    Sizes are in inches."""
    axes, count = axes_of(runs), len(rows_of(runs))
    bars, of_means = bars_by_clock(runs, per_worker)
    looks = styles_of([scheme_of([run]) for run in runs])
    width = 3.1 * len(axes) + 0.8
    figure = plt.figure(figsize=(width, 1))
    legend = legend_above(figure, [label_of(run) for run in runs], looks,
                          most=4)
    heights = [0.2 + 0.26 * len(rows) for rows in bars.values()]
    below = sum(GAP + part for part in heights) + 0.5
    height = legend + 0.1 + ROW * count + below
    figure.set_figheight(height)
    curves = figure.add_gridspec(
        count, len(axes), left=0.85 / width, right=1 - 0.15 / width,
        top=(below + ROW * count) / height, bottom=below / height, hspace=0.1,
        wspace=0.14)
    draw_curves(figure, curves, runs, axes, looks)
    add_bars(figure, bars, of_means, below, heights)
    return figure


def draw(runs, path, per_worker):
    figure = figure_of(prepare(), runs, per_worker)
    save(figure, path)
