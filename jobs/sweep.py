#!/usr/bin/env python3
"""The queue of jobs/sweep.sh --local: tuning runs, the choice, final runs.

sweep.json in the sweep's directory says what each run there was started with,
so that another sweep cannot take its runs for its own.
"""
import argparse
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

from sweep_file import ROOT, read_sweep  # also puts postprocess/ on the path
from run_reader import BAD_INPUT, METRICS, RunError, open_run, print_table, \
    run_main

USAGE, CANNOT_CREATE, STOPPED, DIVERGED, INTERRUPTED = 64, 73, 75, 76, 130
# Of a sweep's earlier start, these may differ: they do not change a result.
MAY_CHANGE = {"run.directory", "data.path", "data.prefetch"}


@dataclass
class Job:
    """One run: where it lies and how it differs from the base input."""
    phase: str
    variant: str
    value: str
    seed: str
    name: str
    overrides: dict = field(default_factory=dict)

    @property
    def title(self):
        return f"{self.phase} {self.name}"


# --- runs --------------------------------------------------------------------

def job_of(sweep, phase, variant, value, seed):
    """`value` is None where it is not chosen yet."""
    is_tuning = phase == "tune"
    name = f"{variant}-{value}-seed{seed}" if is_tuning else \
        f"{variant}-seed{seed}"
    own = {"run.directory": os.path.join(sweep.directory, phase),
           "run.name": name, "run.seed": seed, sweep.key: value,
           "eval.on": "validation" if is_tuning else "test"}
    shared = sweep.tune_overrides if is_tuning else sweep.final_overrides
    return Job(phase, variant, value, seed, name,
               {"run.threads": str(sweep.threads), **shared,
                **sweep.variants[variant], **sweep.extra, **own})


def tune_jobs(sweep):
    return [job_of(sweep, "tune", variant, value, seed)
            for variant in sweep.variants for value in sweep.grid
            for seed in sweep.tune_seeds]


def final_jobs(sweep, best):
    return [job_of(sweep, "final", variant, best[variant], seed)
            for seed in sweep.final_seeds for variant in sweep.variants
            if best.get(variant) is not None]


def command_of(sweep, job, what="train"):
    return [os.environ["SYNCOPATE"], what, sweep.input] + [
        f"--{key}={value}" for key, value in job.overrides.items()]


def outcome(sweep, job):
    """("finished", metric), ("diverged", None) or ("to do", None)."""
    folder = os.path.join(sweep.directory, job.phase, job.name)
    try:
        run = open_run(folder)
    except RunError:
        return "to do", None  # none yet, or damaged: the program decides
    if run.has_diverged:
        return "diverged", None
    if run.summary.get("finished") != 1:
        return "to do", None
    value = run.last("eval", sweep.metric)
    if math.isfinite(value):
        return "finished", float(value)
    raise RunError(BAD_INPUT, f"{run.path}: no {sweep.metric} at the end of "
                   "/eval: tune.metric must be what the runs measure")


def earlier(sweep):
    """What sweep.json says of the runs that are there."""
    path = os.path.join(sweep.directory, "sweep.json")
    try:
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
        known["runs"] = {name: keys for name, keys in known["runs"].items()
                         if os.path.exists(os.path.join(sweep.directory, name))}
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
    """Goes on with what sweep.json says, or refuses. Threads stay those of the
    first start: bits depend on them."""
    known = earlier(sweep)
    with open(sweep.input, encoding="utf-8") as file:
        if known["input"] != file.read():
            raise RunError(BAD_INPUT, f"{sweep.directory}: holds runs of an "
                           f"other {os.path.basename(sweep.input)}: remove it, "
                           "or give this sweep another directory")
    sweep.threads = known["threads"]
    return known


def remember(sweep, known, jobs):
    """Refuses to take runs for these jobs that were started with other keys;
    then `known` has these jobs too."""
    for job in jobs:
        mine = {key: value for key, value in job.overrides.items()
                if key not in MAY_CHANGE}
        theirs = known["runs"].setdefault(f"{job.phase}/{job.name}", mine)
        for key in sorted(mine.keys() | theirs.keys()):
            if mine.get(key) != theirs.get(key):
                raise RunError(
                    BAD_INPUT, f"{sweep.directory}/{job.phase}/{job.name}: "
                    f"{key} was {theirs.get(key, '(unset)')}, is "
                    f"{mine.get(key, '(unset)')} now: remove that run, or give "
                    "this sweep another directory")


def write_down(sweep, known):
    path = os.path.join(sweep.directory, "sweep.json")
    try:
        os.makedirs(sweep.directory, exist_ok=True)
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1)
        os.replace(path + ".tmp", path)
    except OSError as error:
        raise RunError(CANNOT_CREATE, f"{path}: {error.strerror}") from None


