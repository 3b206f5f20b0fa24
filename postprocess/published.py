"""Published runs of Sync-Switch as runs: a folder with its acc.csv, loss.csv
and weight_decay.csv (or acc_proc.csv, loss_proc.csv), or one such file.

Columns are found by name: Step and Value always, Time or "Relative time (s)"
(seconds) where the file has it, else "Wall time". Empty rows are skipped.

Step counts a BSP step and an ASP update as 1 each. BSP logs every 100 steps
exactly, ASP does not, and a restart logs its first step: that tells the
phases. The files do not name the number of workers: 16 below a folder
cluster_16, else 8, as in the published set-ups, or what the caller says.

An evaluation's time is when training reached its step: the evaluator ran on a
node of its own, in one case a day later. The gap between two phases, in which
the cluster restarted, is left out, as in the authors' own Time.
"""
import csv
import math
import os
import re

import numpy as np

from exit_codes import BAD_INPUT, INPUT_MISSING
from run_reader import Run
from script import RunError

LOG_EVERY = 100  # BSP steps from one record to the next
BATCH = 128  # samples per mini-batch in all published set-ups
# The beginning of a file's name, and the quantity in the file.
SERIES = {"acc": "accuracy", "loss": "loss", "weight_decay": "weight_decay"}
TIMES = ("Time", "Relative time (s)")


class PublishedRun(Run):
    """A run with tables train and eval, and the phases it went through."""

    is_published = True

    def __init__(self, path):
        super().__init__(path)
        self.phases = []  # (scheme, first step, last step), as Step counts

    @property
    def name(self):
        return os.path.splitext(os.path.basename(
            os.path.abspath(self.path)))[0]

    @property
    def workers(self):
        return int(self.input["run.workers"])

    def data_identity(self):
        return {}  # the files name no digest


def is_published(path):
    """Whether this is a published run rather than results.h5."""
    if os.path.isdir(path):
        return not os.path.exists(os.path.join(path, "results.h5")) and \
            bool(_files_of(path))
    return path.lower().endswith(".csv")


def _series_of(file_name):
    """accuracy, loss or weight_decay by a file's name; loss if it tells none:
    that is what the single files of the stragglers hold."""
    return next((series for start, series in SERIES.items()
                 if file_name.startswith(start)), "loss")


def _files_of(folder):
    """{series: path}; where there is a series and its _proc, which has Time,
    the latter."""
    found = {}
    for start, series in SERIES.items():
        for name in (f"{start}_proc.csv", f"{start}.csv"):
            path = os.path.join(folder, name)
            if series not in found and os.path.exists(path):
                found[series] = path
    return found


def _number(path, line, text):
    try:
        value = float(text)
        if math.isfinite(value):
            return value
    except ValueError:
        pass
    raise RunError(BAD_INPUT, f"{path}: row {line}: not a number: "
                   f"\"{text[:40]}\"")


