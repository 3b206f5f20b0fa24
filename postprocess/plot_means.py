"""plot.py --by: the evaluation's metric over time and over bytes, one line per
group of runs: the mean over seeds with its 95% band. Where bands hide each
other, each line also has a panel of its own, with its band.
"""
import copy
import math
from functools import reduce

import numpy as np

from exit_codes import BAD_INPUT
from groups import common_clock, grouped, in_order, interval, lacking, \
    metric_of, note_clocks, refuse_unlike, shown_label, shown_metric
from run_reader import METRICS, in_words
from script import RunError
from styles import TIMES, label_log_axis, legend_above, mark_divergence, \
    marked, plain, save, scheme_of, styles_of

MOST_IN_ONE = 8     # lines whose bands may be in one panel,
MOST_IN_STACK = 2   # bands on top of each other,
MOST_HIDDEN = 0.2   # share of the time in which there are more
OTHERS = "#B8B8B8"  # lines of the others, darker than any band


def common_rows(steps):
    """The rows of each run that go together, by the steps of its evaluations:
    equal steps. Runs may also end at other steps, earlier than planned: then
    their last rows go together, too."""
    rows = min(map(len, steps), default=0)
    planned = [own[rows - 1] for own in steps if len(own) > rows]
    if (rows > 1 or not planned) and len(set(planned)) <= 1 and all(
            np.array_equal(own[:rows - 1], steps[0][:rows - 1]) and
            own[rows - 1] <= min(planned, default=math.inf)
            for own in steps if rows):
        return [np.arange(rows)] * len(steps)
    shared = reduce(np.intersect1d, steps)
    return [np.flatnonzero(np.isin(own, shared)) for own in steps]


def end_apart(runs):
    """Whether they are finished and evaluated at the same steps, but ended at
    different ones, because they reached a target or a time limit."""
    steps = [run.column("eval", "worker_steps") for run in runs]
    longest = max(steps, key=len, default=[])
    return len({own[-1] for own in steps}) > 1 and all(
        run.state == "finished" and not run.is_published and
        np.array_equal(own[:-1], longest[:len(own) - 1]) and
        own[0] == longest[0]
        for run, own in zip(runs, steps))


def curve_over_time(runs, metric, clock):
    """curve_of() where the runs end apart: at the times of all evaluations from
    the one on that all runs have; a run that has ended keeps its last value."""
    times = [run.column("eval", clock) for run in runs]
    where = np.unique(np.concatenate(times))
    where = where[where >= max(own[0] for own in times)]

    def at(columns):
        return np.array([np.interp(where, own, column)
                         for own, column in zip(times, columns)])

    values = at([run.column("eval", metric) for run in runs])
    sent = at([run.sent_per_worker(run.column("eval", "worker_steps"))
               for run in runs])
    y, half = np.array([interval(column) for column in values.T]).T
    return {"y": y, "half": half, "time": where, "bytes": sent.mean(axis=0),
            "runs": len(runs)}


def curve_of(runs, metric, clock):
    """{"y", "half", "time", "bytes"}: a value per evaluation that all the runs
    have, means over them; half is that of the 95% interval, NaN for one. And
    "runs", their number."""
    if end_apart(runs):
        return curve_over_time(runs, metric, clock)
    steps = [run.column("eval", "worker_steps") for run in runs]
    # Published runs were evaluated at about equal steps, not all of them known.
    if any(run.is_published for run in runs):
        rows = [np.arange(min(map(len, steps)))] * len(runs)
    else:
        rows = common_rows(steps)
    if runs and not len(rows[0]):
        raise RunError(BAD_INPUT, f"{', '.join(run.label for run in runs)}: "
                       "have no evaluation step in common")

    def mean_and_half(columns):
        points = [interval(values) for values in
                  zip(*(column[own] for column, own in zip(columns, rows)))]
        return np.array(points).reshape(-1, 2).T

    y, half = mean_and_half([run.column("eval", metric) for run in runs])
    # A published run may have no clock.
    times = [run.column("eval", clock) for run in runs]
    time, _ = mean_and_half([
        column if len(column) else np.full(len(own), math.nan)
        for column, own in zip(times, steps)])
    sent, _ = mean_and_half([
        run.sent_per_worker(run.column("eval", "worker_steps"))
        for run in runs])
    return {"y": y, "half": half, "time": time, "bytes": sent,
            "runs": len(runs)}


