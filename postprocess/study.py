#!/usr/bin/env python3
"""Judges a study by its recorded results: a table of its rules, and a figure.

    postprocess/study.py inputs/studies/NAME [--size NAME] [--markdown]

jobs/study.sh runs a study and records it beside its file study.sweep:
results.csv has a row for each run, curves.csv its evaluations. This script
needs only those two. It prints every rule with what was published, what was
obtained (mean and 95% interval over seeds) and the verdict, and draws
figure-SIZE.png. inputs/studies/README.md says how a rule is written.

It judges what is recorded, also if study.sweep has changed since:
`jobs/study.sh NAME --dry-run` lists rows of another input. jobs/study.sh itself
calls it with --input CELL=DIGEST for each cell, and then such rows do not count.
"""
import ast
import configparser
import math
import os
import re
from argparse import RawDescriptionHelpFormatter
from functools import partial
from typing import NamedTuple

import packages  # noqa: F401, says which package is missing
import numpy as np

from exit_codes import BAD_INPUT, INPUT_MISSING
from groups import interval, with_interval
from plot_means import figure_of
from run_reader import METRICS, in_words, print_markdown, print_table
from script import Parser, RunError, run_main
from study_tables import NUMBERS, RESULTS, read_rows
from styles import SCHEMES, prepare, save

# --- rules -------------------------------------------------------------------

class Missing(Exception):
    """A cell without results, or without any that can be compared."""


# Columns that runs under MPI do not have, because no virtual clock ran.
TIMED = ("virtual_s", "target_s", "throughput", "computing")


def is_of_other_input(row, inputs):
    """Whether a row has another digest than `inputs`, {cell: digest}, say."""
    return row["input"] != inputs.get(row["cell"], row["input"])


class Cells:
    """The recorded runs of one size, and the functions of rules over them.
    Figures are arrays over the seeds. `of_other_data` are cells whose variants
    have data of their own, `inputs` the digests that the rows of a cell must
    have."""

    def __init__(self, rows, seeds, of_other_data=(), inputs=None):
        self.rows = {(row["cell"], row["seed"]): row for row in rows}
        self.seeds, self.of_other_data = seeds, of_other_data
        self.inputs = inputs or {}

    def rows_of(self, cell):
        rows = [self.rows.get((cell, seed)) for seed in self.seeds]
        if any(row is None or row["state"] == "unfinished" for row in rows):
            raise Missing(cell)
        for name in ("input", "tuned", "data"):
            if len({row.get(name, "") for row in rows} - {""}) > 1:
                raise Missing(f"{cell}: its runs differ in {name}")
        if any(is_of_other_input(row, self.inputs) for row in rows):
            raise Missing(f"{cell}: recorded with another input")
        return rows

    def refuse_unlike_data(self, cells):
        """Raises Missing if the cells of a rule were trained on unlike data."""
        digests = {row.get("data", "") for cell in cells
                   if cell not in self.of_other_data
                   for row in self.rows_of(cell)} - {""}
        if len(digests) > 1:
            raise Missing(f"{', '.join(cells)}: runs on different data")

    def column(self, cell, name):
        rows = self.rows_of(cell)
        if name == "diverged":
            return np.array([row["state"] == "diverged" for row in rows],
                            float)
        if name in TIMED and any(row["virtual_s"] == "nan" and
                                 row["state"] == "finished" for row in rows):
            raise Missing(f"{cell}: runs without virtual time")
        return np.array([float(row[name] or "nan") for row in rows])

    def num_reached(self, cell):
        """How many of a cell's runs reached the target."""
        return int(np.isfinite(self.column(cell, "target_samples")).sum())

    def lacks(self, cell, other):
        """By how much a cell's accuracy is below another's; a cell that
        diverged lacks everything that the other one has."""
        mine, theirs = (self.column(name, "accuracy")
                        for name in (cell, other))
        return np.where(np.isnan(mine) & ~np.isnan(theirs), np.inf,
                        theirs - mine)

    def gap(self, cell, other):
        """Between the 95% intervals of two cells' accuracies; negative where
        they overlap."""
        (mine, width), (theirs, other_width) = (
            interval(self.column(name, "accuracy")) for name in (cell, other))
        return np.array([abs(mine - theirs) - width - other_width])

    def spread(self, cell):
        """Half the 95% interval of a cell's accuracy."""
        return np.array([interval(self.column(cell, "accuracy"))[1]])

    def functions(self):
        columns = ("accuracy", "target_s", "target_samples", "bytes", "steps",
                   "throughput", "computing", "virtual_s", "diverged")
        found = {name: partial(self.column, name=name) for name in columns}
        return {**found, "lacks": self.lacks, "gap": self.gap,
                "spread": self.spread, "abs": np.abs}


