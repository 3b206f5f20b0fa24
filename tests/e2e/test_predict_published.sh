#!/usr/bin/env bash
# What simulate says of published set-ups stays within 2% of the recorded ratios
# (inputs/published/points.csv), and a network that became slower is noticed. The
# switched runs of Sync-Switch, a minute of work, under EXHAUSTIVE=1.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export SYNCOPATE
root=$here/../..
predict() { python "$root/postprocess/predict_published.py" "$@"; }

cases=(diloco_l40s two_sites bandwidth_for_utilization esync ds_sync sgp
  neighbour_averaging)
[[ -z ${EXHAUSTIVE:-} ]] || cases+=(sync_switch)
expect_code 0 predict --check "${cases[@]}"
cat out
points=$(cut -d, -f1 "$root/inputs/published/points.csv" |
  grep -cxFf <(printf '%s\n' "${cases[@]}"))
shown=$(grep -cE "^($(IFS='|' && echo "${cases[*]}")) " out)
[[ $shown == "$points" ]] || fail "$shown of $points points are shown"
grep -qE "^[0-9]+ points, off by a factor of [0-9.]+ \(median\)" out ||
  fail "no median"
[[ -z ${EXHAUSTIVE:-} ]] || {
  median=$(sed -n 's/.*off by a factor of \([0-9.]*\) (median).*/\1/p' out)
  grep -q "of 83 published figures \[within a factor of $median\]" "$root/README.md" ||
    fail "README.md has another median than $median"
}

# Every input is used, and every case has an input.
for input in "$root"/inputs/published/*.ini; do
  grep -q "^$(basename "$input" .ini)," "$root/inputs/published/points.csv" ||
    fail "$input: no point"
done

# Another cluster, by hand: a ring of four sends 48 bits per parameter, which is
# 14.8 s at 100 Mbit/s, and 64 steps take 64 x 25.2 ms.
expect_code 0 predict diloco_l40s --network.mbit_s=100 --local_sgd.steps=64 \
  --run.steps=64
awk '$3 == "ms" { sync += $2 } $3 == "%" { share += $2 }
  END { exit !(NR == 4 && sync > 2 * 14800 && sync < 2 * 14815 &&
               share > 2 * 9.81 && share < 2 * 9.83) }' out ||
  fail "$(cat out)"
expect_code 65 predict diloco_l40s --network.mbit_s=-1
expect_code 65 predict nothing_such

# A change of the network is seen.
mkdir -p copy/postprocess copy/inputs
cp "$root"/postprocess/*.py copy/postprocess/
cp -r "$root/inputs/published" copy/inputs/
echo "efficiency = 0.97" >>copy/inputs/published/diloco_l40s.ini
expect_code 1 python copy/postprocess/predict_published.py --check diloco_l40s
grep -q "^error: diloco_l40s, DiLoCo H=8, 1 Gbit/s, sync: the ratio is " err ||
  fail "$(cat err)"
finish
