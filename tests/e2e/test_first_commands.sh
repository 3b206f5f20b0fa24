#!/usr/bin/env bash
# What someone types in the first half hour: lists and help, the folder of a run,
# slips in options, a refused start, Ctrl-C, the lines on a terminal.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
root=${SOURCE_DIR:-$here/../..}

says() { # says TEXT FILE
  grep -qF -- "$1" "$2" || { fail "no '$1' in:"; tail -n 20 "$2"; }
}
await() { # await COMMAND...: for at most 60 s
  for _ in $(seq 1200); do "$@" && return; sleep 0.05; done
  fail "in vain: $*"
}

echo "lists and help"
expect_code 0 "$SYNCOPATE" list
for what in models data schemes compressors topologies optimizers schedules \
  collectives keys; do
  says "$what " out
done
expect_code 0 "$SYNCOPATE" help
says "Exit codes" out
cp out help
expect_code 0 "$SYNCOPATE"
cmp -s out help || fail "no words print something else than help"
expect_code 0 "$SYNCOPATE" help train
says "syncopate train INPUT.ini" out
(($(wc -l <out) < 5)) || fail "help train says more than about train"
expect_code 0 "$SYNCOPATE" train --help
says "syncopate train INPUT.ini" out
expect_code 64 "$SYNCOPATE" help trian
says "did you mean train?" err
expect_code 0 "$SYNCOPATE" list keys optimizer
says "[optimizer]" out
! grep -qF "[run]" out || fail "list keys optimizer lists other sections"
# A scheme's keys are also those of other sections that it uses.
expect_code 0 "$SYNCOPATE" list keys choco
for section in choco compress topology; do says "[$section]" out; done
! grep -qF "tables = " out || fail "list keys choco lists a key of bsp"
expect_code 0 "$SYNCOPATE" list keys sgp
says "wire = fp32" out
expect_code 64 "$SYNCOPATE" list keys optimiser
says "expected one of run" err
expect_code 64 "$SYNCOPATE" train tiny.ini --lr=0.1
says "(did you mean --optimizer.lr?)" err
expect_code 64 "$SYNCOPATE" train tiny.ini --batch=8
says "(did you mean --data.batch or --eval.batch?)" err
expect_code 64 "$SYNCOPATE" train tiny.ini --batch=8 --lr=0.1
says "--data.batch" err
says "--optimizer.lr" err

echo "the manual page and the shell's completion have every command and key"
expect_code 0 "$SYNCOPATE" help man
cp out page.1
if command -v groff >/dev/null; then
  said=$(groff -Tutf8 -man -ww -z page.1 2>&1)
  [[ -z $said ]] || fail "troff: $(head -n 3 <<<"$said")"
else
  echo "not checked: the manual page's syntax, since there is no groff"
fi
expect_code 0 "$SYNCOPATE" list keys
while read -r key; do
  grep -qx "\.B $key" page.1 || fail "the manual page lacks $key"
done < <(sed -n 's/^\([a-z_0-9]*\) = .*/\1/p' out)
expect_code 0 "$SYNCOPATE" help completion
cp out completion
completes() { # completes WANTED WORD...: the last word is being typed
  local wanted=$1 found
  shift
  found=$(bash -c 'source ./completion; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _syncopate; echo "${COMPREPLY[@]}"' _ "$@")
  [[ $found == "$wanted" ]] || fail "$*: completed by '$found', not '$wanted'"
}
completes "evaluate" syncopate ev
completes "--sync.scheme=" syncopate train a.ini --sync.sch
completes "asp" syncopate train a.ini --sync.scheme = as
completes "$("$SYNCOPATE" list schemes | cut -d' ' -f1 | xargs)" \
  syncopate train a.ini --sync.scheme =
