#!/usr/bin/env bash
# Times training steps of BERT and DeepFM in syncopate and in PyTorch in turns,
# on the same samples, and prints medians, ratios and peak memory.
#   tests/bench/samples.sh [INPUT.ini [--bucket] [--section.key=value ...]]
#   tests/bench/samples.sh        everything; SQUAD=DIR VOCABULARY=FILE for the
#                                 part on SQuAD's lengths
# Environment: DEVICE (cpu, or cuda: larger networks in bf16), ROUNDS (3), THREADS
# (2), SYNCOPATE (build/release, else build/cpu), PYTHON (one that has torch and h5py). See
# README.md beside it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case ${1:-} in -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
rounds=${ROUNDS:-3} threads=${THREADS:-2} device=${DEVICE:-cpu}
syncopate=${SYNCOPATE:-$here/../../build/release/syncopate}
[[ -x $syncopate ]] || syncopate=$here/../../build/cpu/syncopate
[[ -x $syncopate ]] || { echo "$syncopate: not built" >&2; exit 66; }
peer=''
for candidate in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3; do
  "$candidate" -c 'import torch, h5py' 2>/dev/null && peer=$candidate && break
done
[[ -n $peer ]] || { echo "no Python with torch and h5py (apt install python3-torch python3-h5py)" >&2; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

rate() { sed -n 's|^step: .*, \([0-9.]*\) samples/s.*|\1|p' "$1"; }
memory() { sed -n 's|^memory *\([0-9]*\) MB at most.*|\1|p' "$1"; }
median() { printf '%s\n' "$@" | sort -g | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'; }

# compare NAME INPUT PEER_OPTIONS KEYS...: a line a round, medians, ratios.
compare() {
  local name=$1 input=$2 options=$3 round a=() b=() ma=() mb=() family
  shift 3
  family=$(sed -n 's/^family = *\([a-z]*\).*/\1/p' "$input")
  local what=squad
  [[ $family == bert ]] || what=criteo
  "$syncopate" prepare $what "$input" -o "$scratch/samples.h5" "$@" >/dev/null
  echo "== $name: $(basename "$input") $*"
  # The same network: as many parameters.
  local ours theirs
  ours=$("$syncopate" validate "$input" "$@" | sed -n 's/^model.*: \([0-9]*\) parameters.*/\1/p')
  for ((round = 1; round <= rounds; ++round)); do
    "$syncopate" bench step "$input" --run.threads="$threads" \
      --run.device="$device" "$@" >"$scratch/a"
    # shellcheck disable=SC2086
    "$peer" "$here/peer_samples.py" "$scratch/samples.h5" "$input" $options \
      --torch-threads "$threads" --device "$device" "$@" >"$scratch/b"
    theirs=$(sed -n 's/.*, \([0-9]*\) parameters$/\1/p' "$scratch/b")
    [[ $ours == "$theirs" ]] || { echo "$ours parameters, PyTorch $theirs" >&2; exit 70; }
    a+=("$(rate "$scratch/a")") b+=("$(rate "$scratch/b")")
    ma+=("$(memory "$scratch/a")") mb+=("$(memory "$scratch/b")")
    echo "round $round: syncopate ${a[-1]}, PyTorch ${b[-1]} samples/s"
  done
  awk -v a="$(median "${a[@]}")" -v b="$(median "${b[@]}")" \
    -v m="$(median "${ma[@]}")" -v n="$(median "${mb[@]}")" -v name="$name" 'BEGIN {
    printf "%s: median syncopate %.1f, PyTorch %.1f samples/s, ratio %.2f; ", name, a, b, a / b
    printf "memory %d, %d MB, ratio %.2f\n", m, n, m / n }'
}

echo "machine: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)," \
  "$(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg); $threads threads;" \
  "PyTorch $("$peer" -c 'import torch; print(torch.__version__)')"
if (($#)); then
  input=$1 options=''
  shift
  [[ ${1:-} != --bucket ]] || { options=--bucket && shift; }
  compare "$(basename "$input" .ini)" "$input" "$options" "$@"
  exit
fi
if [[ $device == cuda ]]; then
  # shellcheck disable=SC2054  # commas within a key's list
  large=(--model.layers=24 --model.hidden=1024 --model.heads=16
    --run.precision=bf16 --data.batch=32)
  compare "DeepFM" "$here/deepfm.ini" "" --data.batch=20480 --run.precision=bf16
  compare "BERT-Large, 384 tokens" "$here/bert_mini.ini" "" "${large[@]}" \
    --data.max_length=384 --data.stride=256 --data.context_words=4000
else
  large=()
  compare "DeepFM dense" "$here/deepfm.ini" ""
  compare "DeepFM lazy" "$here/deepfm.ini" "" --optimizer.embedding=lazy
  compare "BERT mini" "$here/bert_mini.ini" ""
  compare "BERT mini bf16" "$here/bert_mini.ini" "" --run.precision=bf16
fi
if [[ -n ${SQUAD:-} ]]; then
  compare "BERT on SQuAD's lengths" "$here/bert_mini_squad.ini" --bucket \
    --data.path="$SQUAD" --data.vocabulary="${VOCABULARY:?a file}" "${large[@]}"
else
  echo "BERT on SQuAD's lengths: left out (SQUAD=DIR VOCABULARY=FILE)"
fi
