#!/usr/bin/env bash
# jobs/study.sh: a study is recorded run by run, also when it is interrupted; its
# rules are judged by figures that the results files have too; a cell that
# diverges or is missing shows in the verdict; wrong files are refused.
set -uo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
source_dir=${SOURCE_DIR:-$(cd "$here/../.." && pwd)}
# shellcheck source=../../jobs/env/python.sh
source "$source_dir/jobs/env/python.sh"
PYTHON=$(find_python "$source_dir") || {
  echo "skipped: no Python with h5py and matplotlib"
  exit 77
}
export PYTHON

mkdir tiny
cat >tiny/base.ini <<'INI'
[run]
steps = 12
workers = 2
threads = 1
[model]
family = resnet
depth = 8
[data]
kind = synthetic_images
samples = 160
test_samples = 40
classes = 4
height = 8
width = 8
batch = 8
noise = 1
[optimizer]
lr = 0.02
[compute]
step_s = 0.1
[network]
mbit_s = 100
[eval]
every = 4 steps
batch = 20
INI
# With a weight decay of 1e9 parameters leave the range of fp32 in a few steps.
cat >tiny/study.sweep <<'END'
[sweep]
input = base.ini
directory = studied
[final]
seeds = 1 2
[sizes]
short = optimizer.momentum=0.9
long = run.steps=16
[variants]
bsp = sync.scheme=bsp
local = sync.scheme=local_sgd local_sgd.steps=4
four = sync.scheme=bsp run.workers=4 "run.target=accuracy >= 0.01"
bad = optimizer.weight_decay=1e9
[rules]
bytes = bytes(bsp) / bytes(local) | 3.5 .. 4.5 | 4
reversed = bytes(local) / bytes(bsp) | >= 1 | -
reached = target_s(four) | <= 10 | -
never = target_s(bsp) | <= 1e9 | -
fails = lacks(bad, bsp) | >= 0.03 | diverges
nothing = accuracy(bad) | >= 0 | -
END

study() { "$source_dir/jobs/study.sh" tiny "$@"; }
shows() { grep -Eq -- "$1" "$2" || fail "no $1 in $2: $(cat "$2")"; }

expect_code 0 study --dry-run
shows '^final four-seed2: to do$' "$scratch/out"
[[ ! -e studied && ! -e tiny/results.csv ]] || fail "a dry run left files"

# interrupted STUDY LINE: Ctrl-C once that line is in first.out.
interrupted() {
  "$source_dir/jobs/study.sh" "$1" --jobs=1 --run.threads=1 >first.out 2>&1 &
  local pid=$! code=0
  for _ in $(seq 3000); do
    grep -q "$2" first.out && break
    sleep 0.02
  done
  kill -INT "$pid"
  wait "$pid" || code=$?
  ((code == 130)) || fail "interrupted: exit $code: $(cat first.out)"
}

# While it tunes, nothing is a result.
mkdir tuned
cp tiny/base.ini tuned
sed 's/^directory = studied/directory = tuned_runs/' tiny/study.sweep >tuned/study.sweep
cat >>tuned/study.sweep <<'END'
[tune]
key = optimizer.lr
grid = 0.01 0.02
metric = accuracy
seeds = 11
overrides = data.validation=0.25
END
interrupted tuned '^.1/8. tune'
[[ ! -e tuned/results.csv ]] || fail "recorded while tuning: $(cat tuned/results.csv)"

# After the first final run: what there is has been recorded.
interrupted tiny '^.1/8. final'
shows '^short,bsp,1,bsp,,finished,' tiny/results.csv
shows '^bytes .* missing: bsp$' first.out

expect_code 0 study --jobs=2 --run.threads=1
for verdict in 'bytes .* 3.966 ± 0 +reproduced' 'reversed .* not reproduced' \
  'reached .* reproduced' 'never .* inf +not reproduced' \
  'fails .* inf +reproduced' 'nothing .* not reproduced: diverged'; do
  shows "^$verdict\$" "$scratch/out"
done
[[ $(wc -l <tiny/results.csv) == 9 ]] || fail "rows: $(cat tiny/results.csv)"
[[ $(head -c 4 tiny/figure-short.png | tail -c 3) == PNG ]] || fail "no figure"

# The recorded figures are those of the results files.
python - >figures.out <<'END' || fail "recorded figures: $(cat figures.out)"
import csv
import h5py

rows = {(row["cell"], row["seed"]): row
        for row in csv.DictReader(open("tiny/results.csv"))}
for (cell, seed), row in rows.items():
    with h5py.File(f"studied/short/final/{cell}-seed{seed}/results.h5") as file:
        if cell == "bad":
            assert row["state"] == "diverged", row
            continue
        assert row["state"] == "finished", row
        sent = file["comm/bytes_sent"][()].sum(0).mean()
        accuracy = file["eval/accuracy"][-1]
        git = file["provenance"].attrs["git"]
    assert abs(float(row["bytes"]) / sent - 1) < 1e-5, (row, sent)
    assert abs(float(row["accuracy"]) - accuracy) < 1e-5, (row, accuracy)
    assert row["git"] == str(git), (row, git)
END

# A second start runs nothing; results survive a folder that is gone.
cp tiny/results.csv before.csv
expect_code 0 study --jobs=2 --run.threads=1
shows 'final: 8 of 8 runs are there' "$scratch/out"
cmp -s before.csv tiny/results.csv || fail "results changed without a run"
sed -i '/^short,four,2,/d' tiny/results.csv
expect_code 0 python "$source_dir/postprocess/study.py" tiny
shows '^reached .* missing: four$' "$scratch/out"
expect_code 0 python "$source_dir/postprocess/study.py" tiny --size long
shows '^bytes .* missing: bsp$' "$scratch/out"

# refuses CODE PATTERN LINE-OF-STUDY REPLACEMENT: one line on stderr.
refuses() {
  local code=$1 pattern=$2
  cp tiny/study.sweep original
  sed -i "s#^$3.*#$4#" tiny/study.sweep
  expect_code "$code" study --dry-run
  [[ $(wc -l <"$scratch/err") == 1 ]] || fail "more than a line: $4"
  shows "^error: .*$pattern" "$scratch/err"
  mv original tiny/study.sweep
}
refuses 65 'CRITERION . PUBLISHED expected' 'bytes =' 'bytes = bytes(bsp)'
refuses 65 'LOW .. HIGH' 'bytes =' 'bytes = bytes(bsp) | 4 | 4'
refuses 65 'unknown in a rule' 'bytes =' 'bytes = bytes(nobody) | >= 4 | 4'
refuses 65 'unknown in a rule' 'bytes =' 'bytes = open(bsp).x | >= 4 | 4'
refuses 65 'not an expression' 'bytes =' 'bytes = bytes( | >= 4 | 4'
expect_code 65 study --dry-run --size=huge
shows '^error: .*--size=huge: expected one of short long$' "$scratch/err"
expect_code 66 "$source_dir/jobs/study.sh" nowhere
expect_code 64 "$source_dir/jobs/study.sh"
finish
