"""The runs of a sweep: their arguments, their outcome, and the file sweep.json
in the sweep's directory. It records the arguments of each run there, so that
another sweep cannot mistake them for its own.
"""
import fcntl
import json
import math
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from sweep_file import ROOT  # noqa: F401, puts postprocess/ on the path
from exit_codes import BAD_INPUT, CANNOT_CREATE
from run_reader import RunError, open_run, open_simulation, parse_ini

# Keys that may differ from a sweep's first start: they do not change results,
# except that a free-running scheme waits where run.time_limit_s stops it.
MAY_CHANGE = {"run.directory", "run.time_limit_s", "data.path",
              "data.prefetch"}
# Validating more variants than these takes a while, so after each such number a
# line tells how many are done.
MANY_VARIANTS = 10


def counted(number, noun):
    """For example 1 run, or 2 runs."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def seeds_text(seeds):
    return f"seed{'' if len(seeds) == 1 else 's'} {' '.join(seeds)}"


@dataclass
class Job:
    """One run: its place in the sweep, its differences from the base input."""
    phase: str
    variant: str
    value: str
    seed: str
    name: str
    overrides: dict = field(default_factory=dict)

    @property
    def title(self):
        return f"{self.phase} {self.name}"


def job_of(sweep, phase, variant, value, seed):
    """`value` is None if it has not been chosen yet."""
    is_tuning = phase == "tune"
    name = f"{variant}-{value}-seed{seed}" if is_tuning else \
        f"{variant}-seed{seed}"
    own = {"run.directory": os.path.join(sweep.directory, phase),
           "run.name": name, "run.seed": seed,
           "eval.on": "validation" if is_tuning else "test"}
    if sweep.key:
        own[sweep.key] = value
    shared = sweep.tune_overrides if is_tuning else sweep.final_overrides
    keys = {"run.threads": str(sweep.threads), **shared,
            **sweep.variants[variant], **sweep.extra}
    # What is tuned is the metric at the end of the run.
    if is_tuning and "run.target" not in shared and \
            "run.target" in keys | sweep.base_keys():
        own["run.target"] = "-"
    return Job(phase, variant, value, seed, name, {**keys, **own})


def final_jobs(sweep, best):
    return [job_of(sweep, "final", variant, best[variant], seed)
            for seed in sweep.final_seeds for variant in sweep.variants
            if best.get(variant) is not None]


def command_of(sweep, job, what=None):
    what = what or sweep.command
    written = [f"--output={folder_of(sweep, job)}.h5"] \
        if what == "simulate" else []
    return [os.environ["SYNCOPATE"], what, sweep.input] + written + [
        f"--{key}={value}" for key, value in job.overrides.items()]


def folder_of(sweep, job):
    """The run's directory; NAME.h5 beside it are the results of a simulation."""
    return os.path.join(sweep.directory, job.phase, job.name)


def outcome(sweep, job):
    """("finished", metric), ("diverged", None), ("to do", None) or, of a run that
    only a study's table has, ("recorded", metric or None if it diverged). A run
    that has ended is read once, because the choice asks for it many times."""
    place = job.phase, job.name
    if place not in sweep.ended:
        found = read_outcome(sweep, job)
        if found[0] == "to do":
            row = sweep.recorded.get((job.variant, job.seed))
            return found if job.phase == "tune" or row is None else (
                "recorded", metric_of(row))
        sweep.ended[place] = found
    return sweep.ended[place]


def metric_of(row):
    """Of a row of results.csv, whose `accuracy` is the study's metric."""
    if row["state"] == "diverged":
        return None
    return float(row["accuracy"])


def refuse_other_data(sweep, job, run):
    """All runs of a sweep whose keys of [data] are alike must have had the same
    samples; data.path may change, to where these lie."""
    keys = {**sweep.base_keys(), **job.overrides}
    kind = tuple(sorted((key, value) for key, value in keys.items()
                        if key.startswith("data.") and key not in MAY_CHANGE
                        and key != "data.validation"))
    first, identity = sweep.data.setdefault(kind, (run.path,
                                                   run.data_identity()))
    for key, value in run.data_identity().items():
        if identity.get(key) != value:
            raise RunError(BAD_INPUT, f"unlike data: {key} is "
                           f"{identity.get(key)} in {first}, {value} in "
                           f"{run.path}: remove one of them")


def read_outcome(sweep, job):
    folder = folder_of(sweep, job)
    try:
        if sweep.command == "simulate":
            simulation = open_simulation(folder + ".h5")
            return "finished", float(simulation.summary[sweep.metric])
        run = open_run(folder)
    except RunError:
        return "to do", None  # none yet, or damaged: the program decides
    if not run.has_diverged and run.summary.get("finished") != 1:
        return "to do", None
    refuse_other_data(sweep, job, run)
    if run.has_diverged:
        return "diverged", None
    value = run.last("eval", sweep.metric)
    if math.isfinite(value):
        return "finished", float(value)
    where = "tune" if sweep.key else "sweep"
    raise RunError(BAD_INPUT, f"{run.path}: no {sweep.metric} at the end of "
                   f"/eval: {where}.metric must be what the runs measure")


def has_left(folder):
    """Whether a run or a simulation has left anything behind (folder_of)."""
    return os.path.exists(folder) or os.path.exists(folder + ".h5")