def has_series(path):
    """Whether a file has the columns of a published run."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            header = next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return False
    return {"Step", "Value"} <= {cell.strip() for cell in header}


def read_series(path):
    """{"step", "value", "seconds" (None without any time), "has_gaps"}."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except FileNotFoundError:
        raise RunError(INPUT_MISSING, f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RunError(BAD_INPUT, f"{path}: not readable as CSV: {error}") \
            from None
    header = [cell.strip() for cell in rows[0]] if rows else []
    if "Step" not in header or "Value" not in header:
        raise RunError(BAD_INPUT, f"{path}: no columns Step and Value: not a "
                       "published run of Sync-Switch")
    clock = next((name for name in (*TIMES, "Wall time") if name in header),
                 None)
    columns = ["Step", "Value"] + ([clock] if clock else [])
    table = []
    for line, row in enumerate(rows[1:], 2):
        if not any(cell.strip() for cell in row):
            continue
        cells = dict(zip(header, row))
        table.append([_number(path, line, cells.get(name, "").strip())
                      for name in columns])
    if not table:
        raise RunError(BAD_INPUT, f"{path}: no rows")
    # Of rows repeated at a restart, keep the first.
    values = np.array(table)
    values = values[np.unique(values[:, 0], return_index=True)[1]]
    return {"step": values[:, 0], "value": values[:, 1],
            "seconds": values[:, 2] - values[0, 2] if clock else None,
            "has_gaps": clock == "Wall time"}


def _is_bsp(step):
    """Of each interval between records, whether BSP made it: most of the five
    around it are LOG_EVERY long."""
    even = np.diff(step) == LOG_EVERY
    if len(even) < 3:
        return even
    around = np.pad(even.astype(float), 2, mode="reflect")
    return np.convolve(around, np.ones(5), "valid") >= 3


def phases_of(step, last):
    """[(scheme, first, last)] of a loss's records, until step `last`."""
    if len(step) < 2:
        return []
    is_bsp = _is_bsp(step)
    # The records at which the protocol changes. A phase of BSP begins and ends
    # with an interval of LOG_EVERY, regardless of the majority around it.
    changes = [i for i in range(1, len(is_bsp)) if is_bsp[i] != is_bsp[i - 1]]
    even = np.diff(step) == LOG_EVERY
    bounds = [0.0]
    for i in changes:
        begins = is_bsp[i]
        while i < len(even) - 1 and even[i] != begins:
            i += 1
        while i > 1 and even[i - 1] == begins:
            i -= 1
        # The first record after a restart is that of the restart's first step.
        bounds.append(step[i] - 1)
    bounds.append(last)
    schemes = [bool(is_bsp[0])] + [bool(is_bsp[i]) for i in changes]
    return [("bsp" if one else "asp", first, end)
            for one, first, end in zip(schemes, bounds, bounds[1:])]


def mini_batches(step, phases, workers):
    """Mini-batches of all workers together until each of `step`; not a number
    where no phases are known."""
    if not phases:
        return np.full(len(step), np.nan)
    total = np.zeros(len(step))
    for scheme, first, last in phases:
        total += (np.clip(step, first, last) - first) * (
            workers if scheme == "bsp" else 1)
    return total


def _without_gaps(series, phases):
    """Wall time without restarts: a step of the interval that holds one takes
    as long as is usual in the phase that ended there."""
    step, seconds = series["step"], series["seconds"].copy()
    spent = np.diff(seconds)
    for _, first, end in phases[:-1]:
        i = int(np.searchsorted(step, end, "right"))  # the next record
        inside = (step[:-1] >= first) & (step[1:] <= end)
        if 0 < i < len(step) and inside.any():
            per_step = np.median(spent[inside] / np.diff(step)[inside])
            spent[i - 1] = per_step * (step[i] - step[i - 1])
    return np.concatenate([[0.0], np.cumsum(spent)])


def _time_at(steps, series, seconds):
    """Seconds at which training reached `steps`; past the last record at the
    rate of the records before it."""
    step = series["step"]
    reached = np.interp(steps, step, seconds)
    tail = slice(-min(len(step), 10), None)
    if len(step) > 1:
        spent, steps_taken = (part[-1] - part[tail][0]
                              for part in (seconds, step))
        beyond = np.maximum(np.asarray(steps) - step[-1], 0)
        reached = reached + spent / steps_taken * beyond
    return reached


def _set_up(run, workers):
    """The facts in the path: workers, data, network, number of the run."""
    whole = os.path.abspath(run.path)
    in_path = f"cluster_16{os.sep}" in whole
    run.input["run.workers"] = str(workers or (16 if in_path else 8))
    for key, pattern in (("data.kind", r"(cifar100?)(?!\d)"),
                         ("model.depth", r"res(?:net)?(\d+)")):
        found = re.findall(pattern, whole)
        if found:
            run.input[key] = found[-1]
    if "model.depth" in run.input:
        run.input["model.family"] = "resnet"
    number = re.search(r"(\d+)$", run.name)
    run.input["run.seed"] = number.group(1) if number else run.name
    run.input["run.name"] = run.name


def _name_scheme(run):
    """sync.scheme; with several phases also their order and shares."""
    schemes = [scheme for scheme, _, _ in run.phases]
    if len(schemes) < 2:
        run.input["sync.scheme"] = schemes[0] if schemes else "?"
        return
    # ASP exceeds its end by the updates in flight, up to two per worker.
    ends = np.array([last for _, _, last in run.phases])
    work = np.diff(mini_batches(ends, run.phases, run.workers), prepend=0)
    work[-1] -= work.sum() % LOG_EVERY
    run.input.update({
        "sync.scheme": "sync_switch", "sync_switch.order": ",".join(schemes),
        "sync_switch.fractions": ",".join(
            f"{share:.4g}" for share in work / work.sum())})


def open_published(path, workers=0):
    """Reads a folder or a file; RunError if it is not a published run."""
    files = _files_of(path) if os.path.isdir(path) else \
        {_series_of(os.path.basename(path)): path}
    series = {name: read_series(file) for name, file in files.items()}
    run = PublishedRun(path)
    _set_up(run, workers)
    last = max(one["step"][-1] for one in series.values())
    training = series.get("loss", series.get("weight_decay"))
    if training is not None:
        run.phases = phases_of(training["step"], last)
    for name, one in series.items():
        when = {"step": one["step"], "worker_steps": mini_batches(
            one["step"], run.phases, run.workers)}
        clock = training if training is not None else one
        if clock["seconds"] is not None:
            seconds = clock["seconds"]
            if clock["has_gaps"]:
                seconds = _without_gaps(clock, run.phases)
            when["time_s"] = _time_at(one["step"], clock, seconds)
        table = "eval" if name == "accuracy" else \
            "train" if one is training else name
        if table == "train":
            when["samples"] = BATCH * when["worker_steps"]
        run.tables[table] = {**when, name: one["value"]}
        for column in run.tables[table]:
            run.units[f"{table}/{column}"] = \
                "s" if column == "time_s" else "1"
            run.descriptions[f"{table}/{column}"] = "of " + files[name]
    _name_scheme(run)
    return run
