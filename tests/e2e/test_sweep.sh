#!/usr/bin/env bash
# jobs/sweep.sh for real: interrupted and continued, the choice on the validation
# split checked against the results files, runs and variants that diverge, what
# it compares and draws, refusals.
set -uo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
need_python

cat >base.ini <<'INI'
[run]
steps = 48
workers = 2
threads = 1
log_every = 1
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
validation = 40
noise = 2
[eval]
every = 12 steps
batch = 20
INI
# With a weight decay of 1e9 parameters grow by -1e7 and more a step, and so
# they do with a rate of 1e6: out of the range of fp32 in a few steps.
cat >tiny.sweep <<'END'
[sweep]
input = base.ini
directory = swept
[tune]
key = optimizer.lr
grid = 1e6 0.02 0.1   # out of order
metric = accuracy
seeds = 11
overrides = eval.every=0
[final]
seeds = 1 2
overrides = "run.target=accuracy >= 1"   # which no run reaches
[variants]
bsp = sync.scheme=bsp
local = sync.scheme=local_sgd local_sgd.steps=4
bad = optimizer.weight_decay=1e9
END

# One thread a run: the tests of a machine run side by side.
sweep() { "$source_dir/jobs/sweep.sh" --local "$@" --run.threads=1; }
shows() { grep -Eq -- "$1" "$2" || fail "no $1 in $2: $(cat "$2")"; }
# refuses CODE PATTERN WORDS...: one line.
refuses() {
  local code=$1 pattern=$2
  shift 2
  expect_code "$code" python "$source_dir/jobs/sweep.py" "$@"
  [[ $(wc -l <"$scratch/err") == 1 ]] || fail "more than a line: $*"
  shows "^error: .*$pattern" "$scratch/err"
}

# A dry run says what would run, and starts nothing.
expect_code 0 sweep tiny.sweep --dry-run
shows '^tune bsp-0.1-seed11: to do$' "$scratch/out"
shows '--eval.on=validation' "$scratch/out"
shows 'then final: 6 runs, seeds 1 2' "$scratch/out"
[[ ! -e swept ]] || fail "a dry run left files"

# Ctrl-C in the middle of the second run: it saves, and resumes. That run writes
# its output to a pipe of 4 KiB, which is full before its last step unless it is
# read: however fast the machine is, the run is under way when the signal comes.
held=swept/tune/bsp-0.02-seed11.out
mkdir -p swept/tune
mkfifo "$held"
exec {pipe}<>"$held"
python -c "import fcntl; fcntl.fcntl($pipe, 1031, 4096)" # F_SETPIPE_SZ
"$source_dir/jobs/sweep.sh" --local tiny.sweep --jobs=1 --run.threads=1 \
  >first.out 2>&1 {pipe}>&- &
pid=$!
until [[ ${row:-} =~ ^step\ .*\ 3/48 ]]; do
  read -r -t 1 -u "$pipe" row && echo "$row" >>held.out
  kill -0 "$pid" || break
done
kill -INT "$pid"
cat <&"$pipe" >>held.out &
reader=$!
code=0
wait "$pid" || code=$?
kill "$reader"
wait "$reader"
exec {pipe}>&-
mv held.out "$held"
((code == 130)) || fail "interrupted: exit $code: $(cat first.out)"
shows 'tune bsp-1e6-seed11: diverged' first.out
shows 'tune bsp-0.02-seed11: stopped' first.out
shows '^stopped: run again to resume$' first.out
[[ ! -e swept/tuning.txt && ! -e swept/tune/bsp-0.1-seed11 ]] ||
  fail "it went on after the signal"
expect_code 0 sweep tiny.sweep --jobs=2
shows '^tune: 1 of 9 runs has already finished$' "$scratch/out"
[[ $(find swept/tune -mindepth 1 -maxdepth 1 -type d | wc -l) == 9 ]] ||
  fail "not nine tuning runs: $(ls swept/tune)"
[[ $(find swept/final -mindepth 1 -maxdepth 1 -type d | wc -l) == 4 ]] ||
  fail "not four final runs: $(ls swept/final)"
