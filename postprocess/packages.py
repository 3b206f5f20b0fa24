"""Every script imports this before what may not be installed: the first import
that fails then ends the script with one line that names the package. So does a
Python that is too old.
"""
import os
import sys

from exit_codes import INPUT_MISSING

SYSTEM = "/usr/bin/python3"
DEBIAN = {name: f"python3-{name}" for name in ("h5py", "matplotlib", "numpy")}


def missing_line(name):
    """What to do without the module `name`."""
    line = f"{sys.executable}: no module {name}: "
    if name in DEBIAN:
        line += f"install Debian's {DEBIAN[name]} or PyPI's {name}"
    else:
        line += f"install PyPI's {name}"
    if sys.prefix == sys.base_prefix and \
            os.path.realpath(sys.executable) == os.path.realpath(SYSTEM):
        return line
    return line + ", or start this script with a Python that has it " \
        f"({SYSTEM} SCRIPT ...)"


def one_line(kind, error, trace):
    """In place of the traceback of a missing module."""
    if not issubclass(kind, ModuleNotFoundError):
        sys.__excepthook__(kind, error, trace)
        return
    name = error.name.partition(".")[0]
    print(f"error: {missing_line(name)}", file=sys.stderr)
    sys.exit(INPUT_MISSING)


if sys.version_info < (3, 9):
    print(f"error: {sys.executable}: Python {sys.version.split()[0]}: 3.9 or "
          "newer expected", file=sys.stderr)
    sys.exit(INPUT_MISSING)
sys.excepthook = one_line
# As the program: files are read while runs write them, and some file systems have
# no locks. h5py reads this when it is imported.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
