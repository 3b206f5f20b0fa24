#!/usr/bin/env bash
# Whether `advise` is right: asks it over limited links (links.sh), hosts of one
# rank each, and then trains under everything that it ranked. Every worker adds a
# sleep of 50 ms to its steps. Prints for each network how far the advice is from
# the fastest, how many of the predicted ratios to the fastest bsp are within 25%,
# and all of them: predicted and measured.
#   tests/bench/advise_links.sh                   everything: some 20 minutes
#   RATES=100 RANKS=4 tests/bench/advise_links.sh
# Environment: RATES ("50 100 400 1000", Mbit/s), RANKS ("2 4"), STEPS (12) of a run,
# SYNCOPATE, PYTHON (python3 with h5py), CONGESTION (reno: see validate_links.sh), and
# others of links.sh. Needs root and iproute2: without them exit code 77.
set -euo pipefail
case ${1:-} in
  -h | --help)
    sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac

# shellcheck source=tests/bench/link_runs.sh
source "$(dirname "${BASH_SOURCE[0]}")/link_runs.sh"
steps=${STEPS:-12}
common=("--run.steps=$steps" "--stragglers.episodes=all:compute:+50ms")

for count in ${RANKS:-2 4}; do
  for rate in ${RATES:-50 100 400 1000}; do
    code=0
    on "$rate" "$count" "$SYNCOPATE" advise "$input" "${common[@]}" \
      >"$scratch/advice" 2>&1 || code=$? # may be what Hydra says after the end
    grep -q '^advice' "$scratch/advice" || { cat "$scratch/advice"; exit "$code"; }
    # "  ms/step ... --KEYS (what limits it)", and of the advice the same keys
    awk 'match($0, /--sync\.scheme=[^(]*/) && $2 + 0 > 0 {
           print $1, substr($0, RSTART, RLENGTH) }' "$scratch/advice" >"$scratch/rows"
    awk '$1 == "advice" && match($0, /--sync\.scheme=.*/) {
           print substr($0, RSTART) }' "$scratch/advice" >"$scratch/advised"
    rm -rf "$scratch/runs"
    row=0
    while read -r _ keys; do
      read -ra words <<<"$keys"
      train_on "$rate" "$count" "$((++row))" "${common[@]}" "${words[@]}"
    done <"$scratch/rows"
    "$python" - "$scratch" "$rate" "$count" <<'PY'
import sys

from link_times import measured

scratch, rate, count = sys.argv[1:]
with open(f"{scratch}/rows", encoding="utf-8") as file:
    rows = [line.split(maxsplit=1) for line in file]
with open(f"{scratch}/advised", encoding="utf-8") as file:
    advised = file.read().strip()
keys = [words.strip() for _, words in rows]
predicted = [float(ms) for ms, _ in rows]
took = [1000 * measured(f"{scratch}/runs/{i + 1}") for i in range(len(rows))]
bsp = min((i for i in range(len(rows)) if "scheme=bsp" in keys[i]),
          key=lambda i: predicted[i])
ratios = [predicted[bsp] / predicted[i] / (took[bsp] / took[i])
          for i in range(len(rows))]
best = min(range(len(rows)), key=took.__getitem__)
chosen = keys.index(advised)
good = sum(1 / 1.25 <= ratio <= 1.25 for ratio in ratios)
print(f"{count} ranks, {rate} Mbit/s: advised {advised}, "
      f"{100 * (took[chosen] / took[best] - 1):.0f}% slower than the fastest "
      f"({keys[best]}); {good} of {len(rows)} ratios within 25%\n")
print("| ms a step, predicted | measured | ratio to bsp, predicted | measured | keys |")
print("|---:|---:|---:|---:|---|")
for i, words in enumerate(keys):
    print(f"| {predicted[i]:.1f} | {took[i]:.1f} | "
          f"{predicted[bsp] / predicted[i]:.2f} | {took[bsp] / took[i]:.2f} | "
          f"`{words}` |")
print(flush=True)
PY
  done
done
echo "load $(cut -d' ' -f1-3 /proc/loadavg), $CONGESTION, $steps steps a run"
