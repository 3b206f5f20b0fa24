"""The tables of a study: results.csv has a row for each run, curves.csv its
evaluations. jobs/study.sh records them, and study.py judges them.
"""
import contextlib
import csv
import fcntl
import hashlib
import math
import os
import re

import packages  # noqa: F401, says which package is missing
import numpy as np

from exit_codes import BAD_INPUT
from script import RunError, whole_file

# "input" is a digest of what determines the results (jobs/sweep_recorded.py),
# and "data" one of the samples; rows may be older than the latter.
RESULTS = ["size", "cell", "seed", "scheme", "tuned", "state", "git", "input",
           "steps", "samples", "virtual_s", "accuracy", "loss", "target_s",
           "target_samples", "bytes", "throughput", "computing", "data"]
NUMBERS = RESULTS[RESULTS.index("steps"):RESULTS.index("data")]
CURVES = ["size", "cell", "seed", "epoch", "virtual_s", "bytes", "accuracy"]
KEY = ["size", "cell", "seed"]


def reaching(run, target):
    """Virtual seconds and samples of the first evaluation that meets a target,
    infinite if none does; the target is run.target or, for runs that have none,
    `target`, or None. Runs under MPI have no virtual seconds: NaN."""
    if run.summary.get("target_reached") == 1:
        return tuple(run.summary.get(name, math.nan)
                     for name in ("target_virtual_s", "target_samples"))
    row = target.reached_at(run) if target else None
    if row is None:
        return math.inf, math.inf
    trained = run.column("eval", "worker_steps")[row] / \
        run.last("train", "worker_steps")
    samples = trained * run.summary.get("samples", math.nan)
    return run.column("eval", "virtual_s")[row], \
        round(samples) if math.isfinite(samples) else math.nan


def result_of(run, metric, target):
    """The figures of one run: `accuracy` is the study's metric, `bytes` are
    those that a worker sent on average, `throughput` is samples of all workers
    per virtual second, and `computing` the share of the workers' virtual time
    in which they computed."""
    target_s, target_samples = reaching(run, target)
    virtual_s = run.summary.get("virtual_s", math.nan)
    sent = run.mean_per_worker("bytes_sent")
    return {
        "scheme": run.input["sync.scheme"], "state": run.state,
        "git": run.provenance.get("git", ""),
        "steps": run.last("train", "step"),
        "samples": run.summary.get("samples", math.nan),
        "virtual_s": virtual_s,
        "accuracy": math.nan if run.has_diverged
        else run.last("eval", metric),
        "loss": run.last("eval", "loss"),
        "target_s": target_s, "target_samples": target_samples,
        "bytes": 0.0 if math.isnan(sent) else sent,
        "throughput": run.summary.get("samples", math.nan) / virtual_s,
        "computing": run.mean_per_worker("compute_s") / virtual_s,
        "data": digest_of(run.provenance.get("data_digest", "")),
    }


def digest_of(data):
    """Of the digests of both sets, which stand behind each other; "" of none."""
    return hashlib.sha256(str(data).encode()).hexdigest()[:12] if data else ""


def curve_of(run, metric):
    """Its evaluations, as far as their metric is finite: a model whose loss
    is not may still be worth a figure."""
    if not len(run.column("eval", metric)):
        return []
    finite = np.isfinite(run.column("eval", metric))
    sent = run.sent_per_worker(run.column("eval", "worker_steps"))
    columns = [run.column("eval", name)
               for name in ("epoch", "virtual_s")] + [sent] + \
        [run.column("eval", metric)]
    return [dict(zip(CURVES[3:], row))
            for row in zip(*(column[finite] for column in columns))]


def text(value):
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read_rows(path):
    """The rows of results.csv or curves.csv, with "" where they lack a column;
    none without a file. RunError if it is no such table."""
    columns = CURVES if os.path.basename(path) == "curves.csv" else RESULTS
    try:
        with open(path, encoding="utf-8", newline="") as file:
            table = csv.DictReader(file, restval="")
            rows, header = list(table), table.fieldnames or []
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RunError(BAD_INPUT, f"{path}: not readable: {error}") from None
    for name in header:
        if name not in columns:
            raise RunError(BAD_INPUT, f"{path}: unknown column {name}")
    for number, row in enumerate(rows, 2):
        for name in KEY:
            if not row.get(name):
                raise RunError(BAD_INPUT, f"{path}:{number}: no {name}")
        if not re.fullmatch("[0-9]+", row["seed"]):
            raise RunError(BAD_INPUT, f"{path}:{number}: seed: {row['seed']}: "
                           "expected a whole number")
        if None in row:
            raise RunError(BAD_INPUT, f"{path}:{number}: more values than "
                           "columns")
        for name in columns:
            row.setdefault(name, "")
        for name in set(NUMBERS + CURVES[3:]) & row.keys():
            try:
                float(row[name] or "nan")
            except ValueError:
                raise RunError(BAD_INPUT, f"{path}:{number}: {name}: "
                               f"{row[name]}: expected a number") from None
    return rows


def replace_rows(path, header, keys, rows):
    """Writes a table anew: `rows` in place of all rows of the runs that have
    these keys, also of a run that has no new row."""
    new = [{name: text(row[name]) for name in header} for row in rows]
    mine = {tuple(text(key[name]) for name in KEY) for key in keys}
    kept = [row for row in read_rows(path)
            if tuple(row[name] for name in KEY) not in mine]
    with whole_file(path) as file:
        writer = csv.DictWriter(file, header, lineterminator="\n")
        writer.writeheader()
        # Sorting is stable, so a run's evaluations stay in their order.
        writer.writerows(sorted(kept + new, key=lambda row: (
            row["size"], row["cell"], int(row["seed"]))))


@contextlib.contextmanager
def locked(folder):
    """Keeps other processes that record into the folder waiting, where its file
    system knows locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def record(folder, size, runs, metric, target=None):
    """Adds (cell, seed, tuned value, digest of the input, run) to the tables
    of a study of `metric`; `target` is that of runs without run.target."""
    keys = [dict(zip(KEY, (size, cell, seed))) for cell, seed, *_ in runs]
    results = [{**key, "tuned": tuned, "input": digest,
                **result_of(run, metric, target)}
               for key, (_, _, tuned, digest, run) in zip(keys, runs)]
    curves = [{**key, **row} for key, (*_, run) in zip(keys, runs)
              for row in curve_of(run, metric)]
    with locked(folder):
        replace_rows(os.path.join(folder, "results.csv"), RESULTS, keys,
                     results)
        replace_rows(os.path.join(folder, "curves.csv"), CURVES, keys, curves)
