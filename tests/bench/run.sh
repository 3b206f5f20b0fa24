#!/usr/bin/env bash
# A training step of syncopate and of PyTorch: the same training (curves.sh
# steps; no figures if not), then both timed in turns (A B A B ...): the ratio of
# each round and their median, peak memory, time from start to first step. See
# README.md beside it.
#   tests/bench/run.sh [INPUT.ini [--section.key=value ...]]
#   tests/bench/run.sh all      ResNet-20 in fp32 and bf16, WRN-16-4; 15 minutes
# Environment: ROUNDS (9), SECONDS_EACH (4) of the peer, THREADS (2), SYNCOPATE,
# PYTHON (one that has torch and h5py; empty: syncopate alone), SETTINGS of the
# peer ("channels_last eager"; default: the fastest that is found).
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
rounds=${ROUNDS:-9} seconds=${SECONDS_EACH:-4}
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

# start_peer KEYS...: compiled and warm, it waits to be asked.
start_peer() {
  local line=''
  settings=${SETTINGS:-}
  if [[ -z $settings ]]; then
    peer_torch --torch-threads "$threads" --find "$seconds" "$input" "$@" \
      2>/dev/null | tee "$scratch/find" | grep '^PyTorch [cn][^ ]* '
    settings=$(sed -n 's/^fastest: //p' "$scratch/find")
    have "setting of the PyTorch peer" "$settings"
  fi
  coproc PEER { peer_torch --throughput "$seconds" --by-line --settings \
    "$settings" --torch-threads "$threads" "$input" "$@" 2>"$scratch/errors"; }
  while [[ $line != ready ]]; do
    read -r line <&"${PEER[0]}" || { cat "$scratch/errors" >&2; exit 70; }
    echo "$line" >>"$scratch/b"
  done
}
# One round of it, behind the lines of the rounds before.
ask_peer() {
  local line=''
  echo >&"${PEER[1]}"
  while [[ $line != step:* ]]; do
    read -r line <&"${PEER[0]}" || { cat "$scratch/errors" >&2; exit 70; }
    echo "$line" >>"$scratch/b"
  done
}
stop_peer() {
  local pid=$PEER_PID ask=${PEER[1]}
  exec {ask}>&-
  wait "$pid"
}

# compare INPUT KEYS...
compare() {
  local input=$1 round line settings a=() b=() r=() fa=() fb=()
  shift
  echo "== $(basename "$input") $*"
  rm -f "$scratch/b"
  if [[ -n $peer ]]; then
    PYTHON=$peer "$here/curves.sh" steps "$input" "$@" || {
      echo "no ratio: PyTorch does not train the same"
      exit 1
    }
    start_peer "$@"
  fi
  for ((round = 1; round <= rounds; ++round)); do
    "$SYNCOPATE" bench step "$input" --run.threads="$threads" "$@" >"$scratch/a"
    a+=("$(rate "$scratch/a")")
    have "rate of syncopate" "${a[-1]}"
    line="round $round: syncopate ${a[-1]} images/s"
    if [[ -n $peer ]]; then
      ask_peer
      b+=("$(rate "$scratch/b")")
      have "rate of the PyTorch peer" "${b[-1]}"
      r+=("$(ratio "${a[-1]}" "${b[-1]}")")
      line+="; PyTorch ${b[-1]} images/s; ratio ${r[-1]}"
    fi
    echo "$line"
  done
  [[ -z $peer ]] || stop_peer
  for ((round = 1; round <= 3; ++round)); do
    fa+=("$(ours_first_step "$@")")
    have "first step of syncopate" "${fa[-1]}"
    [[ -n $peer ]] || continue
    fb+=("$(theirs_first_step "$@")")
    have "first step of the PyTorch peer" "${fb[-1]}"
  done
  report "$@"
}

# report KEYS...: of what compare has gathered.
report() {
  local ours theirs base count
  ours=$(memory "$scratch/a" | tail -n 1)
  echo "median: syncopate $(median "${a[@]}") images/s, $ours MB, first step $(median "${fa[@]}") s"
  [[ -n $peer ]] || return 0
  theirs=$(memory "$scratch/b" | tail -n 1)
  count=$(same_parameters "$@")
  base=$(sed -n 's/.*resident; \([0-9]*\) MB before.*/\1/p' "$scratch/b" | tail -n 1)
  echo "median: PyTorch $(median "${b[@]}") images/s, $theirs MB ($base of them before the first step), first step $(median "${fb[@]}") s;" \
    "$("$peer" -c 'import torch; print(torch.__version__)'), $settings; the first step eager"
  echo "ratio: $(median "${r[@]}") by images/s, the median of $rounds rounds' (above 1: syncopate is faster)," \
    "$(ratio "$ours" "$theirs") by memory (below 1: it needs less); $count parameters each"
}

same_parameters() {
  local ours theirs
  "$SYNCOPATE" validate "$input" "$@" >"$scratch/c"
  ours=$(parameters "$scratch/c") theirs=$(parameters "$scratch/b")
  [[ $ours == "$theirs" ]] || { echo "$ours parameters, PyTorch $theirs" >&2; exit 70; }
  echo "$ours"
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
