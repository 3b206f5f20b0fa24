#!/usr/bin/env bash
# Two workers under bsp: MPI ranks of one thread, against one process of as many
# threads with all their samples, and against PyTorch DistributedDataParallel
# over gloo with as many processes; the same batch a worker. 2 minutes.
#   tests/bench/ddp.sh [INPUT.ini [--section.key=value ...]]   data.batch: a worker's
# Environment: RANKS (2), BATCH (64), ROUNDS (3), SECONDS_EACH (8) of the peer,
# SYNCOPATE, MPIEXEC, PYTHON (one that has torch; empty: syncopate alone),
# SETTINGS of the peer (channels_last eager).
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
if (($#)); then input=$1 && shift; else input=$here/resnet20.ini; fi
ranks=${RANKS:-2} rounds=${ROUNDS:-3} batch=${BATCH:-64}
peer=$(find_python torch)
[[ -n $peer ]] || echo "no Python with torch (apt install python3-torch): syncopate alone"

# theirs KEYS...: one process a rank; the first prints.
theirs() {
  local rank pids=()
  rm -f "$scratch/meet"
  for ((rank = ranks - 1; rank >= 0; --rank)); do
    peer_torch --throughput "${SECONDS_EACH:-8}" --torch-threads 1 \
      --settings "${SETTINGS:-channels_last eager}" --rank "$rank" \
      --ranks "$ranks" --meet "$scratch/meet" "$input" "$@" \
      --data.batch="$batch" >"$scratch/c$rank" 2>"$scratch/errors$rank" &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do
    wait "$rank" || { tail -n 2 "$scratch"/errors? >&2; exit 70; }
  done
}

machine_line
echo "input: $(basename "$input") $*, $ranks workers, batch $batch each"
one=() many=() ddp=() memory_one=() memory_many=() memory_ddp=()
for ((round = 1; round <= rounds; ++round)); do
  "$SYNCOPATE" bench step "$input" "$@" --run.threads="$ranks" \
    --data.batch=$((ranks * batch)) >"$scratch/a"
  OMP_NUM_THREADS=1 "$MPIEXEC" -bind-to none -n "$ranks" "$SYNCOPATE" bench \
    step "$input" "$@" --run.threads=1 --run.workers=auto \
    --data.batch="$batch" >"$scratch/b"
  one+=("$(rate "$scratch/a")") many+=("$(rate "$scratch/b")")
  memory_one+=("$(memory "$scratch/a")") memory_many+=("$(memory "$scratch/b")")
  have "rate of one process" "${one[-1]}"
  have "rate of $ranks ranks" "${many[-1]}"
  line="round $round: one process ${one[-1]} images/s, ${memory_one[-1]} MB; $ranks ranks ${many[-1]} images/s, ${memory_many[-1]} MB each"
  if [[ -n $peer ]]; then
    theirs "$@"
    ddp+=("$(rate "$scratch/c0")") memory_ddp+=("$(memory "$scratch/c0")")
    have "rate of the PyTorch peer" "${ddp[-1]}"
    line+="; PyTorch DDP ${ddp[-1]} images/s, ${memory_ddp[-1]} MB each"
  fi
  echo "$line"
done
echo "median: one process $(median "${one[@]}") images/s, $ranks ranks $(median "${many[@]}") images/s"
echo "ratio: $(ratio "$(median "${many[@]}")" "$(median "${one[@]}")") of one process"
if [[ -n $peer ]]; then
  echo "median: PyTorch $("$peer" -c 'import torch; print(torch.__version__)') DDP over gloo $(median "${ddp[@]}") images/s"
  echo "ratio: $(ratio "$(median "${many[@]}")" "$(median "${ddp[@]}")") of DDP by images/s," \
    "$(ratio "$(median "${memory_many[@]}")" "$(median "${memory_ddp[@]}")") by memory a process"
fi
