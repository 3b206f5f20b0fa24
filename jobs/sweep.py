#!/usr/bin/env python3
"""The queue of jobs/sweep.sh --local: tuning runs, the choice, final runs."""
import os
import shlex
import signal
import subprocess
import sys
import time

from sweep_file import read_sweep  # also puts postprocess/ on the path
from exit_codes import DIVERGED, INTERRUPTED, STOPPED, UNAVAILABLE
from run_reader import RunError, open_run, run_main
from sweep_choice import choose, conclude, record_finals, \
    refuse_unwritable, write_tuning
from sweep_grid import tune_jobs
from sweep_options import Parser
from sweep_recorded import take_recorded
from sweep_runs import command_of, counted, final_jobs, folder_of, last_line, \
    lock, outcome, output_of, remember, seeds_text, take_up, validate, write_down
from sweep_slurm import refuse_if_active


class Queue:
    """Runs at most `at_a_time` jobs at once; on the first signal they save."""

    def __init__(self, sweep, at_a_time):
        self.sweep, self.at_a_time = sweep, at_a_time
        self.stop_signal = None
        self.running = {}   # Popen: (job, when it was started)
        self.failures = {}  # title: line, of runs that were not tried again
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP,
                       signal.SIGUSR1):
            # Under nohup, SIGHUP stays ignored.
            if number != signal.SIGHUP or \
                    signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self.on_signal)

    def on_signal(self, number, _):
        self.stop_signal = self.stop_signal or number
        for process in list(self.running):
            process.send_signal(signal.SIGTERM)

    def start(self, job):
        self.failures.pop(job.title, None)
        folder = os.path.join(self.sweep.directory, job.phase)
        os.makedirs(folder, exist_ok=True)
        with open(output_of(self.sweep, job), "a", encoding="utf-8") as output:
            process = subprocess.Popen(
                command_of(self.sweep, job), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT)
        self.running[process] = job, time.monotonic()
        if self.stop_signal:  # it may have arrived meanwhile
            process.send_signal(signal.SIGTERM)

    def end(self, process, place):
        """Reports a run that has ended in one line; a study records it."""
        job, started = self.running.pop(process)
        code = process.returncode
        state, value = outcome(self.sweep, job)
        if code == STOPPED and is_end_of_allocation(self.sweep, job):
            self.stop_signal = self.stop_signal or signal.SIGTERM
        line = f"[{place}] {job.title}: "
        if (code, state) == (0, "finished"):
            line += f"{self.sweep.metric} {value:.4f}"
        elif state == "diverged" and code in (0, DIVERGED):
            line += "diverged"
        elif self.stop_signal:
            line += "stopped"
        else:
            failure = f"exit code {code}: {last_line(self.sweep, job)}"
            self.failures[job.title] = failure
            line += failure
        if self.sweep.rules and job.phase == "final":
            record_finals(self.sweep, [job])
        print(f"{line} ({time.monotonic() - started:.0f} s)", flush=True)

    def run(self, jobs):
        """Returns when all have ended. An exception does not leave runs behind:
        they save, too."""
        try:
            self.run_all(jobs)
        finally:
            for process in self.running:
                process.send_signal(signal.SIGTERM)
            for process in self.running:
                process.wait()

    def run_all(self, jobs):
        to_do = [job for job in jobs if outcome(self.sweep, job)[0] == "to do"]
        ended = len(jobs) - len(to_do)
        if ended:
            print(f"{jobs[0].phase}: {ended} of {counted(len(jobs), 'run')} "
                  f"{'has' if ended == 1 else 'have'} already finished",
                  flush=True)
        while self.running or (to_do and not self.stop_signal):
            while to_do and len(self.running) < self.at_a_time and \
                    not self.stop_signal:
                self.start(to_do.pop(0))
            time.sleep(0.05)
            for process in [p for p in self.running if p.poll() is not None]:
                ended += 1
                self.end(process, f"{ended}/{len(jobs)}")


