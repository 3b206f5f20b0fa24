#!/usr/bin/env bash
# jobs/study.sh: a study is recorded run by run, also when it is interrupted; its
# rules are judged by figures that the results files have too; a cell that
# diverges or is missing shows in the verdict; wrong files are refused.
set -uo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
need_python

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
augment = crop
crop_pad = 1
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

# Killed after the first final run, which has been recorded all the same.
"$source_dir/jobs/study.sh" tiny --jobs=1 --run.threads=1 >killed.out 2>&1 &
pid=$!
for _ in $(seq 3000); do
  grep -q '^.1/8. final' killed.out && break
  sleep 0.02
done
kill -KILL $pid
wait $pid 2>/dev/null
while pgrep -f "run.directory=studied" >/dev/null; do sleep 0.05; done
shows '^short,bsp,1,bsp,,finished,' tiny/results.csv
rm -r tiny/*.csv studied

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
grep Warning err && fail "a warning of numpy's"
[[ $(head -c 4 tiny/figure-short.png | tail -c 3) == PNG ]] || fail "no figure"

# The recorded figures are those of the results files.
python - >figures.out <<'END' || fail "recorded figures: $(cat figures.out)"
import csv
import h5py
import numpy as np

curves = list(csv.DictReader(open("tiny/curves.csv")))
rows = {(row["cell"], row["seed"]): row
        for row in csv.DictReader(open("tiny/results.csv"))}
for (cell, seed), row in rows.items():
    with h5py.File(f"studied/short/final/{cell}-seed{seed}/results.h5") as file:
        found = sum((row["cell"], row["seed"]) == (cell, seed) for row in curves)
        assert found == np.isfinite(file["eval/accuracy"][()]).sum(), (cell, found)
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

# sweep.target is that of runs without run.target: the first evaluation that meets
# it, though the run went on.
mkdir aimed
env PYTHONPATH="$source_dir/postprocess" "$PYTHON" - <<'END' || fail "sweep.target: $(cat aimed/results.csv)"
import csv
import h5py
from run_reader import open_run
from study_tables import record
from target import parse_target
folder = "studied/short/final/bsp-seed1"
record("aimed", "short", [("bsp", "1", "", "abc", open_run(folder))],
       "accuracy", parse_target("accuracy >= 0.01"))
row, = csv.DictReader(open("aimed/results.csv"))
with h5py.File(folder + "/results.h5") as file:
    first = (file["eval/accuracy"][()] >= 0.01).argmax()
    assert first < len(file["eval/accuracy"]) - 1
    assert abs(float(row["target_s"]) / file["eval/virtual_s"][first] - 1) < 1e-5, row
    share = file["eval/worker_steps"][first] / file["train/worker_steps"][-1]
    assert float(row["target_samples"]) == share * float(row["samples"]), row
END
cp tiny/base.ini aimed
sed 's/^directory = studied/&\ntarget = accuracy >= 0.01/' tiny/study.sweep >aimed/study.sweep
expect_code 0 "$source_dir/jobs/study.sh" aimed --jobs=2 --run.threads=1
[[ $(sed -n 's/^short,bsp,1,//p' aimed/results.csv | cut -d, -f11) != inf ]] ||
  fail "sweep.target is ignored: $(cat aimed/results.csv)"
# It is of the input, but for a variant that has a run.target of its own.
mv studied elsewhere
sed -i 's/^target = .*/target = accuracy >= 0.02/' aimed/study.sweep
expect_code 0 "$source_dir/jobs/study.sh" aimed --dry-run
shows '^final bsp-seed1: recorded with a different input; runs again$' "$scratch/out"
shows '^final four-seed1: recorded 0' "$scratch/out"
mv elsewhere studied
sed -i 's/^target = .*/target = accuracy/' aimed/study.sweep
expect_code 65 "$source_dir/jobs/study.sh" aimed --dry-run
shows 'aimed/study.sweep: sweep.target: accuracy: not METRIC>=NUMBER' err