shows '^bad +diverged +diverged +diverged +-$' swept/tuning.txt
shows '^bad: diverges with every value of the grid$' swept/tuning.txt
note='note: bad is not compared: optimizer.lr: diverges with every value of the grid'
shows "^$note\$" "$scratch/out"
shows "^- $note\$" swept/comparison.md
shows '^with seed 11 \(jobs/sweep.sh, tiny.sweep\)$' swept/tuning.txt

# The choice, from the results files; final runs have it, on the test set.
python - swept >choice.out <<'END' || fail "the choice: $(cat choice.out)"
import sys
import h5py

def read(name):
    with h5py.File(f"{sys.argv[1]}/{name}/results.h5", "r") as file:
        values = file["eval/accuracy"][()] if "eval" in file else []
        attrs = dict(file["provenance"].attrs)
        return attrs["input"], list(values), int(attrs["restarts"])

assert read("tune/bsp-0.02-seed11")[2] == 1, "the stopped run did not resume"
table = open(f"{sys.argv[1]}/tuning.txt").read()
comparison = open(f"{sys.argv[1]}/comparison.md").read()
for variant in ("bsp", "local"):
    runs = {value: read(f"tune/{variant}-{value}-seed11")
            for value in ("0.02", "0.1")}
    for text, values, _ in runs.values():
        assert "on = validation" in text and len(values) == 1, text
    best = max(("0.02", "0.1"), key=lambda value: runs[value][1][-1])
    row = [line for line in table.splitlines()
           if line.startswith(variant + " ")][0].split()
    shown = [f"{runs[value][1][-1]:.4f}" for value in ("0.02", "0.1")]
    assert row == [variant, "diverged", *shown, best], (row, shown, best)
    is_edge = f"{variant}: at the edge of the grid" in table
    assert is_edge == (best == "0.02"), table
    note = f"- note: {variant}: optimizer.lr is at the edge of its grid\n"
    assert is_edge == (note in comparison), comparison
    for seed in "12":
        text, values, _ = read(f"final/{variant}-seed{seed}")
        assert f"lr = {best}\n" in text and "on = test" in text, text
        assert f"seed = {seed}\n" in text and len(values) == 4, values
END

# What it writes at the end.
shows '^\| bsp \| 2 \| 1 2 \| 48 ± 0 \| 0\.' swept/comparison.md
shows '^\| local \| 2 \| 1 2 \|' swept/comparison.md
[[ $(head -c 4 swept/comparison.png | tail -c 3) == PNG ]] || fail "no picture"
# Runs that did not reach their target are censored at their last evaluation.
shows '^Until accuracy >= 1:$' swept/comparison.md
[[ $(tail -n 1 "$scratch/out") == "verdict: no group reached accuracy >= 1 in half of its runs" ]] ||
  fail "the last line is no verdict: $(tail -n 1 "$scratch/out")"
shows '^\| bsp \| 0 of 2 \| >48 \| >[0-9.]+ \| >48 \|' swept/comparison.md
shows '^- 4 of 4 runs ended before they reached it' swept/comparison.md
! grep -q 'also different: sync.scheme' swept/comparison.md ||
  fail "what the variants vary is a surprise: $(cat swept/comparison.md)"
[[ $(head -c 4 swept/target.png | tail -c 3) == PNG ]] || fail "no target.png"
post() { python "$source_dir/postprocess/$1.py" "${@:2}"; }
expect_code 0 post plot swept/final/*/ --by variant -o points.csv --data-only
[[ $(wc -l <points.csv) == 9 ]] || fail "not 2 x 4 points: $(cat points.csv)"
expect_code 0 post compare swept/final/*/ --by variant --target accuracy=0
shows '^bsp +2 of 2 +12 ' "$scratch/out"

# Nothing is left to do, with any number of jobs; figures are those of before.
figures() { sed '/^Until/,$d' swept/comparison.md | cut -d'|' -f1-9; } # all but times
figures >before.md
expect_code 0 sweep tiny.sweep --jobs=1
shows '^final: 4 of 4 runs have already finished$' "$scratch/out"
figures | cmp -s before.md || fail "another comparison"