def earlier(sweep):
    """The contents of sweep.json: the runs of earlier starts."""
    path = os.path.join(sweep.directory, "sweep.json")
    try:
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
        known = {part: known[part] for part in ("input", "threads", "runs")}
        known["runs"] = {name: keys for name, keys in known["runs"].items()
                         if has_left(os.path.join(sweep.directory, name))}
        if known["runs"]:
            return known
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError):
        raise RunError(BAD_INPUT, f"{path}: not readable: remove "
                       f"{sweep.directory} to begin anew") from None
    with open(sweep.input, encoding="utf-8") as file:
        return {"input": file.read(), "threads": sweep.threads, "runs": {}}


def take_up(sweep):
    """Continues the sweep recorded in sweep.json, or refuses. Keeps the first
    start's number of threads because results depend on it."""
    known = earlier(sweep)
    if parse_ini(known["input"]) != sweep.base_keys():
        raise RunError(BAD_INPUT, f"{sweep.directory}: holds runs of another "
                       f"version of {os.path.basename(sweep.input)}: remove "
                       "it, or give this sweep another directory")
    sweep.threads = known["threads"]
    return known


def remember(sweep, known, jobs):
    """Refuses to take runs for these jobs that were started with other keys;
    then `known` has these jobs too."""
    for job in jobs:
        mine = job.overrides
        theirs = known["runs"].setdefault(f"{job.phase}/{job.name}", mine)
        for key in sorted((mine.keys() | theirs.keys()) - MAY_CHANGE):
            if mine.get(key) != theirs.get(key):
                raise RunError(
                    BAD_INPUT, f"{sweep.directory}/{job.phase}/{job.name}: "
                    f"{key} was {theirs.get(key, '(unset)')}, is "
                    f"{mine.get(key, '(unset)')} now: remove that run, or give "
                    "this sweep another directory")


def lock(sweep):
    """Returns a file whose lock keeps other sweeps out of the directory while
    the file is open; refuses if another process has it."""
    path = os.path.join(sweep.directory, "lock")
    try:
        os.makedirs(sweep.directory, exist_ok=True)
        file = open(path, "w", encoding="utf-8")
    except OSError as error:
        raise RunError(CANNOT_CREATE, f"{path}: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise RunError(CANNOT_CREATE, f"{sweep.directory}: another "
                       "jobs/sweep.sh is at work there") from None
    except OSError:
        pass  # a file system without locks
    return file


def write_down(sweep, known):
    path = os.path.join(sweep.directory, "sweep.json")
    try:
        os.makedirs(sweep.directory, exist_ok=True)
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1)
        os.replace(path + ".tmp", path)
    except OSError as error:
        raise RunError(CANNOT_CREATE, f"{path}: {error.strerror}") from None


def validated(sweep, job):
    """What the program's `validate` says to a run, as a finished process."""
    return subprocess.run(command_of(sweep, job, "validate"), text=True,
                          capture_output=True, check=False)


def is_refused(sweep, variant, value):
    """Whether the program does not take a value of the tuned key. It is asked
    once, and not if a run with that value has ended."""
    job = job_of(sweep, "tune", variant, value, sweep.tune_seeds[0])
    if outcome(sweep, job)[0] != "to do":
        return False
    if job.name not in sweep.refused:
        code = validated(sweep, job).returncode
        sweep.refused[job.name] = code == BAD_INPUT
    return sweep.refused[job.name]


def refuse_unknown_metric(sweep, job):
    """Refuses if a run will not measure the sweep's metric: the program says so
    of a target."""
    keys = {**job.overrides, "run.target": f"{sweep.metric} >= 0",
            "eval.every": "1 steps"}
    said = validated(sweep, replace(job, overrides=keys)).stderr
    _, _, unknown = said.partition("run.target: ")
    if unknown.startswith(f"{sweep.metric} is not one of"):
        where = "tune" if sweep.key else "sweep"
        raise RunError(BAD_INPUT, f"{sweep.path}: {where}.metric: "
                       + unknown.splitlines()[0])


def validate(sweep, jobs, at_a_time=1):
    """Has the program validate one run of each variant, and the metric, so that
    mistakes show before hours of work."""
    first = {}
    for job in jobs:
        first.setdefault(job.variant, job)
    if len(first) > MANY_VARIANTS:
        print(f"{sweep.directory}: validating {len(first)} variants",
              flush=True)
    with ThreadPoolExecutor(at_a_time) as pool:
        asked = [(variant, pool.submit(validated, sweep, job))
                 for variant, job in first.items()]
        for number, (variant, answer) in enumerate(asked, 1):
            done = answer.result()
            if not done.returncode:
                if number % MANY_VARIANTS == 0:
                    print(f"{sweep.directory}: validated {number} of "
                          f"{counted(len(first), 'variant')}", flush=True)
                continue
            pool.shutdown(cancel_futures=True)
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise RunError(done.returncode if done.returncode > 0 else 70,
                           f"variant {variant}: "
                           + lines[0].removeprefix("error: "))
    if jobs and sweep.command == "train":
        refuse_unknown_metric(sweep, jobs[0])


def output_of(sweep, job):
    """The file that receives the run's output."""
    return os.path.join(sweep.directory, job.phase, job.name + ".out")


def last_line(sweep, job):
    """The last error that the run printed, or else its last line."""
    with open(output_of(sweep, job), encoding="utf-8",
              errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")]
    return (errors or lines or ["printed nothing"])[-1]
