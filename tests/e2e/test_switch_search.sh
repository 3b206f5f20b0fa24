#!/usr/bin/env bash
# The search for the switch point: on the accuracies of Sync-Switch's published
# runs, on made ones, and once for real.
set -uo pipefail
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
# shellcheck source=../../jobs/env/python.sh
source "$source_dir/jobs/env/python.sh"
python=$(find_python "$source_dir") || { echo "skipped: no Python with h5py"; exit 77; }
# shellcheck source=lib.sh
source "$source_dir/tests/e2e/lib.sh"
timing() { "$python" "$source_dir/postprocess/switch_timing.py" "$@"; }

expect() { # expect WHAT EXPECTED ACTUAL
  [[ $2 == "$3" ]] || fail "$1: expected $2, got $3"
}
replayed() { timing replay "$@" | tail -n 1; }

# Group means of the published runs: the share of bsp.
cat >cifar10.csv <<'CSV'
fraction,seed,accuracy
0,1,.8918
.02,1,.9037
.04,1,.9127
.05,1,.9174
.0625,1,.9102
.10,1,.9142
.15,1,.9118
.20,1,.9119
.25,1,.9186
.50,1,.9202
.75,1,.9019
1,1,.9188
CSV
cat >cifar100.csv <<'CSV'
fraction,seed,accuracy
0,1,.7085
.0625,1,.7325
.125,1,.7460
.25,1,.7505
.50,1,.7425
1,1,.7462
CSV
cat >cifar10_16_workers.csv <<'CSV'
fraction,seed,accuracy
# all asp diverged
0,1,0
.50,1,.9206
1,1,.9229
CSV

# Four settings within 0.01 give the published 6.25% and 12.5%. 12.5% of
# CIFAR-10 was not run: 10% and 15% decide it alike.
expect "CIFAR-10" "use 0.0625" "$(replayed cifar10.csv)"
expect "CIFAR-10, decisions" "target 0.9188
0.5 within (0.5: 0.9202)
0.25 within (0.25: 0.9186)
0.125 within (0.1: 0.9142, 0.15: 0.9118)
0.0625 within (0.0625: 0.9102)
use 0.0625" "$(timing replay cifar10.csv)"
expect "CIFAR-100" "use 0.125" "$(replayed cifar100.csv)"
# The one run at 6.25% lacks 0.0086: below that tolerance it is refused, and at
# 0.006 10% would do where 15% does not.
expect "CIFAR-10, 0.0087" "use 0.0625" "$(replayed cifar10.csv --beta=0.0087)"
expect "CIFAR-10, 0.0085" "use 0.125" "$(replayed cifar10.csv --beta=0.0085)"
expect "CIFAR-10, 0.006" "undecided 0.125 (0.1: 0.9142, 0.15: 0.9118): use 0.25" \
  "$(replayed cifar10.csv --beta=0.006)"
# A fifth setting, 3.125%, is not in the data: 2% is too little, 4% is not.
expect "CIFAR-10, 5 settings" \
  "undecided 0.03125 (0.02: 0.9037, 0.04: 0.9127): use 0.0625" \
  "$(replayed cifar10.csv --settings=5)"
expect "CIFAR-100, 5 settings" \
  "undecided 0.09375 (0.0625: 0.7325, 0.125: 0.7460): use 0.125" \
  "$(replayed cifar100.csv --settings=5)"
# The published 50% of 16 workers is all that their data says.
expect "16 workers" "undecided 0.25 (0: 0.0000, 0.5: 0.9206): use 0.5" \
  "$(replayed cifar10_16_workers.csv)"
expect "16 workers, 1 setting" "use 0.5" \
  "$(replayed cifar10_16_workers.csv --settings=1)"

# next: bsp first, each seed, then the middle; a bad setting raises lo.
next() { timing next search.csv --runs=2 --settings=2 --beta=0.01; }
expect "nothing yet" "run 1 1" "$(next)"
printf 'fraction,seed,accuracy\n1,1,.90\n' >search.csv
expect "second seed" "run 1 2" "$(next)"
echo "1,2,.92" >>search.csv
expect "the middle" "run 0.5 1" "$(next)"
printf '0.5,1,.89\n0.5,2,.905\n' >>search.csv
expect "too bad: up" "run 0.75 1" "$(next)" # mean .8975 < .91 - .01
printf '0.75,1,.90\n0.75,2,.91\n' >>search.csv
expect "good enough" "use 0.75" "$(next)"
sed -i 's/^0.5,1,.89$/0.5,1,.90/' search.csv
expect "good: down" "run 0.25 1" "$(next)"

echo "1,1,much" >>search.csv
expect_code 65 timing next search.csv
grep -q '^error: search.csv: row 8: expected fraction,seed,accuracy$' err ||
  fail "what is wrong in search.csv: $(cat err)"
expect_code 66 timing replay none.csv
expect_code 64 "$source_dir/jobs/sync_switch_search.sh"
expect_code 66 "$source_dir/jobs/sync_switch_search.sh" none.ini

