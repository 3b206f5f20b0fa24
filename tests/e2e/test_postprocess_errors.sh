#!/usr/bin/env bash
# Every script of postprocess/: a Python without its packages is one line that
# names the first of them, and wrong usage is one line and exit code 64.
set -uo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
need_python

ends_with() { # ends_with CODE PATTERN COMMAND...: one line on both streams
  local code=$1 pattern=$2 rc=0
  shift 2
  "$@" >out 2>&1 || rc=$?
  if ((rc != code)) || [[ $(wc -l <out) != 1 ]] || ! grep -qE "$pattern" out; then
    fail "$*: exit $rc (expected $code), or not one line of $pattern:"
    cat out
  fi
}

mapfile -t scripts < <(grep -l '^#!' "$source_dir"/postprocess/*.py)
((${#scripts[@]} >= 11)) || { echo "FAILED: ${#scripts[@]} scripts"; exit 1; }

for script in "${scripts[@]}"; do
  words=()
  needs='(numpy|h5py)'
  if [[ $script == */timeline.py ]]; then
    needs=matplotlib # and nothing else until it draws
    cat >trace.json <<'JSON'
{"otherData": {"scheme": "bsp"},
"traceEvents": [
{"pid": 0, "tid": 1, "ph": "X", "ts": 0, "dur": 1, "name": "step", "args": {"step": 1}}
]}
JSON
    words=(trace.json -o time.png)
  fi
  # -S: without the folders in which packages are installed.
  ends_with 66 "^error: .*: no module $needs: install Debian's python3-$needs or" \
    "$PYTHON" -S -E "$script" "${words[@]}"
  ends_with 64 '^error: .* \(--help\)$' "$PYTHON" "$script" --no-such-option
  ends_with 74 '^error: standard output: No space left on device$' \
    bash -c 'exec "$@" >/dev/full' - "$PYTHON" "$script" --help
done

# The system's Python is no way out where it is the one that lacks a package.
ends_with 66 'or PyPI.s h5py$' /usr/bin/python3 -S -E -c '
import sys
sys.path.insert(0, sys.argv[1])
import packages
import h5py' "$source_dir/postprocess"

# Inputs of other programs.
pp=$source_dir/postprocess
printf 'fraction,accuracy\n1,0.9\n' >seedless.csv
printf 'fraction,seed,accuracy\n1,\xe9,0.9\n' >latin.csv
printf '\xef\xbb\xbffraction,seed,accuracy\n1,1,0.9\n' >excel.csv
ends_with 65 '^error: seedless.csv: row 2: expected fraction,seed,accuracy$' \
  "$PYTHON" "$pp/switch_timing.py" next seedless.csv
ends_with 65 '^error: latin.csv: not readable as CSV: ' \
  "$PYTHON" "$pp/switch_timing.py" next latin.csv
ends_with 0 . "$PYTHON" "$pp/switch_timing.py" next excel.csv
ends_with 65 '^error: .*true: its list topologies is of another version$' \
  "$PYTHON" "$pp/tune_gamma.py" --syncopate true --topology ring --workers 4 \
  --compressor sign --dim 10 --iterations 8
printf 'Step,Value\n0,0.1\n10,0.5\n' >acc.csv # without a clock
"$PYTHON" "$pp/plot.py" acc.csv --by sync.scheme -o acc.png >out 2>&1 ||
  fail "plot.py acc.csv: $(cat out)"
ends_with 65 'has no seconds by step and worker$' "$PYTHON" "$pp/export.py" \
  acc.csv --steps -o steps.csv

# These read no results, so they do without h5py.
for script in tune_gamma import_bert; do
  ends_with 64 '^error: the following arguments are required' "$PYTHON" -c '
import os, runpy, sys
sys.modules["h5py"] = None  # cannot be imported
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")' \
    "$source_dir/postprocess/$script.py"
done

# A parameter that requires a gradient is a weight like others.
ends_with 0 '^1.0$' "$PYTHON" - "$source_dir/postprocess" <<'PY'
import sys, types
import numpy as np
class Parameter:
    def __init__(self, is_detached=False): self.is_detached = is_detached
    def detach(self): return Parameter(True)
    def float(self): return self
    def is_floating_point(self): return True
    def numpy(self):
        if not self.is_detached:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return np.ones(1)
sys.modules["torch"] = types.SimpleNamespace(
    load=lambda *_, **__: {"w": Parameter()}, is_tensor=lambda value: True)
sys.path.insert(0, sys.argv[1])
import import_bert
print(import_bert.read_torch("x.bin")["w"]()[0])
PY

# Without room for all of a new file, the one that was there stays.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=one --run.workers=2
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=two --run.workers=2
keeps() { # keeps FILE SCRIPT WORDS...: a file of 1 KiB is too large
  local file=$1 script=$source_dir/postprocess/$2.py
  shift 2
  echo before >"$file"
  ends_with 73 "^error: $file: File too large$" bash -c 'ulimit -f 1; exec "$@"' - \
    "$PYTHON" "$script" "$@"
  [[ $(cat "$file") == before ]] || fail "$script $*: the old file is gone"
  [[ -z $(find . -name '.tmp-*') ]] || fail "$script $*: leaves $(find . -name '.tmp-*')"
  expect_code 0 "$PYTHON" "$script" "$@"
  ! cmp -s "$file" <(echo before) || fail "$script $*: writes nothing"
}
keeps plot.png plot runs/one runs/two -o plot.png
keeps by.svg plot runs/one --by run.name -o by.svg
keeps column.pdf plot runs/one --column train/loss -o column.pdf
keeps plot.csv plot runs/one --data-only -o plot.csv
keeps eval.csv export runs/one runs/two --table comm -o eval.csv
keeps compare.md compare runs/one runs/two --by run.name --target loss=9 -o compare.md
keeps time.png timeline trace.json -o time.png
# What is not a regular file is written to.
mkfifo pipe.csv
cat pipe.csv >x.csv &
expect_code 0 "$PYTHON" "$source_dir/postprocess/plot.py" runs/one --data-only -o pipe.csv
wait
cmp -s x.csv plot.csv || fail "a pipe is not written to"
[[ -p pipe.csv ]] || fail "a pipe is replaced"
finish
