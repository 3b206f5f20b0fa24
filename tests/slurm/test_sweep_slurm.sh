#!/usr/bin/env bash
# jobs/sweep.sh --slurm for real: the figures are those of --local; a task that is
# told to stop queues again by itself alone; what is missing is gone on with.
set -uo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=../../jobs/env/python.sh
source "$source_dir/jobs/env/python.sh"
PYTHON=$(find_python "$source_dir") || {
  echo "skipped: no Python with h5py and matplotlib"
  exit 77
}
export PYTHON
start_cluster
cd "$work" || exit 1
ln -s "$source_dir/inputs" inputs # where tiny.sweep finds its input
cat >tiny.sweep <<'SWEEP'
[sweep]
input = inputs/smoke.ini
directory = swept
[tune]
key = optimizer.lr
grid = 0.01 0.1
metric = accuracy
seeds = 11
overrides = eval.every=0 run.steps=800
[final]
seeds = 1 2
overrides = run.steps=40
[variants]
bsp = sync.scheme=bsp
bad = optimizer.weight_decay=1e9
SWEEP
sed 's/= swept/= local/' tiny.sweep >local.sweep
keys=(--run.threads=1 --run.workers=2 --data.validation=64 --run.log_every=5)
slurm() { "$source_dir/jobs/sweep.sh" --slurm tiny.sweep "${keys[@]}" "$@"; }
ids_of() { sed -n 's/^job \([0-9]*\): .*/\1/p' "$1"; }
all_over() { [[ -z $(squeue -h -o %i) ]]; }
expect() { # expect CODE COMMAND...: output in out
  local expected=$1 code=0
  shift
  "$@" >out 2>&1 || code=$?
  ((code == expected)) || failed "exit $code, expected $expected: $*: $(<out)"
}
out_shows() { grep -Eq -- "$1" out || failed "no $1 in: $(<out)"; }

# A dry run says what would be submitted.
before=$failures
expect 0 slurm --dry-run --jobs=3 --sbatch="--time=9"
out_shows '^sbatch .*--array=0-3%3 --cpus-per-task=1 --time=9 .*sweep.sbatch tune '
out_shows '^sbatch .*--dependency=afterany:JOB2 --array=0-3%3 .*sweep.sbatch final '
out_shows '^sbatch .*--dependency=afterany:JOB3 .*sweep.sbatch compare '
# A grid that extends itself has a round of tasks for each extension.
sed -e 's/^key = .*/key = optimizer.momentum/; s/^metric = .*/metric = loss/' \
  -e 's/^grid = .*/grid = auto 0.5 0.8/; s/= swept/= extended/; /^bad/d' \
  tiny.sweep >auto.sweep
auto() { "$source_dir/jobs/sweep.sh" --"$1" auto.sweep "${keys[@]}" "${@:2}"; }
expect 0 auto slurm --dry-run
out_shows '^sbatch .*--dependency=afterany:JOB1 --array=0 .*sweep.sbatch extend-1 '
out_shows '^sbatch .*--dependency=afterany:JOB5 .*sweep.sbatch choose '
[[ ! -e swept ]] || failed "a dry run left files"
touch "$work/dry.out"
conclude dry "$before" "--dry-run"