# Our runs, whose length their inputs say in steps or in epochs, of six steps:
# 96 mini-batches. One of four workers is three times slower, so that a step of
# bsp takes 3 s and 3 1/3 mini-batches of asp take 1 s; half of each switches at
# step 12 of bsp and ends at 96 - 3 * 12 = 60.
sed -e 's/^family = .*/family = logistic/' -e '/^depth/d' -e '/^augment/d' \
  -e '/^crop_pad/d' -e 's/^steps = 20/steps = 24/' tiny.ini >in_steps.ini
sed 's/^steps = 24/epochs = 4/' in_steps.ini >in_epochs.ini
for length in steps epochs; do
  part() { # part NAME KEYS...
    expect_code 0 "$SYNCOPATE" train in_$length.ini --run.name="$1-$length" \
      --run.workers=4 --stragglers.factor=1,1,1,3 --run.log_every=1 \
      --sync.scheme=sync_switch "${@:2}"
  }
  part bsp --sync_switch.order=1
  part asp --sync_switch.order=0 --sync_switch.lr_rule=none
  part ends --sync_switch.order=10 --sync_switch.train_steps=12,60
  part half --sync_switch.order=10 --sync_switch.fractions=0.5,0.5
  ours=(runs/{bsp,asp,ends,half}-"$length")
  timing table "${ours[@]}" >table-$length || fail "no table of $length"
  timing replay "${ours[@]}" --settings=1 --beta=1 >replay-$length ||
    fail "no replay of $length"
  expect "result of $length" \
    "$(timing table runs/half-$length | awk '$1 == "0.5" { print $5 }')" \
    "$(printf %.4f "$(timing result runs/half-$length)")"
done
expect "in epochs" "$(cat table-steps replay-steps)" \
  "$(cat table-epochs replay-epochs)"
expect "the last line" "use 0.5" "$(tail -n 1 replay-steps)"
for line in '^ *1 +1 +24 +24 ' '^ *0.5 +2 +12 +60 ' '^ *0 +1 +0 +96 ' \
  '^bsp: 0.3333 steps per second$' '^96 mini-batches, 4 workers$'; do
  grep -qE "$line" table-steps || fail "no $line in: $(cat table-steps)"
done
# time s, model s: 12 * 3 + 48 / (10 / 3) = 50.4, but for the steps under way.
awk '$1 == "0.5" { exit !($7 > 47 && $7 < 54 && $8 > 47 && $8 < 54) }' \
  table-steps || fail "times: $(cat table-steps)"

# For real: two settings, one run each, on four workers.
search() {
  "$source_dir/jobs/sync_switch_search.sh" -r 1 -m 2 -d found tiny.ini \
    --run.workers=4 --run.steps=16 --optimizer.lr=0.01 "$@"
}
expect_code 0 search
expect "rows" "4" "$(wc -l <found/search.csv)"
grep -q '^1,1,0\.' found/search.csv || fail "no accuracy of bsp"
grep -qE '^0\.5,1,[01]\.' found/search.csv || fail "no accuracy of 50%"
[[ $(tail -n 1 out) =~ ^use\ (0\.25|0\.5|0\.75|1)$ ]] || fail "no choice: $(cat out)"
expect "what next says" "$(timing next found/search.csv --runs=1 --settings=2)" \
  "$(tail -n 1 out)"
# Nothing is run twice.
expect_code 0 search
expect "one line" "1" "$(wc -l <out)"
# What was found for another input, or with other keys, is no answer.
sed 's/^lr = .*/lr = 0.02/' tiny.ini >other.ini
for words in "other.ini --run.steps=16" "tiny.ini --run.steps=24"; do
  # shellcheck disable=SC2086
  expect_code 65 "$source_dir/jobs/sync_switch_search.sh" -r 1 -m 2 -d found \
    $words --run.workers=4 --optimizer.lr=0.01
  [[ ! -s out && $(wc -l <err) == 1 ]] || fail "$words: $(cat out err)"
  grep -q '^error: found: ' err || fail "$words: $(cat err)"
done
expect_code 0 search
# An input that is one of Sync-Switch itself, in steps, as the published ones.
cat tiny.ini - >switching.ini <<'INI'
[sync]
scheme = sync_switch
[sync_switch]
order = 10
train_steps = 5, 65
[asp]
batchnorm = shared
INI
expect_code 0 "$source_dir/jobs/sync_switch_search.sh" -r 1 -m 1 -d switching \
  switching.ini --run.workers=4 --optimizer.lr=0.01
[[ $(tail -n 1 out) =~ ^use\ (0\.5|1)$ ]] || fail "no choice: $(cat out err)"
expect "rows of it" "3" "$(wc -l <switching/search.csv)"
# What a run refuses ends the search, with its code and its line.
rm -r found
expect_code 65 search --no.such=key
# Without that key it begins: there is no result yet that it could be mistaken for.
expect_code 0 search
finish
