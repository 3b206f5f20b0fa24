"""A run's results.h5 as plain Python: what all of postprocess/ reads with.

    run = open_run("runs/bsp-seed1")      # a run's directory or its results.h5
    run.tables["eval"]["accuracy"]        # numpy, (rows) or (rows, workers)
    run.input["sync.scheme"]              # the resolved input, as text

Published runs of Sync-Switch, which are CSV, become runs in published.py.
"""
import contextlib
import math
import os
import re
import sys
from typing import NamedTuple

import packages  # noqa: F401, says which package is missing
import h5py
import numpy as np

from exit_codes import BAD_INPUT, INPUT_MISSING
from script import RunError, run_main  # noqa: F401, for jobs/


class Metric(NamedTuple):
    """A metric of an evaluation and the range of its values."""
    larger_is_better: bool
    low: float
    high: float


# The metrics that /eval may hold. The first one present is the one that ranks
# runs, as in the program's log. f1 and exact_match are in percent.
METRICS = {"accuracy": Metric(True, 0, 1), "accuracy_top5": Metric(True, 0, 1),
           "f1": Metric(True, 0, 100), "exact_match": Metric(True, 0, 100),
           "auc": Metric(True, 0, 1), "loss": Metric(False, 0, math.inf)}


def in_words(name):
    """A column's name as an axis or a title has it."""
    return re.sub(r"\b(auc|f1)\b", lambda found: found[0].upper(),
                  name.replace("_", " "))