class Rule:
    """EXPRESSION | CRITERION | PUBLISHED."""

    NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name,
             ast.Constant, ast.Load, ast.Add, ast.Sub, ast.Mult, ast.Div,
             ast.USub)

    def __init__(self, name, line, cells, where):
        self.name, self.cells = name, cells
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 3:
            raise RunError(BAD_INPUT, f"{where}: EXPRESSION | CRITERION | "
                           "PUBLISHED expected")
        self.expression, self.criterion, self.published = parts
        number = r"-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?"
        found = re.fullmatch(rf"({number}) \.\. ({number})|>= ({number})|"
                             rf"<= ({number})", self.criterion)
        if not found:
            raise RunError(BAD_INPUT, f"{where}: {self.criterion}: LOW .. "
                           "HIGH, >= LOW or <= HIGH expected")
        low, high, least, most = found.groups()
        self.low = float(low or least or -math.inf)
        self.high = float(high or most or math.inf)
        try:
            tree = ast.parse(self.expression, mode="eval")
        except SyntaxError:
            raise RunError(BAD_INPUT, f"{where}: {self.expression}: not an "
                           "expression") from None
        known = set(cells) | Cells([], []).functions().keys()
        for node in ast.walk(tree):
            unknown = isinstance(node, ast.Name) and node.id not in known
            if unknown or not isinstance(node, self.NODES):
                told = node.id if unknown else type(node).__name__
                raise RunError(BAD_INPUT,
                               f"{where}: {told}: unknown in a rule")
        self.named, self.timed = self.cells_in(list(ast.walk(tree)))
        self.code = compile(tree, where, "eval")
        self.try_out(where)

    def try_out(self, where):
        """RunError unless the rule gives numbers for any results."""
        row = {**dict.fromkeys(RESULTS, ""), **dict.fromkeys(NUMBERS, "1"),
               "state": "finished"}
        cells = Cells([{**row, "cell": cell, "seed": "1"}
                       for cell in self.cells], ["1"])
        try:
            is_figure = np.asarray(self.values(cells), float).size == 1
        except (Missing, TypeError, ValueError, LookupError, ArithmeticError):
            is_figure = False
        if not is_figure or not self.named:
            raise RunError(BAD_INPUT, f"{where}: {self.expression}: no figure "
                           "of variants")

    def values(self, cells):
        names = {name: name for name in self.cells}
        with np.errstate(all="ignore"):
            return eval(self.code, {"__builtins__": {}},  # checked above
                        {**names, **cells.functions()})

    def cells_in(self, nodes):
        """The cells that the expression names, and those with whose targets it
        calculates: an infinite time alone is later than any other, but a sum
        or a ratio with it says nothing."""
        def names_in(some):
            names = {node.id for node in some if isinstance(node, ast.Name)}
            return [cell for cell in self.cells if cell in names]

        calculates = any(isinstance(node, ast.BinOp) for node in nodes)
        return names_in(nodes), names_in(
            argument for node in nodes if calculates
            and isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and node.func.id in ("target_s", "target_samples")
            for argument in node.args)

    def missed(self, cells):
        """Which of the targets were not reached with every seed, in words."""
        told = [(cell, cells.num_reached(cell)) for cell in self.timed]
        return ", ".join(f"{cell} reached it in {reached} of "
                         f"{len(cells.seeds)}" for cell, reached in told
                         if reached < len(cells.seeds))

    def judge(self, cells):
        """(obtained, verdict) in words."""
        try:
            cells.refuse_unlike_data(self.named)
            values = self.values(cells)
        except Missing as cell:
            return "-", f"missing: {cell}"
        values = np.atleast_1d(np.asarray(values, float))
        obtained = with_interval(values, ".4g", ".2g")
        mean = values.mean()
        if (missed := self.missed(cells)):
            return obtained if math.isinf(mean) else "-", \
                f"not reproduced: {missed}"
        if math.isnan(mean):
            has_diverged = any(cells.column(cell, "diverged").any()
                               for cell in self.named)
            return obtained, "not reproduced: " + (
                "diverged" if has_diverged else "no number")
        holds = self.low <= mean <= self.high
        verdict = "reproduced" if holds else "not reproduced"
        return obtained, verdict + self.reservation(values, holds)

    def reservation(self, values, holds):
        """Says so if a part of the 95% interval calls for the other verdict."""
        mean, half = interval(values)
        if math.isnan(half):  # of one value, such as a gap
            return ""
        low, high = mean - half, mean + half
        is_clear = self.low <= low and high <= self.high if holds \
            else high < self.low or self.high < low
        return "" if is_clear else ": mean only"


