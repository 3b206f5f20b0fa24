#!/usr/bin/env bash
# What `simulate` predicts against what MPI takes over limited links, by scheme:
# hosts of one rank each (links.sh). The network is described by one measurement:
# `bench comm` with two ranks at 100 Mbit/s, whose point-to-point messages give the
# latency and the share of the rate that messages get; `bench step` gives the time
# of a step, and under choco, with two workers in one process, that of compression
# and averaging. Every worker adds a sleep of 50 ms to its steps (worker 0 under
# esync: 200 ms), so that little depends on how busy the processors are. Prints a
# table of seconds per step: the median of the repeats and their spread, the
# prediction, the error; then the median error and the worst.
# TCP's congestion control is reno, which every kernel allows in a namespace: bbr
# leaves the links idle where connections share one (tests/bench/README.md).
#   tests/bench/validate_links.sh [SCHEME...]     everything: some 20 minutes
# Environment: RATES ("50 100 400", Mbit/s), RANKS ("2 4"), STEPS (24), REPEATS (3),
# SYNCOPATE, PYTHON (python3 with h5py), CONGESTION, and others of links.sh.
# Needs root and iproute2: without them exit code 77.
set -euo pipefail
case ${1:-} in
  -h | --help)
    sed -n '2,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac

# shellcheck source=tests/bench/link_runs.sh
source "$(dirname "${BASH_SOURCE[0]}")/link_runs.sh"
rates=${RATES:-50 100 400} counts=${RANKS:-2 4}
steps=${STEPS:-24} repeats=${REPEATS:-3}
schemes=("$@")
((${#schemes[@]})) || schemes=(bsp ds_sync choco asp local_sgd esync)

keys_of() { # keys_of SCHEME
  case $1 in
    choco) echo "--compress.kind=sign --topology.kind=ring --choco.gamma=0.5" ;;
    local_sgd) echo "--local_sgd.steps=4" ;;
  esac
}

# --- calibration -------------------------------------------------------------
bytes=3687600
code=0
step() { "$SYNCOPATE" bench step "$input" --run.steps=1 "$@"; }
for ((i = 1; i <= repeats; ++i)); do
  on 100 2 "$SYNCOPATE" bench comm "$input" --by=ring --repeats=5 \
    --bytes="8,$bytes" --run.steps=1 >>"$scratch/comm" || code=$?
  ((code == 0)) || { cat "$scratch/comm"; exit "$code"; }
  step --run.workers=1 >>"$scratch/step"
  # shellcheck disable=SC2046  # a list of keys
  step --run.workers=2 --sync.scheme=choco $(keys_of choco) >>"$scratch/choco"
done
median() { sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }
of_messages() { # of_messages BYTES: microseconds, one way
  awk -v bytes="$1" '$1 == bytes && $2 == "point_to_point" { print $3 }' \
    "$scratch/comm" | median
}
of_steps() { # of_steps FILE PART...: seconds, of all parts together
  awk -v parts=" ${*:2} " 'index(parts, " " $1 " ") { s += $2 / 1000 }
    /^step:/ { print s; s = 0 }' "$scratch/$1" | median
}
latency_us=$(of_messages 8)
efficiency=$(of_messages "$bytes" | awk -v bytes="$bytes" -v l="$latency_us" '
  { share = bytes * 8 / ($1 - l) / 100; print (share > 1 ? 1 : share) }')
step_s=$(of_steps step data forward backward)
update_s=$(of_steps step update)
choco_update_s=$(of_steps choco update)
echo "calibrated: $step_s s a step and $update_s s ($choco_update_s s under choco)" \
  "for its update, $latency_us us, $efficiency of the rate"
echo "load $(cut -d' ' -f1-3 /proc/loadavg), $CONGESTION, $repeats repeats of $steps steps"
echo

# --- measured and predicted --------------------------------------------------
episodes_of() { # episodes_of SCHEME
  local slow=all:compute:+50ms
  [[ $1 != esync ]] || slow+=,0:compute:+150ms
  echo "--stragglers.episodes=$slow"
}

for rate in $rates; do
  for count in $counts; do
    for scheme in "${schemes[@]}"; do
      keys=("--sync.scheme=$scheme" "--run.steps=$steps" "$(episodes_of "$scheme")")
      # shellcheck disable=SC2207  # a list of keys
      keys+=($(keys_of "$scheme"))
      name=$scheme-$count-$rate update=$update_s
      [[ $scheme != choco ]] || update=$choco_update_s
      "$SYNCOPATE" simulate "$input" "${keys[@]}" --run.workers="$count" \
        --compute.step_s="$step_s" --compute.update_s="$update" --network.mbit_s="$rate" \
        --network.latency_us="$latency_us" --network.efficiency="$efficiency" \
        --output="$scratch/$name.h5" >"$scratch/out"
      for ((i = 1; i <= repeats; ++i)); do
        train_on "$rate" "$count" "$name-$i" "${keys[@]}"
      done
    done
  done
done

"$python" - "$scratch" "$repeats" "$rates" "$counts" "${schemes[@]}" <<'PY'
import statistics
import sys

import h5py

from link_times import measured

scratch, repeats, rates, counts, *schemes = sys.argv[1:]


def predicted(name):
    with h5py.File(f"{scratch}/{name}.h5") as f:
        workers = f["workers/rank"].shape[0]
        return f["summary/virtual_s"][()] / f["workers/steps"][...].sum() * workers


print("| scheme | ranks | Mbit/s | measured, s a step | spread | predicted |"
      " error |\n|---|---:|---:|---:|---:|---:|---:|")
errors = {}
for scheme in schemes:
    for count in counts.split():
        for rate in rates.split():
            name = f"{scheme}-{count}-{rate}"
            runs = [measured(f"{scratch}/runs/{name}-{i + 1}") for i in range(int(repeats))]
            middle, expected = statistics.median(runs), predicted(name)
            errors[name] = expected / middle - 1
            print(f"| `{scheme}` | {count} | {rate} | {middle:.4f} | "
                  f"{100 * (max(runs) - min(runs)) / middle:.1f}% | "
                  f"{expected:.4f} | {100 * errors[name]:+.1f}% |")
worst = max(errors, key=lambda name: abs(errors[name]))
print(f"\nerror: {100 * statistics.median(map(abs, errors.values())):.1f}% "
      f"(median), {100 * abs(errors[worst]):.1f}% (worst: {worst})")
PY
echo "load $(cut -d' ' -f1-3 /proc/loadavg)"