# A study that is stopped after an edit judges no row of before.
cp -r tiny edited
sed -i '/^local =/s/steps=4/steps=2/' edited/study.sweep
expect_code 0 env PYTHONPATH="$source_dir/jobs" "$PYTHON" - edited/study.sweep <<'END'
import sys
from sweep_choice import conclude_study
from sweep_file import read_sweep
conclude_study(read_sweep(sys.argv[1], ["--run.threads=1"]), [])
END
shows '^bytes .* missing: local: recorded with another input$' "$scratch/out"
shows '^reached .* reproduced$' "$scratch/out"
cmp -s {tiny,edited}/figure-short.png && fail "the figure shows rows of another input"

# What is recorded: the study's metric; of a run that lost workers, means over those
# that there were; no virtual time of a run under MPI, whose rules are not judged.
mkdir figures
sed 's/^directory = .*/&\nmetric = accuracy_top5/' tiny/study.sweep >figures/study.sweep
expect_code 0 env PYTHONPATH="$source_dir/postprocess" "$PYTHON" - <<'END'
import numpy as np
from run_reader import open_run
from study_tables import read_rows, record
runs = [open_run(f"studied/short/final/{name}") for name in (
    "local-seed1", "local-seed2", "bsp-seed1", "bsp-seed2", "four-seed1", "four-seed2")]
for run in runs:
    run.tables["eval"]["accuracy_top5"] = run.tables["eval"]["accuracy"] / 2 + 0.5
runs[0].tables["comm"] = {
    "worker_steps": np.array([24, 48]),
    "bytes_sent": np.array([[2.0, 2, 2, 2], [4, 4, np.nan, np.nan]]),
    "compute_s": np.array([[1.0, 1, 1, 1], [2, 2, np.nan, np.nan]])}
runs[0].summary["virtual_s"] = 4.0
for run in runs[4:]: # as under MPI
    run.summary.pop("target_virtual_s")
    run.summary["virtual_s"] = float("nan")
record("figures", "short", [
    (run.name[:-6], run.name[-1], "", "abc", run) for run in runs], "accuracy_top5")
row = {(row["cell"], row["seed"]): row for row in read_rows("figures/results.csv")}
local = row["local", "1"]
assert (local["bytes"], local["computing"]) == ("6", "0.75"), local
expected = runs[2].tables["eval"]["accuracy_top5"][-1]
assert abs(float(row["bsp", "1"]["accuracy"]) - expected) < 1e-5, row
curve = [float(line["accuracy"]) for line in read_rows("figures/curves.csv")
         if (line["cell"], line["seed"]) == ("bsp", "1")]
assert len(curve) == 3 and abs(curve[-1] - expected) < 1e-5, curve
four = row["four", "1"]
assert four["target_s"] == "nan" and float(four["target_samples"]) > 0, four
END
expect_code 0 python "$source_dir/postprocess/study.py" figures
shows '^reached .* missing: four: runs without virtual time$' "$scratch/out"
for key in metric tune.metric; do
  # "accuracy" in rules stands for it, so less must not be better.
  if [[ $key == metric ]]; then
    sed 's/^directory = .*/&\nmetric = loss/' tiny/study.sweep >figures/study.sweep
  else
    sed 's/^metric = .*/metric = loss/' tuned/study.sweep >figures/study.sweep
  fi
  cp tiny/base.ini figures
  for words in "python $source_dir/postprocess/study.py" "$source_dir/jobs/study.sh"; do
    # shellcheck disable=SC2086
    expect_code 65 $words figures
    shows '^error: figures/study.sweep: metric: loss: expected one of accuracy ' err
    [[ $(wc -l <err) == 1 ]] || fail "not one line: $(cat err)"
  done
done

# Sizes that are recorded at the same time.
mkdir both
expect_code 0 env PYTHONPATH="$source_dir/postprocess" "$PYTHON" - <<'END'
import os
from run_reader import open_run
from study_tables import read_rows, record
run = open_run("studied/short/final/bsp-seed1")
children = []
for size in range(8):
    children.append(os.fork())
    if not children[-1]:
        for seed in range(5):
            record("both", str(size), [("bsp", str(seed), "", "abc", run)], "accuracy")
        os._exit(0)
