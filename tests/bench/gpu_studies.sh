#!/usr/bin/env bash
# Studies on a GPU that is lent for some minutes: as many of their runs as the time
# allows, and all that was recorded. Start it in the checkout.
#   SECONDS_IN_ALL=540 tests/bench/gpu_studies.sh \
#     "sync_switch --run.precision=bf16 --data.path=DIR" "choco --size=medium ..."
# Each argument is what jobs/study.sh gets. All studies start at once, with JOBS
# runs each (cores / studies; a study's own --jobs comes first), which share the
# GPU, by NVIDIA's Multi-Process Service where there is one; the environment's if
# CUDA_MPS_PIPE_DIRECTORY is set. When the time is over the studies are stopped. The
# folder $OUT (.) gets two files, to be unpacked in a checkout: studies.tar.xz with
# tables, figures, output, and each run's results.h5 and input.ini, and
# unfinished.tar.xz with the runs that were stopped, which resume on a device of
# the same kind with --run.threads=1. Both have what lies in the checkout.
# Environment: ARCHIVE, PREFIX, SYNCOPATE, PYTHON as for gpu.sh.
# Exit codes: 0; 1 if a study was stopped or failed; 64; 66 without a program.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=gpu_lib.sh
source "$here/gpu_lib.sh"
case ${1:-} in -h | --help) leading_comment "$0"; exit 0 ;; esac
(($#)) || { echo "no study: see --help" >&2; exit 64; }

# shellcheck disable=SC2034  # of gpu_lib.sh
out=${OUT:-.} python=${PYTHON:-python3} end=$((SECONDS + ${SECONDS_IN_ALL:-540}))
mkdir -p "$out" && out=$(cd "$out" && pwd)
rm -f "$out"/{studies,unfinished}.tar.xz
jobs=${JOBS:-$((($(nproc) + $# - 1) / $#))}
scratch=$(mktemp -d)
declare -A pids=() # by study
# shellcheck disable=SC2317  # called by the trap
finish() {
  ((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
  wait
  [[ ! -d $scratch/mps ]] ||
    echo quit | timeout 5 nvidia-cuda-mps-control >/dev/null || true
  rm -rf "$scratch"
}
trap finish EXIT

if [[ -n ${ARCHIVE:-} ]]; then
  unpack "$ARCHIVE" "$scratch/archive"
  PREFIX=$scratch/archive/syncopate
fi
use_programs
[[ -x $syncopate ]] || { echo "$syncopate: no such program" >&2; exit 66; }
use_torch_libraries "$("$syncopate" doctor 2>&1)" || true
export SYNCOPATE=$syncopate
if [[ -z ${CUDA_MPS_PIPE_DIRECTORY:-} ]] &&
  command -v nvidia-cuda-mps-control >/dev/null; then
  mkdir "$scratch/mps"
  export CUDA_MPS_PIPE_DIRECTORY=$scratch/mps CUDA_MPS_LOG_DIRECTORY=$scratch/mps
  nvidia-cuda-mps-control -d || unset CUDA_MPS_PIPE_DIRECTORY
fi

mkdir "$scratch/logs"
touch "$scratch/begin"
for study in "$@"; do
  read -r -a words <<<"$study"
  name=$(basename "${words[0]}")
  [[ -z ${pids[$name]:-} ]] ||
    { echo "$name: given twice, but two of its sizes share one table" >&2; exit 64; }
  left=$((end - SECONDS))
  timeout --kill-after=30 $((left > 0 ? left : 1)) "$here/../../jobs/study.sh" \
    "${words[0]}" --jobs="$jobs" "${words[@]:1}" --run.threads=1 >"$scratch/logs/$name.log" 2>&1 &
  pids[$name]=$!
done

state=0
for name in "${!pids[@]}"; do
  code=0
  wait "${pids[$name]}" || code=$?
  case $code in
    0) ;;
    124 | 137) echo "$name: stopped, the time is over" ;;
    *) echo "$name: exit code $code" ;;
  esac
  ((code == 0)) || state=1
  tail -n 12 "$scratch/logs/$name.log" | sed "s/^/$name: /"
done
pids=()
# recent TEST...: find's paths of the checkout that are younger than the start
recent() {
  find . \( -path ./build -o -path ./.git \) -prune -o -newer "$scratch/begin" "$@"
}
recent \( -name results.csv -o -name curves.csv -o -name 'figure-*.png' \
  -o -name results.h5 -o -name input.ini -o -name '*.out' \) -print0 |
  tar -c --null -T - -C "$scratch" logs | xz -1 -T0 >"$out/studies.tar.xz"
# Runs that were stopped, or killed, have not said last where their results are
# (and, with output.trace, their trace).
mapfile -t unfinished < <(recent -type d -name checkpoints -print | while read -r folder; do
  run=${folder%/checkpoints}
  tail -n 2 "$run.out" 2>/dev/null | grep -v '^trace ' | tail -n 1 | grep -q '^results ' ||
    echo "$run"
done)
if ((${#unfinished[@]})); then
  tar -c "${unfinished[@]}" | xz -1 -T0 >"$out/unfinished.tar.xz" ||
    echo "unfinished runs could not be packed"
fi
echo "$out/studies.tar.xz: $(($(stat -c %s "$out/studies.tar.xz") / 1024)) KiB," \
  "after $SECONDS s"
exit $state
