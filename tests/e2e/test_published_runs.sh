#!/usr/bin/env bash
# Published runs of Sync-Switch in postprocess/: each of their formats, made here
# with known values (make_published_runs.py), beside runs of ours.
# shellcheck source=tests/e2e/postprocess.sh
source "$(dirname "$0")/postprocess.sh"
timing() { post switch_timing "$@"; }
expect() { # as in postprocess.sh; and an error is one line
  local name=$1 code=$2 pattern=$3 out rc=0
  shift 3
  out=$("$@" 2>&1) || rc=$?
  if [[ $rc != "$code" || ! $out =~ $pattern ]]; then
    printf 'FAILED: %s: exit %s (expected %s), no %s in\n%s\n' \
      "$name" "$rc" "$code" "$pattern" "$out"
    failures=$((failures + 1))
  elif [[ $code != 0 && $(wc -l <<<"$out") != 1 ]]; then
    printf 'FAILED: %s: more than a line:\n%s\n' "$name" "$out"
    failures=$((failures + 1))
  fi
}

"$python" "$source_dir/tests/e2e/make_published_runs.py" . || exit 1
c=cifar10_res32

# Scheme, network, data, workers, steps of a worker (the last record's; 8 times
# 7,901 for BSP), accuracy, seconds without the restart of 200 s.
for run in 'bsp_1 +bsp .* 8 +7901 .* 0.9200 +0.9200 +9875.0' \
  'bsp_2 +bsp .* 0.9000 +0.9000 +9875.0' \
  'asp_1 +asp +resnet-32 +cifar10 +8 +7997 .* 0.8800 +0.8800 +1277.6' \
  'b25-a75-run1 +sync_switch .* 8002 .* 0.9100 +0.9100 +3459.0' \
  'b25-a75-run2 +sync_switch .* 7996 .* 0.9300 +0.9300 +3459.4' \
  'b25-a75-run3 +sync_switch .* 7996 .* 0.9300 +0.9300 +3458.2' \
  'a50-b50-run1 +sync_switch .* 7901 .* 5515.0'; do
  expect "one run" 0 "$run" post summarize "$c/${run%% *}"
done
expect "a padded file" 0 'sync_baseline_10ms_1 +bsp .* 7901 .* 9875.0' \
  post summarize straggler/sync_baseline_10ms_1.csv
expect "a raw file" 0 'hybrid_baseline_10ms_1 +sync_switch .* 7996 .* 3459.4' \
  post summarize straggler/hybrid_baseline_10ms_1.csv
expect "16 workers" 0 'b50-a50-run1 +sync_switch .* 16 +3996 .* 3138.8' \
  post summarize cluster_16/b50-a50-run1

# The time model, from the pure runs: 2000/0.8 + 48000/50 = 3460.
table=$(timing table "$c"/bsp_* "$c"/asp_1 "$c"/b25* --fractions=.05)
expect "rows" 0 '1 +2 +8000 +8000 +0.9100 +0 +9875.0 +10000.0 ' echo "$table"
expect "a switch" 0 '0.25 +3 +2000 +50000 +0.9233 +0 +3458.9 +3460.0 +.0.0 +0.346' \
  echo "$table"
# 400 steps and 60,800 updates: 500 + 1216 = 1716.
expect "not among the runs" 0 '0.05 +0 +400 +61200 +- +0 +- +1716.0 +- +0.172' \
  echo "$table"
expect "rates" 0 $'bsp: 0.8 steps.*\nasp: 50 updates.*\n64000 mini-batches, 8 w' \
  echo "$table"
# Wall time's gaps are no part of a phase's rate.
expect "rates of phases" 0 \
  '0.25 .* 3460.0 .*all bsp.*all asp.*bsp: 0.8 steps.*asp: 50 updates' \
  timing table "$c/b25-a75-run2"
expect "16 workers, half" 0 '0.5 +1 +2000 +34000 .* 3140.0 .* 16 workers' \
  timing table cluster_16/b50-a50-run1
expect "other workers" 0 '64000 mini-batches, 16 workers' \
  timing table cluster_16/b50-a50-run1 --workers=16
expect "one kind only" 0 'no rate of asp: no prediction' timing table "$c"/bsp_*
expect "replay of runs" 0 $'target 0.9100\n.*0.25 within.*\nuse 0.25$' \
  timing replay "$c"/bsp_* "$c"/asp_1 "$c"/b25* --settings=2