codes = [os.waitpid(child, 0)[1] for child in children]
assert not any(codes), codes
assert len(read_rows("both/results.csv")) == 40
assert sorted(os.listdir("both")) == ["curves.csv", "results.csv"]
END

# Runs that cannot be compared, and those of another study.
mkdir unlike
cp tiny/base.ini tiny/study.sweep unlike
cat >>unlike/study.sweep <<'END'
both = lacks(bad, bad) | >= 0.03 | -
END
judged() { # judged SED PATTERN: of a table that was changed
  sed "$1" tiny/results.csv >unlike/results.csv
  cp tiny/curves.csv unlike
  expect_code 0 python "$source_dir/postprocess/study.py" unlike
  shows "$2" out
}
judged '' '^both .* not reproduced: diverged$'
judged 's/^\(short,bsp,2,.*,\)[0-9a-f]\{12\},12,/\1abc,12,/' \
  '^bytes .* missing: bsp: its runs differ in input$'
judged 's/^\(short,bsp,2,.*,\)[0-9a-f]\{12\}$/\1abc/' \
  '^bytes .* missing: bsp: its runs differ in data$'
judged 's/^\(short,local,.,.*,\)[0-9a-f]\{12\}$/\1abc/' \
  '^bytes .* missing: bsp, local: runs on different data$'
judged 's/,[^,]*$//' '^bytes .* reproduced$' # an older table
cp unlike/figure-short.png few.png
judged '/^short,bsp,2,/{p;s/,2,/,3,/}; /^short,bad,1,/{p;s/,bad,/,gone,/}' \
  '^bytes .* reproduced$'
cmp -s few.png unlike/figure-short.png || fail "the figure shows runs that are not judged"
refused() { # refused PATTERN: one line, before any run
  expect_code 65 python "$source_dir/postprocess/study.py" unlike
  [[ $(wc -l <err) == 1 ]] || fail "not one line: $(cat err)"
  shows "$1" err
}
for rule in 'accuracy(bsp, local) | >= 0' 'gap(bsp) | >= 0' 'accuracy(bsp) - bsp | >= 0' \
  'bsp | >= 0' 'accuracy(accuracy) | >= 0' '2 | >= 0' 'accuracy(bsp) | >= 1.2.3'; do
  sed "/^both = /d" tiny/study.sweep >unlike/study.sweep
  echo "wrong = $rule | -" >>unlike/study.sweep
  refused '^error: unlike/study.sweep: rules.wrong: '
done
cp tiny/study.sweep unlike
sed -i 's/^seeds = .*//' unlike/study.sweep
refused '^error: unlike/study.sweep: final.seeds: missing$'
sed 's/^bsp = /&sync.scheme=bsp\n&/' tiny/study.sweep >unlike/study.sweep
refused '^error: unlike/study.sweep:[0-9]*: variants.bsp: given twice$'
cp tiny/study.sweep unlike
sed '2s/,0\.[0-9]*,/,much,/' tiny/results.csv >unlike/results.csv
refused '^error: unlike/results.csv:2: [a-z_]*: much: expected a number$'
printf 'size,cell,seed\nshort,bsp,one\n' >unlike/results.csv
refused '^error: unlike/results.csv:2: seed: one: expected a whole number$'
printf 'size,cell,seed,colour\nshort,bsp,1,red\n' >unlike/results.csv
refused '^error: unlike/results.csv: unknown column colour$'
printf 'size,cell,seed\n\xe9,a,1\n' >unlike/results.csv
refused '^error: unlike/results.csv: not readable: '

# A run that is recorded again without a finite evaluation has no curve.
cp -r tiny again
env PYTHONPATH="$source_dir/postprocess" "$PYTHON" - <<'END' || fail "not recorded again"
from run_reader import open_run
from study_tables import record
run = open_run("studied/short/final/bsp-seed1")
run.tables["eval"]["accuracy"][:] = float("nan")
record("again", "short", [("bsp", "1", "", "abc", run)], "accuracy")
END
grep '^short,bsp,1,' again/curves.csv && fail "the curve of before is still there"
cmp -s <(grep -v '^short,bsp,1,' tiny/curves.csv) again/curves.csv ||
  fail "other curves changed"

