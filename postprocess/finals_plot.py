#!/usr/bin/env python3
"""Draws how runs of several studies ended: a panel for each study and a row for
each cell, with the mean of the final metric and its 95% interval over seeds.

    postprocess/finals_plot.py FOLDER[=TITLE] ... -o FILE [--size NAME]

FOLDER is a study with recorded results, such as inputs/studies/house_slow; its
name is the title of the panel unless another one is given. Rows are in the
order of the table of schemes. A dotted line marks the cell "bsp", if there is
one. Runs that diverged or ended without a number are counted beside the mean of
the others.
"""
import math
import os
from argparse import RawDescriptionHelpFormatter

import packages  # noqa: F401, says which package is missing
from exit_codes import BAD_INPUT
from groups import interval
from run_reader import in_words
from script import Parser, RunError, run_main
from study import read_study
from styles import GREY, SCHEMES, check_ending, plain, prepare, save

REFERENCE = "bsp"
WIDTH, ROW, MARGIN = 2.6, 0.22, 0.9  # inches


def split(argument):
    """FOLDER and TITLE of FOLDER=TITLE: at the first = that follows a folder."""
    for place, sign in enumerate(argument + "="):
        if sign == "=" and os.path.isdir(argument[:place]):
            return argument[:place], argument[place + 1:]
    return argument.partition("=")[::2]


class Panel:
    """The recorded runs of one size of a study."""

    def __init__(self, argument, size):
        self.folder, title = split(argument)
        self.title = title or os.path.basename(self.folder.rstrip("/"))
        study = read_study(self.folder)
        self.metric = study.metric
        size = size or study.sizes[0]
        rows = [row for row in study.rows(self.folder, "results.csv", size)
                if row["state"] != "unfinished"]
        if not rows:
            raise RunError(BAD_INPUT, f"{self.folder}: no recorded runs of "
                           f"size {size} (sizes: {' '.join(study.sizes)})")
        self.schemes = {row["cell"]: row["scheme"] for row in rows}
        self.finals, self.lacking = {}, {}
        for cell in self.schemes:
            mine = [row for row in rows if row["cell"] == cell]
            whole = [row for row in mine if row["state"] != "diverged"]
            finals = [float(row["accuracy"] or "nan") for row in whole]
            finals = [value for value in finals if math.isfinite(value)]
            self.lacking[cell] = ", ".join(
                f"{count} {what}" for count, what in
                ((len(mine) - len(whole), "diverged"),
                 (len(whole) - len(finals), "without a number")) if count)
            if finals:
                self.finals[cell] = interval(finals)


def in_order(panels):
    """The cells, the first scheme last, because rows are drawn upwards."""
    schemes = {cell: scheme for panel in panels
               for cell, scheme in panel.schemes.items()}
    order = [*SCHEMES, *sorted(set(schemes.values()) - SCHEMES.keys())]
    return sorted(schemes, reverse=True, key=lambda cell: (
        order.index(schemes[cell]), cell))


def draw(axes, panel, cells):
    axes.set_title(plain(panel.title), fontsize=9)
    if REFERENCE in panel.finals:
        axes.axvline(panel.finals[REFERENCE][0], color="black", linewidth=0.8,
                     linestyle=":", zorder=1)
    for place, cell in enumerate(cells):
        if cell not in panel.schemes:
            continue
        colour, marker, _ = SCHEMES.get(panel.schemes[cell], (GREY, "x", ""))
        if cell in panel.finals:
            mean, half = panel.finals[cell]
            axes.errorbar(mean, place, xerr=half if math.isfinite(half) else None,
                          fmt=marker, color=colour,
                          markersize=5, capsize=2, linewidth=1.2, zorder=3)
        axes.text(0.02, place, panel.lacking[cell],
                  transform=axes.get_yaxis_transform(), va="center",
                  fontsize=6, color=GREY)
    axes.set_xlabel(in_words(panel.metric))
    axes.grid(axis="both", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def main(arguments):
    parser = Parser(prog="finals_plot.py", description=__doc__,
                    formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="+", metavar="FOLDER[=TITLE]")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--size")
    options = parser.parse_args(arguments)
    check_ending(options.output)
    panels = [Panel(argument, options.size) for argument in options.studies]
    if len({panel.metric for panel in panels}) > 1:
        raise RunError(BAD_INPUT, "these studies have different metrics")
    cells = in_order(panels)
    figure, axes = prepare().subplots(
        1, len(panels), sharex=True, sharey=True, squeeze=False,
        figsize=(1.2 + WIDTH * len(panels), MARGIN + ROW * len(cells)))
    axes[0, 0].set_yticks(range(len(cells)))
    axes[0, 0].set_yticklabels([plain(cell) for cell in cells])
    for place, panel in zip(axes[0], panels):
        draw(place, panel, cells)
    figure.tight_layout()
    save(figure, options.output)
    return 0


if __name__ == "__main__":
    run_main(main)