class Run:
    """Tables, units, provenance, summary and input of one run."""

    is_published = False  # whether it is a published run (published.py)

    def __init__(self, path):
        self.path = path
        self.tables, self.units, self.descriptions = {}, {}, {}
        self.provenance, self.summary, self.input = {}, {}, {}
        self.ended = ""  # finished, stopped or diverged, where the file says
        self.stopped_by = ""  # the same: "none" if not from outside
        # The first of the parts that open_run joined; None: it is this one.
        self.first_part = None
        # Histograms that an earlier part counts by other bins; its rows are NaN.
        self.other_bins = set()

    @property
    def name(self):
        """The run's directory, or the file's stem if it has another name."""
        folder, file = os.path.split(os.path.abspath(self.path))
        stem = os.path.splitext(file)[0]
        return os.path.basename(folder) if stem == "results" else stem

    def final_and_best(self, metric):
        """The last value of its evaluations, and the best finite one; None,
        None if none is finite."""
        values = self.column("eval", metric)
        finite = values[np.isfinite(values)]
        if not len(finite):
            return None, None
        best = max if METRICS[metric].larger_is_better else min
        return values[-1], best(finite)

    @property
    def workers(self):
        if "workers" in self.provenance:
            return int(self.provenance["workers"])
        return int(self.input.get("run.workers", 1))

    @property
    def scheme(self):
        return self.input.get("sync.scheme",
                              str(self.provenance.get("scheme", "?")))

    @property
    def metric(self):
        """The name of the evaluations' metric; None without evaluations."""
        for name in METRICS:
            if len(self.column("eval", name)):
                return name
        return None

    def column(self, table, name):
        """A column, empty where the run has none."""
        return self.tables.get(table, {}).get(name, np.empty(0))

    def drawable(self, table, name):
        """A column as pictures show it: NaN where an evaluation was of a model
        whose loss is NaN, and its accuracy that of no answer."""
        values, loss = self.column(table, name), self.column(table, "loss")
        lost = np.isnan(loss)
        # A loss without any number is one that was not recorded.
        if table != "eval" or len(values) != len(loss) or \
                lost.all() and not self.has_diverged:
            return values
        return np.where(lost, math.nan, values)

    def with_unit(self, name):
        """An /eval column's name, and its unit where it has one: f1 (%)."""
        unit = self.units.get(f"eval/{name}", "1")
        # Some files give the unit only in the description.
        if self.descriptions.get(f"eval/{name}", "").startswith("percent"):
            unit = "%"
        return name if unit == "1" else f"{name} ({unit})"

    def bin_width(self, name):
        """How many values a column of a histogram counts together."""
        found = re.search(r"(\d+) values to a column",
                          self.descriptions.get(name, ""))
        return int(found[1]) if found else 1

    def last(self, table, name, default=float("nan")):
        values = self.column(table, name)
        return values[-1] if len(values) else default

    def per_worker(self, name):
        """A /comm column summed over its rows: one value per worker, NaN if
        there is none in any row. In some, the worker may have been absent."""
        values = self.column("comm", name)
        if values.ndim != 2:
            return np.empty(0)
        unknown = np.isnan(values).all(axis=0) & (len(values) > 0)
        return np.where(unknown, math.nan, np.nansum(values, axis=0))

    def mean_per_worker(self, name):
        """A /comm column summed over its rows, in each of which it is the mean
        over the workers there were; NaN without such a column or any number
        in it."""
        values = self.column("comm", name)
        if values.ndim != 2:
            return float("nan")
        there = ~np.isnan(values).all(axis=1)
        if len(values) and not there.any():
            return math.nan
        return np.nanmean(values[there], axis=1).sum()

    def sent_per_worker(self, worker_steps):
        """Payload bytes sent until each of `worker_steps`, mean over workers:
        the rows of /comm up to there, and a part of the next in proportion.
        NaN where the bytes are not known: beyond the last row of a run that
        was killed or goes on."""
        rows = self.column("comm", "bytes_sent")
        if rows.ndim != 2:
            return np.full(len(worker_steps), math.nan)
        until = [0, *self.column("comm", "worker_steps")]
        sent = [0.0, *np.nanmean(rows, axis=1).cumsum()]
        if self.ended_at > until[-1]:
            rest = self.summary.get("bytes_sent", math.nan) - np.nansum(rows)
            until.append(self.ended_at)
            sent.append(sent[-1] + rest / self.workers)
        return np.interp(worker_steps, until, sent, right=math.nan)

    @property
    def ended_at(self):
        """The worker steps that the summary covers, by its samples; NaN
        without a summary or without rows."""
        samples = self.last("train", "samples")
        return self.last("train", "worker_steps") * \
            self.summary.get("samples", math.nan) / samples if samples > 0 \
            else math.nan

    @property
    def has_diverged(self):
        """Whether it ended, and not with finite figures. A gradient that is
        not finite ends a run whose last figures still are."""
        if self.ended == "diverged":
            return True
        if "finished" not in self.summary:
            return False
        last = [self.last("train", "loss", 0.0)]
        if self.summary["finished"] == 1 and self.metric:
            last += [self.last("eval", self.metric),
                     self.last("eval", "loss", 0.0)]
        return not np.isfinite(last).all()

    @property
    def state(self):
        """finished, diverged, or unfinished: stopped, killed or still running.
        """
        if self.has_diverged:
            return "diverged"
        is_at_end = self.is_published or self.summary.get("finished") == 1
        return "finished" if is_at_end else "unfinished"

    @property
    def lacks_first_evaluations(self):
        """Whether it went on from a checkpoint without the evaluations before
        it: that of another run, or its own without its results."""
        part = self.first_part or self  # whose steps eval.every counts
        found = re.match(r"([\d.e+-]+)( epoch)?",
                         part.input.get("eval.every", "0"))
        steps = part.column("eval", "step")
        if not found or not len(steps) or not part.provenance.get("restarts"):
            return False
        every = float(found[1])
        # At most one evaluation was due by the first one recorded.
        per_step = part.column("eval", "epoch")[0] / steps[0] if found[2] \
            else 1
        return 0 < every <= (steps[0] - 1) * per_step

    def has_virtual_time(self):
        """Whether a virtual clock ran (workers in one process) all the time:
        a part of the run under MPI has none."""
        clock = self.column("train", "virtual_s")
        if not len(clock):
            clock = self.column("eval", "virtual_s")
        return bool(len(clock) and np.isfinite(clock).all() and clock[-1] > 0)

    def data_identity(self):
        """A key that is equal for runs on the same data."""
        digests = {key: str(value) for key, value in self.provenance.items()
                   if "digest" in key}
        if digests:
            return digests
        keys = ("data.kind", "data.path", "data.synthetic_seed",
                "data.samples", "data.test_samples", "data.noise")
        return {key: self.input[key] for key in keys if key in self.input}


