#!/usr/bin/env bash
# Does PyTorch train the same network the same way? Exit 0 if so, 1 if not.
#   tests/bench/curves.sh steps [INPUT.ini [--section.key=value ...]]
#       From the same first values, on the same samples in the same order, not
#       augmented, at a constant rate: STEPS (8) losses agree within TOLERANCE
#       (0.001 relative; bf16 0.008), and another rate or weight decay would be
#       noticed. Seconds.
#   tests/bench/curves.sh seeds [INPUT.ini [--section.key=value ...]]
#       SEEDS (5) whole runs each, augmented, streams of their own: losses by
#       window of steps are of one distribution (exact permutation test, 1%).
#       Three minutes with curves.ini, on two cores.
# Environment: THREADS (2), SYNCOPATE, PYTHON (one that has torch and h5py).
# Exit 77 without such a Python.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
what=${1:-}
[[ $what == steps || $what == seeds ]] || { echo "curves.sh steps|seeds [INPUT.ini ...]" >&2; exit 64; }
shift
if (($#)); then input=$1 && shift; else input=$here/curves.ini; fi
peer=$(find_python "torch, h5py")
[[ -n $peer ]] || { echo "no Python with torch and h5py (apt install python3-torch python3-h5py)"; exit 77; }
export OMP_NUM_THREADS=$threads # of whatever does not ask for its own number

samples=$scratch/samples.h5
"$SYNCOPATE" prepare images "$input" -o "$samples" "$@" >/dev/null

# ours NAME KEYS...: a run of the input in $scratch/NAME, a row a step.
ours() {
  local name=$1
  shift
  "$SYNCOPATE" train "$input" "$@" --run.threads="$threads" --run.name="$name" \
    --run.directory="$scratch" --run.log_every=1 >"$scratch/$name.txt" ||
    { tail -n 3 "$scratch/$name.txt" >&2; exit 70; }
}

# theirs NAME OPTIONS...: the peer's losses in $scratch/NAME.
theirs() {
  local name=$1
  shift
  peer_torch --torch-threads "$threads" --samples "$samples" \
    --losses "$scratch/$name" "$input" "$@" >"$scratch/$name.txt" ||
    { tail -n 3 "$scratch/$name.txt" >&2; exit 70; }
}

# value KEY: as the input, with the keys given, resolves it.
value() { sed -n "/^\[${1%%.*}\]/,/^\[/s/^${1#*.} *= *\([^ #]*\).*/\1/p" "$scratch/ours/input.ini"; }

compare_steps() {
  local steps=${STEPS:-8} precision tolerance rate decay
  local fixed=("$@" --data.augment=none --run.workers=1)
  # Without what has no meaning in a few steps that are not augmented.
  sed '/^ *crop_pad *=/d; /^\[schedule\]/,/^\[/{/^\[schedule\]/d; /^\[/!d}' \
    "$input" >"$scratch/plain.ini"
  input=$scratch/plain.ini
  # A step with rate 0 leaves the parameters what they were.
  ours first "${fixed[@]}" --run.steps=1 \
    --optimizer.lr=0 --checkpoint.every=1
  ours ours "${fixed[@]}" --run.steps="$steps" --checkpoint.every=0
  precision=$(value run.precision) rate=$(value optimizer.lr)
  decay=$(value optimizer.weight_decay)
  tolerance=${TOLERANCE:-0.001}
  [[ $precision != bf16 ]] || tolerance=${TOLERANCE:-0.008}
  local first=(--first "$scratch"/first/checkpoints/step-*1 "${fixed[@]}"
    --run.steps="$steps")
  theirs same "${first[@]}"
  theirs rate "${first[@]}" \
    --optimizer.lr="$(awk -v r="$rate" 'BEGIN {print 1.5 * r}')"
  theirs decay "${first[@]}" \
    --optimizer.weight_decay="$(awk -v d="$decay" -v r="$rate" 'BEGIN {print d + 0.01 / r}')"
  "$peer" "$here/curves.py" steps --tolerance "$tolerance" \
    "$scratch/ours/results.h5" "$scratch/same" \
    "$scratch/rate" "$scratch/decay"
}

compare_seeds() {
  local seed a=() b=()
  for ((seed = 1; seed <= ${SEEDS:-5}; ++seed)); do
    ours "ours$seed" "$@" --run.seed="$seed" --checkpoint.every=0
    theirs "theirs$seed" "$@" --run.seed="$seed"
    a+=("$scratch/ours$seed/results.h5") b+=("$scratch/theirs$seed")
  done
  "$peer" "$here/curves.py" seeds --ours "${a[@]}" --theirs "${b[@]}"
}

"compare_$what" "$@"