# A second start runs nothing; a table without digests gets those of the folders.
cp tiny/results.csv before.csv
cut -d, -f1-7,9- before.csv >tiny/results.csv
expect_code 0 study --jobs=2 --run.threads=1
shows 'final: 8 of 8 runs have already finished' "$scratch/out"
grep 'runs again' "$scratch/out" && fail "announces runs that are there"
cmp -s before.csv tiny/results.csv || fail "results changed without a run"

# What the table has counts as there without the runs' folders.
# ran FOLDER NAME...: these runs and no others are in FOLDER.
ran() {
  local found
  found=$(cd "$1" 2>/dev/null && find . -mindepth 1 -maxdepth 1 -type d -printf '%f\n' |
    sort | paste -sd' ')
  [[ $found == "${*:2}" ]] || fail "ran in $1: ${found:-nothing}, not ${*:2}"
}
final=studied/short/final
all=(bad-seed{1,2} bsp-seed{1,2} four-seed{1,2} local-seed{1,2})
# same_table TABLE SAVED: byte for byte.
same_table() {
  cmp -s "$1" "$2" || fail "$1 differs: $(diff "$1" "$2")"
}
rm -r studied
expect_code 0 study --dry-run
shows '^tiny/results.csv has 8 of 8 final runs .--again runs them anew.$' \
  "$scratch/out"
shows '^final bsp-seed1: recorded 0\.[0-9]{4}$' "$scratch/out"
shows '^final bad-seed1: recorded as diverged$' "$scratch/out"
[[ ! -e studied ]] || fail "a dry run left files"
expect_code 0 study --jobs=2 --run.threads=2 --run.time_limit_s=3600
shows '^tiny/results.csv has 8 of 8 final runs' "$scratch/out"
shows '^bytes .* 3.966 ± 0 +reproduced$' "$scratch/out"
ran "$final"
same_table tiny/results.csv before.csv

# A run that is missing, or whose row says that it had not ended, and a comment.
sed -i '/^short,four,2,/d; s/^\(short,bsp,1,bsp,,\)finished/\1unfinished/' tiny/results.csv
sed -i '1i# Another comment.' tiny/base.ini
sed -i 's/^lr = 0.02/\n&   # and one more/' tiny/base.ini
expect_code 0 study --jobs=2 --run.threads=1
shows '^tiny/results.csv has 6 of 8 final runs' "$scratch/out"
ran "$final" bsp-seed1 four-seed2
same_table tiny/results.csv before.csv

# A key that is younger than a row counts if it changes what was done before.
mv studied elsewhere
expect_code 0 study --dry-run --data.fill=mean
shows '^tiny/results.csv has 8 of 8 final runs' "$scratch/out"
expect_code 0 study --dry-run --data.fill=black
shows '^final bsp-seed1: recorded with a different input; runs again$' "$scratch/out"
mv elsewhere studied

# Another input, --again, another size.
sed -i 's/^lr = 0.02/lr = 0.03/' tiny/base.ini
expect_code 65 study # the folders are of the old input
same_table tiny/results.csv before.csv
rm -r studied
expect_code 0 study --jobs=2 --run.threads=1
shows '^final local-seed2: recorded with a different input; runs again$' "$scratch/out"
grep -q 'results.csv has' "$scratch/out" && fail "counts runs of another input"
ran "$final" "${all[@]}"
cmp -s tiny/results.csv before.csv && fail "the table is that of before"
sed -i 's/^lr = 0.03/lr = 0.02/' tiny/base.ini
cp before.csv tiny/results.csv
rm -r studied
expect_code 0 study --jobs=2 --run.threads=1 --again
ran "$final" "${all[@]}"
same_table tiny/results.csv before.csv
expect_code 0 study --dry-run --size=long
shows '^final bsp-seed1: to do$' "$scratch/out"
grep -q 'recorded\|results.csv has' "$scratch/out" &&
  fail "takes rows of another size: $(cat "$scratch/out")"