def parse_ini(text):
    """{"section.key": "value"} of an input, also of an echoed one."""
    values, section = {}, ""
    for line in text.removeprefix("\ufeff").split("\n"):
        # As in config/ini.cpp.
        line = re.sub(r"(^|[ \t])#.*", "", line.strip()).strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif "=" in line and not line.startswith(";"):
            key, value = line.split("=", 1)
            values[f"{section}.{key.strip()}"] = value.strip()
    return values


def _plain(value):
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    return value.item() if isinstance(value, np.generic) else value


def _read(run, file):
    for group_name, group in file.items():
        if not isinstance(group, h5py.Group):
            continue
        if group_name == "provenance":
            run.provenance = {k: _plain(v) for k, v in group.attrs.items()}
            continue
        columns = {}
        for name, dataset in group.items():
            if not isinstance(dataset, h5py.Dataset):
                continue
            key = f"{group_name}/{name}"
            run.units[key] = _plain(dataset.attrs.get("units", "1"))
            run.descriptions[key] = _plain(dataset.attrs.get("description",
                                                             ""))
            columns[name] = dataset[()]
        lengths = {name: len(values) for name, values in columns.items()
                   if np.ndim(values)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"/{group_name}: columns of unequal lengths: " +
                             ", ".join(f"{name} {length}" for name, length
                                       in sorted(lengths.items())))
        if group_name == "summary":
            run.summary = {k: _plain(v) for k, v in columns.items()}
            run.ended, run.stopped_by = (
                str(_plain(group.attrs.get(name, "")))
                for name in ("ended", "stopped_by"))
        elif columns:
            run.tables[group_name] = columns
    run.input = parse_ini(str(run.provenance.get("input", "")))


def _joined(early, late):
    """Rows of one column behind each other. Where workers became more or
    fewer, columns by worker are as wide as the wider, NaN where there is
    none."""
    if early.ndim == 1 or late.ndim == 1 or early.shape[1] == late.shape[1]:
        return np.concatenate([early, late])
    width = max(early.shape[1], late.shape[1])
    return np.concatenate(
        [np.pad(part.astype(float), ((0, 0), (0, width - part.shape[1])),
                constant_values=np.nan) for part in (early, late)])


def _prepend(run, earlier, until):
    """Puts the rows of `earlier` up to worker step `until` before those of
    `run`, which went on from there with another number of workers. A step is
    then one of the workers of `run`."""
    workers = run.provenance.get("workers")
    for name, columns in earlier.tables.items():
        if "worker_steps" not in columns:
            continue
        if "step" in columns and workers:
            columns = {**columns, "step": columns["worker_steps"] / workers}
        kept = columns["worker_steps"] <= until
        own = run.tables.setdefault(name, {})
        for key, values in columns.items():
            if key not in own:
                own[key] = np.empty((0,) + values.shape[1:], values.dtype)
        rows = len(own["worker_steps"])
        for key in own:
            if len(own[key]) != rows:  # only the earlier part has it
                own[key] = np.full((rows,) + own[key].shape[1:], np.nan)
            before = columns.get(key)
            label = f"{name}/{key}"
            if before is not None and \
                    earlier.bin_width(label) != run.bin_width(label):
                before = None
                run.other_bins.add(label)
            if before is None:
                before = np.full((len(kept),) + own[key].shape[1:], np.nan)
            own[key] = _joined(before[kept], own[key])


def _part_before(run):
    """The results file that this one continues; None if it starts a run."""
    name = os.path.basename(str(run.provenance.get("continues", "")))
    if not name:
        return None
    return os.path.join(os.path.dirname(os.path.abspath(run.path)), name)