touch mine.ini
completes "mine.ini" syncopate train mi
completes "topologies" syncopate list top
completes "choco checkpoint" syncopate list keys ch
completes "comm" syncopate bench co
completes "completion" syncopate help compl
completes "--checkpoint= --checkpoint.every= --checkpoint.keep= \
--checkpoint.resume= --checkpoint.best=" syncopate evaluate a.ini --checkpoint
options() { grep -F " $1) own=" completion | cut -d'"' -f2; } # options COMMAND
[[ $(options export) == "--output --replica" ]] || fail "options of export: $(options export)"
expect_code 0 "$SYNCOPATE" help help
says "syncopate help [COMMAND]" out

echo "a refused start leaves no folder"
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=first --run.workers=2
refused() { # refused NAME CODE COMMAND...
  local before
  before=$(find runs new 2>/dev/null | sort)
  expect_code "${@:2}"
  [[ $(find runs new 2>/dev/null | sort) == "$before" ]] ||
    fail "$1: left $(find runs new -newer tiny.ini | tail -n 3)"
}
mkdir -p empty
refused "a checkpoint that is not there" 66 "$SYNCOPATE" train tiny.ini \
  --run.directory=new/runs --run.name=second --checkpoint.resume=tiny.ini
refused "a batch that is too large" 65 "$SYNCOPATE" train tiny.ini --run.name=second \
  --data.batch=1000
refused "another network's checkpoint" 65 "$SYNCOPATE" train tiny.ini \
  --run.name=second --model.depth=14 --checkpoint.resume=runs/first

echo "SYNCOPATE_RUNS is where runs go that do not say it"
expect_code 0 env SYNCOPATE_RUNS="$scratch/elsewhere" "$SYNCOPATE" train tiny.ini \
  --run.name=moved --run.stop_at=2
grep -qx "directory = $scratch/elsewhere" elsewhere/moved/input.ini ||
  fail "not in SYNCOPATE_RUNS: $(ls)"
expect_code 0 env SYNCOPATE_RUNS="$scratch/elsewhere" "$SYNCOPATE" train tiny.ini \
  --run.name=here --run.directory=runs --run.stop_at=2
[[ -d runs/here && ! -e elsewhere/here ]] || fail "run.directory does not win"

echo "another run's folder: the last line says what to do"
expect_code 65 "$SYNCOPATE" train tiny.ini --run.name=first --run.workers=2 \
  --sync.scheme=ds_sync
[[ $(tail -n 1 err) == "error: another run is in runs/first: "*"--run.name=first-2" ]] ||
  fail "the last line: $(tail -n 1 err)"
says "error: used by only one of the two inputs: " err
says ", ds_sync.radices, " err
(($(wc -l <err) == 3)) || fail "not three lines: $(cat err)"
grep -q "^error: .*cannot resume: sync.scheme: was bsp, now ds_sync" \
  runs/first/log.txt || fail "the log does not say that it was refused"
mkdir runs/first-2 runs/pattern-1
expect_code 65 "$SYNCOPATE" train tiny.ini --run.name=first --run.workers=2 \
  --optimizer.lr=0.2
says "--run.name=first-3" err
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name='pattern-{seed}' --run.stop_at=2
expect_code 65 "$SYNCOPATE" train tiny.ini --run.name='pattern-{seed}' \
  --optimizer.lr=0.2
says "--run.name=pattern-{seed}-2" err

echo "a run that is stopped between two rows of its log: its virtual time is its own"
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=between --run.workers=2 \
  --run.log_every=3 --run.stop_at=4 --compute.step_s=0.5
says "the whole run took 2.0 s of virtual time" out
python -c 'import h5py
assert abs(h5py.File("runs/between/results.h5")["summary/virtual_s"][()] - 2) < 1e-9' ||
  fail "summary/virtual_s"

echo "output that is lost is an error; a reader that has seen enough is none"
for words in "list keys" "help" "status runs/between"; do
  code=0
  # shellcheck disable=SC2086
  "$SYNCOPATE" $words >/dev/full 2>err || code=$?
  ((code == 74)) || fail "$words: exit $code, expected 74"
  says "standard output" err