sed '/^\[rules\]/,$d' tiny/study.sweep >tiny/plain.sweep
expect_code 64 "$source_dir/jobs/sweep.sh" --local tiny/plain.sweep --again
shows '^error: --again: .* has no \[rules\]' "$scratch/err"

# Where rates are tuned, a recorded variant is not tuned once more, and its other
# seeds take the recorded rate, be it as odd as 0.015.
tuned() { "$source_dir/jobs/study.sh" tuned --run.threads=1 "$@"; }
sed -i '/^\(four\|bad\|reversed\|reached\|never\|fails\|nothing\) =/d' tuned/study.sweep
rm -r tuned_runs
expect_code 0 tuned --jobs=2
cp tuned/results.csv before_tuned.csv
tune=tuned_runs/short/tune final=tuned_runs/short/final
rm -r tuned_runs
expect_code 0 tuned --jobs=2
shows '^bsp  +-  +-  +0.0[12] \(recorded\)$' "$scratch/out"
shows '^bsp  +-  +-  +0.0[12] \(recorded\)$' tuned_runs/short/tuning.txt
ran "$tune"
ran "$final"
same_table tuned/results.csv before_tuned.csv
sed -i '/^short,local,/d; /^short,bsp,2/d; s/^short,bsp,1,bsp,[^,]*/short,bsp,1,bsp,0.015/' \
  tuned/results.csv
expect_code 0 tuned --dry-run
shows '^tuned/results.csv has 1 of 4 final runs' "$scratch/out"
shows '^tune local-0.01-seed11: to do$' "$scratch/out"
shows '--run.name=bsp-seed2 .*--optimizer.lr=0.015$' "$scratch/out"
shows '^then final: 2 runs, .* by tuning: local$' "$scratch/out"
# Of the arrays of --slurm, the tasks of what is missing.
expect_code 0 "$source_dir/jobs/study.sh" tuned --slurm --dry-run --run.threads=1
shows '^sbatch .*--array=2-3 .* tune ' "$scratch/out"
shows '^sbatch .*--array=1-3 .* final ' "$scratch/out"
expect_code 0 tuned --jobs=2
ran "$tune" local-0.01-seed11 local-0.02-seed11
ran "$final" bsp-seed2 local-seed1 local-seed2
[[ $(grep -c '^short,bsp,[12],bsp,0.015,finished,' tuned/results.csv) == 2 ]] ||
  fail "not the recorded rate: $(cat tuned/results.csv)"
# What all tuning runs of a variant chose here outranks another recorded rate.
cp tuned/results.csv saved.csv
sed -i 's/^\(short,local,.,local_sgd\),[^,]*/\1,0.015/' tuned/results.csv
rm -r "$final"
expect_code 0 tuned --dry-run
shows '^final local-seed1: recorded with a different optimizer.lr; runs again$' "$scratch/out"
shows '--run.name=local-seed1 .*--optimizer.lr=0.0[12]$' "$scratch/out"
cp saved.csv tuned/results.csv
# Two rates of one variant, or another grid: it is tuned anew.
rm -r tuned_runs
sed -i 's/^short,bsp,2,bsp,0.015/short,bsp,2,bsp,0.02/' tuned/results.csv
expect_code 0 tuned --dry-run
shows '^final bsp-seed1: recorded with a different optimizer.lr; runs again$' "$scratch/out"
shows '^tune bsp-0.01-seed11: to do$' "$scratch/out"
shows '^then final: 2 runs, .* by tuning: bsp$' "$scratch/out"
sed -i 's/^grid = .*/grid = 0.01 0.03/' tuned/study.sweep
expect_code 0 tuned --dry-run
shows '^then final: 4 runs, .* by tuning: bsp local$' "$scratch/out"
shows '^final local-seed1: recorded with a different input; runs again$' "$scratch/out"

