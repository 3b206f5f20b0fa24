# shellcheck shell=bash
# Finds a Python, 3.9 or newer, with h5py, numpy and matplotlib. Sourced:
#   python=$(find_python ROOT)
# Tries $PYTHON, python3 on the PATH, the system's and ROOT/.venv in this order,
# and otherwise creates a virtual environment in ROOT/.venv (needs a network).
find_python() {
  local root=$1 candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3 \
    "$root/.venv/bin/python"; do
    if "$candidate" -c 'import h5py, numpy, matplotlib, sys
sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
      echo "$candidate"
      return 0
    fi
  done
  if python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' &&
    python3 -m venv "$root/.venv" >&2 &&
    "$root/.venv/bin/pip" install -q h5py numpy matplotlib >&2; then
    echo "$root/.venv/bin/python"
    return 0
  fi
  echo "no Python 3.9 or newer with h5py, numpy and matplotlib: install them, or" \
    "set PYTHON to one that has them" >&2
  return 66
}