# A dry run writes nothing, nor does that of --slurm.
echo "as it was" >swept/tuning.txt
expect_code 0 "$source_dir/jobs/sweep.sh" --slurm tiny.sweep --dry-run --run.threads=1
[[ $(<swept/tuning.txt) == "as it was" ]] || fail "a dry run wrote tuning.txt"

# A run that cannot start fails the sweep and no other run; the next try heals.
rm -rf swept/final/bsp-seed2
echo "in the way" >swept/final/bsp-seed2
expect_code 1 sweep tiny.sweep --jobs=2
shows '^failed: final bsp-seed2: exit code 7[0-9]: error: ' "$scratch/err"
rm swept/final/bsp-seed2
expect_code 0 sweep tiny.sweep --jobs=2
figures | cmp -s before.md || fail "the run anew gave other figures"

# A grid that extends itself: with two values the best one lies at an edge,
# unless they are equal, which losses are not. Each value is as far from the last
# as that one from its neighbour.
sed -e '/^\(local\|bad\) =/d; /^overrides = "run/d; s/= swept/= extended/' \
  -e 's/^grid = .*/grid = auto 0.02 0.1/; s/^metric = .*/metric = loss/' \
  tiny.sweep >auto.sweep
expect_code 0 sweep auto.sweep --jobs=2
shows '^tune: beyond the grid: bsp (0.004|0.5)$' "$scratch/out"
python - extended/tuning.txt <<'END' || fail "extended: $(cat extended/tuning.txt)"
import sys
lines = open(sys.argv[1]).read().splitlines()
header = next(line for line in lines if line.startswith("variant")).split()
row = next(line for line in lines if line.startswith("bsp")).split()
values = [float(word) for word in header[1:-1]]
assert values == sorted(values) and 3 <= len(values) <= 6, values
assert all(abs(b / a / 5 - 1) < 0.01 for a, b in zip(values, values[1:])), values
best = min(zip(row[1:-1], header[1:-1]), key=lambda pair: float(
    "inf" if pair[0] == "diverged" else pair[0]))[1]
assert row[-1] == best, row
is_edge = best in (header[1], header[-2])
told = "bsp: at the edge of the grid, which was extended 4 times" in lines
assert is_edge == told == (is_edge and len(values) == 6), lines
END
expect_code 0 sweep auto.sweep --jobs=2
shows '^final: 2 of 2 runs have already finished$' "$scratch/out"

# What it tries and chooses at the limit of a key, among equals, and so on.
expect_code 0 python "$here/check_grid.py" "$source_dir"
# At a small rate, images without noise are learnt the sooner the larger the
# momentum, which has to stay below 1.
sed -e 's/^key = .*/key = optimizer.momentum/; s/^metric = .*/metric = loss/' \
  -e 's/^grid = .*/grid = auto 0.5 0.8/; s/^\(seeds = 1\) 2/\1/' \
  -e 's/= swept/= momentum/; /^\(local\|bad\) =/d; /^overrides = "run/d' \
  tiny.sweep >momentum.sweep
easy=(--data.noise=0 --optimizer.lr=1e-3)
expect_code 0 sweep momentum.sweep --jobs=2 "${easy[@]}"
shows '^tune: beyond the grid: bsp 0.9412$' "$scratch/out"
shows '^bsp: at the edge of the grid, which was extended' momentum/tuning.txt
expect_code 0 sweep momentum.sweep --jobs=2 "${easy[@]}"
shows '^final: 1 of 1 run has already finished$' "$scratch/out"
# The comparison repeats that warning, above its table.
note='note: bsp: optimizer.momentum is at the edge of its grid'
[[ $(head -n 1 momentum/comparison.md) == "- $note" ]] ||
  fail "no note: $(cat momentum/comparison.md)"
shows "^$note\$" "$scratch/out"
shows '^verdict: ' <(tail -n 1 "$scratch/out")