def until_divergence(run, metric):
    """The same run with the evaluations before the first one whose metric is
    not a finite number, or that of a model which is NaN."""
    known = np.isfinite(run.drawable("eval", metric))
    rows = len(known) if known.all() else int(np.argmin(known))
    early = copy.copy(run)
    early.tables = {**run.tables, "eval": {
        name: column[:rows] for name, column in run.tables["eval"].items()}}
    return early


def drawn_of(runs, metric):
    """The runs whose mean is drawn: those that finished or, if none did, those
    that are on their way. And whether these diverged, because all did: then
    their mean ends with the first of them."""
    evaluated = [run for run in runs if len(run.column("eval", metric))]
    whole = [run for run in evaluated if not run.has_diverged]
    if whole:
        return [run for run in whole if run.state == "finished"] or whole, False
    early = [until_divergence(run, metric) for run in evaluated]
    steps = [run.column("eval", "worker_steps") for run in early]
    first = next((own[0] for own in steps if len(own)), None)
    drawn = [run for run, own in zip(early, steps)
             if len(own) and own[0] == first]
    return drawn, bool(drawn)


def curves_of(runs, by):
    """{label: curve}, the lines' schemes, the metric's name and the clock. The
    label says how many runs diverged, did not finish or have no evaluations. A
    group of which no run can be drawn has an empty curve; "diverged" says that
    a curve ends in that."""
    refuse_unlike(runs, by)
    metric = metric_of(runs)
    groups = in_order(grouped(runs, by))
    drawn = {label: drawn_of(group, metric) for label, group in groups.items()}
    # What diverged is drawn on the clock of the others.
    whole = [run for part, has_diverged in drawn.values() if not has_diverged
             for run in part]
    clock = common_clock(whole or [run for part, _ in drawn.values()
                                   for run in part])
    note_clocks([run for part, _ in drawn.values() for run in part])
    curves, schemes = {}, []
    for label, group in groups.items():
        part, has_diverged = drawn[label]
        why = lacking(group, metric)
        if not part and any(run.has_diverged for run in group):
            why += ", no evaluation to draw"
        curves[f"{label} ({why})" if why else label] = {
            **curve_of(part, metric, clock), "diverged": has_diverged}
        schemes.append(scheme_of(group))
    return curves, schemes, metric, clock


def rows_of(runs, by):
    """The plotted points as rows of a table."""
    curves, _, metric, clock = curves_of(runs, by)
    yield [by, "evaluation", clock, "bytes_sent_per_worker", metric, "half_95"]
    for label, curve in curves.items():
        for row, values in enumerate(zip(curve["time"], curve["bytes"],
                                         curve["y"], curve["half"])):
            yield [label, row] + ["" if value != value else repr(float(value))
                                  for value in values]


def stacked(bands):
    """The most (low, high) that share a value."""
    bands = [band for band in bands if np.isfinite(band).all()]
    return max((sum(low <= value <= high for low, high in bands)
                for value, _ in bands), default=0)


def bands_hide_each_other(curves):
    """Whether there are too many lines for one panel, or too many bands on top
    of each other for too long."""
    if len(curves) > MOST_IN_ONE:
        return True
    lines = [curve["time"] for curve in curves.values()]
    times = np.concatenate([x[np.isfinite(x)] for x, *_ in lines] or [[]])
    if not len(times):
        return False
    times = np.linspace(times.min(), times.max(), 101)

    def at(line, part):
        known = np.isfinite(line[0])
        if not known.any():
            return np.full(len(times), np.nan)
        return np.interp(times, line[0][known], line[part][known],
                         left=np.nan, right=np.nan)

    bands = np.array([(at(line, 2), at(line, 3)) for line in lines])
    hidden = [stacked(bands[:, :, i]) > MOST_IN_STACK
              for i in range(len(times))]
    return np.mean(hidden) >= MOST_HIDDEN


