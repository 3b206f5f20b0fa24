"""The conclusions of a sweep: each variant's best value (tuning.txt), and
comparison.md and comparison.png over the final runs.
"""
import math
import os
import subprocess
import sys

from sweep_file import ROOT  # also puts postprocess/ on the path
from run_reader import METRICS, RunError, open_run, print_table
from study import record
from sweep_runs import folder_of, outcome
from target import target_of


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
    """{variant: best value, or None}, and a remark on each. Without tuning the
    value is empty."""
    if not sweep.key:
        return dict.fromkeys(sweep.variants, ""), dict.fromkeys(
            sweep.variants, "")
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
            # Among equal metrics the smallest value wins.
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


def write_tuning(sweep, results, best, remarks):
    """Writes tuning.txt and prints the same text, where something is tuned."""
    if not sweep.key:
        return
    path = os.path.join(sweep.directory, "tuning.txt")
    with open(path, "w", encoding="utf-8") as file:
        write_choice(sweep, results, best, remarks, file)
    write_choice(sweep, results, best, remarks, sys.stdout)


def conclude_study(sweep, jobs):
    """Records the final runs beside the study's file, and judges its rules."""
    folder = os.path.dirname(os.path.abspath(sweep.path))
    record(folder, sweep.size, [
        (job.variant, job.seed, open_run(os.path.join(
            sweep.directory, job.phase, job.name)))
        for job in jobs if outcome(sweep, job)[0] != "to do"])
    run_script("study.py", folder, "--size", sweep.size)


def conclude_simulations(sweep, jobs):
    """Draws scaling.png from those that there are."""
    files = [folder_of(sweep, job) + ".h5" for job in jobs
             if outcome(sweep, job)[0] == "finished"]
    if not files:
        print("no simulation has finished: nothing to draw")
        return
    picture = os.path.join(sweep.directory, "scaling.png")
    run_script("scaling_plot.py", *files, "-o", picture)
    print(f"written: {picture}")


def run_script(name, *arguments):
    """Runs a script of postprocess/."""
    done = subprocess.run([sys.executable, os.path.join(
        ROOT, "postprocess", name), *arguments], check=False)
    if done.returncode:
        raise RunError(done.returncode, f"postprocess/{name}: exit code "
                       f"{done.returncode}")


def conclude(sweep, jobs):
    """Writes comparison.md and comparison.png from the existing final runs, and
    target.png where they have a run.target."""
    if sweep.rules:
        conclude_study(sweep, jobs)
        return
    if sweep.command == "simulate":
        conclude_simulations(sweep, jobs)
        return
    runs = [os.path.join(sweep.directory, job.phase, job.name) for job in jobs
            if outcome(sweep, job)[0] != "to do"]
    measured = [job for job in jobs if outcome(sweep, job)[0] == "finished"]
    if not measured:
        print("no final run has finished: nothing to compare")
        return
    table = os.path.join(sweep.directory, "comparison.md")
    picture = os.path.join(sweep.directory, "comparison.png")
    written = [table, picture]
    commands = [["compare.py", *runs, "--by", "variant"],
                ["compare.py", *runs, "--by", "variant", "--markdown",
                 "-o", table],
                ["plot.py", *runs, "--by", "variant", "-o", picture]]
    target = target_of([open_run(run) for run in runs])
    if target:
        written.append(os.path.join(sweep.directory, "target.png"))
        commands.append(["plot.py", *runs, "--by", "variant", "--target",
                         str(target), "-o", written[-1]])
    for command in commands:
        run_script(*command)
    print("written: " + " ".join(written))
