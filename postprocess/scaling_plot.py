#!/usr/bin/env python3
"""Draws the throughput that `syncopate simulate` predicts, by scheme.

    postprocess/scaling_plot.py FILE.h5... -o FILE.png|FILE.pdf|FILE.svg
    postprocess/scaling_plot.py FILE.h5... -o FILE.csv --data-only

FILEs are written by `simulate --output=FILE.h5`; jobs/sweep.sh makes them from
a sweep with `command = simulate` (inputs/scaling.sweep). There is a panel for
each key in which the simulations of every scheme differ, such as run.workers,
network.mbit_s or stragglers.delay_ms, over its values. In a panel, the other
keys have the values that most of the simulations have. Simulations of a scheme
that differ in a word, such as sync.collective, or in a number that others do
not vary, such as local_sgd.steps, have a line each; those that differ in the
seed are averaged. The pale line is what the workers would do if they never
waited.
"""
import csv
import sys
from collections import Counter, defaultdict

import packages  # noqa: F401, says which package is missing
import numpy as np

from exit_codes import BAD_INPUT
from groups import common_limit
from run_reader import open_simulation
from script import Parser, RunError, run_main, whole_file
from styles import PICTURES, check_ending, fitted_legend, label_log_axis, \
    plain, prepare, save, styles_of

# Keys that do not change what a simulation is of, but for the seed,
NEUTRAL = ("run.name", "run.directory", "run.seed", "run.threads",
           "run.log_every", "checkpoint.", "output.")
# and those that are not what it is about, or follow from sync.scheme.
OTHER = (*NEUTRAL, "run.steps", "run.epochs", "run.virtual_limit_s", "eval.",
         "sync.scheme")
LABELS = {"run.workers": "workers",
          "network.mbit_s": "bandwidth of a link (Mbit/s)",
          "network.latency_us": "latency of a link (µs)",
          "compute.step_s": "duration of a step (s)",
          "compute.spread": "relative spread of steps",
          "stragglers.delay_ms": "delay of the slow workers (ms)",
          "stragglers.random_ms": "mean random delay (ms)"}


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def by_scheme(runs):
    """{scheme: its simulations}, in the order of the files."""
    found = defaultdict(list)
    for run in runs:
        found[run.scheme].append(run)
    return found


def differing_keys(mine):
    """The keys in which simulations of a scheme differ, in the order of the
    inputs. A key that some lack is not used by them."""
    every = dict.fromkeys(key for run in mine for key in run.input)
    return [key for key in every if not key.startswith(OTHER)
            and len({run.input.get(key) for run in mine}) > 1]


def have_numbers(mine, key):
    return None not in {number(run.input.get(key, "-")) for run in mine}


def varied_keys(runs):
    """The keys that have a panel: those with a number, and not the same one,
    in the simulations of each scheme that has such keys. Other numbers are of
    variants, unless no key is in all schemes."""
    found = [{key for key in differing_keys(mine) if have_numbers(mine, key)}
             for mine in by_scheme(runs).values()]
    found = [keys for keys in found if keys] or [set()]
    shared = set.intersection(*found) or set.union(*found)
    # In the order of the inputs.
    every = dict.fromkeys(key for run in runs for key in run.input)
    return [key for key in every if key in shared]


def lines_of(runs, keys):
    """The name of each simulation's line: its scheme, with the words and
    numbers in which simulations of the scheme differ beside the panels' keys.
    """
    named = {scheme: [key for key in differing_keys(mine) if key not in keys
                      or not have_numbers(mine, key)]
             for scheme, mine in by_scheme(runs).items()}

    def told(key, value):
        return value if number(value) is None else \
            f"{key.partition('.')[2]}={value}"

    return [" ".join([run.scheme, *(told(key, run.input.get(key, "-"))
                                    for key in named[run.scheme])])
            for run in runs]


def usual(runs, key):
    """The value that most of the simulations with this key have."""
    return Counter(run.input[key] for run in runs
                   if key in run.input).most_common(1)[0][0]


def chosen(runs, key, keys):
    """The simulations of a panel, as indices."""
    others = {other: usual(runs, other) for other in keys if other != key}
    return [place for place, run in enumerate(runs)
            if key in run.input and all(
                run.input.get(other, value) == value
                for other, value in others.items())]


def refuse_unlike(runs, names, key, places):
    """One line and exit 65 if a point would be a mean over simulations that
    differ in more than their seed. A limit of time decides their steps."""
    first_at = {}
    for place in places:
        run = runs[place]
        value = run.input[key]
        first = first_at.setdefault((names[place], value), run)
        neutral = (*NEUTRAL, *["run.steps"] * bool(common_limit([first, run])))
        for other in sorted(first.input.keys() | run.input.keys()):
            mine, theirs = (one.input.get(other, "(unset)")
                            for one in (first, run))
            if mine != theirs and not other.startswith(neutral):
                raise RunError(BAD_INPUT, f"unlike simulations: {other} is "
                               f"{mine} in {first.path}, {theirs} in "
                               f"{run.path}, both at {key} = {value} of "
                               f"{names[place]}")


def busy_seconds(run):
    """For how long each worker computed."""
    workers = run.tables["workers"]
    return workers["compute_s"] + workers.get("update_s", 0)