def validate(sweep, jobs):
    """The program's own lines for what it would refuse, before hours of work:
    one run of each variant is asked about."""
    asked = set()
    for job in jobs:
        if job.variant in asked:
            continue
        asked.add(job.variant)
        done = subprocess.run(command_of(sweep, job, "validate"), text=True,
                              capture_output=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise RunError(done.returncode if done.returncode > 0 else 70,
                           f"variant {job.variant}: "
                           + lines[0].removeprefix("error: "))


class Queue:
    """Runs jobs, so many at a time; the first signal lets them save."""

    def __init__(self, sweep, at_a_time):
        self.sweep, self.at_a_time = sweep, at_a_time
        self.stop_signal = None
        self.running = {}   # Popen: (job, when it was started)
        self.failures = []  # lines
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.on_signal)

    def on_signal(self, number, _):
        self.stop_signal = self.stop_signal or number
        for process in list(self.running):
            process.send_signal(signal.SIGTERM)

    def start(self, job):
        folder = os.path.join(self.sweep.directory, job.phase)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, job.name + ".out"), "a",
                  encoding="utf-8") as output:
            process = subprocess.Popen(
                command_of(self.sweep, job), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT)
        self.running[process] = job, time.monotonic()
        if self.stop_signal:  # it may have come in between
            process.send_signal(signal.SIGTERM)

    def end(self, process, place):
        """One line about a run that has ended."""
        job, started = self.running.pop(process)
        code = process.returncode
        state, value = outcome(self.sweep, job)
        line = f"[{place}] {job.title}: "
        if (code, state) == (0, "finished"):
            line += f"{self.sweep.metric} {value:.4f}"
        elif state == "diverged" and code in (0, DIVERGED):
            line += "diverged"
        elif self.stop_signal:
            line += "stopped"
        else:
            failure = f"exit code {code}: {self.last_line(job)}"
            self.failures.append(f"{job.title}: {failure}")
            line += failure
        print(f"{line} ({time.monotonic() - started:.0f} s)", flush=True)

    def last_line(self, job):
        path = os.path.join(self.sweep.directory, job.phase, job.name + ".out")
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        errors = [line for line in lines if line.startswith("error: ")]
        return (errors or lines or ["printed nothing"])[-1]

    def run(self, jobs):
        """{(variant, value, seed): (state, metric)} when all have ended."""
        to_do = [job for job in jobs if outcome(self.sweep, job)[0] == "to do"]
        ended = len(jobs) - len(to_do)
        if ended:
            print(f"{jobs[0].phase}: {ended} of {len(jobs)} runs are there",
                  flush=True)
        while self.running or (to_do and not self.stop_signal):
            while to_do and len(self.running) < self.at_a_time and \
                    not self.stop_signal:
                self.start(to_do.pop(0))
            time.sleep(0.05)
            for process in [p for p in self.running if p.poll() is not None]:
                ended += 1
                self.end(process, f"{ended}/{len(jobs)}")
        return {(job.variant, job.value, job.seed): outcome(self.sweep, job)
                for job in jobs}


# --- the choice --------------------------------------------------------------

def mean_of(sweep, results, variant, value):
    """The mean over the tuning seeds; None if one diverged or is missing."""
    found = [results[variant, value, seed] for seed in sweep.tune_seeds]
    if all(state == "finished" for state, _ in found):
        return sum(metric for _, metric in found) / len(found)
    return None


def cell(sweep, results, variant, value):
    mean = mean_of(sweep, results, variant, value)
    if mean is not None:
        return f"{mean:.4f}"
    states = [results[variant, value, seed][0] for seed in sweep.tune_seeds]
    if "to do" in states:
        return "missing"
    if len(states) == 1:
        return "diverged"
    return f"diverged {states.count('diverged')} of {len(states)}"


def choose(sweep, results):
    """{variant: best value, or None}, and a remark on each."""
    sign = 1 if METRICS[sweep.metric] else -1
    best, remarks = {}, {}
    ordered = sorted(sweep.grid, key=float)
    for variant in sweep.variants:
        best[variant], remarks[variant] = None, ""
        cells = {value: cell(sweep, results, variant, value)
                 for value in ordered}
        means = {value: mean_of(sweep, results, variant, value)
                 for value in ordered if not cells[value] == "missing"}
        whole = {value: mean for value, mean in means.items()
                 if mean is not None}
        if "missing" in cells.values():
            remarks[variant] = "not chosen: runs are missing"
        elif not whole:
            remarks[variant] = "diverges with every value of the grid"
        else:
            # Of equal ones the smallest value.
            best[variant] = max(ordered, key=lambda value: (
                sign * whole[value] if value in whole else -math.inf))
            if len(ordered) > 1 and best[variant] in (ordered[0], ordered[-1]):
                remarks[variant] = "at the edge of the grid"
    return best, remarks