done
(set -o pipefail; "$SYNCOPATE" list keys 2>err | head -n 1 >out) ||
  fail "list keys | head: $(cat err)"
[[ -s err ]] && fail "list keys | head: $(cat err)"

echo "words that a command does not take, names that no folder can have"
for words in "doctor all" "help list keys" "list keys optimizer.lx"; do
  # shellcheck disable=SC2086
  expect_code 64 "$SYNCOPATE" $words
  [[ $(wc -l <err) == 1 ]] || fail "$words: $(cat err)"
done
expect_code 0 "$SYNCOPATE" list keys optimizer.momentum
[[ $(grep -c "^[a-z]* = " out) == 1 ]] || fail "list keys optimizer.momentum: $(cat out)"
long=$(printf 'a%.0s' {1..256})
for command in train validate; do
  expect_code 65 "$SYNCOPATE" $command tiny.ini --run.name="$long"
  says "run.name or run.directory: 256 bytes" err
done
[[ ! -e runs/$long ]] || fail "a name of 256 bytes was made"
expect_code 65 "$SYNCOPATE" validate tiny.ini --model.depth=9999998
says "model.depth: expected a whole number from 1 to 10000" err

echo "keys that this run does not use are named in its log"
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=unlike --run.workers=2 --run.stop_at=2 \
  --data.batch_by_worker=4,12
says "unused    data.batch: data.batch_by_worker replaces it" out

for command in train simulate; do
  expect_code 0 "$SYNCOPATE" $command tiny.ini --run.name=links --run.steps=6 --run.workers=2 \
    --network.group=2 --network.uplink_mbit_s=10 --network.group_mbit_s=100
  says "unused    network.uplink_mbit_s: all 2 workers are in one group, which no message leaves" out
  [[ $(grep -c '^unused' out) == 1 ]] || fail "$command: $(cat out)"
done
expect_code 0 "$SYNCOPATE" simulate tiny.ini --run.workers=2 --network.group=1 \
  --network.mbit_s=100 --network.group_latency_us=3
says "unused    network.group_latency_us: groups of one worker exchange no messages inside" out
[[ $(grep -c '^unused' out) == 1 ]] || fail "groups of one: $(cat out)"

echo "inspect of a file that is no result"
mkfifo pipe
expect_code 65 timeout 20 "$SYNCOPATE" inspect pipe
expect_code 65 "$SYNCOPATE" inspect tiny.ini
says "expected a run, a checkpoint, a results.h5 or prepared data" err

echo "a job script outside a job"
scripts=${SOURCE_DIR:-$here/../..}
for script in train multi_gpu hetjob; do
  expect_code 0 env -u SLURM_JOB_ID SYNCOPATE_ROOT="$scripts" \
    bash "$scripts/jobs/$script.sbatch" --help
  says "INPUT.ini" out
  expect_code 64 env -u SLURM_JOB_ID SYNCOPATE_ROOT="$scripts" \
    bash "$scripts/jobs/$script.sbatch" tiny.ini
  says "submit this script with sbatch" err
done

for words in --help -h; do
  expect_code 0 bash "$scripts/jobs/sweep.sbatch" $words
  says "submitted by jobs/sweep.sh --slurm" out
done
expect_code 64 env SYNCOPATE_ROOT="$scripts" bash "$scripts/jobs/sweep.sbatch" tiny.sweep
says "usage: sbatch jobs/sweep.sbatch tune" err

echo "a target out of reach"
expect_code 65 "$SYNCOPATE" train tiny.ini --run.name=target --eval.every=2 \
  "--run.target=accuracy >= 90"
says "accuracies are shares" err

echo "OMP_NUM_THREADS"
expect_code 0 env OMP_NUM_THREADS=3,2 "$SYNCOPATE" train tiny.ini --run.name=three \
  --run.threads=auto --run.stop_at=2
says "3 threads per worker" out