# Rules over a table that lacks a run.
sed -i '/^short,four,2,/d' tiny/results.csv
expect_code 0 python "$source_dir/postprocess/study.py" tiny
shows '^reached .* missing: four$' "$scratch/out"
expect_code 0 python "$source_dir/postprocess/study.py" tiny --size long
shows '^bytes .* missing: bsp$' "$scratch/out"

# What is calculated with a target needs it to be reached with every seed.
mkdir judged
cat >judged/study.sweep <<'END'
[sweep]
[final]
seeds = 1 2 3
[sizes]
short =
[variants]
ssgd =
slow =
esync =
asgd =
lost =
bare =
[rules]
slower = target_s(ssgd) / target_s(asgd) | >= 1 | -
faster = target_s(slow) / target_s(esync) | 5 .. 9 | -
neither = abs(target_s(ssgd) - target_s(esync)) | >= 0 | -
nowhere = target_samples(lost) / target_samples(lost) | >= 1 | -
alone = target_s(ssgd) | >= 1 | -
there = target_s(asgd) / target_s(asgd) | 1 .. 1 | -
empty = accuracy(bare) - accuracy(asgd) | >= 0 | -
fails = accuracy(lost) - accuracy(asgd) | >= 0 | -
END
{
  head -n 1 tiny/results.csv
  row() { # row CELL SEED STATE ACCURACY TARGET_S
    echo "short,$1,$2,bsp,,$3,git,digest,9,9,9,$4,1,$5,$5,1,1,1"
  }
  for seed in 1 2 3; do
    row asgd $seed finished 0.9 10
    row slow $seed finished 0.9 100
    row esync $seed finished 0.9 "$( ((seed == 3)) && echo inf || echo 10)"
    row ssgd $seed finished 0.9 "$( ((seed == 3)) && echo inf || echo 5)"
    row bare $seed finished nan inf
    row lost $seed "$( ((seed == 3)) && echo diverged || echo finished)" \
      "$( ((seed == 3)) && echo nan || echo 0.9)" inf
  done
} >judged/results.csv
expect_code 0 python "$source_dir/postprocess/study.py" judged
for verdict in 'slower .* inf +not reproduced: ssgd reached it in 2 of 3' \
  'faster .* - +not reproduced: esync reached it in 2 of 3' \
  'neither .* - +not reproduced: ssgd reached it in 2 of 3, esync reached it in 2 of 3' \
  'nowhere .* - +not reproduced: lost reached it in 0 of 3' \
  'alone .* inf +reproduced' \
  'there .* 1 ± 0 +reproduced' 'empty .* - +not reproduced: no number' \
  'fails .* - +not reproduced: diverged'; do
  shows "^$verdict\$" "$scratch/out"
done

# How runs ended, as a picture: a diverged one is counted, not averaged.
sed -i 's/^short,slow,2,\(.*\),0.9,1,/short,slow,2,\1,0.6,1,/' judged/results.csv
for picture in one.png one.svg; do
  expect_code 0 python "$source_dir/postprocess/finals_plot.py" judged/ judged="b \$c" -o $picture
  [[ -s $picture ]] || fail "no $picture"
done
cp -r judged lr=1
expect_code 0 python "$source_dir/postprocess/finals_plot.py" lr=1 lr=1=two -o one.png
expect_code 0 python -c "
import sys; sys.path.insert(0, '$source_dir/postprocess')
import finals_plot
panel = finals_plot.Panel('judged/', None)
mean, half = panel.finals['slow']
print(panel.title, f'{mean:.4f} {half:.4f}', panel.finals['lost'][0], 'bare' in panel.finals)
print(panel.lacking)"
shows "^judged 0.8000 0.4303 0.9 False$" "$scratch/out"
shows "'slow': ''" "$scratch/out"
shows "'lost': '1 diverged'" "$scratch/out"
shows "'bare': '3 without a number'" "$scratch/out"
expect_code 65 python "$source_dir/postprocess/finals_plot.py" judged --size=long -o one.png
shows '^error: judged: no recorded runs of size long .sizes: short.$' "$scratch/err"
expect_code 66 python "$source_dir/postprocess/finals_plot.py" nowhere -o one.png
shows '^error: nowhere/study.sweep: no such study$' "$scratch/err"

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
cp tiny/study.sweep original
sed -i '/^\[sizes\]/d; /^short = /d; /^long = /d' tiny/study.sweep
expect_code 65 study --dry-run
shows '^error: .*\[sizes\]: missing, for \[rules\]$' "$scratch/err"
expect_code 65 python "$source_dir/postprocess/study.py" tiny
shows '^error: .*\[sizes\]: missing$' "$scratch/err"
mv original tiny/study.sweep
expect_code 65 study --dry-run --size=huge
shows '^error: .*--size=huge: expected one of short long$' "$scratch/err"
expect_code 66 "$source_dir/jobs/study.sh" nowhere
expect_code 64 "$source_dir/jobs/study.sh"