def draw_line(panel, line, look, has_diverged):
    """One of (x, y, low, high), of which low and high are the band. A single
    evaluation has a bar instead."""
    x, y, low, high = line
    panel.plot(x, y, **look, markevery=marked(len(x)))
    if len(x) == 1 and np.isfinite(low).all():
        panel.errorbar(x, y, yerr=[y - low, high - y], color=look["color"],
                       capsize=3, linewidth=1)
    elif np.isfinite(low).any():
        panel.fill_between(x, low, high, color=look["color"], alpha=0.13,
                           linewidth=0, zorder=1)
    if has_diverged and len(x):
        mark_divergence(panel, x[-1], y[-1], look["color"])


def limits_of(curves, possible):
    """Where the metric's axis ends: with the lines, the intervals of their last
    points and the metric's values. The first evaluations of few seeds have wide
    bands, which would be the scale. What diverged has no say in it beside
    others, unless the metric is bounded. None without points."""
    whole = [curve for curve in curves.values() if not curve.get("diverged")]
    if possible[1] < math.inf or not whole:
        whole = curves.values()
    y = np.concatenate([part for curve in whole
                        for _, y, low, high in [curve["time"]]
                        for part in (y, low[-1:], high[-1:])] or [[]])
    y = y[np.isfinite(y)]
    if not len(y):
        return None
    margin = 0.06 * (y.max() - y.min()) or 0.05
    return (max(y.min() - 2 * margin, possible[0]),
            min(y.max() + 2 * margin, possible[1] + margin / 2))


def without_bands(curves):
    """The same lines, of which the intervals are not drawn."""
    def bare(line):
        x, y, *_ = line
        return (x, y, *(np.full(len(x), math.nan),) * 2)

    return {label: {**curve, "time": bare(curve["time"]),
                    "bytes": bare(curve["bytes"])}
            for label, curve in curves.items()}


def draw_small(figure, grid, curves, looks, limits):
    """A panel for each line, with the others in grey between its band and it,
    and these limits of the metric's axis."""
    from matplotlib.patheffects import withStroke
    shared = None
    for place, label in enumerate(curves):
        look = looks[label]
        row, column = divmod(place, grid.ncols)
        panel = figure.add_subplot(grid[row, column], sharex=shared,
                                   sharey=shared)
        if not shared:
            panel.set_ylim(limits)
            shared = panel
        for name, other in curves.items():
            if name != label:
                panel.plot(*other["time"][:2], color=OTHERS, linewidth=0.6,
                           zorder=1.5)
        line = curves[label]["time"]
        marker = look["marker"] if len(line[0]) == 1 else None
        # A white edge, because schemes may be grey, too.
        edge = withStroke(linewidth=3.2, foreground="white")
        look = {**look, "marker": marker, "linestyle": "-", "linewidth": 1.8,
                "path_effects": [edge]}
        draw_line(panel, line, look, curves[label].get("diverged"))
        panel.set_title(plain(label), fontsize=9, pad=2)
        panel.grid(alpha=0.3)
        panel.tick_params(labelleft=column == 0,
                          labelbottom=place + grid.ncols >= len(curves))
        panel.locator_params(nbins=3)
    return shared


def band_of(curves, limits):
    """What the bands are, in words, and whether the axis cuts one; None if there
    are none."""
    banded = [curve for curve in curves.values()
              if np.isfinite(curve["time"][2]).any()]
    if not banded:
        return None
    number = common_number(banded)
    is_cut = any(np.nanmin(low) < limits[0] or np.nanmax(high) > limits[1]
                 for *_, low, high in (curve["time"] for curve in banded))
    return "95% interval of the mean" + (
        f", n = {number}" if number else "") + (
        " (cut by the axis)" if is_cut else "")


def common_number(curves):
    """Of how many runs each line is the mean, or None if that differs."""
    numbers = {curve["runs"] for curve in curves}
    return numbers.pop() if len(numbers) == 1 else None


def legend_of(curves, drawn, band):
    """The lines' labels, with the number of runs unless the words on the band
    say it for all."""
    if band and common_number(drawn.values()):
        return list(curves)
    return [f"{label}, n = {curve['runs']}" if curve["runs"] else label
            for label, curve in curves.items()]


def bytes_need_log(curves):
    """The bytes that schemes send may differ by orders of magnitude."""
    sent = np.concatenate([curve["bytes"][0] for curve in curves.values()]
                          or [[]])
    sent = sent[sent > 0]
    return len(sent) and sent.max() > 20 * sent.min()


