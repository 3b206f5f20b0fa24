# What validate_links.sh and advise_links.sh share: runs over limited links
# (links.sh) in a folder that goes with the script. Source it.
# shellcheck shell=bash
bench=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SYNCOPATE=${SYNCOPATE:-$bench/../../build/release/syncopate}
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
export CONGESTION=${CONGESTION:-reno}
export PYTHONPATH=$bench # link_times.py
# shellcheck disable=SC2034  # for those that source it
python=${PYTHON:-python3}
input=$bench/links.ini
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

on() { timeout 600 "$bench/links.sh" --run "$@"; } # on RATE RANKS COMMAND...

# train_on RATE RANKS NAME KEYS...: into $scratch/runs/NAME. Hydra may fail after
# the end of a run.
train_on() {
  on "$1" "$2" "$SYNCOPATE" train "$input" "${@:4}" \
    --run.directory="$scratch/runs" --run.name="$3" \
    >"$scratch/out" 2>&1 </dev/null || true
  grep -q '^finished:' "$scratch/out" || { cat "$scratch/out"; exit 1; }
}
