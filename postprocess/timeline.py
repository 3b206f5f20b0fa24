#!/usr/bin/env python3
"""Draws what workers computed, sent and waited for, and when (output.trace).

    postprocess/timeline.py RUN -o FILE.png|FILE.pdf|FILE.svg
        the first five steps of the trace
    postprocess/timeline.py RUN --steps=A:B -o FILE.png
    postprocess/timeline.py RUN --from=S --to=S -o FILE.png       seconds
    postprocess/timeline.py RUN --workers=A:B -o FILE.png    A to B, from 0

RUN is a run's directory or a trace.json. If there are at most 80 messages, each
is an arrow from the time at which it is sent to that at which it is received.
If a run under MPI was killed, the parts that its ranks wrote are read.
"""
import argparse
import glob
import json
import os
import re
import sys

import packages  # noqa: F401, says which package is missing

from exit_codes import BAD_INPUT, INPUT_MISSING
from script import Parser, RunError, run_main
from styles import PARTS, check_ending, prepare, save, width_in

MOST_ARROWS, MOST_WORKERS = 80, 32
# Rows (tid - 100 pid) of every worker; the others communicate.
COMPUTE, WAITS = 1, 2
BLOCKED = "blocked (communication or peers)"
COLOURS = {"compute": PARTS["compute"],
           "communication": PARTS["communication"],
           BLOCKED: "#CFCFCF"}


class Trace:
    """Slices (worker, row, begin, end, name, step), arrows (worker, row,
    begin, worker, row, end), names of rows, facts. Times are seconds."""

    def __init__(self):
        self.slices, self.arrows, self.rows, self.facts = [], [], {}, {}

    @property
    def workers(self):
        return sorted({piece[0] for piece in self.slices})

    def add(self, events):
        sent, received = {}, {}
        for event in events:
            place = event["pid"], event.get("tid", 0) - 100 * event["pid"]
            if event["ph"] == "X":
                begin = event["ts"] / 1e6
                self.slices.append((*place, begin, begin + event["dur"] / 1e6,
                                    event["name"], event["args"]["step"]))
            elif event["ph"] in "sf":
                ends = sent if event["ph"] == "s" else received
                ends[event["id"]] = *place, event["ts"] / 1e6
            elif event["name"] == "thread_name":
                self.rows[place] = event["args"]["name"]
        self.arrows += [(*sent[message], *received[message])
                        for message in sent.keys() & received.keys()]


def events_of(path):
    """The facts and events of a file, as far as it is complete."""
    facts, events = {}, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.strip().removesuffix(",")
            if line.startswith('{"otherData"'):
                facts = json.loads(line + "}")["otherData"]
            elif line.startswith('{"pid"') and line.endswith("}"):
                events.append(json.loads(line))
    if not facts:  # written by another program
        with open(path, encoding="utf-8") as file:
            whole = json.load(file)
        facts, events = whole["otherData"], whole["traceEvents"]
    return facts, events


