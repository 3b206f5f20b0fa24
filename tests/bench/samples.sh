#!/usr/bin/env bash
# Times training steps of BERT and DeepFM in syncopate and in PyTorch in turns,
# on the same samples, and prints medians, ratios and peak memory.
#   tests/bench/samples.sh [INPUT.ini [--bucket] [--section.key=value ...]]
#   tests/bench/samples.sh        everything; SQUAD=DIR VOCABULARY=FILE for the
#                                 part on SQuAD's lengths
# Environment: DEVICE (cpu, or cuda: larger networks in bf16, PyTorch compiled),
# ROUNDS (3), THREADS (2), SYNCOPATE (build/release, else build/cpu), PYTHON (one
# that has torch and h5py), PEER_LIMIT (seconds of a round of PyTorch, with what it
# compiles: 200 on a GPU), COMPILE (its mode, as of gpu.sh). Exit code 70 if PyTorch
# gave no figure somewhere, 77 without it; on a GPU syncopate is timed without it
# too. See README.md beside it.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=large.sh
source "$here/large.sh"
rounds=${ROUNDS:-3} device=${DEVICE:-cpu} failures=0
[[ $device == cuda ]] && limit=${PEER_LIMIT:-200} || limit=${PEER_LIMIT:-3600}
peer=$(find_python "torch, h5py")
if [[ -z $peer ]]; then
  echo "no Python with torch and h5py (apt install python3-torch python3-h5py)" >&2
  [[ $device == cuda ]] || exit 77
fi

# compare NAME INPUT PEER_OPTIONS KEYS...: a line a round, medians, ratios. What
# syncopate does is told before PyTorch compiles.
compare() {
  local name=$1 input=$2 options=$3 round a=() b=() ma=() mb=() family code
  shift 3
  family=$(sed -n 's/^family = *\([a-z]*\).*/\1/p' "$input")
  local what=squad
  [[ $family == bert ]] || what=criteo
  "$SYNCOPATE" prepare $what "$input" -o "$scratch/samples.h5" "$@" >/dev/null
  echo "== $name: $(basename "$input") $*"
  # The same network: as many parameters.
  local ours theirs
  "$SYNCOPATE" validate "$input" "$@" >"$scratch/c"
  ours=$(parameters "$scratch/c")
  for ((round = 1; round <= rounds; ++round)); do
    "$SYNCOPATE" bench step "$input" --run.threads="$threads" \
      --run.device="$device" "$@" >"$scratch/a"
    a+=("$(rate "$scratch/a")") ma+=("$(memory "$scratch/a")")
    echo "round $round: syncopate ${a[-1]} samples/s"
    [[ -n $peer ]] || continue
    code=0
    # shellcheck disable=SC2086
    timeout --kill-after=2 "$limit" "$peer" "$here/peer_samples.py" \
      "$scratch/samples.h5" "$input" $options ${COMPILE:+--compile "$COMPILE"} \
      --torch-threads "$threads" --device "$device" "$@" \
      >"$scratch/b" 2>"$scratch/errors" || code=$?
    if ((code != 0)); then
      ((code != 124)) || echo "more than $limit s" >>"$scratch/errors"
      echo "round $round: PyTorch gave no figure: $(tail -n 1 "$scratch/errors")"
      failures=$((failures + 1))
      break
    fi
    theirs=$(sed -n 's/.*, \([0-9]*\) parameters$/\1/p' "$scratch/b")
    [[ $ours == "$theirs" ]] || { echo "$ours parameters, PyTorch $theirs" >&2; exit 70; }
    b+=("$(rate "$scratch/b")") mb+=("$(memory "$scratch/b")")
    echo "round $round: PyTorch ${b[-1]} samples/s," \
      "compiled: $(sed -n 's/^compiled: //p' "$scratch/b")"
  done
  if ((${#b[@]} == 0)); then
    echo "$name: median syncopate $(median "${a[@]}") samples/s"
    return
  fi
  awk -v a="$(median "${a[@]}")" -v b="$(median "${b[@]}")" \
    -v m="$(median "${ma[@]}")" -v n="$(median "${mb[@]}")" -v name="$name" 'BEGIN {
    printf "%s: median syncopate %.1f, PyTorch %.1f samples/s, ratio %.2f; ", name, a, b, a / b
    printf "resident memory %d, %d MB, ratio %.2f\n", m, n, m / n }'
}

echo "$(machine_line); PyTorch $("${peer:-false}" -c \
  'import torch; print(torch.__version__)' || echo none)"
if (($#)); then
  input=$1 options=''
  shift
  [[ ${1:-} != --bucket ]] || { options=--bucket && shift; }
  compare "$(basename "$input" .ini)" "$input" "$options" "$@"
  exit $((failures > 0 ? 70 : 0))
fi
if [[ $device == cuda ]]; then
  large=("${large_bert[@]}")
  compare "DeepFM" "$here/deepfm.ini" "" "${large_deepfm[@]}"
  compare "BERT-Large, 384 tokens" "$here/bert_mini.ini" "" "${large[@]}" \
    "${full_windows[@]}"
  compare "DeepFM, 33 million rows, lazy" "$here/deepfm.ini" "" \
    "${large_deepfm[@]}" "${huge_tables[@]}"
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
exit $((failures > 0 ? 70 : 0))
