"""Reads and checks the SWEEP file of jobs/sweep.sh, which describes variants,
tuning and final runs. inputs/compare_schemes.sweep explains its lines,
inputs/studies/README.md those of a study.
"""
from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "postprocess"))
from exit_codes import BAD_INPUT, INPUT_MISSING, USAGE  # noqa: E402
from run_reader import METRICS, RunError, parse_ini  # noqa: E402
from study import read_rules, refuse_metric, sections_of  # noqa: E402
from target import Target, parse_target  # noqa: E402

FORMAT = {"sweep": {"input", "directory", "metric", "command", "target"},
          "tune": {"key", "grid", "metric", "seeds", "overrides"},
          "final": {"seeds", "overrides"}}
OPTIONAL = {("sweep", "directory"), ("sweep", "metric"), ("sweep", "command"),
            ("sweep", "target"), ("tune", "overrides"),
            ("final", "overrides")}
# Sections with names of the file's own.
FREE_SECTIONS = {"variants", "sizes", "rules", "over"}
# Variants must not change these sections; the comparison would be unfair.
COMMON_SECTIONS = ("run", "data", "eval", "checkpoint")
KEY = r"[a-z_]+\.[a-z0-9_]+"
OWN_KEYS = {"run.name", "run.directory", "run.seed", "eval.on"}


@dataclass
class Sweep:
    """One SWEEP file and what the command line adds to all its runs. Without
    tuning the key is empty, and so are the grid and the tuning seeds."""
    path: str
    input: str
    directory: str
    key: str
    grid: list
    extends: bool  # grid = auto: beyond an edge with the best value
    metric: str
    tune_seeds: list
    final_seeds: list
    tune_overrides: dict
    final_overrides: dict
    variants: dict  # name: {key: value}
    extra: dict     # of the command line
    size: str       # of a study; empty without sizes
    rules: list     # of a study
    command: str = "train"  # or simulate
    again: bool = False     # --again: ignore what a study has recorded
    target: Target | None = None  # of a study's runs without run.target
    threads: int = 1
    ended: dict = field(default_factory=dict)  # outcomes that are known
    # {name of a tuning run: whether the program refuses its value}
    refused: dict = field(default_factory=dict)
    data: dict = field(default_factory=dict)  # the samples of ended runs
    # What sweep_recorded.py takes from a study's results.csv: rows by (variant,
    # seed), and the values of variants that need no tuning because of them.
    recorded: dict = field(default_factory=dict)
    tuned: dict = field(default_factory=dict)

    def base_keys(self):
        """{"section.key": "value"} of the input."""
        with open(self.input, encoding="utf-8") as file:
            return parse_ini(file.read())