echo "names by what differs, which status finds as well"
named=("--run.name={scheme}-{workers}-{seed}" --run.stop_at=2)
expect_code 0 "$SYNCOPATE" train tiny.ini "${named[@]}"
expect_code 0 "$SYNCOPATE" train tiny.ini "${named[@]}" --run.workers=3
expect_code 0 "$SYNCOPATE" train tiny.ini "${named[@]}" --run.workers=3 \
  --sync.scheme=local_sgd
read -ra two <<<"$(ranks 2)"
expect_code 0 "${two[@]}" "$SYNCOPATE" train tiny.ini "${named[@]}" \
  --run.workers=auto --run.threads=1
for name in bsp-1-1 bsp-3-1 local_sgd-3-1 bsp-2-1; do
  [[ -f runs/$name/results.h5 ]] || fail "no runs/$name: $(ls runs)"
done
expect_code 0 "$SYNCOPATE" status tiny.ini "${named[@]}" --run.workers=3
says "runs/bsp-3-1" out
expect_code 0 env SLURM_NTASKS=2 "$SYNCOPATE" status tiny.ini "${named[@]}"
says "runs/bsp-2-1" out
expect_code 0 env SLURM_HET_SIZE=2 SLURM_NTASKS=1 SLURM_NTASKS_HET_GROUP_0=1 \
  SLURM_NTASKS_HET_GROUP_1=2 "$SYNCOPATE" status tiny.ini "${named[@]}"
says "runs/bsp-3-1" out
expect_code 64 env -u SLURM_NTASKS "$SYNCOPATE" status tiny.ini "${named[@]}"
says "--run.workers=N" err
expect_code 65 "$SYNCOPATE" train tiny.ini "${named[@]}" \
  --checkpoint.resume=runs/bsp-3-1
says "give run.workers" err
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=first --run.workers=3
says "nothing left to do: this run ended with 2 workers; to train with 3, give" out

echo "status and inspect of a folder"
expect_code 0 "$SYNCOPATE" status runs/first
cp out by_folder
expect_code 0 "$SYNCOPATE" status tiny.ini --run.name=first --run.workers=2
cmp -s out by_folder || fail "status of the folder and of the input differ"
says "ended       finished" out
expect_code 66 "$SYNCOPATE" status empty
expect_code 0 "$SYNCOPATE" inspect runs/first
sed -n 2p out >summary
says "finished at step 20: scheme bsp, resnet, workers 2" summary
sed -n 4p out >summary
says "accuracy " summary
grep -q "^  replica.h5  [0-9]* bytes" out || fail "inspect does not list the files: $(cat out)"
says "every tensor: syncopate inspect runs/first/checkpoints/step-00000020" out
! grep -q "momentum/" out || fail "inspect of a run lists every tensor"
! grep -q "log_every" out || fail "inspect of a run prints the whole input"
expect_code 0 "$SYNCOPATE" inspect runs/first/checkpoints/step-00000020
says "momentum/" out
says "run.log_every" out
expect_code 0 "$SYNCOPATE" inspect runs/first/results.h5
says "log_every" out

echo "a job that has queued itself again has not ended"
expect_code 75 "$SYNCOPATE" train tiny.ini --run.name=queued --run.steps=5000 \
  --schedule.horizon=5000 --run.time_limit_s=1
status() { expect_code 0 "$SYNCOPATE" status runs/queued; }
status && says "ended       stopped" out
echo "job 17 restart 0 step 0" >runs/queued/restarts.txt
status && says "ended       stopped" out
echo "job 17 requeued step 9" >>runs/queued/restarts.txt
status && says "ended       requeued as job 17" out
echo "job 17 restart 1 step 9" >>runs/queued/restarts.txt
status && says "ended       stopped" out