def is_end_of_allocation(sweep, job):
    """Whether the end of the Slurm job in which a sweep runs has stopped a run:
    it would stop the next ones as well."""
    keys = {**sweep.base_keys(), **job.overrides}
    try:
        stopped_by = open_run(folder_of(sweep, job)).stopped_by
    except RunError:
        return False
    return stopped_by == "time limit" and \
        not float(keys.get("run.time_limit_s", 0))


def refuse_if_queued(sweep):
    """Refuses if jobs of --slurm are going to write the same runs."""
    try:
        refuse_if_active(sweep)
    except RunError as error:
        if error.code != UNAVAILABLE:  # there is no Slurm here
            raise


def show_plan(sweep, jobs):
    untuned = []  # variants
    for job in jobs:
        state, value = outcome(sweep, job)
        told = f"{state} {value:.4f}" if value is not None else \
            "recorded as diverged" if state == "recorded" else state
        print(f"{job.title}: {told}")
        if state == "to do":
            print("  " + shlex.join(command_of(sweep, job)))
            if job.phase == "tune" and job.variant not in untuned:
                untuned.append(job.variant)
    if untuned:
        number = len(untuned) * len(sweep.final_seeds)
        print(f"then final: {counted(number, 'run')}, "
              f"{seeds_text(sweep.final_seeds)}, {sweep.key} by tuning: "
              f"{' '.join(untuned)}")


def extend(sweep, known, queue, jobs):
    """Runs what the grid lacks beyond its edges, until nothing is missing;
    returns all tuning runs."""
    while not queue.stop_signal:
        more = tune_jobs(sweep)
        if len(more) == len(jobs):
            break
        added = [f"{job.variant} {job.value}" for job in more
                 if job not in jobs]
        print(f"tune: beyond the grid: {', '.join(dict.fromkeys(added))}",
              flush=True)
        remember(sweep, known, more)
        write_down(sweep, known)
        queue.run(more)
        jobs = more
    return jobs


def run_sweep(sweep, at_a_time, is_dry):
    known = take_up(sweep)
    for line in take_recorded(sweep, choose(sweep)[0]):
        print(line, flush=True)
    jobs = tune_jobs(sweep)
    plan = jobs + final_jobs(sweep, choose(sweep)[0])
    remember(sweep, known, plan)
    if not is_dry:
        refuse_unwritable(sweep)
    validate(sweep, [job for job in plan if outcome(sweep, job)[0] == "to do"],
             at_a_time)
    if is_dry:
        show_plan(sweep, plan)
        return 0
    refuse_if_queued(sweep)
    held = lock(sweep)  # noqa: F841, until the process ends
    write_down(sweep, known)
    queue = Queue(sweep, at_a_time)
    tuning = f"{counted(len(jobs), 'tuning run')}, then " if jobs else ""
    finals = len(sweep.variants) * len(sweep.final_seeds)
    print(f"{sweep.directory}: {tuning}{counted(finals, 'final run')}; "
          f"{at_a_time} at a time, run.threads = "
          f"{sweep.extra.get('run.threads', sweep.threads)}", flush=True)
    queue.run(jobs)
    jobs = extend(sweep, known, queue, jobs)
    if not queue.stop_signal:
        best, remarks = choose(sweep)
        write_tuning(sweep, best, remarks)
        jobs = final_jobs(sweep, best)
        remember(sweep, known, jobs)
        write_down(sweep, known)
        if jobs:
            queue.run(jobs)
    if queue.stop_signal:
        final = [job for job in jobs if job.phase == "final"]
        if sweep.rules and final:  # a study keeps what it has
            conclude(sweep, final)
        print("stopped: run again to resume", flush=True)
        return INTERRUPTED if queue.stop_signal == signal.SIGINT else STOPPED
    conclude(sweep, jobs)
    for title, failure in queue.failures.items():
        print(f"failed: {title}: {failure}", file=sys.stderr)
    return 1 if queue.failures else 0


def main(arguments):
    options, extra = Parser("--local").parse_known_args(arguments)
    cores = len(os.sched_getaffinity(0))
    at_a_time = options.jobs or cores
    sweep = read_sweep(options.sweep, extra)
    sweep.threads = max(1, cores // at_a_time)
    return run_sweep(sweep, at_a_time, options.dry_run)


if __name__ == "__main__":
    run_main(main)
