"""What every script has in common: its parser, the errors that the user can
fix, how they end it, with one line and an exit code, and how it writes files.
"""
import argparse
import contextlib
import os
import sys
import uuid

from exit_codes import CANNOT_CREATE, INTERRUPTED, IO_ERROR, USAGE


class RunError(Exception):
    """An error that the user can fix, as one line; `code` is the exit code."""

    def __init__(self, code, line):
        super().__init__(line)
        self.code = code


class Parser(argparse.ArgumentParser):
    """Wrong usage is one line and exit code 64."""

    def error(self, message):
        raise RunError(USAGE, f"{message} (--help)")


@contextlib.contextmanager
def whole_file(path, mode="w"):
    """A new file that takes the place of `path` once it is complete. If that
    fails, `path` stays as it was and a RunError says why. What is not a regular
    file, such as a pipe, is written directly."""
    is_special = os.path.exists(path) and not os.path.isfile(path)
    folder, name = os.path.split(os.path.realpath(path))
    written = path if is_special else os.path.join(
        folder, f".tmp-{uuid.uuid4().hex[:8]}-{name}")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with open(written, mode, **text) as file:
            yield file
            file.flush()
            if not is_special:
                os.fsync(file.fileno())
        if not is_special:
            os.replace(written, os.path.join(folder, name))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RunError(CANNOT_CREATE,
                       f"{path}: {error.strerror or error}") from None
    finally:
        if not is_special:
            with contextlib.suppress(OSError):
                os.remove(written)


def run_main(main):
    """Calls main(arguments) and ends the process. A RunError, or standard
    output that cannot be written, ends it with one line and its exit code."""
    code = 0
    try:
        try:
            code = main(sys.argv[1:])
        except RunError as error:
            print(f"error: {error}", file=sys.stderr)
            code = error.code
        except KeyboardInterrupt:  # Ctrl-C
            code = INTERRUPTED
        except SystemExit as end:  # after --help
            code = end.code
        sys.stdout.flush()
    # In both cases, the interpreter must not try to write the rest.
    except BrokenPipeError:  # the reader has closed the pipe
        os._exit(code or 0)
    except OSError as error:
        where = error.filename or "standard output"
        print(f"error: {where}: {error.strerror or error}", file=sys.stderr)
        os._exit(IO_ERROR)
    sys.exit(code)