def read_trace(path):
    """The trace of a run."""
    if not os.path.exists(path):
        raise RunError(INPUT_MISSING, f"{path}: no such run or trace")
    files = [path]
    if os.path.isdir(path):
        parts = sorted(glob.glob(os.path.join(
            glob.escape(path), "trace-rank-*.json")))
        files = parts or [os.path.join(path, "trace.json")]
        if not os.path.exists(files[0]):
            raise RunError(INPUT_MISSING, f"{files[0]}: no trace: start the "
                           "run with output.trace = on")
        if parts:
            print(f"note: {path}: {len(parts)} parts that were not joined, as "
                  "the run was killed or has not ended", file=sys.stderr)
    trace, events = Trace(), []
    for file in files:
        try:
            trace.facts, more = events_of(file)
        except OSError as error:
            raise RunError(INPUT_MISSING,
                           f"{file}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise RunError(BAD_INPUT, f"{file}: not a trace of syncopate") \
                from None
        events += more
    try:
        trace.add(events)
    except (KeyError, TypeError):
        raise RunError(BAD_INPUT, f"{files[0]}: not a trace of syncopate") \
            from None
    if not trace.slices:
        raise RunError(BAD_INPUT, f"{files[0]}: an empty trace: none of the "
                       f"steps {trace.facts.get('steps', '?')} was reached")
    return trace


def window_of(trace, options):
    """(begin, end) in seconds."""
    first, last = (min(piece[2] for piece in trace.slices),
                   max(piece[3] for piece in trace.slices))
    if options.begin is not None or options.end is not None:
        begin = first if options.begin is None else options.begin
        end = last if options.end is None else options.end
        if not (begin < end and begin < last and end > first):  # nor with NaN
            given = " ".join(f"--{name}={value:g}" for name, value in
                             (("from", options.begin), ("to", options.end))
                             if value is not None)
            raise RunError(BAD_INPUT, f"{given}: the trace has {first:.6g} to "
                           f"{last:.6g} s")
        return max(begin, first), min(end, last)
    steps = sorted({piece[5] for piece in trace.slices})
    wanted = (steps[0], steps[0] + 4)
    if options.steps:
        wanted = options.steps
    times = [piece[2:4] for piece in trace.slices
             if wanted[0] <= piece[5] <= wanted[1]]
    if not times:
        raise RunError(BAD_INPUT, f"--steps={wanted[0]}:{wanted[1]}: the "
                       f"trace has steps {steps[0]} to {steps[-1]}")
    begin, end = min(begin for begin, _ in times), max(end for _, end in times)
    # Workers with their own pace leave the trace at different times, after
    # which an empty row would look like an idle worker.
    ends = [max(piece[3] for piece in trace.slices if piece[0] == worker)
            for worker in trace.workers]
    return begin, max(min(end, min(ends)), min(end for _, end in times))


def range_of(text):
    """(A, B) of A:B."""
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match or int(match[1]) > int(match[2]):
        raise argparse.ArgumentTypeError(f"{text}: A:B expected")
    return int(match[1]), int(match[2])


def lanes_of(trace, worker, begin, end):
    """{row: (top, height)} of the rows of communication in the window, inside
    the space from 0 to 1 below the worker's own row."""
    rows = sorted({row for who, row, since, until, *_ in trace.slices
                   if who == worker and row > WAITS and until >= begin
                   and since <= end})
    return {row: (place / len(rows), 1 / len(rows))
            for place, row in enumerate(rows)}


def draw_worker(panel, trace, worker, top, lanes, window):
    """The worker's own row, 0.45 high, and communication below it."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle
    begin, end = window
    bars = {name: [] for name in COLOURS}
    ticks, labels = [], {}
    for who, row, since, until, _, step in trace.slices:
        if who != worker or until < begin or since > end:
            continue
        if row <= WAITS:
            part, low, height = "compute" if row == COMPUTE else BLOCKED, \
                top, 0.45
            if row == COMPUTE:
                known = labels.setdefault(step, [since, until])
                known[1] = max(known[1], until) if since <= known[1] + 1e-12 \
                    else known[1]
        else:
            part = "communication"
            above, share = lanes[row]
            low, height = top + 0.47 + 0.37 * above, 0.37 * share
            if until == since:  # a message that a service handled at once
                ticks.append((since, low, low + height))
                continue
        bars[part].append(((since, low), until - since, height))
    for part, boxes in bars.items():
        panel.add_collection(PatchCollection(
            [Rectangle(corner, width, height) for corner, width, height in
             boxes], facecolor=COLOURS[part], edgecolor="white",
            linewidth=0.4))
    panel.vlines([tick[0] for tick in ticks], [tick[1] for tick in ticks],
                 [tick[2] for tick in ticks], color=COLOURS["communication"],
                 linewidth=1)
    for step, (since, until) in labels.items():
        since, until = max(since, begin), min(until, end)
        if until - since > 0.022 * (end - begin):
            panel.text((since + until) / 2, top + 0.235, str(step),
                       color="black", ha="center", va="center", fontsize=7,
                       zorder=4)


def draw_arrows(panel, arrows, places):
    """From the sender's row to the receiver's."""
    from matplotlib.patches import FancyArrowPatch
    for who, row, since, other, other_row, until in arrows:
        start, finish = places[who, row], places[other, other_row]
        panel.add_patch(FancyArrowPatch(
            (since, start), (until, finish), arrowstyle="-|>",
            mutation_scale=5, linewidth=0.5, color="0.25", shrinkA=0,
            shrinkB=0, zorder=3))


def time_label(trace):
    if trace.facts.get("clock") == "virtual":
        return "virtual time (s)"
    error = float(trace.facts.get("clock_error_us", 0))
    return f"wall time (s; clocks of ranks within {error:.2g} µs)"


def figure_of(trace, window, workers):
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    plt = prepare()
    begin, end = window
    height = 0.55 * len(workers) + 1.05
    figure, panel = plt.subplots(figsize=(7.2, height))
    places = {}
    for place, worker in enumerate(workers):
        lanes = lanes_of(trace, worker, begin, end)
        draw_worker(panel, trace, worker, place, lanes, window)
        for row, (above, share) in lanes.items():
            places[worker, row] = place + 0.47 + 0.37 * (above + share / 2)
    arrows = [arrow for arrow in trace.arrows if arrow[0] in workers
              and arrow[3] in workers and arrow[2] <= end and arrow[5] >= begin
              and arrow[0:2] in places and arrow[3:5] in places]
    keys = [Patch(color=colour, label=name)
            for name, colour in COLOURS.items()]
    if len(arrows) > MOST_ARROWS:
        print(f"note: {len(arrows)} messages, more than {MOST_ARROWS}: no "
              "arrows", file=sys.stderr)
    elif arrows:
        draw_arrows(panel, arrows, places)
        keys.append(Line2D([], [], color="0.25", linewidth=0.8, marker=">",
                           markersize=4, label="message"))
    panel.set_xlim(begin, end)
    panel.set_ylim(len(workers) - 0.08, -0.08)
    panel.set_yticks([place + 0.42 for place in range(len(workers))])
    panel.set_yticklabels([f"worker {worker}" for worker in workers])
    panel.tick_params(axis="y", length=0)
    panel.spines["left"].set_visible(False)
    panel.ticklabel_format(axis="x", useOffset=False)
    panel.locator_params(axis="x", nbins=8)
    panel.grid(axis="x", alpha=0.3)
    panel.set_axisbelow(True)
    panel.set_xlabel(time_label(trace))
    # A tick may be at the panel's end, with half of its label beyond.
    label = max(width_in(figure, each) for each in panel.get_xticklabels())
    figure.subplots_adjust(left=0.105, right=1 - (label / 2 + 0.06) / 7.2,
                           bottom=0.46 / height, top=1 - 0.3 / height)
    figure.text(0.012, 1 - 0.09 / height, trace.facts.get("scheme", ""),
                va="top", fontweight="bold")
    figure.legend(handles=keys, loc="upper right", ncol=len(keys),
                  frameon=False, bbox_to_anchor=(0.992, 1.0),
                  borderaxespad=0.2, handlelength=1.2)
    return figure


def main(arguments):
    parser = Parser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--from", dest="begin", type=float, metavar="S")
    parser.add_argument("--to", dest="end", type=float, metavar="S")
    parser.add_argument("--steps", type=range_of, metavar="A:B",
                        help="of any worker's own count, from 1")
    parser.add_argument("--workers", type=range_of, metavar="A:B",
                        help=f"from 0; default: the first {MOST_WORKERS}")
    options = parser.parse_args(arguments)
    if options.steps and (options.begin, options.end) != (None, None):
        raise RunError(BAD_INPUT, "--steps: given together with --from or "
                       "--to, expected one of them")
    check_ending(options.output)
    trace = read_trace(options.run)
    first, last = options.workers or (0, MOST_WORKERS - 1)
    workers = [worker for worker in trace.workers if first <= worker <= last]
    if not workers:
        raise RunError(BAD_INPUT, f"--workers={first}:{last}: the trace has "
                       f"workers {trace.workers[0]} to {trace.workers[-1]}")
    if not options.workers and len(workers) < len(trace.workers):
        print(f"note: {options.run}: the first {MOST_WORKERS} of "
              f"{len(trace.workers)} workers", file=sys.stderr)
    figure = figure_of(trace, window_of(trace, options), workers)
    save(figure, options.output, dpi=200)
    return 0


if __name__ == "__main__":
    run_main(main)
