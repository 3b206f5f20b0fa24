#!/usr/bin/env bash
# How ranks come about under Slurm: srun by hand and Ctrl-C, tasks without an
# MPI that they share, one rank a GPU (files stand in for those), CPU nodes and
# GPU nodes in one world; the site file.
set -uo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
start_cluster
long=(--run.steps=1000000 --run.log_every=5 --checkpoint.every=0)

# srun by hand, and Ctrl-C, which srun passes on at once with --disable-status.
before=$failures
srun --ntasks=2 --kill-on-bad-exit=1 --disable-status "$SYNCOPATE" train \
  inputs/smoke.ini --run.directory="$work/runs" --run.name=by_srun \
  --run.threads=1 --eval.every=0 "${long[@]}" >"$work/by_srun.out" 2>&1 &
pid=$!
wait_for 60 shows by_srun '^step ' || failed "by_srun: does not train"
kill -INT "$pid"
code=0
wait "$pid" || code=$?
((code == 130)) || failed "by_srun: exit $code, not 130"
expect_shown by_srun '2 MPI ranks'
expect_shown by_srun '^checkpoint committed'
conclude by_srun "$before" "srun by hand: Ctrl-C saves, 130"

# Every task an MPI world of its own.
before=$failures
code=0
timeout 60 srun --ntasks=2 --mpi=none --kill-on-bad-exit=1 "$SYNCOPATE" train \
  inputs/smoke.ini --run.directory="$work/runs" --run.name=alone \
  >"$work/alone.out" 2>&1 || code=$?
((code == 64)) || failed "alone: exit $code, not 64"
expect_shown alone 'Slurm started 2 tasks, .* srun --mpi=pmi2'
[[ ! -e $work/runs/alone ]] || failed "alone: left a run behind"
conclude alone "$before" "singletons are refused, and the mend named"

# Stands in for the program: prints what a rank would see of its node's GPUs.
cat >"$work/gpus" <<'GPUS'
#!/usr/bin/env bash
[[ $1 == train ]] || exec "$REAL" "$@"
echo "rank $SLURM_PROCID local $SLURM_LOCALID on $SLURMD_NODENAME" \
  "sees ${CUDA_VISIBLE_DEVICES-none}"
GPUS
chmod +x "$work/gpus"
export REAL=$SYNCOPATE
before=$failures
job=$(SYNCOPATE=$work/gpus submit gpus --nodes=2 --ntasks-per-node=2 \
  --gpus-per-node=2 --cpus-per-task=1 jobs/multi_gpu.sbatch --run.device=cpu)
expect_end gpus "$job" COMPLETED 0
# As many ranks a node as GPUs that each of them sees; local rank L takes the Lth.
for rank in "0 local 0 on n3" "1 local 1 on n3" "2 local 0 on n4" "3 local 1 on n4"; do
  expect_shown gpus "^rank $rank sees 0,1$"
done
conclude gpus "$before" "multi_gpu.sbatch: a GPU for each rank, peers in sight"
before=$failures
job=$(SYNCOPATE=$work/gpus submit own_gpu --nodes=1 --gpus-per-task=1 \
  jobs/train.sbatch --run.device=cpu)
expect_end own_gpu "$job" COMPLETED 0
expect_shown own_gpu '^rank 0 local 0 on n[34] sees 0$'
expect_shown own_gpu '^rank 1 local 1 on n[34] sees 1$'
conclude own_gpu "$before" "--gpus-per-task=1: each rank sees its own"
before=$failures
job=$(submit multi --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 \
  --cpus-per-task=1 jobs/multi_gpu.sbatch --run.device=cpu)
expect_end multi "$job" COMPLETED 0
expect_shown multi '4 MPI ranks'
conclude multi "$before" "multi_gpu.sbatch trains"

# Two components, one world; stopped, queued again and resumed as one.
before=$failures
job=$(submit het --partition=cpu : --partition=gpu jobs/hetjob.sbatch \
  "${long[@]}")
wait_for 60 is_training het 0 || failed "het: does not train"
[[ $(scontrol show job "$job" | grep -c 'JobState=RUNNING') == 2 ]] ||
  failed "het: not two components"
expect_shown het '4 MPI ranks'
send_usr1 "$job"
expect_requeue het "$job" 1
wait_for 60 is_training het 1 || failed "het: does not train again"
expect_shown het '^resumed from '
touch "$work/runs/het/STOP"
expect_end het "$job" FAILED 75
conclude het "$before" "CPU and GPU nodes in one world, queued again as one"

# The site file: options of sbatch for jobs/submit.sh, those of srun in the job;
# from another folder.
before=$failures
cat >"$work/site.sh" <<'SITE'
# shellcheck shell=bash disable=SC2034
export SBATCH_PARTITION=gpu
mpi=pmi2 srun_options=(--label)
SITE
echo "export SYNCOPATE_RUNS=$work/scratch" >>"$work/site.sh"
# submit's sbatch is meant to be another command here
sbatch() { (cd / && SITE=$work/site.sh "$source_dir/jobs/submit.sh" "$@"); }
cp inputs/smoke.ini "$work/smoke.ini"
job=$(sbatch --parsable --nodes=1 --output="$work/site.out" \
  "$source_dir/jobs/train.sbatch" "$work/smoke.ini" --run.name=site \
  --run.threads=1)
expect_end site "$job" COMPLETED 0
expect_shown site '^0: step '
[[ -f $work/scratch/site/results.h5 ]] || failed "site: not in SYNCOPATE_RUNS"
scontrol show job "$job" | grep -q 'Partition=gpu' || failed "site: not in gpu"
# Plain sbatch in another folder, whose environment does not reach the job.
job=$(cd / && SBATCH_EXPORT=SLURM_CONF,PATH,SYNCOPATE command sbatch --parsable \
  --nodes=1 --output="$work/bare.out" "$source_dir/jobs/train.sbatch" \
  "$work/smoke.ini" --run.directory="$work/runs" --run.name=bare --run.threads=1)
expect_end bare "$job" COMPLETED 0
expect_shown bare '2 MPI ranks'
code=0
SITE=$work/nowhere.sh "$source_dir/jobs/submit.sh" x 2>"$work/nowhere.out" || code=$?
((code == 66)) || failed "a site file that is not there: exit $code, not 66"
conclude site "$before" "jobs/submit.sh has the site file's partition and options"
finish
