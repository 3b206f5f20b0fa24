#!/usr/bin/env bash
# A training step of syncopate and of PyTorch: the same training (curves.sh
# steps; no figures if not), then both timed in turns (A B A B ...): medians,
# ratios, peak memory, time from start to first step. See README.md beside it.
#   tests/bench/run.sh [INPUT.ini [--section.key=value ...]]
#   tests/bench/run.sh all      ResNet-20 in fp32 and bf16, WRN-16-4; 10 minutes
# Environment: ROUNDS (5), SECONDS_EACH (10) of the peer, THREADS (2), SYNCOPATE,
# PYTHON (one that has torch and h5py; empty: syncopate alone), SETTINGS of the
# peer ("channels_last eager"; default: the fastest that is found).
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-10}
peer=$(find_python "torch, h5py")
[[ -n $peer ]] || echo "no Python with torch and h5py (apt install python3-torch python3-h5py): syncopate alone"

# first_step COMMAND...: seconds from its start until it prints of step 1.
first_step() {
  local begin=$EPOCHREALTIME line end=''
  while read -r line; do
    [[ $line != step* || -n $end ]] || end=$EPOCHREALTIME
  done < <("$@" 2>/dev/null)
  [[ -z $end ]] || awk -v a="$begin" -v b="$end" 'BEGIN {printf "%.2f\n", b - a}'
}

ours_first_step() {
  rm -rf "${scratch:?}/first$round"  # of another input
  first_step "$SYNCOPATE" train "$input" "$@" --run.threads="$threads" \
    --run.steps=2 --run.log_every=1 --eval.every=0 --checkpoint.every=0 \
    --run.name="first$round" --run.directory="$scratch"
}

theirs_first_step() {
  first_step peer_torch --torch-threads "$threads" --losses "$scratch/losses" \
    "$input" "$@" --run.steps=1
}

# compare INPUT KEYS...
compare() {
  local input=$1 round settings='' a=() b=() ma=() mb=() fa=() fb=() base
  shift
  echo "== $(basename "$input") $*"
  if [[ -n $peer ]]; then
    PYTHON=$peer "$here/curves.sh" steps "$input" "$@" || {
      echo "no ratio: PyTorch does not train the same"
      exit 1
    }
    settings=${SETTINGS:-}
    if [[ -z $settings ]]; then
      peer_torch --torch-threads "$threads" --find "$(awk -v s="$seconds" 'BEGIN {print s / 4}')" \
        "$input" "$@" 2>/dev/null | tee "$scratch/find" | grep '^PyTorch [cn][^ ]* '
      settings=$(sed -n 's/^fastest: //p' "$scratch/find")
      have "setting of the PyTorch peer" "$settings"
    fi
  fi
  for ((round = 1; round <= rounds; ++round)); do
    "$SYNCOPATE" bench step "$input" --run.threads="$threads" "$@" >"$scratch/a"
    a+=("$(rate "$scratch/a")") ma+=("$(memory "$scratch/a")")
    fa+=("$(ours_first_step "$@")")
    have "rate of syncopate" "${a[-1]}"
    have "first step of syncopate" "${fa[-1]}"
    local line="round $round: syncopate ${a[-1]} images/s, ${ma[-1]} MB, first step ${fa[-1]} s"
    if [[ -n $peer ]]; then
      peer_torch --throughput "$seconds" --torch-threads "$threads" \
        --settings "$settings" "$input" "$@" >"$scratch/b" 2>"$scratch/errors"
      b+=("$(rate "$scratch/b")") mb+=("$(memory "$scratch/b")")
      fb+=("$(theirs_first_step "$@")")
      have "rate of the PyTorch peer" "${b[-1]}"
      have "first step of the PyTorch peer" "${fb[-1]}"
      line+="; PyTorch ${b[-1]} images/s, ${mb[-1]} MB, first step ${fb[-1]} s"
    fi
    echo "$line"
  done
  report "$@"
}

# report KEYS...: of what compare has gathered.
report() {
  local ours theirs
  echo "median: syncopate $(median "${a[@]}") images/s, $(median "${ma[@]}") MB, first step $(median "${fa[@]}") s"
  [[ -n $peer ]] || return 0
  "$SYNCOPATE" validate "$input" "$@" >"$scratch/c"
  ours=$(parameters "$scratch/c") theirs=$(parameters "$scratch/b")
  [[ $ours == "$theirs" ]] || { echo "$ours parameters, PyTorch $theirs" >&2; exit 70; }
  base=$(sed -n 's/.*resident; \([0-9]*\) MB before.*/\1/p' "$scratch/b")
  echo "median: PyTorch $(median "${b[@]}") images/s, $(median "${mb[@]}") MB ($base of them before the first step), first step $(median "${fb[@]}") s;" \
    "$("$peer" -c 'import torch; print(torch.__version__)'), $settings; the first step eager"
  echo "ratio: $(ratio "$(median "${a[@]}")" "$(median "${b[@]}")") by images/s (above 1: syncopate is faster)," \
    "$(ratio "$(median "${ma[@]}")" "$(median "${mb[@]}")") by memory (below 1: it needs less); $ours parameters each"
}

machine_line
if [[ ${1:-} == all ]]; then
  compare "$here/resnet20.ini"
  compare "$here/resnet20.ini" --run.precision=bf16
  compare "$here/wrn16_4.ini"
elif (($#)); then
  compare "$@"
else
  compare "$here/resnet20.ini"
fi