# Data that lie elsewhere must be the same: a rate is not tuned on others.
python "$here/make_idx.py" first 0 64 16
python "$here/make_idx.py" second 1 64 16
cp -r first moved
printf '[run]\nsteps = 4\nworkers = 2\n[model]\nfamily = logistic\n[data]\nkind = idx\nbatch = 4\nvalidation = 16\n' >idx.ini
cat >idx.sweep <<'END'
[sweep]
input = idx.ini
directory = idx_swept
[tune]
key = optimizer.lr
grid = 0.01 0.1
metric = accuracy
seeds = 11
[final]
seeds = 1
[variants]
bsp = sync.scheme=bsp
local = sync.scheme=local_sgd local_sgd.steps=2
END
expect_code 0 sweep idx.sweep --data.path=first
rm -r idx_swept/final
expect_code 0 sweep idx.sweep --data.path=moved
rm -r idx_swept/final
refuses 65 'unlike data: data_digest is ' idx.sweep --data.path=second --run.threads=1

# Where runs go: a leading runs/, or no directory, follows SYNCOPATE_RUNS.
# goes_to FOLDER RUNS SED-COMMAND
goes_to() {
  sed "$3" tiny.sweep >moved.sweep
  SYNCOPATE_RUNS=$2 expect_code 0 sweep moved.sweep --dry-run
  shows "--run.directory=$1/tune " "$scratch/out"
}
goes_to /elsewhere/a/b /elsewhere 's/= swept/= runs\/a\/b/'
goes_to /elsewhere/moved /elsewhere '/= swept/d'
goes_to a /elsewhere 's/= swept/= a/'
goes_to runs/a '' 's/= swept/= runs\/a/'

# A target of all runs does not end those that are tuned.
sed -e 's/^overrides = "run.*//; s/= swept/= fresh/; s/base.ini/target.ini/' \
  tiny.sweep >target.sweep
# Inputs are read as the program reads them: with comments and a mark of UTF-8.
for form in 's/^//' 's/^\[run\]$/[run]  # the run/' '1s/^/\xef\xbb\xbf/'; do
  sed -e 's/^steps = 48/steps = 48\ntarget = accuracy >= 0.5/' -e "$form" \
    base.ini >target.ini
  expect_code 0 sweep target.sweep --dry-run
  shows '--run.target=-' "$scratch/out"
done
# Nor does a target of a study's size, unless [tune] itself names one.
sed -e '/^overrides = "run/d; s/= swept/= sized/' tiny.sweep >sized.sweep
cat >>sized.sweep <<'END'
[sizes]
short = run.steps=24 "run.target=accuracy >= 0.5"
[rules]
bytes = bytes(bsp) / bytes(local) | >= 1 | -
END
expect_code 0 sweep sized.sweep --dry-run
shows '--run.steps=24 ' "$scratch/out"
! grep -q -- '--run.target=accuracy' "$scratch/out" ||
  fail "tuning runs end at the target: $(cat "$scratch/out")"
sed 's/^overrides = eval.*/overrides = "run.target=accuracy >= 0.25"/' \
  sized.sweep >early.sweep
expect_code 0 sweep early.sweep --dry-run
shows "--run.target=accuracy >= 0.25'" "$scratch/out"
sed '/^\[tune\]/,/^overrides = eval/d' sized.sweep >at_once.sweep
expect_code 0 sweep at_once.sweep --dry-run
shows "--run.target=accuracy >= 0.5'" "$scratch/out"

# --slurm and --local count wherever they are among a study's arguments.
mkdir asked
sed 's/= base.ini/= ..\/base.ini/' sized.sweep >asked/study.sweep
expect_code 0 "$source_dir/jobs/study.sh" asked --size=short --slurm --jobs=2 \
  --dry-run --run.threads=1
shows '^sbatch .*--array=0-8%2 .* tune .*--size=short --run.threads=1$' "$scratch/out"
expect_code 0 "$source_dir/jobs/study.sh" asked --dry-run --run.threads=1 --local
shows '^tune bsp-0.1-seed11: to do$' "$scratch/out"

# Names of keys may have digits.
sed -e 's/^key = .*/key = optimizer.beta1/; s/^grid = .*/grid = 0.8 0.9/' \
  -e 's/=bsp$/=bsp optimizer.beta2=0.99/; s/= swept/= digits/' \
  -e 's/^overrides = eval.*/& optimizer.kind=adam/; /^\(local\|bad\) =/d' \
  tiny.sweep >digits.sweep
