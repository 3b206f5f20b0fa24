#!/usr/bin/env python3
"""What tests/bench/scaling.sh measured: a table with fits, and a figure.

    scaling.py scaling.csv [-o FILE.png] [--processors N]

Exit 1 if the memory of workers in one process does not grow by their replicas.
"""
import argparse
import csv
import sys

import numpy as np

MEMORY_TOLERANCE = 0.07  # of a replica
TITLES = {
    "batch": "samples of a batch",
    "depth": "layers",
    "workers": "workers in one process, batch 32 each",
    "ranks": "MPI ranks of one thread, batch 32 each",
    "memory": "workers in one process, batch 4 each",
}
BLUE, ORANGE = "#0072B2", "#D55E00"  # of Okabe and Ito's palette


def read(path):
    """{series: {column: values}} in the order of x."""
    series = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            columns = series.setdefault(row.pop("series"), {})
            for name, value in row.items():
                columns.setdefault(name, []).append(float(value))
    return {name: {column: np.array(values) for column, values
                   in columns.items()} for name, columns in series.items()}


def exponent(x, y):
    """Of y = c x^k by least squares of the logarithms."""
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def line(x, y):
    """(slope, intercept, r^2) of y = slope x + intercept."""
    slope, intercept = np.polyfit(x, y, 1)
    spread = np.sum((y - y.mean()) ** 2)
    rest = np.sum((y - slope * x - intercept) ** 2)
    return slope, intercept, 1 - rest / spread if spread else 1.0


def y_of(name, columns):
    return columns["memory_mb" if name == "memory" else "step_ms"]


def report(series, processors):
    """Prints all; returns what is wrong, or nothing."""
    for name, columns in series.items():
        x, y = columns["x"], y_of(name, columns)
        unit = "MB" if name == "memory" else "ms"
        print(f"\n{TITLES[name]}:")
        for a, b in zip(x, y):
            crowded = name == "ranks" and processors and a > processors
            print(f"  {a:6g} {b:10.2f} {unit}"
                  + (f"  ({processors} processors)" if crowded else ""))
        if len(x) < 2:
            continue
        slope, intercept, r2 = line(x, y)
        print(f"  as x^{exponent(x, y):.2f}; {slope:.3g} {unit} each + "
              f"{intercept:.3g} {unit}, r^2 {r2:.4f}")
    memory = series.get("memory")
    if memory is None or len(memory["x"]) < 2:
        return ""
    slope, _, _ = line(memory["x"], memory["memory_mb"])
    replica = memory["replica_mb"][0]
    print(f"\na worker more takes {slope:.2f} MB; parameters, gradients, "
          f"optimizer state and buffers are {replica:.2f} MB")
    if abs(slope / replica - 1) > MEMORY_TOLERANCE:
        return (f"memory grows by {slope / replica:.2f} replicas per worker, "
                "expected 1")
    return ""


def draw_panel(panel, name, columns, processors):
    x, y = columns["x"], y_of(name, columns)
    panel.plot(x, y, "o", color=BLUE, markersize=4.5)
    if len(x) > 1:
        slope, intercept, _ = line(x, y)
        ends = np.array([0, x.max()])
        panel.plot(ends, slope * ends + intercept, color=ORANGE, linewidth=1.2)
        text = (f"{slope:.1f} MB per worker\na replica: "
                f"{columns['replica_mb'][0]:.1f} MB" if name == "memory" else
                rf"$\propto x^{{{exponent(x, y):.2f}}}$")
        panel.text(0.04, 0.95, text, transform=panel.transAxes, va="top")
    if name == "ranks" and 0 < processors < x.max():
        panel.axvspan(processors, x.max() * 1.05, color="0.93", zorder=0)
        panel.text(x.max() * 1.03, 0, "more ranks than\nprocessors  ",
                   ha="right", va="bottom", color="0.35", fontsize=8)
    panel.set(xlim=(0, x.max() * 1.05), ylim=(0, max(y) * 1.12),
              xlabel=TITLES[name],
              ylabel="peak memory (MB)" if name == "memory" else "step (ms)")
    panel.grid(alpha=0.3)


def draw(series, processors, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False,
                         "axes.spines.right": False})
    columns = min(3, len(series))
    rows = -(-len(series) // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(3.1 * columns, 2.5 * rows), squeeze=False,
        layout="constrained")
    for panel in panels.flat[len(series):]:
        panel.remove()
    for panel, (name, points) in zip(panels.flat, series.items()):
        draw_panel(panel, name, points, processors)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("points")
    parser.add_argument("-o", "--output", metavar="FILE.png")
    parser.add_argument("--processors", type=int, default=0)
    options = parser.parse_args()
    series = read(options.points)
    wrong = report(series, options.processors)
    if options.output:
        draw(series, options.processors, options.output)
    if wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
