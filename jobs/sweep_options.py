"""The command line that --local and --slurm of jobs/sweep.sh have in common."""
import argparse

from sweep_file import ROOT  # noqa: F401, puts postprocess/ on the path
from exit_codes import USAGE
from run_reader import RunError


class Parser(argparse.ArgumentParser):
    def __init__(self, mode):
        super().__init__(prog=f"jobs/sweep.sh {mode}", allow_abbrev=False)
        self.add_argument("sweep", metavar="SWEEP")
        self.add_argument("--jobs", type=number_of_jobs, metavar="J")
        self.add_argument("--dry-run", action="store_true")

    def error(self, message):
        raise RunError(USAGE, f"{message} (jobs/sweep.sh --help)")


def number_of_jobs(text):
    try:
        number = int(text)
    except ValueError:
        raise RunError(USAGE, f"--jobs={text}: a whole number expected") \
            from None
    if number < 1:
        raise RunError(USAGE, f"--jobs={text}: at least 1 expected")
    return number
