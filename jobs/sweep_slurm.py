#!/usr/bin/env python3
"""jobs/sweep.sh --slurm: the runs of a sweep as tasks of array jobs.

    sweep_slurm.py submit SWEEP ...       what jobs/sweep.sh --slurm does
    sweep_slurm.py task STAGE SWEEP ...   in jobs/sweep.sbatch: STAGE is
                                          choose, compare, tune:INDEX,
                                          extend-N:INDEX or final:INDEX

Jobs: the tuning runs, with grid = auto the rounds of its extensions (whose
tasks end at once where nothing is to be extended), the choice, the final runs,
the comparison; each waits for the end of the one before, however that ended. A
task works out from SWEEP and from what has been measured or recorded what its
run is, and prints it.
"""
import os
import shlex
import signal
import subprocess
import sys

# sweep_file also puts postprocess/ on the path.
from sweep_file import ROOT, read_sweep
from exit_codes import BAD_INPUT, CANNOT_CREATE, UNAVAILABLE, USAGE
from run_reader import RunError, run_main
from sweep_choice import choose, conclude, refuse_unwritable, write_tuning
from sweep_grid import MOST_EXTENSIONS, extension_slots, grid_jobs, tune_jobs
from sweep_options import Parser
from sweep_recorded import take_recorded
from sweep_runs import command_of, counted, final_jobs, job_of, last_line, \
    lock, outcome, output_of, remember, take_up, validate, write_down


def final_slots(sweep, best):
    """All final runs, including those without a value yet, because a task's
    index in its array must not depend on the choice."""
    return [job_of(sweep, "final", variant, best.get(variant), seed)
            for seed in sweep.final_seeds for variant in sweep.variants]


def waiting(sweep, jobs):
    return [job for job in jobs if outcome(sweep, job)[0] == "to do"]


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


# --- submission --------------------------------------------------------------

def array_of(indices, at_a_time):
    """Indices in sbatch's notation, e.g. 0,2-5%J."""
    ranges = []
    for index in indices:
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    words = [str(first) if first == last else f"{first}-{last}"
             for first, last in ranges]
    return ",".join(words) + (f"%{at_a_time}" if at_a_time else "")


def cores_of(jobs):
    threads = [job.overrides["run.threads"] for job in jobs]
    return max([int(word) for word in threads if word.isdigit()] + [1])


def ids_file(sweep):
    return os.path.join(sweep.directory, "jobs", "submitted.txt")


def copy_file(sweep):
    """The copy of SWEEP made at submission."""
    return os.path.join(sweep.directory, "jobs", "submitted.sweep")