# A task that is told to stop in the middle queues again, alone; a run that cannot
# start fails the comparison, which names it.
before=$failures
mkdir -p swept/final
echo "in the way" >swept/final/bsp-seed2
expect 0 slurm --jobs=2
cp out submitted.out
mapfile -t ids < <(ids_of out)
((${#ids[@]} == 4)) || failed "not four jobs: $(<out)"
expect 73 slurm
out_shows '4 jobs of this sweep still queued or running'
printed=swept/tune/bsp-0.01-seed11.out
wait_for 90 grep -qs '^step ' "$printed" || failed "the first task does not train"
# This Slurm signals the task of an array, says at times that it could not, and
# then scancel tries again for a minute and a half.
timeout 2 scancel --signal=USR1 "${ids[0]}_0" 2>/dev/null
is_queued_again() {
  [[ $(squeue -h -r -j "${ids[0]}" -o '%i %t') == *"${ids[0]}_0 PD"* ]]
}
wait_for 60 is_queued_again || failed "task 0 is not queued again: $(<"$printed")"
sleep 3
scontrol update jobid="${ids[0]}_0" starttime=now
wait_for 180 all_over || failed "not over: $(squeue -h)"
grep -q '^resumed from ' "$printed" || failed "task 0 did not resume"
[[ $(cat swept/tune/*.out | grep -c '^resumed from ') == 1 ]] ||
  failed "other tasks were stopped too"
[[ -s swept/comparison.md && -s swept/comparison.png && -s swept/tuning.txt ]] ||
  failed "no results: $(cat swept/jobs/*)"
[[ $(exit_code "${ids[3]}") == 1 ]] ||
  failed "compare: exit $(exit_code "${ids[3]}"), not 1"
grep -q '^failed: final bsp-seed2: error: ' swept/jobs/sweep-compare-*.out ||
  failed "compare: $(cat swept/jobs/sweep-compare-*)"
for line in '^note: bsp: 1 of 2 runs failed \(not compared\)$' '^verdict: '; do
  grep -Eq "$line" swept/jobs/sweep-compare-*.out ||
    failed "compare does not print $line: $(cat swept/jobs/sweep-compare-*)"
done
conclude submitted "$before" "tasks of arrays, one of them stopped and resumed"

# Run again: what is missing, and no more.
before=$failures
rm swept/final/bsp-seed2
expect 0 slurm
cp out again.out
mapfile -t ids < <(ids_of out)
((${#ids[@]} == 2)) || failed "not two jobs: $(<out)"
scontrol show job "${ids[0]}" | grep -q 'ArrayTaskId=2$\|ArrayTaskId=2 ' ||
  failed "not the third final run: $(scontrol show job "${ids[0]}")"
wait_for 120 all_over || failed "not over: $(squeue -h)"
[[ $(exit_code "${ids[1]}") == 0 ]] || failed "compare: $(exit_code "${ids[1]}")"
expect 0 slurm # nothing is left to submit: it concludes at once
[[ -z $(ids_of out) ]] || failed "submitted once more: $(<out)"
conclude again "$before" "run again: what was missing"

# Of a study that is recorded in part, tasks of what is missing; the table is that
# of a study that ran here as a whole.
before=$failures
mkdir few
cat >few/study.sweep <<'SWEEP'
[sweep]
input = ../inputs/smoke.ini
directory = few_runs
[tune]
key = optimizer.lr
grid = 0.01 0.1
metric = accuracy
seeds = 11
[final]
seeds = 1 2
[sizes]
short = run.steps=40
[variants]
bsp = sync.scheme=bsp
local = sync.scheme=local_sgd local_sgd.steps=4
[rules]
bytes = bytes(bsp) / bytes(local) | >= 1 | -
SWEEP
study() { "$source_dir/jobs/study.sh" few "$@" "${keys[@]}"; }
expect 0 study --local --jobs=2
cp out study.out
cp few/results.csv whole.csv
rm -r few_runs
expect 0 study --slurm # nothing is left to submit
[[ -z $(ids_of out) ]] || failed "submitted what is recorded: $(<out)"
cmp -s few/results.csv whole.csv || failed "the table: $(<few/results.csv)"
sed -i '/,local,/d; /,bsp,2,/d' few/results.csv
expect 0 study --slurm
out_shows '^few/results.csv has 1 of 4 final runs'
mapfile -t ids < <(ids_of out)
((${#ids[@]} == 4)) || failed "not four jobs: $(<out)"
wait_for 120 all_over || failed "not over: $(squeue -h)"
[[ $(exit_code "${ids[3]}") == 0 ]] || failed "compare: $(cat few_runs/short/jobs/*)"
[[ $(cd few_runs/short && echo {tune,final}/*/) == \
  "tune/local-0.01-seed11/ tune/local-0.1-seed11/ final/bsp-seed2/ final/local-seed1/ final/local-seed2/" ]] ||
  failed "ran $(cd few_runs/short && echo {tune,final}/*/)"
cmp -s few/results.csv whole.csv || failed "the table: $(<few/results.csv)"
conclude study "$before" "a study of which a part is recorded"

# The same numbers here.
before=$failures
expect 0 "$source_dir/jobs/sweep.sh" --local local.sweep --jobs=2 "${keys[@]}"
cp out local.out
diff <(tail -n +3 swept/tuning.txt) <(tail -n +3 local/tuning.txt) ||
  failed "another choice"
# All columns but the times.
diff <(cut -d'|' -f1-9 swept/comparison.md) \
  <(cut -d'|' -f1-9 local/comparison.md) || failed "other figures"
grep -q '^| bsp | 2 | 1 2 | 40' swept/comparison.md ||
  failed "comparison: $(<swept/comparison.md)"
if [[ ${EXHAUSTIVE:-} == 1 ]]; then
  expect 0 auto slurm
  wait_for 300 all_over || failed "not over: $(squeue -h)"
  mv extended extended-slurm
  expect 0 auto local --jobs=2
  out_shows '^tune: beyond the grid: bsp '
  diff extended-slurm/tuning.txt extended/tuning.txt || failed "another extension"
fi
conclude local "$before" "--slurm and --local give the same numbers"
finish
