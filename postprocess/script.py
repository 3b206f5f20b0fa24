"""What every script has in common: its parser, the errors that the user can
fix, and how they end it, with one line and an exit code.
"""
import argparse
import os
import sys

from exit_codes import USAGE


class RunError(Exception):
    """An error that the user can fix, as one line; `code` is the exit code."""

    def __init__(self, code, line):
        super().__init__(line)
        self.code = code


class Parser(argparse.ArgumentParser):
    """Wrong usage is one line and exit code 64."""

    def error(self, message):
        raise RunError(USAGE, f"{message} (--help)")


def run_main(main):
    """Calls main(arguments); a RunError ends as one line and its code."""
    try:
        sys.exit(main(sys.argv[1:]))
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.code)
    except BrokenPipeError:
        # The reader has closed the pipe, so do not flush the rest.
        os._exit(0)