def write_choice(sweep, results, best, remarks, file):
    print(f"{sweep.key} for each variant: {sweep.metric} at the end of the run "
          f"on the validation split,\nmean over seeds "
          f"{' '.join(sweep.tune_seeds)} (jobs/sweep.sh, "
          f"{os.path.basename(sweep.path)})\n", file=file)
    rows = []
    for variant in sweep.variants:
        row = [cell(sweep, results, variant, value) for value in sweep.grid]
        rows.append([variant, *row, best[variant] or "-"])
    print_table(["variant", *sweep.grid, "best"], rows, file=file)
    told = [f"{variant}: {remark}" for variant, remark in remarks.items()
            if remark]
    if told:
        print("\n" + "\n".join(told), file=file)


def conclude(sweep, jobs):
    """comparison.md and comparison.png over the final runs that are there."""
    runs = [os.path.join(sweep.directory, job.phase, job.name) for job in jobs
            if outcome(sweep, job)[0] != "to do"]
    measured = [job for job in jobs if outcome(sweep, job)[0] == "finished"]
    if not measured:
        print("no final run has finished: nothing to compare")
        return
    folder = os.path.join(ROOT, "postprocess")
    table = os.path.join(sweep.directory, "comparison.md")
    picture = os.path.join(sweep.directory, "comparison.png")
    for command in (["compare.py", *runs, "--by", "variant"],
                    ["compare.py", *runs, "--by", "variant", "--markdown",
                     "-o", table],
                    ["plot.py", *runs, "--by", "variant", "-o", picture]):
        done = subprocess.run(
            [sys.executable, os.path.join(folder, command[0]), *command[1:]],
            check=False)
        if done.returncode:
            raise RunError(done.returncode, f"postprocess/{command[0]}: exit "
                           f"code {done.returncode}")
    print(f"written: {table} {picture}")


# --- the command -------------------------------------------------------------

def show_plan(sweep, jobs, chosen):
    for job in jobs:
        state, value = outcome(sweep, job)
        told = f"{state} {value:.4f}" if value is not None else state
        print(f"{job.title}: {told}")
        if state == "to do":
            print("  " + shlex.join(command_of(sweep, job)))
    if chosen is None:
        count = len(sweep.variants) * len(sweep.final_seeds)
        print(f"then final: {count} runs, seeds {' '.join(sweep.final_seeds)},"
              f" {sweep.key} by tuning")


def run_sweep(sweep, at_a_time, is_dry):
    known = take_up(sweep)
    jobs = tune_jobs(sweep)
    remember(sweep, known, jobs)
    to_do = [job for job in jobs if outcome(sweep, job)[0] == "to do"]
    validate(sweep, to_do)
    if is_dry:
        chosen = None
        if not to_do:
            chosen, _ = choose(sweep, {(job.variant, job.value, job.seed):
                                       outcome(sweep, job) for job in jobs})
            jobs += final_jobs(sweep, chosen)
        show_plan(sweep, jobs, chosen)
        return 0
    write_down(sweep, known)
    queue = Queue(sweep, at_a_time)
    print(f"{sweep.directory}: {len(jobs)} tuning runs, then "
          f"{len(sweep.variants) * len(sweep.final_seeds)} final ones; "
          f"{at_a_time} at a time, run.threads = "
          f"{sweep.extra.get('run.threads', sweep.threads)}", flush=True)
    results = queue.run(jobs)
    if not queue.stop_signal:
        best, remarks = choose(sweep, results)
        path = os.path.join(sweep.directory, "tuning.txt")
        with open(path, "w", encoding="utf-8") as file:
            write_choice(sweep, results, best, remarks, file)
        write_choice(sweep, results, best, remarks, sys.stdout)
        jobs = final_jobs(sweep, best)
        remember(sweep, known, jobs)
        write_down(sweep, known)
        if jobs:
            queue.run(jobs)
    if queue.stop_signal:
        print("stopped: run again to go on", flush=True)
        return INTERRUPTED if queue.stop_signal == signal.SIGINT else STOPPED
    conclude(sweep, jobs)
    for line in queue.failures:
        print(f"failed: {line}", file=sys.stderr)
    return 1 if queue.failures else 0


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise RunError(USAGE, f"{message} (jobs/sweep.sh --help)")


def main(arguments):
    parser = Parser(prog="jobs/sweep.sh --local", allow_abbrev=False)
    parser.add_argument("sweep", metavar="SWEEP")
    parser.add_argument("--jobs", type=int, metavar="J")
    parser.add_argument("--dry-run", action="store_true")
    options, extra = parser.parse_known_args(arguments)
    cores = len(os.sched_getaffinity(0))
    at_a_time = cores if options.jobs is None else options.jobs
    if at_a_time < 1:
        raise RunError(USAGE, f"--jobs={at_a_time}: at least 1 expected")
    sweep = read_sweep(options.sweep, extra)
    sweep.threads = max(1, cores // at_a_time)
    return run_sweep(sweep, at_a_time, options.dry_run)


def interruptible(arguments):
    try:
        return main(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    run_main(interruptible)
