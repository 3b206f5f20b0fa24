#!/usr/bin/env bash
# Shared by the tests of postprocess/: results with known values, a scratch
# folder that goes away, and expect. Source it; skips the test if there is no
# Python for it.
set -uo pipefail
unset CDPATH
source_dir=${SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
# shellcheck source=../../jobs/env/python.sh
source "$source_dir/jobs/env/python.sh"
python=$(find_python "$source_dir") || { echo "skipped: no Python with h5py"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

make_run() { # make_run NAME KEY=VALUE...
  mkdir -p "$1"
  "$python" "$source_dir/tests/e2e/make_results.py" "$1/results.h5" "${@:2}"
}
post() { "$python" "$source_dir/postprocess/$1.py" "${@:2}"; }
expect() { # expect NAME CODE PATTERN COMMAND...: exit code, text of both streams
  local name=$1 code=$2 pattern=$3 out rc=0
  shift 3
  out=$("$@" 2>&1) || rc=$?
  if [[ $rc == "$code" && $out =~ $pattern ]]; then
    echo "ok: $name"
  else
    printf 'FAILED: %s: exit %s (expected %s), no %s in\n%s\n' \
      "$name" "$rc" "$code" "$pattern" "$out"
    failures=$((failures + 1))
  fi
}
one_line() { # of an error: exactly one line, no traceback
  local lines
  lines=$("$@" 2>&1 | wc -l)
  [[ $lines == 1 ]] && echo "one line"
}

usual_runs() { # that several tests read
  make_run bsp1 scheme=bsp seed=1 accuracy=0.90
  make_run bsp2 scheme=bsp seed=2 accuracy=0.91
  make_run bsp3 scheme=bsp seed=3 accuracy=0.92
  make_run asp1 scheme=asp seed=1 accuracy=0.80
  make_run asp2 scheme=asp seed=2 accuracy=0.82
  make_run wall scheme=bsp seed=4 clock=wall
  make_run nan1 scheme=asp seed=4 ended=diverged
  make_run exploded scheme=asp seed=5 ended=diverged loss=1e20
  make_run stopped scheme=asp seed=6 ended=stopped
  make_run killed scheme=asp seed=7 ended=killed rows=0
  make_run other digest=xyz
  make_run km1 scheme=bsp seed=1 accuracy=0.9
  make_run km2 scheme=bsp seed=2 accuracy=0.9 rows=8
  make_run km3 scheme=bsp seed=3 accuracy=0.3 rows=2 ended=stopped
  make_run km4 scheme=bsp seed=4 ended=diverged accuracy=0.3
  make_run long/a-name-of-thirty-one-characters scheme=ssp seed=1
}

finish() { ((failures == 0)) || { echo "$failures failed"; exit 1; }; }