echo "lines fit a terminal; the first one does not wait for data"
for run in "tiny.ini --run.workers=3 --eval.model=average --sync.scheme=local_sgd" \
  "tiny.ini --run.workers=3 --sync.scheme=asp" \
  "$root/inputs/bert_smoke.ini --run.steps=20" \
  "$root/inputs/deepfm_smoke.ini --run.steps=20"; do
  read -ra words <<<"$run"
  expect_code 0 "$SYNCOPATE" train "${words[@]}" --run.directory=runs --run.name=wide
  (($(grep -cE '^(step|eval) ' out) >= 2)) || fail "$run: no lines"
  ! grep -E '^(step|eval) .{96}' out || fail "$run: longer than 100 columns"
  rm -r runs/wide
done
# With many steps, a line of workers at different speeds leaves out their range.
small_network | sed '/^depth/d; s/resnet/logistic/' >many.ini
expect_code 0 "$SYNCOPATE" train many.ini --run.workers=3 --sync.scheme=esync --run.name=many \
  --run.threads=1 --run.steps=12000 --run.log_every=4000 --eval.every=0 \
  --compute.speed=1,2,4 --compute.step_s=10000
(($(grep -cE '^step .*/12000 ' out) >= 2)) || fail "many steps: no lines"
! grep -E '^step .{96}' out || fail "many steps: longer than 100 columns"
# Rounds that the run does not reach, unless gradients are averaged before.
rounds=(many.ini --run.workers=2 --run.threads=1 --sync.scheme=local_sgd --local_sgd.steps=9
  --run.steps=8 --eval.every=0)
expect_code 0 "$SYNCOPATE" train "${rounds[@]}" --run.name=rounds
says "note      local_sgd communicates every 9 steps, but this run has 8: workers never" out
expect_code 0 "$SYNCOPATE" train "${rounds[@]}" --run.name=started --local_sgd.start='2 steps'
! grep -q '^note .*never' out || fail "$(grep '^note' out)"
# Beginnings that outlast the run, and keys without effect on this network.
without=("${rounds[@]:0:3}" --run.steps=8 --eval.every=0)
notes() { # notes NAME KEYS...: what train prints of them
  expect_code 0 "$SYNCOPATE" train "${without[@]}" --run.name="$1" "${@:2}"
  grep '^note\|^unused' out >said || true
}
for start in 7 8; do
  notes start-$start --sync.scheme=local_sgd --local_sgd.steps=2 --local_sgd.start="$start steps"
  [[ $start == 7 ]] || says "local_sgd.start is not before the end of this run (8 steps)" said
  [[ $start == 8 || ! -s said ]] || fail "local_sgd.start = $start: $(cat said)"
done
for warmup in 7 8; do
  notes warmup-$warmup --sync.scheme=dgc --dgc.warmup_ratios=0.5,0.9 --dgc.warmup="$warmup steps"
  [[ $warmup == 7 ]] || says "dgc: its warm-up of 8 steps is not over before the end" said
  [[ $warmup == 8 || ! -s said ]] || fail "dgc.warmup = $warmup: $(cat said)"
done
notes mask --sync.scheme=dgc --dgc.mask_momentum=no --optimizer.momentum=0
says "unused    dgc.mask_momentum: optimizer.momentum is 0" said
notes rank --sync.scheme=power_sgd --power_sgd.rank=100
says "note      power_sgd.rank = 100 makes no tensor of this network smaller" said
notes rank-2 --sync.scheme=power_sgd --power_sgd.rank=2
[[ ! -s said ]] || fail "power_sgd.rank = 2: $(cat said)"
cat >clicks.ini <<'INI'
[model]
family = deepfm
embedding = 2
mlp = none
[data]
kind = synthetic_criteo
samples = 512
test_samples = 64
batch = 8
field_rows = 5
INI
expect_code 0 "$SYNCOPATE" train clicks.ini --run.steps=2 --run.name=statistics \
  --eval.every=0 --eval.batchnorm=recomputed