def refuse_metric(path, metric):
    """RunError unless rules can be about a metric: "accuracy" in rules and
    tables stands for it, so larger must be better."""
    known = [name for name, one in METRICS.items() if one.larger_is_better]
    if metric not in known:
        raise RunError(BAD_INPUT, f"{path}: metric: {metric}: expected one of "
                       f"{' '.join(known)} in a study with rules")


def read_rules(path, section, cells):
    """The rules of a study's section [rules]."""
    return [Rule(name, line, cells, f"{path}: rules.{name}")
            for name, line in section.items()]


def sections_of(path):
    """{section: {name: value}} of a sweep's or a study's file."""
    parser = configparser.ConfigParser(
        delimiters=("=",), comment_prefixes=("#", ";"),
        inline_comment_prefixes=("#",), interpolation=None)
    parser.optionxform = str
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except OSError as error:
        raise RunError(INPUT_MISSING, f"{path}: {error.strerror}") from None
    except configparser.DuplicateSectionError as error:
        raise RunError(BAD_INPUT, f"{path}:{error.lineno}: [{error.section}]: "
                       "given twice") from None
    except configparser.DuplicateOptionError as error:
        raise RunError(BAD_INPUT, f"{path}:{error.lineno}: {error.section}."
                       f"{error.option}: given twice") from None
    except (configparser.Error, UnicodeDecodeError) as error:
        line = " ".join(str(error).split())
        raise RunError(BAD_INPUT, f"{path}: {line}") from None
    return {name: dict(parser[name]) for name in parser.sections()}


class Study(NamedTuple):
    """What FOLDER/study.sweep says."""
    sizes: list
    seeds: list
    variants: dict
    rules: list
    metric: str

    def rows(self, folder, name, size):
        """The rows of a table, of this size and of the study's runs."""
        return [row for row in read_rows(os.path.join(folder, name))
                if row["size"] == size and row["cell"] in self.variants
                and row["seed"] in self.seeds]


def read_study(folder):
    path = os.path.join(folder, "study.sweep")
    if not os.path.exists(path):
        raise RunError(INPUT_MISSING, f"{path}: no such study")
    sections = sections_of(path)
    for section in ("sweep", "final", "sizes", "variants", "rules"):
        if section not in sections:
            raise RunError(BAD_INPUT, f"{path}: [{section}]: missing")
    if "seeds" not in sections["final"]:
        raise RunError(BAD_INPUT, f"{path}: final.seeds: missing")
    tuned = sections.get("tune", {}).get("metric", "accuracy")
    metric = sections["sweep"].get("metric", tuned)
    refuse_metric(path, metric)
    return Study(list(sections["sizes"]),
                 sections["final"]["seeds"].replace(",", " ").split(),
                 sections["variants"],
                 read_rules(path, sections["rules"], sections["variants"]),
                 metric)