echo "gpu_studies.sh: what is recorded within a time comes back, and what was begun"
lent() { "$source_dir/tests/bench/gpu_studies.sh" "$@"; }
export SYNCOPATE JOBS=2 OUT=back
mkdir -p fake
# A stand-in for the GPU's service writes down how it is called.
# shellcheck disable=SC2016  # it expands them
printf '#!/bin/sh\n{ echo "${1:-$(cat)} $CUDA_MPS_PIPE_DIRECTORY"; } >>%s\n' \
  "$PWD/mps" >fake/nvidia-cuda-mps-control
chmod +x fake/nvidia-cuda-mps-control
rm -rf studied tiny/*.csv tiny/*.png
PATH=$PWD/fake:$PATH expect_code 0 lent tiny
[[ $(sed 's# /.*/mps##' mps | xargs) == "-d quit" ]] || fail "MPS: $(cat mps)"
tar -xJf back/studies.tar.xz -C back
[[ $(wc -l <back/tiny/results.csv) == 9 && -e back/tiny/figure-short.png ]] ||
  fail "came back: $(find back)"
grep -q '8/8. final' back/logs/tiny.log || fail "log: $(cat back/logs/tiny.log)"
cmp -s {,back/}studied/short/final/bsp-seed2/results.h5 || fail "no results.h5"
[[ ! -e back/unfinished.tar.xz ]] || fail "all runs had ended"
cp tiny/results.csv all.csv
rm -rf studied tiny/*.csv tiny/*.png back
expect_code 1 lent "tiny --run.time_limit_s=0.001"
rm -rf studied tiny/*.csv
tar -xJf back/unfinished.tar.xz
ls studied/short/final/*/checkpoints/step-*/manifest.json >found ||
  fail "no checkpoint came back"
[[ $(wc -l <found) == 8 ]] || fail "came back: $(cat found)"
expect_code 0 study
shows '8/8. final' "$scratch/out"
figures() { python - "$1" <<'PY'
import csv, sys
for row in csv.DictReader(open(sys.argv[1])):
    print(row["cell"], row["seed"], row["state"], row["steps"], row["accuracy"], row["loss"])
PY
}
diff <(figures all.csv) <(figures tiny/results.csv) || fail "resumed runs differ"
[[ $(grep -l '^resumed from ' studied/short/final/*.out | wc -l) == 8 ]] ||
  fail "they began anew: $(cat studied/short/final/bsp-seed1.out)"
rm -rf studied tiny/*.csv tiny/*.png back
rm mps
CUDA_MPS_PIPE_DIRECTORY=own PATH=$PWD/fake:$PATH SECONDS_IN_ALL=0 expect_code 1 lent tiny
shows '^tiny: stopped, the time is over$' "$scratch/out"
[[ ! -e mps ]] || fail "a service that runs was started or ended: $(cat mps)"
expect_code 1 lent "tiny --jobs=0"
tar -xJf back/studies.tar.xz -C back
grep -q -e '--jobs=0: at least 1' back/logs/tiny.log ||
  fail "not its own --jobs: $(cat back/logs/tiny.log)"
rm -rf back
expect_code 64 lent
expect_code 64 lent tiny "tiny --size=long"
shows '^tiny: given twice' "$scratch/err"
SYNCOPATE=/nowhere expect_code 66 lent tiny
finish
