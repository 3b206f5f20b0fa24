#!/usr/bin/env bash
# Times a training step of syncopate and of PyTorch in turns (A B A B ...) and
# prints the medians and their ratio. See tests/bench/README.md.
#   tests/bench/run.sh [INPUT.ini [--section.key=value ...]]
# Environment: ROUNDS (5), THREADS (2), SYNCOPATE (the newest build),
# PYTHON (one that has torch).
set -euo pipefail
cd "$(dirname "$0")/../.."

case ${1:-} in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
if (($#)); then input=$1 && shift; else input=tests/bench/resnet20.ini; fi
rounds=${ROUNDS:-5} threads=${THREADS:-2}
syncopate=${SYNCOPATE:-build/release/syncopate}
[[ -x $syncopate ]] || syncopate=build/cpu/syncopate
[[ -x $syncopate ]] || { echo "$syncopate: not built" >&2; exit 66; }
peer=''
for candidate in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3; do
  "$candidate" -c 'import torch, numpy' 2>/dev/null && peer=$candidate && break
done
[[ -n $peer ]] || echo "no Python with torch (apt install python3-torch): syncopate alone"

rate() { sed -n 's|^step: .*, \([0-9.]*\) [a-z]*/s.*|\1|p' | tail -n 1; }
median() { sort -g | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'; }

echo "machine: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)," \
  "$(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg); $threads threads"
echo "input: $input $*"
ours=() theirs=()
for ((round = 1; round <= rounds; ++round)); do
  value=$("$syncopate" bench step "$input" --run.threads="$threads" "$@" | rate)
  [[ -n $value ]] || { echo "syncopate printed no rate" >&2; exit 70; }
  ours+=("$value")
  line="round $round: syncopate $value images/s"
  if [[ -n $peer ]]; then
    value=$("$peer" tests/bench/peer_torch.py --throughput 10 \
      --torch-threads "$threads" "$input" "$@" | rate)
    [[ -n $value ]] || { echo "the PyTorch peer printed no rate" >&2; exit 70; }
    theirs+=("$value")
    line+=", PyTorch $value images/s"
  fi
  echo "$line"
done
a=$(printf '%s\n' "${ours[@]}" | median)
echo "median: syncopate $a images/s"
if [[ -n $peer ]]; then
  b=$(printf '%s\n' "${theirs[@]}" | median)
  echo "median: PyTorch $("$peer" -c 'import torch; print(torch.__version__)') $b images/s"
  awk -v a="$a" -v b="$b" 'BEGIN {printf "ratio: %.2f\n", a / b}'
fi