def ask_slurm(command):
    """Returns what a command of Slurm prints. Raises RunError if it fails."""
    try:
        done = subprocess.run(command, text=True, capture_output=True,
                              check=False)
    except OSError as error:
        raise RunError(UNAVAILABLE,
                       f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        told = " ".join(done.stderr.split())  # may begin with its name
        raise RunError(UNAVAILABLE,
                       f"{command[0]}: {told.removeprefix(command[0] + ': ')}")
    return done.stdout


def refuse_if_active(sweep):
    """Refuses if jobs of an earlier submission, which would write the same
    runs, are still queued."""
    if not os.path.exists(ids_file(sweep)):
        return
    ids = text_of(ids_file(sweep)).split()
    queued = ask_slurm(["squeue", "-h", "--me", "-o", "%F"]).split()
    active = [job for job in ids if job in queued]
    if active:
        raise RunError(CANNOT_CREATE, f"{sweep.directory}: "
                       f"{counted(len(active), 'job')} of this sweep still "
                       "queued or running: wait, or scancel "
                       + " ".join(active))


class Chain:
    """A chain of jobs, each of which waits for the previous one."""

    def __init__(self, sweep, options, extra):
        self.sweep, self.options = sweep, options
        self.arguments = [options.sweep, *extra]
        self.ids = []

    def add(self, stage, words, told):
        output = "%x-%A_%a.out" if any(word.startswith("--array=")
                                       for word in words) else "%x-%j.out"
        command = ["sbatch", "--parsable", f"--job-name=sweep-{stage}",
                   "--output=" + os.path.join(self.sweep.directory, "jobs",
                                              output)]
        if self.ids:
            command.append(f"--dependency=afterany:{self.ids[-1]}")
        command += [*words, os.path.join(ROOT, "jobs", "sweep.sbatch"), stage,
                    *self.arguments]
        if self.options.dry_run:
            self.ids.append(f"JOB{len(self.ids) + 1}")
            print(shlex.join(command))
            return
        # A Ctrl-C waits until the job's number is known; sbatch inherits that.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            printed = ask_slurm(command)
            self.ids.append(printed.strip().split(";")[0])
            # At once: the process may be killed while jobs are queued.
            write(ids_file(self.sweep), "\n".join(self.ids) + "\n")
        except RunError as error:
            raise self.given_up(error) from None
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        print(f"job {self.ids[-1]}: {told}", flush=True)

    def given_up(self, error):
        """Cancels the jobs submitted so far. Returns the error to raise; it
        names them if they could not be cancelled."""
        if not self.ids:
            return error
        try:
            ask_slurm(["scancel", *self.ids])
        except RunError as second:
            why = str(error) or "interrupted"
            return RunError(UNAVAILABLE, f"{why}; {second}; still queued: "
                            + " ".join(self.ids))
        os.remove(ids_file(self.sweep))
        return error

    def add_runs(self, stage, jobs, to_do):
        if not to_do:
            return
        indices = [index for index, job in enumerate(jobs) if job in to_do]
        self.add(stage, [f"--array={array_of(indices, self.options.jobs)}",
                         f"--cpus-per-task={cores_of(to_do)}",
                         *self.options.sbatch],
                 counted(len(to_do), f"{stage} run"))

    def add_extensions(self, like):
        slots = [variant for variant in self.sweep.variants
                 for _ in self.sweep.tune_seeds]
        array = array_of([index for index, variant in enumerate(slots)
                          if variant not in self.sweep.tuned],
                         self.options.jobs)
        for number in range(1, MOST_EXTENSIONS + 1):
            self.add(f"extend-{number}",
                     [f"--array={array}",
                      f"--cpus-per-task={cores_of(like)}",
                      *self.options.sbatch],
                     f"extension {number} of the grid, where needed")


def words_of(text):
    try:
        return shlex.split(text)
    except ValueError as error:
        raise RunError(USAGE, f"--sbatch={text}: {error}") from None


def submit(arguments):
    parser = Parser("--slurm")
    parser.add_argument("--sbatch", default=[], type=words_of, metavar="WORDS")
    options, extra = parser.parse_known_args(arguments)
    sweep = read_sweep(options.sweep, extra)
    if sweep.command != "train":
        raise RunError(BAD_INPUT, f"{sweep.path}: sweep.command: "
                       f"{sweep.command}: is for --local")
    known = take_up(sweep)
    for line in take_recorded(sweep, choose(sweep)[0]):
        print(line, flush=True)
    tuning = tune_jobs(sweep)
    plan = tuning + final_jobs(sweep, choose(sweep)[0])
    remember(sweep, known, plan)
    to_tune = waiting(sweep, tuning)
    if not options.dry_run:
        refuse_unwritable(sweep)
    validate(sweep, waiting(sweep, plan))
    if not options.dry_run:
        refuse_if_active(sweep)
    best = {}
    if not to_tune:
        best = choose(sweep)[0] if options.dry_run else choice(sweep, known)
    finals = final_slots(sweep, best)
    to_run = [job for job in waiting(sweep, finals)
              if to_tune or job.value is not None]
    if not to_tune and not to_run:
        return 0 if options.dry_run else compare(sweep, known)
    if not options.dry_run:
        held = lock(sweep)  # noqa: F841, until the process ends
        write_down(sweep, known)
        os.makedirs(os.path.join(sweep.directory, "jobs"), exist_ok=True)
        write(copy_file(sweep), text_of(sweep.path))
    chain = Chain(sweep, options, extra)
    grid_runs = grid_jobs(sweep)
    try:
        chain.add_runs("tune", grid_runs, [job for job in to_tune
                                           if job in grid_runs])
        if to_tune and sweep.extends:
            chain.add_extensions(to_tune)
        if to_tune:
            chain.add("choose", [], "the choice")
        chain.add_runs("final", finals, to_run)
        chain.add("compare", [], "the comparison")
    except KeyboardInterrupt as interrupt:
        raise chain.given_up(interrupt) from None
    if not options.dry_run:
        print(f"results will be in {sweep.directory}; if jobs fail, the same "
              "command submits what is missing")
    return 0


# --- inside a job ------------------------------------------------------------

def choice(sweep, known):
    """Returns the chosen values, writes them to tuning.txt and adds the final
    runs to `known`."""
    best, remarks = choose(sweep)
    remember(sweep, known, [job for job in final_slots(sweep, best)
                            if job.value is not None])
    if os.path.isdir(sweep.directory):
        write_tuning(sweep, best, remarks)
    return best


def compare(sweep, known):
    tuning = tune_jobs(sweep)
    best = choice(sweep, known)
    finals = final_slots(sweep, best)
    conclude(sweep, [job for job in finals if job.value is not None])
    missing = waiting(sweep, tuning) + [
        job for job in waiting(sweep, finals)
        if job.value is not None]
    for job in missing:
        said = last_line(sweep, job) if os.path.exists(
            output_of(sweep, job)) else "not started"
        print(f"failed: {job.title}: {said}", file=sys.stderr)
    return 1 if missing else 0


def run_of(sweep, known, stage, index):
    """Prints the run's output file and its arguments, one per line; nothing if
    it has already ended, or if it has no value to run with (exit code 1)."""
    tuning = tune_jobs(sweep)
    if stage == "tune":
        job = grid_jobs(sweep)[index]
    elif stage.startswith("extend-"):
        job = extension_slots(sweep, int(stage.partition("-")[2]))[index]
        if job is None:
            return 0
    else:
        best, remarks = choose(sweep)
        job = final_slots(sweep, best)[index]
        if job.value is None:
            print(f"{job.variant}: {remarks[job.variant]}", file=sys.stderr)
            return 1 if waiting(sweep, tuning) else 0
    remember(sweep, known, [job])
    if waiting(sweep, [job]):
        os.makedirs(os.path.join(sweep.directory, job.phase), exist_ok=True)
        print("\n".join([output_of(sweep, job), *command_of(sweep, job)[2:]]))
    return 0


def task(arguments):
    stage, _, index = arguments[0].partition(":")
    sweep = read_sweep(arguments[1], arguments[2:])
    known = take_up(sweep)
    take_recorded(sweep, choose(sweep)[0])
    if text_of(copy_file(sweep)) != text_of(sweep.path):
        raise RunError(BAD_INPUT, f"{sweep.path}: has changed since it was "
                       "submitted: run jobs/sweep.sh --slurm again")
    if stage == "choose":
        choice(sweep, known)
        write_down(sweep, known)
        return 0
    if stage == "compare":
        return compare(sweep, known)
    return run_of(sweep, known, stage, int(index))


def main(arguments):
    act = {"submit": submit, "task": task}[arguments[0]]
    return act(arguments[1:])


if __name__ == "__main__":
    run_main(main)