def open_run(path):
    """Reads a run's directory or results file, with the parts that it
    continues, or a published run's; RunError if it cannot."""
    # published.py derives its runs from Run.
    from published import is_published, open_published
    if is_published(path):
        return open_published(path)
    run = _open_part(path)
    part, seen = run, {os.path.abspath(run.path)}
    workers = [str(run.workers)]
    until = math.inf
    while (before := _part_before(part)) and before not in seen:
        seen.add(before)
        until = min(until, part.provenance.get("continues_from", 0))
        part = _open_part(before)
        _prepend(run, part, until)
        # Otherwise nothing of this part is left.
        if part.provenance.get("continues_from", 0) < until and \
                workers[0] != str(part.workers):
            workers.insert(0, str(part.workers))
    if part is not run:
        run.first_part = part
        run.input["run.workers"] = " then ".join(workers)
    return run


def open_simulation(path):
    """What `simulate --output=FILE.h5` wrote: /workers, no run's tables."""
    run = _open_part(path, "workers")
    if run.provenance.get("world") != "simulation":
        raise RunError(BAD_INPUT, f"{run.path}: not written by simulate "
                       "--output")
    return run


def _survives_reading(path):
    """Whether a process that reads the file lives on: damage may crash HDF5."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with h5py.File(path, "r") as file:
                _read(Run(path), file)
        os._exit(0)
    return not os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _open_part(path, table="train"):
    """One results file, given by itself or by its run's directory."""
    file_path = os.path.join(path, "results.h5") if os.path.isdir(path) \
        else path
    if not os.path.exists(file_path):
        raise RunError(INPUT_MISSING, f"{file_path}: no such results")
    run = Run(file_path)
    if not _survives_reading(file_path):
        raise RunError(BAD_INPUT, f"{file_path}: damaged: the HDF5 library "
                       "crashes when it reads it")
    try:
        with h5py.File(file_path, "r") as file:
            _read(run, file)
    # h5py raises any of these for damaged names, types and sizes.
    except (OSError, KeyError, RuntimeError, ValueError, TypeError,
            MemoryError) as error:
        line = str(error).splitlines()[0]
        raise RunError(BAD_INPUT, f"{file_path}: not readable as HDF5: {line}")
    if table not in run.tables:
        what = "run" if table == "train" else "simulation"
        raise RunError(BAD_INPUT, f"{file_path}: no group /{table}: not the "
                       f"results of a {what}")
    return run


def _is_no_run(path):
    """Whether it exists and is something else: a picture, an empty folder, a
    table of export.py, a simulation."""
    from published import has_series, is_published
    if is_published(path):
        return os.path.isfile(path) and not has_series(path)
    if os.path.isdir(path):
        return not os.path.exists(os.path.join(path, "results.h5"))
    if not path.endswith(".h5"):
        return os.path.isfile(path)
    try:
        open_simulation(path)
    except RunError:
        return False  # also of what is damaged: open_run() says so
    return True


def open_runs(paths):
    """Reads all paths and gives the runs distinct labels. Unless none of them
    is a run, paths that are not runs are skipped with a note, so that runs/*
    works; no note for a NAME.out that a sweep put next to the folder NAME."""
    others = [path for path in paths if _is_no_run(path)]
    if len(others) < len(paths):
        for path in others:
            if not (path.endswith(".out") and os.path.isdir(path[:-4])):
                print(f"note: {path}: skipped: not a run", file=sys.stderr)
        paths = [path for path in paths if path not in others]
    runs = [open_run(path) for path in paths]
    names = [run.name for run in runs]
    for run, path in zip(runs, paths):
        run.label = run.name if names.count(run.name) == 1 else path
    return runs


def print_table(header, rows, file=None):
    """Aligned columns: the first to the left, the rest to the right."""
    cells = [header] + [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    for row in cells:
        line = [row[0].ljust(widths[0])]
        line += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  ".join(line).rstrip(), file=file)


def print_markdown(header, rows, file=None):
    """The same as a table of Markdown."""
    for row in [header, ["---"] + ["---:"] * (len(header) - 1), *rows]:
        cells = (str(cell).replace("|", r"\|") for cell in row)
        print("| " + " | ".join(cells) + " |", file=file)