expect "replay, undecided" 0 'undecided 0.125 .0: 0.8800, 0.25: 0.9233.: use 0.25' \
  timing replay "$c"/bsp_* "$c"/asp_1 "$c"/b25*
expect "asp first" 65 '^error: .*a50-b50-run1: expected .*, found asp,bsp$' \
  timing table "$c"/a50*
expect "8 and 16 workers" 65 '^error: unlike runs: run.workers 8, 16$' \
  timing table "$c"/bsp_1 cluster_16/*
expect "no such share" 65 '^error: --fractions 2: expected numbers' \
  timing table "$c"/bsp_1 --fractions=2

# Beside ours.
make_run() {
  mkdir -p "$1"
  "$python" "$source_dir/tests/e2e/make_results.py" "$1/results.h5" "${@:2}"
}
make_run ours1 scheme=bsp seed=1 data.kind=cifar10 accuracy=0.91
make_run ours2 scheme=bsp seed=2 data.kind=cifar10 accuracy=0.93
make_run ours_asp scheme=asp data.kind=cifar10 accuracy=0.8
both=$(post compare ours1 ours2 "$c"/b25* "$c"/bsp_*)
expect "ours" 0 $'\nbsp +2 +1 2 +40 ± 0 +0.9200 ± ' echo "$both"
# 4.303 * 0.011547 / sqrt(3) = 0.0287
expect "theirs" 0 \
  $'\nsync_switch \(published\) +3 +1 2 3 .* 0.9233 ± 0.0287 .* 3458.9 ± ' \
  echo "$both"
expect "said" 0 'note: published runs: times of their' echo "$both"
expect "the first may be theirs" 0 'bsp \(published\) +1 .*bsp +1 ' \
  post compare "$c"/bsp_1 ours1
# Training reached step 8,000 after 8,000 * 1.25 s, whenever it was evaluated.
expect "until 0.9" 0 'bsp \(published\) +2 of 2 +8000 +9999 ' \
  post compare "$c"/bsp_* --target accuracy=0.9
expect "unlike data" 65 '^error: unlike data: data.kind is cifar10 in .*cifar100' \
  post compare "$c"/bsp_1 cifar100_res50/bsp_1
expect "unlike data, ours" 65 '^error: unlike data: data.kind is cifar100 in' \
  post compare cifar100_res50/bsp_1 ours1
expect "two shares in one mean" 65 'sync_switch.fractions is .*--by sync_switch' \
  post compare "$c"/a50* "$c"/b25-a75-run1 "$c"/bsp_1
# 80 mini-batches of two workers in 40 virtual seconds: 1 step, 2 updates.
expect "ours in the table" 0 \
  '1 +2 +40 +40 +0.9200 .*0 +1 +0 +80 +0.8000 .*bsp: 1 steps.*asp: 2 updates' \
  timing table ours1 ours2 ours_asp
expect "ours and theirs in one table" 65 '^error: unlike runs: ' \
  timing table ours1 "$c"/bsp_1
expect "picture" 0 '^$' post plot "$c"/bsp_1 "$c"/b25-a75-run1 ours1 -o all.png
expect "export" 0 '^$' post export "$c"/asp_1 -o asp.json

# What is not of the kind: one line.
mkdir -p bad/words bad/letters bad/empty
printf 'Wall time,Step,Value\n1,2,much\n' >bad/words/loss.csv
printf 'fraction,seed\n1,2\n' >bad/letters/acc.csv
printf 'Wall time,Step,Value\n,,\n' >bad/empty/loss.csv
printf '\377\376' >bad/bytes.csv
: >bad/nothing.csv
expect "a word" 65 '^error: bad/words/loss.csv: row 2: not a number: "much"$' \
  post summarize bad/words
expect "other columns" 65 '^error: bad/letters/acc.csv: no columns Step and V' \
  post summarize bad/letters
expect "no rows" 65 '^error: bad/empty/loss.csv: no rows$' post summarize bad/empty
expect "not text" 65 '^error: bad/bytes.csv: not readable as CSV' \
  post summarize bad/bytes.csv
expect "no bytes" 65 'no columns' post summarize bad/nothing.csv
expect "a folder of others" 66 'no such results' post summarize bad
expect "missing" 66 '^error: none.csv: no such file$' timing table none.csv
expect "no steps" 65 'no steps of training' timing table "$c/bsp_1/acc.csv"
finish