def parse_overrides(text, where):
    """{"section.key": "value"} of words section.key=value, quotes allowed."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise RunError(BAD_INPUT, f"{where}: {error}") from None
    found = {}
    for word in words:
        match = re.fullmatch(rf"(?:--)?({KEY})=(.*)", word, re.S)
        if not match:
            raise RunError(BAD_INPUT, f"{where}: {word}: section.key=value "
                           "expected")
        key, value = match.groups()
        if key in found:
            raise RunError(BAD_INPUT, f"{where}: {key} is given twice")
        if key in OWN_KEYS:
            raise RunError(BAD_INPUT, f"{where}: {key}: the sweep sets it "
                           "itself for each run")
        found[key] = value
    return found


def words_of(text, where, kind):
    """Values separated by blanks or commas; at least one, all distinct."""
    words = text.replace(",", " ").split()
    what = f"{'whole ' * (kind is int)}number"
    numbers = set()
    for word in words:
        try:
            numbers.add(kind(word))
        except ValueError:
            raise RunError(BAD_INPUT, f"{where}: {word}: a {what} "
                           "expected") from None
    if not words:
        raise RunError(BAD_INPUT, f"{where}: {what}s expected")
    if len(numbers) < len(words):
        raise RunError(BAD_INPUT, f"{where}: {text}: distinct {what}s "
                       "expected")
    return words


def read_sections(path):
    """{section: {name: value}}, with nothing unknown or missing."""
    sections = sections_of(path)
    for section in sections.keys() - FORMAT.keys() - FREE_SECTIONS:
        raise RunError(BAD_INPUT, f"{path}: [{section}]: expected sweep, tune, "
                       "final, variants, sizes, rules or over")
    for section, names in FORMAT.items():
        if section == "tune" and section not in sections:
            continue
        given = sections.setdefault(section, {})
        for name in sorted(given.keys() - names):
            raise RunError(BAD_INPUT, f"{path}: {section}.{name}: expected "
                           f"{', '.join(sorted(names))}")
        for name in sorted(names - given.keys()):
            if (section, name) not in OPTIONAL:
                raise RunError(BAD_INPUT, f"{path}: {section}.{name}: missing")
    if not sections.get("variants"):
        raise RunError(BAD_INPUT, f"{path}: [variants]: missing")
    return sections


def read_variants(path, section, key, may_differ):
    """{name: overrides}. Sections that a fair comparison has in common are
    refused, unless they `may_differ`."""
    variants = {}
    for name, text in section.items():
        where = f"{path}: variants.{name}"
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            raise RunError(BAD_INPUT, f"{where}: a name of letters, digits and "
                           "_ . - expected")
        variants[name] = parse_overrides(text, where)
        for other in variants[name]:
            if other == key:
                raise RunError(BAD_INPUT, f"{where}: {key} is what is tuned")
            if other.split(".")[0] in COMMON_SECTIONS and not may_differ:
                raise RunError(BAD_INPUT, f"{where}: {other}: must be the same "
                               "for all variants: put it in the input")
    return variants


def read_tuning(path, tune):
    """Key, grid, whether it extends itself, metric, seeds and overrides of
    [tune]."""
    key, metric = tune["key"], tune["metric"]
    if not re.fullmatch(KEY, key) or key in OWN_KEYS:
        raise RunError(BAD_INPUT, f"{path}: tune.key: {key}: a key such as "
                       "optimizer.lr expected")
    extends = bool(re.match(r"auto\b", tune["grid"]))
    values = tune["grid"].removeprefix("auto") if extends else tune["grid"]
    grid = [] if extends and not values.strip() else \
        words_of(values, f"{path}: tune.grid", float)
    if extends and (len(grid) < 2 or min(map(float, grid)) <= 0):
        raise RunError(BAD_INPUT, f"{path}: tune.grid: {tune['grid']}: "
                       "expected auto and at least two starting values > 0, "
                       "such as auto 0.01 0.1")
    return (key, grid, extends, metric,
            words_of(tune["seeds"], f"{path}: tune.seeds", int),
            parse_overrides(tune.get("overrides", ""),
                            f"{path}: tune.overrides"))


def read_over(path, section, variants):
    """The variants of a sweep of simulations: each one for each value of each
    key of [over], the other keys being those of the input."""
    points = {}
    words = [key.partition(".")[2] for key in section]
    for key, values in section.items():
        where = f"{path}: over.{key}"
        if not re.fullmatch(KEY, key) or key in OWN_KEYS:
            raise RunError(BAD_INPUT, f"{where}: a key such as run.workers "
                           "expected")
        word = key.partition(".")[2]
        shown = word if words.count(word) == 1 else key
        for value in words_of(values, where, float):
            for name, overrides in variants.items():
                if key in overrides:
                    raise RunError(BAD_INPUT, f"{where}: variant {name} sets it")
                points[f"{name}-{shown}-{value}"] = {**overrides, key: value}
    return points or variants


def command_of_sweep(path, sections):
    """train or simulate, and what belongs to it."""
    command = sections["sweep"].get("command", "train")
    if command not in ("train", "simulate"):
        raise RunError(BAD_INPUT, f"{path}: sweep.command: {command}: expected "
                       "train or simulate")
    refused = ("tune", "rules") if command == "simulate" else ("over",)
    for section in refused:
        if section in sections:
            raise RunError(BAD_INPUT, f"{path}: [{section}]: not of a sweep "
                           f"with command = {command}")
    return command


def in_runs_folder(directory):
    """A leading runs/ stands for $SYNCOPATE_RUNS, if that is set."""
    first, _, rest = directory.partition("/")
    if first != "runs":
        return directory
    return os.path.join(os.environ.get("SYNCOPATE_RUNS") or "runs", rest)


def size_of(path, sizes, size):
    """The name of the size asked for, by default the first, and its
    overrides."""
    if not sizes:
        if size:
            raise RunError(BAD_INPUT, f"{path}: [sizes]: missing, for --size")
        return "", {}
    size = size or next(iter(sizes))
    if size not in sizes:
        raise RunError(BAD_INPUT, f"{path}: --size={size}: expected one of "
                       f"{' '.join(sizes)}")
    return size, parse_overrides(sizes[size], f"{path}: sizes.{size}")


def without_target(keys):
    """What tuning runs, which go on to their end, take of a size."""
    return {key: value for key, value in keys.items() if key != "run.target"}


def read_sweep(path, arguments):
    """The sweep of a file, with the overrides of the command line; of a study,
    at the size that --size=NAME among them names; --again may be one of them."""
    asked = [word.removeprefix("--size=") for word in arguments
             if word.startswith("--size=")]
    again = "--again" in arguments
    arguments = [word for word in arguments
                 if word != "--again" and not word.startswith("--size=")]
    sections = read_sections(path)
    sweep, final = sections["sweep"], sections["final"]
    command = command_of_sweep(path, sections)
    if "tune" in sections and "metric" in sweep:
        raise RunError(BAD_INPUT, f"{path}: sweep.metric: [tune] has its own")
    key, grid, extends, metric, tune_seeds, tune_overrides = \
        read_tuning(path, sections["tune"]) if "tune" in sections else \
        ("", [], False, sweep.get("metric", "accuracy"), [], {})
    if command == "simulate":
        metric = "samples_per_s"
    elif metric not in METRICS:
        where = "tune" if key else "sweep"
        raise RunError(BAD_INPUT, f"{path}: {where}.metric: {metric}: expected "
                       f"one of {' '.join(METRICS)}")
    extra = parse_overrides(shlex.join(arguments), "command line")
    final_overrides = parse_overrides(final.get("overrides", ""),
                                      f"{path}: final.overrides")
    size, of_size = size_of(path, sections.get("sizes", {}),
                            asked[-1] if asked else "")
    for where, found in (("command line", extra),
                         (f"{path}: tune.overrides", tune_overrides),
                         (f"{path}: final.overrides", final_overrides),
                         (f"{path}: sizes.{size}", of_size)):
        if key in found:
            raise RunError(BAD_INPUT, f"{where}: {key} is what is tuned")
    rules = read_rules(path, sections.get("rules", {}), sections["variants"])
    if rules:
        refuse_metric(path, metric)
    if rules and not size:
        raise RunError(BAD_INPUT, f"{path}: [sizes]: missing, for [rules]")
    target = parse_target(sweep["target"], f"{path}: sweep.target:") \
        if "target" in sweep else None
    if target and not rules:
        raise RunError(BAD_INPUT, f"{path}: sweep.target: only [rules] use it")
    if again and not rules:
        raise RunError(USAGE, f"--again: {path} has no [rules], so nothing is "
                       "recorded")
    variants = read_variants(path, sections["variants"], key, bool(rules))
    variants = read_over(path, sections.get("over", {}), variants)
    for name, found in variants.items():
        for other in sorted(found.keys() & extra.keys()):
            raise RunError(BAD_INPUT, f"command line: {other}: variant {name} "
                           "sets it")
    base = os.path.normpath(
        os.path.join(os.path.dirname(path), sweep["input"]))
    if not os.path.isfile(base):
        raise RunError(INPUT_MISSING, f"{base}: no such input")
    stem = os.path.splitext(os.path.basename(path))[0]
    directory = in_runs_folder(sweep.get("directory", f"runs/{stem}"))
    return Sweep(
        path, base, os.path.join(directory, size).rstrip("/"),
        key, grid, extends, metric, tune_seeds,
        words_of(final["seeds"], f"{path}: final.seeds", int),
        {**without_target(of_size), **tune_overrides},
        {**of_size, **final_overrides},
        variants, extra, size, rules, command, again, target)