# --- the figure --------------------------------------------------------------

def line_of(runs, x, possible):
    """Mean and 95% interval over the seeds at 200 values of `x`, or at one if
    each run has one evaluation. A run that has ended keeps its last value."""
    curves = [np.array([[float(row[x]), float(row["accuracy"])]
                        for row in run if row[x] and row["accuracy"]])
              for run in runs]
    curves = [curve for curve in curves if len(curve)]
    if not curves:
        return (np.empty(0),) * 4
    start = max(curve[0, 0] for curve in curves)
    end = max(curve[-1, 0] for curve in curves)
    has_one = all(len(curve) == 1 for curve in curves)
    where = np.array([end]) if has_one else np.linspace(start, end, 200)
    values = np.array([np.interp(where, *curve.T) for curve in curves])
    mean, half = np.array([interval(column) for column in values.T]).T
    least, greatest = possible
    return (where, mean, np.maximum(mean - half, least),
            np.minimum(mean + half, greatest))


def lines_of(results, rows, possible):
    """What plot_means draws of the cells, and their schemes. A line is the mean of
    the runs that did not diverge; if all did, of these."""
    scheme_of = {row["cell"]: row["scheme"] for row in results}
    diverged = {(row["cell"], row["seed"]) for row in results
                if row["state"] == "diverged"}
    lines, schemes = {}, []
    for cell in dict.fromkeys(row["cell"] for row in rows
                              if row["cell"] in scheme_of):
        seeds = {}
        for row in rows:
            if row["cell"] == cell:
                seeds.setdefault(row["seed"], []).append(row)
        whole = [run for seed, run in seeds.items()
                 if (cell, seed) not in diverged]
        drawn = whole or list(seeds.values())
        x, *band = line_of(drawn, "bytes", possible)
        lost = sum(of == cell for of, _ in diverged)
        label = f"{cell} ({lost} diverged)" if lost else cell
        # Cells of one scheme, such as sync_switch's, are told apart by names.
        schemes.append(cell if cell in SCHEMES else scheme_of[cell])
        lines[label] = {"time": line_of(drawn, "virtual_s", possible),
                        "bytes": (x / 1e6, *band), "runs": len(drawn),
                        "diverged": not whole}
    return lines, schemes


def draw(path, metric, results, rows):
    """The metric over virtual time and over bytes."""
    possible = (METRICS[metric].low, METRICS[metric].high)
    figure = figure_of(prepare(), *lines_of(results, rows, possible),
                       ("virtual time (s)", in_words(metric)), possible)
    save(figure, path)


def main(arguments):
    parser = Parser(prog="study.py", description=__doc__,
                    formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--size")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--input", action="append", default=[],
                        metavar="CELL=DIGEST")
    options = parser.parse_args(arguments)
    inputs = dict(word.rpartition("=")[::2] for word in options.input)
    study = read_study(options.folder)
    size = options.size or study.sizes[0]
    if size not in study.sizes:
        raise RunError(BAD_INPUT, f"--size {size}: expected one of "
                       f"{' '.join(study.sizes)}")
    results, curves = (study.rows(options.folder, name, size)
                       for name in ("results.csv", "curves.csv"))
    of_other_data = [cell for cell, keys in study.variants.items()
                     if re.search(r"\bdata\.", keys)]
    cells = Cells(results, study.seeds, of_other_data, inputs)
    table = [[rule.name, rule.expression, rule.published, rule.criterion,
              *rule.judge(cells)] for rule in study.rules]
    printer = print_markdown if options.markdown else print_table
    printer(["rule", "what", "published", "reproduced if", "obtained",
             "verdict"], table)
    stale = {(row["cell"], row["seed"]) for row in results
             if is_of_other_input(row, inputs)}
    results, curves = ([row for row in rows
                        if (row["cell"], row["seed"]) not in stale]
                       for rows in (results, curves))
    if curves:
        draw(os.path.join(options.folder, f"figure-{size}.png"),
             study.metric, results, curves)
    return 0


if __name__ == "__main__":
    run_main(main)
