"""Imported by every script before numpy and h5py: if this Python lacks one of
them, the script ends with one line that names its package."""
import importlib.util
import sys

INPUT_MISSING = 66
DEBIAN = {name: f"python3-{name}" for name in ("h5py", "matplotlib", "numpy")}


def missing_line(name):
    """What to do without the module `name`."""
    line = f"{sys.executable}: no module {name}: "
    if name in DEBIAN:
        line += f"install Debian's {DEBIAN[name]} or PyPI's {name}"
    else:
        line += f"install PyPI's {name}"
    return line + ", or start this script with a Python that has it " \
        "(/usr/bin/python3 SCRIPT ...)"


for _name in ("numpy", "h5py"):
    if importlib.util.find_spec(_name) is None:
        print(f"error: {missing_line(_name)}", file=sys.stderr)
        sys.exit(INPUT_MISSING)
