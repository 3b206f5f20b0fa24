"""The conclusions of a sweep: each variant's best value (tuning.txt), and
comparison.md and comparison.png over the final runs.
"""
import os
import signal
import subprocess
import sys

from sweep_file import ROOT  # also puts postprocess/ on the path
from exit_codes import CANNOT_CREATE, INTERNAL
from run_reader import RunError, open_run, print_table
from study_tables import record
from sweep_grid import best_of, is_at_edge, mean_of, means_of, remark_on, \
    values_of
from sweep_recorded import input_digest
from sweep_runs import counted, folder_of, outcome, seeds_text
from target import target_of


def choose(sweep):
    """{variant: best value, or None}, and a remark on each, by the tuning runs
    so far or as recorded. Without tuning the value is empty."""
    if not sweep.key:
        return dict.fromkeys(sweep.variants, ""), dict.fromkeys(
            sweep.variants, "")
    best, remarks = {}, {}
    for variant in sweep.variants:
        best[variant], remarks[variant] = sweep.tuned.get(variant), ""
        if variant in sweep.tuned:
            continue
        means = means_of(sweep, variant, values_of(sweep, variant))
        if means is None:
            remarks[variant] = "not chosen: some tuning runs have no result"
            continue
        best[variant] = best_of(sweep, means)
        remarks[variant] = remark_on(sweep, means, best[variant])
    return best, remarks


def write_choice(sweep, best, remarks, file):
    over = "with" if len(sweep.tune_seeds) == 1 else "mean over"
    print(f"{sweep.key} for each variant: {sweep.metric} at the end of the "
          f"run on the validation split,\n{over} "
          f"{seeds_text(sweep.tune_seeds)} (jobs/sweep.sh, "
          f"{os.path.basename(sweep.path)})\n", file=file)
    tried = {variant: [] if variant in sweep.tuned else
             values_of(sweep, variant) for variant in sweep.variants}
    added = {value for values in tried.values()
             for value in values[len(sweep.grid):]}
    columns = sorted({*sweep.grid, *added}, key=float) if added else sweep.grid
    rows = []
    for variant in sweep.variants:
        row = []
        for value in columns:
            mean, state = mean_of(sweep, variant, value) \
                if value in tried[variant] else (None, "-")
            row.append(state if mean is None else f"{mean:.4f}")
        told = " (recorded)" if variant in sweep.tuned else ""
        rows.append([variant, *row, (best[variant] or "-") + told])
    print_table(["variant", *columns, "best"], rows, file=file)
    told = [f"{variant}: {remark}" for variant, remark in remarks.items()
            if remark]
    if told:
        print("\n" + "\n".join(told), file=file)


def write_tuning(sweep, best, remarks):
    """Writes tuning.txt and prints the same text, where something is tuned."""
    if not sweep.key:
        return
    path = os.path.join(sweep.directory, "tuning.txt")
    with open(path, "w", encoding="utf-8") as file:
        write_choice(sweep, best, remarks, file)
    write_choice(sweep, best, remarks, sys.stdout)


def study_folder(sweep):
    return os.path.dirname(os.path.abspath(sweep.path))


def refuse_unwritable(sweep):
    """Refuses, before any run, a study whose folder takes no results."""
    folder = study_folder(sweep)
    if sweep.rules and not os.access(folder, os.W_OK):
        raise RunError(CANNOT_CREATE, f"{folder}: not writable: a study is "
                       "recorded beside its study.sweep")


def record_finals(sweep, jobs):
    """Records those final runs that have ended beside the study's file. Rows of
    other runs stay as they are."""
    record(study_folder(sweep), sweep.size, [
        (job.variant, job.seed, job.value, input_digest(sweep, job.variant),
         open_run(folder_of(sweep, job)))
        for job in jobs if outcome(sweep, job)[0] in ("finished", "diverged")],
        sweep.metric, sweep.target)


def conclude_study(sweep, jobs):
    """Records the final runs, and judges the study's rules by the rows that this
    input made."""
    record_finals(sweep, jobs)
    run_script("study.py", study_folder(sweep), "--size", sweep.size, *(
        f"--input={variant}={input_digest(sweep, variant)}"
        for variant in sweep.variants))


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
    if done.returncode == -signal.SIGINT:  # as this process
        raise KeyboardInterrupt
    if done.returncode:
        raise RunError(done.returncode if done.returncode > 0 else INTERNAL,
                       f"postprocess/{name}: exit code {done.returncode}")


def notes_on_choice(sweep):
    """A line for each variant that has no value, and so no final runs, or whose
    best value is at the edge of its grid."""
    notes = []
    best, remarks = choose(sweep)
    for variant, value in best.items():
        if value is None:
            notes.append(f"note: {variant} is not compared: {sweep.key}: "
                         f"{remarks[variant]}")
        if not value:
            continue
        means = means_of(sweep, variant, values_of(sweep, variant))
        if is_at_edge(sweep, means, value):
            notes.append(f"note: {variant}: {sweep.key} is at the edge of its "
                         "grid")
    return notes


def notes_on_failures(jobs, compared):
    """A line for each variant with final runs that are not among the compared
    ones, because they left no results."""
    notes = []
    for variant in dict.fromkeys(job.variant for job in jobs):
        mine = [job for job in jobs if job.variant == variant]
        failed = sum(job not in compared for job in mine)
        if failed:
            notes.append(f"note: {variant}: {failed} of "
                         f"{counted(len(mine), 'run')} failed (not compared)")
    return notes


def has_results(sweep, job):
    """Whether its results can be read, also those of a run that was cut
    short."""
    try:
        open_run(folder_of(sweep, job))
    except RunError:
        return False
    return True


def put_first(path, lines):
    """Writes lines before those that the file has."""
    with open(path, "r+", encoding="utf-8") as file:
        text = file.read()
        file.seek(0)
        file.write("".join(line + "\n" for line in lines) + text)


def conclude(sweep, jobs):
    """Writes comparison.md and comparison.png from the final runs that left
    results, and target.png where they have a run.target."""
    if sweep.rules:
        conclude_study(sweep, jobs)
        return
    if sweep.command == "simulate":
        conclude_simulations(sweep, jobs)
        return
    if "finished" not in [outcome(sweep, job)[0] for job in jobs]:
        print("no final run has finished: nothing to compare")
        return
    compared = [job for job in jobs if has_results(sweep, job)]
    runs = [folder_of(sweep, job) for job in compared]
    table = os.path.join(sweep.directory, "comparison.md")
    picture = os.path.join(sweep.directory, "comparison.png")
    written = [table, picture]
    varied = sorted({key for keys in sweep.variants.values() for key in keys})
    compare = ["compare.py", *runs, "--by", "variant", "--varied", *varied]
    commands = [[*compare, "--markdown", "-o", table],
                ["plot.py", *runs, "--by", "variant", "-o", picture]]
    target = target_of([open_run(run) for run in runs])
    if target:
        written.append(os.path.join(sweep.directory, "target.png"))
        commands.append(["plot.py", *runs, "--by", "variant", "--target",
                         str(target), "-o", written[-1]])
    for command in commands:
        run_script(*command)
    notes = notes_on_choice(sweep) + notes_on_failures(jobs, compared)
    put_first(table, [f"- {note}" for note in notes])
    print("\n".join(["written: " + " ".join(written), *notes]), flush=True)
    run_script(*compare)  # ends with the verdict
