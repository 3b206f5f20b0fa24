#!/usr/bin/env bash
# Shared by the e2e tests: a scratch folder that goes away, the tiny input, and
# expect_code. Source it; it needs $SYNCOPATE, and $MPIEXEC for MPI.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export here
: "${SYNCOPATE:?the path of the executable}"
: "${MPIEXEC:=mpiexec}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

finish() {
  ((failures == 0)) || { echo "$failures checks failed"; exit 1; }
  echo "all checks passed"
}

# expect_code CODE COMMAND...: output in $scratch/out and $scratch/err.
expect_code() {
  local expected=$1 code=0
  shift
  "$@" >"$scratch/out" 2>"$scratch/err" || code=$?
  if ((code != expected)); then
    fail "exit $code, expected $expected: $*"
    tail -n 5 "$scratch/out" "$scratch/err"
  fi
}

# ranks N: the launcher's words for N ranks on a host that may have fewer cores.
ranks() { echo "$MPIEXEC" -bind-to none -n "$1"; }

# Sections of a network and data that take milliseconds a step.
small_network() {
  cat <<'INI'
[model]
family = resnet
depth = 8
[data]
kind = synthetic_images
samples = 320
test_samples = 16
classes = 4
height = 8
width = 8
batch = 4
[optimizer]
lr = 0.01
INI
}

# Whether $SYNCOPATE_GPU computes in bf16: the emulated GPU has its convolutions
# and products from the processor.
has_bf16() {
  [[ ${SYNCOPATE_GPU##*/} != *emulated* ]] ||
    grep -qwE 'avx512_bf16|amx_bf16' /proc/cpuinfo
}

# train_three CODE WORLD NAME KEYS...: tiny.ini with three workers; WORLD is
# process or ranks.
train_three() {
  local launch=() workers=(--run.workers=3)
  if [[ $2 == ranks ]]; then
    read -ra launch <<<"$(ranks 3)"
    workers=()
  fi
  expect_code "$1" "${launch[@]}" "$SYNCOPATE" train tiny.ini \
    "${workers[@]}" --run.name="$3" "${@:4}"
}

# resumed NAME STEP...: runs/NAME went on from these checkpoints.
resumed() {
  local step
  for step in "${@:2}"; do
    grep -q "^resumed from .*(step $step)" "runs/$1/log.txt" ||
      fail "$1 was not resumed at step $step"
  done
}

python() { "${PYTHON:-/usr/bin/python3}" "$@"; }

# Sets $source_dir and $PYTHON, which has h5py and matplotlib; skips the test if
# there is none.
need_python() {
  source_dir=${SOURCE_DIR:-$(cd "$here/../.." && pwd)}
  # shellcheck source=jobs/env/python.sh
  source "$source_dir/jobs/env/python.sh"
  PYTHON=$(find_python "$source_dir") || {
    echo "skipped: no Python with h5py and matplotlib"
    exit 77
  }
  export PYTHON
}

# A network with BatchNorm, augmentation, momentum and a schedule: everything
# that a resume has to restore. 20 steps in about a second.
cat >tiny.ini <<'INI'
[run]
steps = 20
threads = 1
log_every = 3
[model]
family = resnet
depth = 8
[data]
kind = synthetic_images
samples = 192
test_samples = 40
classes = 4
height = 8
width = 8
batch = 8
augment = crop, flip
crop_pad = 1
[optimizer]
lr = 0.05
[schedule]
kind = cosine
warmup = 5 steps
[eval]
every = 10 steps
batch = 20
[checkpoint]
every = 7 steps
INI