expect_code 0 sweep digits.sweep --dry-run
shows '--optimizer.beta2=0.99 .*--optimizer.beta1=0.8$' "$scratch/out"

# A Slurm that takes one job and no second one, and whose queue shows the first.
mkdir slurm
cat >slurm/sbatch <<'END'
#!/bin/sh
echo "$*" >>calls
[ "$(wc -l <calls)" -lt 2 ] || { echo "sbatch: error: no more" >&2; exit 1; }
echo "701;main"
END
cat >slurm/scancel <<'END'
#!/bin/sh
echo "$*" >cancelled
cp queued/jobs/submitted.txt seen.txt
[ ! -e refuses ] || { echo "scancel: error: not now" >&2; exit 1; }
END
printf '#!/bin/sh\necho 701\n' >slurm/squeue
chmod +x slurm/*
sed 's/= swept/= queued/' tiny.sweep >queued.sweep
executable=$("$PYTHON" -c 'import sys; print(sys.executable)')
# submit CODE LINE PATH: the line is all that it prints on stderr.
submit() {
  rm -f calls cancelled seen.txt
  expect_code "$1" env PATH="$3" "$executable" \
    "$source_dir/jobs/sweep_slurm.py" submit queued.sweep --run.threads=1
  [[ $(<"$scratch/err") == "error: $2" ]] || fail "said: $(<"$scratch/err")"
}
for _ in 1 2; do # the next start does not wait for the job that was cancelled
  submit 69 "sbatch: error: no more" "$PWD/slurm:$PATH"
  [[ $(<seen.txt) == 701 && $(<cancelled) == 701 ]] ||
    fail "cancelled: $(<cancelled), on file: $(<seen.txt)"
  [[ ! -e queued/jobs/submitted.txt ]] || fail "the cancelled job is on file"
done
touch refuses
submit 69 "sbatch: error: no more; scancel: error: not now; still queued: 701" \
  "$PWD/slurm:$PATH"
submit 73 "queued: 1 job of this sweep still queued or running: wait, or scancel 701" \
  "$PWD/slurm:$PATH"
submit 69 "squeue: No such file or directory" /nowhere
rm queued/jobs/submitted.txt
submit 69 "sbatch: No such file or directory" /nowhere

# Keys that change no result may differ from those of an earlier start.
expect_code 0 sweep tiny.sweep --run.time_limit_s=5000
# Runs of another sweep are not taken for its own.
refuses 65 'run.steps was \(unset\), is 30 now' tiny.sweep --run.threads=1 \
  --run.steps=30
sed 's/steps=4/steps=8/' tiny.sweep >other.sweep
refuses 65 'local-1e6-seed11: local_sgd.steps was 4, is 8' other.sweep --run.threads=1
cp base.ini saved.ini
sed -i '1i# A comment.\n\n' base.ini
sed -i 's/^noise = 2/\n&   # and one more/' base.ini
expect_code 0 sweep tiny.sweep
sed -i 's/^noise = 2/noise = 3/' base.ini
refuses 65 'holds runs of another version of base.ini: remove it' tiny.sweep
mv saved.ini base.ini

# A dry run refuses what the start refuses, without tuning too.
sed -e '/^\[tune\]/,/^overrides = eval/d; /^\(bsp\|bad\) =/d; /^overrides = "run/d' \
  -e 's/= swept/= untuned/; s/^\(seeds = 1\) 2/\1/' tiny.sweep >untuned.sweep
expect_code 0 sweep untuned.sweep
sed -i 's/steps=4/steps=8/' untuned.sweep
for words in --dry-run ''; do
  refuses 65 'local-seed1: local_sgd.steps was 4, is 8 now' untuned.sweep \
    --run.threads=1 $words
done

# Every point of a sweep of simulations is validated first, with its progress.
cat >points.sweep <<'END'
[sweep]
input = base.ini
directory = points
command = simulate
[final]
seeds = 1
[over]
network.mbit_s = 10 20 30 40 50
run.workers = 2 4 6
local_sgd.steps = 1 2 0
[variants]
fast = sync.scheme=local_sgd compute.step_s=0.1
slow = sync.scheme=local_sgd compute.step_s=0.2
END
expect_code 65 sweep points.sweep --jobs=2
shows '^points: validated 20 of 22 variants$' "$scratch/out"
shows '^error: variant fast-steps-0: .*local_sgd.steps' "$scratch/err"
[[ ! -e points ]] || fail "simulations started with a bad point among them"

sed '/^\(network\|run\|local_sgd\)\./d; s/^\[over\]/&\noptimizer.beta1 = 0.8 0.9/' \
  points.sweep >digits.sweep
expect_code 0 sweep digits.sweep --dry-run --optimizer.kind=adam
shows '^final fast-beta1-0.9-seed1: to do$' "$scratch/out"

# Simulations leave a file instead of a folder; another sweep must not take it.
sed -i '/^local_sgd.steps/d; s/= 10 20 30 40 50/= 10/; s/= 2 4 6/= 2/' points.sweep
expect_code 0 sweep points.sweep --jobs=2
sed -i 's/step_s=0.2/step_s=0.3/' points.sweep
refuses 65 'slow-mbit_s-10-seed1: compute.step_s was 0.2, is 0.3 now: remove' points.sweep
sed -i 's/step_s=0.3/step_s=0.2/' points.sweep
cp base.ini saved.ini
echo '[compute]
update_s = 1' >>base.ini
refuses 65 'holds runs of another version of base.ini' points.sweep
mv saved.ini base.ini
# What would be unfair, and slips.
refuse_line() { # refuse_line PATTERN SED-COMMAND
  sed "$2; s/= swept/= elsewhere/" tiny.sweep >wrong.sweep
  refuses 65 "$1" wrong.sweep --dry-run
}
refuse_line 'variants.bsp: run.seed: the sweep sets it' 's/=bsp/=bsp run.seed=3/'
refuse_line 'variants.bsp: data.batch: must be the same' 's/=bsp/=bsp data.batch=4/'
refuse_line 'variants.bsp: optimizer.lr is what is tuned' \
  's/=bsp/=bsp optimizer.lr=1/'
refuse_line 'variant bsp: .*bspp.*did you mean bsp' 's/=bsp/=bspp/'
refuse_line 'tune.grid: 1 1.0: distinct numbers expected' 's/= 1e6.*/= 1 1.0/'
at_least='expected auto and at least two starting values > 0, such as auto 0.01 0.1$'
refuse_line "tune.grid: auto 0: $at_least" 's/= 1e6.*/= auto 0/'
refuse_line "tune.grid: auto: $at_least" 's/= 1e6.*/= auto/'
refuse_line 'tune.grid: automatic: a number expected$' 's/= 1e6.*/= automatic 1 2/'
refuse_line 'final.seeds: 1.5: a whole number expected$' '/final/,/variants/s/^seeds = .*/seeds = 1 1.5/'
refuse_line 'final.seeds: whole numbers expected$' '/final/,/variants/s/^seeds = .*/seeds = ,/'
refuse_line 'tune.metric: missing' '/^metric/d'
refuse_line 'sweep.metric: \[tune\] has its own' 's/^input = .*/&\nmetric = f1/'
refuse_line 'wrong.sweep:15: variants.bsp: given twice' 's/^bsp =.*/&\n&/'
refuse_line 'wrong.sweep:15: \[tune\]: given twice' 's/^bsp =.*/&\n[tune]/'
refuse_line 'tune.grids: expected grid' 's/^grid/grids/'
sed 's/validation = 40/validation = 0/' base.ini >no_validation.ini
refuse_line 'eval.on' 's/base.ini/no_validation.ini/'
refuses 65 'command line: sync.scheme: variant bsp sets it' tiny.sweep \
  --sync.scheme=bsp
refuses 66 'nowhere.sweep: No such file' nowhere.sweep
for mode in --local --slurm; do
  for words in '0: at least 1' 'x: a whole number'; do
    expect_code 64 "$source_dir/jobs/sweep.sh" $mode tiny.sweep \
      --jobs="${words%%:*}"
    shows "^error: --jobs=$words expected\$" "$scratch/err"
  done
done
expect_code 64 "$source_dir/jobs/sweep.sh" tiny.sweep
finish