def rate_without_waiting(run, busy_s):
    """Samples per second of all workers if none ever waited."""
    workers = run.tables["workers"]
    steps = workers.get("steps", np.ones(len(busy_s)))
    samples = workers.get("samples",  # files of earlier versions lack it
                          run.summary["samples"] * steps / steps.sum())
    return (samples / busy_s).sum()


def curves_of(runs, key, keys):
    """{line: [(value, samples per second, share of the time in which workers
    compute)]}, means over the seeds, and [(value, samples per second)] if they
    always did."""
    names, places = lines_of(runs, keys), chosen(runs, key, keys)
    refuse_unlike(runs, names, key, places)
    curves, bounds = defaultdict(lambda: defaultdict(list)), defaultdict(float)
    for place in places:
        run, value = runs[place], number(runs[place].input[key])
        busy_s = busy_seconds(run)
        curves[names[place]][value].append((
            run.summary["samples_per_s"],
            busy_s.mean() / run.summary["virtual_s"]))
        bounds[value] = max(bounds[value], rate_without_waiting(run, busy_s))
    return ({name: [(value, *np.mean(figures, axis=0)) for value, figures in
                    sorted(points.items())]
             for name, points in curves.items()}, sorted(bounds.items()))


def note_left_out(runs, keys):
    drawn = {place for key in keys for place in chosen(runs, key, keys)}
    if len(drawn) < len(runs):
        print(f"note: {len(runs) - len(drawn)} of {len(runs)} simulations are "
              "not drawn: they differ from the majority in two keys",
              file=sys.stderr)


def rows_of(runs, keys):
    yield ["key", "value", "scheme", "samples_per_s", "computing"]
    for key in keys:
        curves, bounds = curves_of(runs, key, keys)
        bounds = [(*point, 1) for point in bounds]
        for scheme, points in [*curves.items(), ("without waiting", bounds)]:
            for value, *figures in points:
                yield [key, repr(value), scheme,
                       *(repr(float(figure)) for figure in figures)]


def set_scale(axis, values):
    """Logarithmic where values differ by much, with their own ticks where they
    are few."""
    low, high = min(values), max(values)
    if low > 0 and high >= 8 * low:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        label_log_axis(axis)
        if axis.axis_name == "x" and len(values) <= 7:
            axis.set_ticks(sorted(values))
            axis.set_ticks([], minor=True)
    elif axis.axis_name == "y":
        axis.axes.set_ylim(bottom=0)


def draw_key(panels, curves, bounds, styles):
    """Throughput above, the share of computing below; {name: line}."""
    lines = {}
    lines["without waiting"], = panels[0].plot(
        *zip(*bounds), color="0.8", linewidth=4, zorder=1)
    for scheme, points in curves.items():
        values, throughputs, shares = zip(*points)
        for panel, y in ((panels[0], throughputs),
                         (panels[1], [100 * share for share in shares])):
            lines[scheme], = panel.plot(values, y, **{**styles[scheme],
                                                      "markersize": 4})
    for panel in panels:
        panel.grid(alpha=0.3)
    set_scale(panels[1].xaxis, [value for value, _ in bounds])
    panels[1].set_ylim(0, 103)
    return lines


def draw(runs, keys, path):
    plt = prepare()
    schemes = dict(zip(lines_of(runs, keys), (run.scheme for run in runs)))
    styles = dict(zip(schemes, styles_of(list(schemes.values()))))
    names = [*schemes, "without waiting"]
    width = max(3.9, 2.5 * len(keys) + 0.7)
    figure, panels = plt.subplots(2, len(keys), figsize=(width, 4.2),
                                  sharex="col", sharey="row", squeeze=False)
    lines, throughputs = {}, []
    for column, key in enumerate(keys):
        curves, bounds = curves_of(runs, key, keys)
        lines.update(draw_key(panels[:, column], curves, bounds, styles))
        throughputs += [point[1] for points in curves.values()
                        for point in points]
        panels[1][column].set_xlabel(LABELS.get(key, key))
    set_scale(panels[0][0].yaxis, throughputs)
    panels[0][0].set_ylabel("predicted throughput\n(samples/s)")
    panels[1][0].set_ylabel("time spent computing\n(%)")
    names = [name for name in names if name in lines]
    names_height = fitted_legend(
        figure, [lines[name] for name in names], list(map(plain, names)),
        most=3 if len(keys) == 1 else 5, columnspacing=1.4) + 0.1
    height = 4.2 + names_height
    figure.set_figheight(height)
    figure.subplots_adjust(left=0.88 / width, right=1 - 0.12 / width,
                           bottom=0.48 / height, wspace=0.1, hspace=0.09,
                           top=1 - names_height / height)
    figure.align_ylabels()
    save(figure, path, dpi=200)


def main(arguments):
    parser = Parser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+", metavar="FILE.h5")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--data-only", action="store_true",
                        help="write the points drawn as csv, draw nothing")
    options = parser.parse_args(arguments)
    check_ending(options.output, [".csv"] if options.data_only else PICTURES)
    runs = [open_simulation(path) for path in options.files]
    keys = varied_keys(runs)
    if not keys:
        raise RunError(BAD_INPUT, "the simulations of a scheme differ in no "
                       "key with a number: nothing to draw over")
    note_left_out(runs, keys)
    if not options.data_only:
        draw(runs, keys, options.output)
        return 0
    with whole_file(options.output) as file:
        csv.writer(file, lineterminator="\n").writerows(rows_of(runs, keys))
    return 0


if __name__ == "__main__":
    run_main(main)
