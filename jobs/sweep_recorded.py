"""What the table of a study already records. Tables are committed and runs'
folders are not, so a final run that results.csv has need not be in a folder: it
counts as there if it was made by the same input and with the value that its
variant is tuned to.
"""
import hashlib
import json
import os

from sweep_file import ROOT  # noqa: F401, puts postprocess/ on the path
from study_tables import read_rows
from sweep_runs import MAY_CHANGE, counted, final_jobs, job_of, outcome

# Not of the input that the digest stands for: keys that change no result, the
# seed, which has its own column, the threads, on which only the last bits depend,
# and where the data lie.
LEFT_OUT = MAY_CHANGE | {"run.name", "run.seed", "run.threads",
                         "data.vocabulary"}
# Keys that are younger than some rows, with the value that they had before.
AS_BEFORE = {("data.fill", "mean")}

# Metrics that rows always had in their column "accuracy".
FIRST_METRICS = ("accuracy", "f1", "auc")


def without(keys):
    return {key: value for key, value in keys.items()
            if key not in LEFT_OUT and (key, value) not in AS_BEFORE}


def input_digest(sweep, variant):
    """Of the keys that a variant's final runs have in common. What is tuned has
    the rules of its choice for a value."""
    job = job_of(sweep, "final", variant, "", sweep.final_seeds[0])
    keys = without({**sweep.base_keys(), **job.overrides})
    if sweep.key:
        keys[sweep.key] = [sweep.grid, sweep.extends, sweep.metric,
                           sweep.tune_seeds, without(sweep.tune_overrides)]
    # Both decide what is recorded, and are younger than some rows.
    if sweep.target and keys.get("run.target", "-") == "-":
        keys["sweep.target"] = str(sweep.target)
    if sweep.metric not in FIRST_METRICS:
        keys["sweep.metric"] = sweep.metric
    text = json.dumps(keys, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def take_recorded(sweep, here):
    """Sets sweep.recorded and sweep.tuned by results.csv. `here` are the values
    that the tuning runs in the sweep's directory choose, as of choose(); they
    outrank recorded ones. Returns lines for the user."""
    if not sweep.rules or sweep.again:
        return []
    folder = os.path.relpath(os.path.dirname(os.path.abspath(sweep.path)))
    rows = {(row["cell"], row["seed"]): row
            for row in read_rows(os.path.join(folder, "results.csv"))
            if row["size"] == sweep.size and row["state"] != "unfinished"}
    told = []
    for variant in sweep.variants:
        mine = [rows[variant, seed] for seed in sweep.final_seeds
                if (variant, seed) in rows]
        digest = input_digest(sweep, variant)
        same = [row for row in mine if row.get("input") == digest]
        tell(sweep, [row for row in mine if row not in same],
             "a different input", told)
        values = {row["tuned"] for row in same}
        value = here[variant]
        if not value and len(values) == 1:
            value, = values
            if sweep.key:
                sweep.tuned[variant] = value
        taken = [row for row in same if row["tuned"] == value]
        tell(sweep, [row for row in same if row not in taken],
             f"a different {sweep.key}", told)
        sweep.recorded.update({(variant, row["seed"]): row for row in taken})
    jobs = final_jobs(sweep, dict.fromkeys(sweep.variants, ""))
    count = [outcome(sweep, job)[0] for job in jobs].count("recorded")
    if count:
        told.insert(0, f"{folder}/results.csv has {count} of "
                    f"{counted(len(jobs), 'final run')} (--again runs them "
                    "anew)")
    return told


def tell(sweep, rows, what, told):
    """Reports recorded rows that do not count and whose runs are not in a
    folder."""
    for row in rows:
        job = job_of(sweep, "final", row["cell"], "", row["seed"])
        if outcome(sweep, job)[0] == "to do":
            told.append(f"{job.title}: recorded with {what}; runs again")