says "unused    eval.batchnorm: this network has no BatchNorm" out
expect_code 0 "$SYNCOPATE" validate "${rounds[@]}"
says "per worker and step, in rounds of 9 steps" out
expect_code 65 "$SYNCOPATE" train runs/rounds
says "runs/rounds: is the folder of a run: its input is runs/rounds/input.ini" err
sed -e 's/^kind = synthetic_images/kind = idx\npath = nowhere/' \
  -e '/samples =/d;/^classes/d;/^height/d;/^width/d' tiny.ini >absent.ini
expect_code 66 "$SYNCOPATE" train absent.ini
[[ $(head -n 1 out) == "syncopate "*" on "* ]] ||
  fail "no line before data are read: $(cat out)"

echo "a terminal has a bar with loss and speed, during evaluations too"
python - "$SYNCOPATE" <<'PY' >bar.out || fail "no bar"
import os, pty, sys
os.environ.pop("NO_COLOR", None)
seen = b""
def read(fd):
    global seen
    data = os.read(fd, 4096)
    seen += data
    return data
pty.spawn([sys.argv[1], "train", "tiny.ini", "--run.name=bar", "--eval.batch=1",
           "--data.test_samples=40000", "--run.steps=300", "--eval.every=0"], read)
bars = [part.strip() for part in seen.split(b"\r")]
bars = [part for part in bars if part.startswith(b"[")]
assert any(b"| loss " in bar and b" samples/s" in bar for bar in bars), bars
assert any(b"/40000 | evaluating" in bar for bar in bars), bars
assert max(map(len, bars)) <= 100, bars
PY
! grep -q '^\[' runs/bar/log.txt || fail "the bar is in log.txt"
[[ $(head -n 1 runs/bar/log.txt) == syncopate* ]] ||
  fail "log.txt lacks the first line: $(head -n 1 runs/bar/log.txt)"

echo "Ctrl-C during an evaluation answers at once, the second ends"
long=(--run.name=long --eval.every=1 --data.test_samples=100000 --eval.batch=1)
"$SYNCOPATE" train tiny.ini "${long[@]}" --run.log_every=1 >long.out 2>long.err &
pid=$!
await grep -q '^step .*1/20' long.out
sleep 0.5
kill -INT $pid
kill -INT $pid # what a wrapper passes on, too, is the same Ctrl-C
await grep -q '^interrupted: .*Ctrl-C again' long.err
sleep 0.7
kill -0 $pid || fail "the first Ctrl-C, which came twice, ended it"
kill -INT $pid
code=0
wait $pid || code=$?
((code == 130)) || fail "the second Ctrl-C: exit $code"
! grep -q '^eval' long.out || fail "it was not in an evaluation"
[[ -z $(ls runs/long/checkpoints) ]] || fail "the second Ctrl-C saved"

echo "sbatch from another folder"
for job in train multi_gpu hetjob sweep; do
  cp "$root/jobs/$job.sbatch" copy.sbatch # as Slurm does, which is not here
  expect_code 66 env -u SYNCOPATE_ROOT bash copy.sbatch tiny.ini
  says "run sbatch there, or use jobs/submit.sh" err
done
echo "how fast a slow run is, long before its first row"
first='^step +[0-9]+/10 \| [0-9]+ samples/s \| ETA [0-9.:]+'
# shellcheck disable=SC2046
expect_code 0 $(ranks 2) "$SYNCOPATE" train tiny.ini --run.name=slow \
  --run.steps=10 --run.log_every=50 --eval.every=0 \
  --stragglers.delay_ms=400 --stragglers.delay_workers=0
(($(grep -cE "$first" out) == 1)) || { fail "no speed, or twice"; cat out; }
# A step takes 16 samples and at least 0.4 s.
rate=$(sed -nE 's/^step +[0-9]+\/10 \| ([0-9]+) samples.*/\1/p' out)
((${rate:-0} > 4 && rate <= 40)) || fail "$rate samples/s"
expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=2 --run.name=quick
! grep -qE "$first" out || fail "a quick run says its speed before its rows"

finish
