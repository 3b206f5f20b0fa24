"""Reads and checks the SWEEP file of jobs/sweep.sh, which describes variants,
tuning and final runs. inputs/compare_schemes.sweep explains its lines.
"""
import configparser
import os
import re
import shlex
import sys
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "postprocess"))
from run_reader import BAD_INPUT, INPUT_MISSING, METRICS, RunError, \
    parse_ini  # noqa: E402

FORMAT = {"sweep": {"input", "directory"},
          "tune": {"key", "grid", "metric", "seeds", "overrides"},
          "final": {"seeds", "overrides"}}
OPTIONAL = {("sweep", "directory"), ("tune", "overrides"),
            ("final", "overrides")}
# Variants must not change these sections; the comparison would be unfair.
COMMON_SECTIONS = ("run", "data", "eval", "checkpoint")
OWN_KEYS = {"run.name", "run.directory", "run.seed", "eval.on"}


@dataclass
class Sweep:
    """One SWEEP file and what the command line adds to all its runs."""
    path: str
    input: str
    directory: str
    key: str
    grid: list
    metric: str
    tune_seeds: list
    final_seeds: list
    tune_overrides: dict
    final_overrides: dict
    variants: dict  # name: {key: value}
    extra: dict     # of the command line
    threads: int = 1

    @property
    def has_target(self):
        """Whether the input or the command line gives all runs a run.target."""
        with open(self.input, encoding="utf-8") as file:
            return "run.target" in self.extra or \
                "run.target" in parse_ini(file.read())


def parse_overrides(text, where):
    """{"section.key": "value"} of words section.key=value, quotes allowed."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise RunError(BAD_INPUT, f"{where}: {error}") from None
    found = {}
    for word in words:
        match = re.fullmatch(r"(?:--)?([a-z_]+\.[a-z_]+)=(.*)", word, re.S)
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
    try:
        numbers = [kind(word) for word in words]
    except ValueError:
        numbers = []
    if not numbers or len(set(numbers)) < len(numbers):
        raise RunError(BAD_INPUT, f"{where}: {text or 'nothing'}: different "
                       f"{'whole ' if kind is int else ''}numbers expected")
    return words


def read_sections(path):
    """{section: {name: value}}, with nothing unknown or missing."""
    parser = configparser.ConfigParser(
        delimiters=("=",), comment_prefixes=("#", ";"),
        inline_comment_prefixes=("#",), interpolation=None)
    parser.optionxform = str
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except OSError as error:
        raise RunError(INPUT_MISSING, f"{path}: {error.strerror}") from None
    except (configparser.Error, UnicodeDecodeError) as error:
        line = " ".join(str(error).split())
        raise RunError(BAD_INPUT, f"{path}: {line}") from None
    sections = {name: dict(parser[name]) for name in parser.sections()}
    for section in sections.keys() - FORMAT.keys() - {"variants"}:
        raise RunError(BAD_INPUT, f"{path}: [{section}]: expected sweep, tune, "
                       "final or variants")
    for section, names in FORMAT.items():
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


def read_variants(path, section, key):
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
            if other.split(".")[0] in COMMON_SECTIONS:
                raise RunError(BAD_INPUT, f"{where}: {other}: must be the same "
                               "for all variants: put it in the input")
    return variants


def read_sweep(path, arguments):
    sections = read_sections(path)
    sweep, tune, final = (sections[name] for name in FORMAT)
    key, metric = tune["key"], tune["metric"]
    if not re.fullmatch(r"[a-z_]+\.[a-z_]+", key) or key in OWN_KEYS:
        raise RunError(BAD_INPUT, f"{path}: tune.key: {key}: a key such as "
                       "optimizer.lr expected")
    if metric not in METRICS:
        raise RunError(BAD_INPUT, f"{path}: tune.metric: {metric}: expected "
                       f"one of {' '.join(METRICS)}")
    extra = parse_overrides(shlex.join(arguments), "command line")
    tune_overrides = parse_overrides(tune.get("overrides", ""),
                                     f"{path}: tune.overrides")
    final_overrides = parse_overrides(final.get("overrides", ""),
                                      f"{path}: final.overrides")
    for where, found in (("command line", extra),
                         (f"{path}: tune.overrides", tune_overrides),
                         (f"{path}: final.overrides", final_overrides)):
        if key in found:
            raise RunError(BAD_INPUT, f"{where}: {key} is what is tuned")
    variants = read_variants(path, sections["variants"], key)
    for name, found in variants.items():
        for other in sorted(found.keys() & extra.keys()):
            raise RunError(BAD_INPUT, f"command line: {other}: variant {name} "
                           "sets it")
    base = os.path.join(os.path.dirname(path), sweep["input"])
    if not os.path.isfile(base):
        raise RunError(INPUT_MISSING, f"{base}: no such input")
    stem = os.path.splitext(os.path.basename(path))[0]
    return Sweep(
        path, base, sweep.get("directory", os.path.join("runs", stem)), key,
        words_of(tune["grid"], f"{path}: tune.grid", float), metric,
        words_of(tune["seeds"], f"{path}: tune.seeds", int),
        words_of(final["seeds"], f"{path}: final.seeds", int), tune_overrides,
        final_overrides, variants, extra)