def set_bytes_axis(panel, curves, is_log):
    if is_log:
        panel.set_xscale("log")
        label_log_axis(panel.xaxis)
        silent = [label for label, curve in curves.items()
                  if (curve["bytes"][0] == 0).all()]
        if silent:
            panel.text(0.02, 0.02, f"sends nothing: {plain(', '.join(silent))}",
                       transform=panel.transAxes, fontsize=7)
    else:
        panel.set_xlim(left=0)
    panel.set_xlabel("payload sent per worker (MB)")


def draw_main(panels, curves, looks, limits):
    """The lines over time and over bytes."""
    is_log = bytes_need_log(curves)
    if limits:
        panels[0].set_ylim(limits)
    for panel, key in zip(panels, ("time", "bytes")):
        for label, curve in curves.items():
            x = curve[key][0]
            shown = x > 0 if key == "bytes" and is_log else np.isfinite(x)
            draw_line(panel, [column[shown] for column in curve[key]],
                      looks[label], curve.get("diverged"))
        panel.grid(alpha=0.3)
        panel.margins(x=0.02)
    panels[1].tick_params(labelleft=False)
    panels[0].set_xlim(left=0)
    set_bytes_axis(panels[1], curves, is_log)


def figure_of(plt, curves, schemes, axes, possible):
    """Two panels that share the metric's axis, over time and over bytes, and,
    where bands hide each other, a panel for each line below them. `curves` is
    {label: {"time": (x, y, low, high), "bytes": the same, "runs": number}},
    with arrays in MB for bytes, and "diverged" where the line ends in that;
    `axes` are the labels of time and metric; `possible` are the metric's least
    and greatest value."""
    looks = dict(zip(curves, styles_of(schemes)))
    drawn = {label: curve for label, curve in curves.items()
             if len(curve["time"][0])}
    apart = bands_hide_each_other(drawn)
    limits = limits_of(drawn, possible)
    columns = min(6, max(1, len(drawn)))
    small = -(-len(drawn) // columns) if apart else 0
    figure = plt.figure(figsize=(10, 1))
    band = band_of(drawn, limits)
    legend_in = legend_above(
        figure, legend_of(curves, drawn, band), looks.values(),
        most=6 if apart else 4, band=band)
    height = 4.1 + legend_in + 1.35 * small
    figure.set_figheight(height)
    split = (0.85 + 1.35 * small) / height if apart else 0
    upper = figure.add_gridspec(1, 2, left=0.085, right=0.985,
                                top=1 - (0.08 + legend_in) / height,
                                bottom=split + 0.48 / height, wspace=0.12)
    panels = [figure.add_subplot(upper[0, 0])]
    panels.append(figure.add_subplot(upper[0, 1], sharey=panels[0]))
    main = without_bands(drawn) if apart else drawn
    draw_main(panels, main, looks, limits_of(main, possible))
    panels[0].set_xlabel(axes[0])
    panels[0].set_ylabel(axes[1])
    if apart:
        below = figure.add_gridspec(
            small, columns, left=0.085, right=0.985, bottom=0.45 / height,
            top=split - 0.2 / height, wspace=0.16, hspace=0.3)
        first = draw_small(figure, below, drawn, looks, limits)
        first.set_xlim(panels[0].get_xlim())
        figure.text(0.5, 0.05 / height, axes[0], ha="center", va="bottom",
                    fontsize=9)
    return figure


def draw(plt, runs, by, path):
    curves, schemes, metric, clock = curves_of(runs, by)
    possible = (METRICS[metric].low, METRICS[metric].high)
    lines = {}
    for label, curve in curves.items():
        low = np.maximum(curve["y"] - curve["half"], possible[0])
        high = np.minimum(curve["y"] + curve["half"], possible[1])
        lines[shown_label(label, by)] = {
            "time": (curve["time"], curve["y"], low, high),
            "bytes": (curve["bytes"] / 1e6, curve["y"], low, high),
            "runs": curve["runs"], "diverged": curve["diverged"]}
    name = f"evaluation {in_words(shown_metric(runs, metric))}"
    figure = figure_of(plt, lines, schemes, (TIMES[clock], name), possible)
    save(figure, path)
