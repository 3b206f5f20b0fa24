#!/usr/bin/env bash
# Runs that go on with another number of workers, and runs that start from the
# model of another.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
export OMP_NUM_THREADS=1

cat >tiny.ini <<'INI'
[run]
steps = 24
threads = 1
log_every = 4
[model]
family = logistic
[data]
kind = synthetic_images
samples = 192
test_samples = 40
classes = 4
channels = 1
height = 6
width = 6
[optimizer]
lr = 0.05
momentum = 0.5
weight_decay = 0
[schedule]
kind = cosine
warmup = 6 steps
[eval]
every = 12 steps
batch = 20
INI

look() { # look RUN EXPRESSION: of its newest checkpoint c and its results r
  python - "runs/$1" "$2" <<'PY'
import glob, sys
import h5py, numpy
run, expression = sys.argv[1:]
folder = sorted(glob.glob(run + "/checkpoints/step-????????"))[-1]
c = {path.split("/")[-1][:-3]: h5py.File(path)
     for path in glob.glob(folder + "/*.h5")}
r = h5py.File(run + "/results.h5")
print(eval(expression))
PY
}

# 4 workers become 2: steps, lengths, schedule and rows go on in samples.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=whole --run.workers=4 --data.batch=8
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=cut --run.workers=4 --data.batch=8 \
  --run.stop_at=12
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=cut --run.workers=2 --data.batch=8
grep -q "workers   4 before, 2 now: step 12 of 4 workers is step 24 of 2" \
  runs/cut/log.txt || fail "the change of workers is not said: $(cat runs/cut/log.txt)"
# The run is as long in samples: 48 steps of 2 workers.
[[ $(look cut 'int(r["train/worker_steps"][-1])') == 96 ]] ||
  fail "not as many samples: $(look cut 'r["train/worker_steps"][-1]')"
# The rate is that of the samples: step 27 of 48 with a warm-up of 12.
[[ $(look cut 'bool(abs(r["train/lr"][0] / (0.05 * 0.5 * (1 + numpy.cos(
    numpy.pi * (27 - 12) / (48 - 12)))) - 1) < 1e-6)') == True ]] ||
  fail "the rate is another: $(look cut 'r["train/lr"][()]')"
[[ -f runs/cut/results-1.h5 ]] || fail "the rows of 4 workers were not kept"
grep -q "results.h5: has rows of 4 workers, and the run goes on with 2; kept as results-1.h5" \
  runs/cut/log.txt || fail "the kept rows are not said: $(grep kept runs/cut/log.txt)"
[[ $(look cut 'r["comm/compute_s"].shape[1]') == 2 ]] ||
  fail "columns are not 2 workers wide"

# Within a row: its 2 steps of 4 workers took 2 s of each, and 24 of 2 follow.
row=(--run.name=row --data.batch=8 --run.log_every=5)
expect_code 0 "$SYNCOPATE" train tiny.ini "${row[@]}" --run.workers=4 --run.stop_at=12
expect_code 0 "$SYNCOPATE" train tiny.ini "${row[@]}" --run.workers=2
[[ $(look row 'r["comm/compute_s"][()].sum(0).tolist()') == "[26.0, 26.0]" ]] ||
  fail "seconds of a row: $(look row 'r["comm/compute_s"][()].sum(0)')"

# Postprocessing has the rows of both parts.
rows=$(PYTHONPATH=${SOURCE_DIR:-$here/../..}/postprocess python -c '
from run_reader import open_run
run = open_run("runs/cut")
steps = run.tables["train"]["worker_steps"]
print(len(steps), int(steps[0]), int(steps[-1]),
      all(a < b for a, b in zip(steps, steps[1:])),
      run.tables["comm"]["compute_s"].shape[1], len(run.per_worker("compute_s")))')
[[ $rows == "9 16 96 True 4 4" ]] || fail "parts are not joined: $rows"

# Its first evaluation was the first one due, in steps of the workers there were;
# and it is no run of two workers, nor of four.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=two --run.workers=2 --data.batch=8 \
  --run.steps=48 --run.seed=2
facts=$(PYTHONPATH=${SOURCE_DIR:-$here/../..}/postprocess python -c '
from run_reader import open_run
run = open_run("runs/cut")
print(run.lacks_first_evaluations, run.input["run.workers"], run.workers)')
[[ $facts == "False 4 then 2 2" ]] || fail "what is known of both parts: $facts"
expect_code 0 python "${SOURCE_DIR:-$here/../..}/postprocess/compare.py" runs/cut runs/two \
  --by run.workers
grep -q "^4 then 2 " out || fail "4 then 2 workers are compared as 2: $(cat out)"

# And on again, by more ranks under MPI: what was converted stays converted.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=again --run.workers=4 --data.batch=8 \
  --run.stop_at=6
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=again --run.workers=2 --data.batch=8 \
  --run.stop_at=16
# shellcheck disable=SC2046
expect_code 0 $(ranks 3) "$SYNCOPATE" train tiny.ini --run.name=again --data.batch=8
grep -q "workers   2 before, 3 now" runs/again/log.txt || fail "no third part"
[[ -f runs/again/results-2.h5 ]] || fail "the second part was not kept"
[[ $(look again 'int(r["train/worker_steps"][-1])') == 96 ]] ||
  fail "after two changes the run has another length"
[[ $(look again 'r["provenance"].attrs["restarts"]') == 2 ]] ||
  fail "restarts are not counted over parts"

# A start with other workers that was killed before it saved anything left
# results of its own width: the run goes on with the first number all the same.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=back --run.workers=4 --data.batch=8 \
  --run.stop_at=6
expect_code 137 "$SYNCOPATE" train tiny.ini --run.name=back --run.workers=2 --data.batch=8 \
  --faults.kind=kill --faults.stage=step --faults.rank=0 --faults.step=14
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=back --run.workers=4 --data.batch=8
[[ $(look back 'r["comm/compute_s"].shape[1]') == 4 ]] ||
  fail "back with 4 workers: columns are not 4 wide"
[[ $(look back 'int(r["train/worker_steps"][-1])') == 96 ]] ||
  fail "back with 4 workers: another length"

# Samples go on where they were, within an epoch of 6 steps: where nothing is
# learnt, two rows of 2 workers have the losses of one of 4.
for name in frozen frozen_cut; do
  stop=16 && [[ $name == frozen ]] && stop=24
  expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=$name --run.workers=4 --data.batch=8 \
    --optimizer.lr=1e-30 --run.stop_at=$stop
done
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=frozen_cut --run.workers=2 --data.batch=8 \
  --optimizer.lr=1e-30
cut=$(look frozen_cut 'r["train/loss"][()].reshape(-1, 2).mean(axis=1).tolist()')
whole=$(look frozen 'r["train/loss"][4:].tolist()')
python -c "
import numpy, sys
print($cut, $whole)
sys.exit(not numpy.allclose($cut, $whole, rtol=1e-6))" ||
  fail "other samples: $cut, $whole"

# Momentum has the shape of its parameter.
[[ $(look frozen 'c["replica"]["momentum/fc.weight"].shape') == "(4, 36)" ]] ||
  fail "momentum does not have its parameter's shape"
[[ $(look frozen 'c["replica"]["parameters/fc.weight"].shape') == "(4, 36)" ]] ||
  fail "parameters do not have their shape"

# Each scheme goes on, or says why not and what to do.
for scheme in $({ schemes_of_each_kind && echo easgd; } | sort -u); do
  mapfile -t keys < <(scheme_keys "$scheme" | tr ' ' '\n')
  [[ -n ${keys[0]:-} ]] || keys=()
  all=("--run.name=s-$scheme" --data.batch=8 "--sync.scheme=$scheme" "${keys[@]}")
  expect_code 0 "$SYNCOPATE" train tiny.ini "${all[@]}" --run.workers=4 --run.stop_at=12
  if [[ $scheme == sync_switch ]]; then
    expect_code 65 "$SYNCOPATE" train tiny.ini "${all[@]}" --run.workers=3
    grep -q "run.workers: was 4, now 3: .*; expected 4, or another run.name" err ||
      fail "$scheme: no way round is named: $(cat err)"
    # The way that it names.
    from=$(sed -n 's/.* checkpoint.resume = \([^ ]*\) starts a new run.*/\1/p' err)
    expect_code 0 "$SYNCOPATE" train tiny.ini "${all[@]:1}" --run.workers=3 \
      --run.name=s-round "--checkpoint.resume=$from"
    grep -q "start     warm start: .*because run.workers: was 4, now 3" \
      runs/s-round/log.txt || fail "no warm start: $(cat runs/s-round/log.txt)"
    continue
  fi
  before=$(python -c 'import h5py, sys
print(h5py.File(sys.argv[1])["eval/loss"][-1])' "runs/s-$scheme/results.h5")
  expect_code 0 "$SYNCOPATE" train tiny.ini "${all[@]}" --run.workers=3
  [[ $(look "s-$scheme" "bool(r['eval/loss'][-1] < $before)") == True ]] ||
    fail "$scheme did not learn on: $before, $(look "s-$scheme" 'r["eval/loss"][()]')"
  expect_code 0 "$SYNCOPATE" train tiny.ini "${all[@]}" --run.workers=3 --run.steps=24
  grep -q "nothing left to do" out || fail "$scheme: not at its end"
done

# What the input does not say is as the run had it, even what every other input
# has to say, but for lists by worker, of which there are now others.
printf '[run]\nthreads = 1\n' >bare.ini
expect_code 0 "$SYNCOPATE" train bare.ini --run.name=cut
grep -q "nothing left to do" out || fail "a bare command line: $(cat out)"
for schedule in cosine constant; do
  own=("--run.name=bare-$schedule")
  [[ $schedule == cosine ]] || own+=(--schedule.warmup=0)
  # shellcheck disable=SC2054  # commas within a key's list
  by_worker=(--stragglers.factor=1,2,1,3 --compute.speed=1,1,2,2
    "--stragglers.episodes=3:compute:x2, 2:link:+5ms" --network.latency_us=100
    --stragglers.delay_ms=1 --stragglers.delay_workers=3 --stragglers.delay_until=4)
  expect_code 0 "$SYNCOPATE" train tiny.ini "${own[@]}" --run.workers=4 --data.batch=8 \
    --schedule.kind=$schedule "${by_worker[@]}" --run.stop_at=6
  expect_code 0 "$SYNCOPATE" train bare.ini "--run.name=bare-$schedule" --run.stop_at=8
  grep -q "^factor = 1 2 1 3" "runs/bare-$schedule/input.ini" ||
    fail "stragglers were not taken from the run"
  # Slow links cost virtual time, which ranks do not have.
  # shellcheck disable=SC2046
  expect_code 0 $(ranks 4) "$SYNCOPATE" train bare.ini "--run.name=bare-$schedule" \
    --run.stop_at=10
  expect_code 0 "$SYNCOPATE" train bare.ini "--run.name=bare-$schedule" --run.workers=2
  grep -q "workers   4 before, 2 now" "runs/bare-$schedule/log.txt" ||
    fail "$schedule: not resized: $(tail -n 3 "runs/bare-$schedule/log.txt")"
  grep -qE "^(factor|episodes) = .*[0-9] |^delay_workers = [0-9]" \
    "runs/bare-$schedule/input.ini" && fail "lists by worker came back"
  [[ $(look "bare-$schedule" 'int(r["train/worker_steps"][-1])') == 96 ]] ||
    fail "$schedule: another length"
done

# A warm start: another rate, another scheme, another number of workers.
newest=$(echo runs/whole/checkpoints/step-*24)
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=warm --run.workers=2 --data.batch=8 \
  --sync.scheme=local_sgd --optimizer.lr=0.001 --checkpoint.resume="$newest" --run.stop_at=1 \
  --run.log_every=1
grep -q "start     warm start: a new run from the model of .*step-00000024 (scheme bsp, step 24).*optimizer.lr: was 0.05, now 0.001.*sync.scheme: was bsp, now local_sgd" \
  runs/warm/log.txt || fail "a warm start is not named: $(cat runs/warm/log.txt)"
[[ $(look warm 'r["provenance"].attrs["start"].split(":")[0]') == "warm start" ]] ||
  fail "provenance does not name a warm start"
[[ $(look warm 'r["provenance"].attrs["restarts"]') == 0 ]] || fail "a warm start is no restart"
last=$(look whole 'r["train/loss"][-1]') first=$(look warm 'r["train/loss"][0]')
python -c "import sys; sys.exit(not $first < 2 * $last)" ||
  fail "a warm start begins at a loss of $first, the run ended with $last"
# What decides nothing of how it learns makes no run a new one by itself: a
# mistake in it would cost the optimizer's state.
for other in run.seed=7 compute.step_s=3 eval.on=validation; do
  expect_code 65 "$SYNCOPATE" train tiny.ini --run.name=same --run.workers=4 --data.batch=8 \
    --checkpoint.resume="$newest" "--$other"
  grep -q "${other%=*}: .*" err || fail "$other: $(cat err)"
  [[ ! -e runs/same/results.h5 ]] || fail "$other began a run"
done
# It is a run of its own: it goes on from its own checkpoint.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=warm --run.workers=2 --data.batch=8 \
  --sync.scheme=local_sgd --optimizer.lr=0.001 --checkpoint.resume="$newest"
grep -q "resumed from runs/warm" runs/warm/log.txt || fail "the warm run did not go on"
# Other data make it a new run too, which takes the network alone: neither the
# rate nor the lengths of the other run.
python "$here/make_idx.py" first 0 192 40
python "$here/make_idx.py" second 1 192 40
sed -e 's/synthetic_images/idx/' -e '/samples = /d' -e '/^classes = /d' \
  -e '/^channels = /d' -e '/^height = /d' -e '/^width = /d' tiny.ini >idx.ini
expect_code 0 "$SYNCOPATE" train idx.ini --run.name=on-first --run.workers=4 --data.batch=8 \
  --data.path=first --run.stop_at=6
sed -i '/^lr = /d' idx.ini
expect_code 0 "$SYNCOPATE" train idx.ini --run.name=on-second --run.workers=2 --data.batch=8 \
  --data.path=second --checkpoint.resume="$(echo runs/on-first/checkpoints/step-*06)"
grep -q "start     warm start: .*because other data" runs/on-second/log.txt ||
  fail "other data are no warm start: $(cat runs/on-second/log.txt)"
grep -q "^lr = 0.05" runs/on-second/input.ini && fail "the rate of the other run was taken"
[[ $(look on-second 'int(r["train/worker_steps"][-1])') == 48 ]] ||
  fail "the lengths of the other run were taken"
# With more workers the steps are fewer: work, not steps, tells which
# checkpoints are the newest.
# What was counted since the last row when the run stopped is not lost: samples and
# bytes are those of 7 steps of 4 workers and of 34 steps of 2.
counted=(--data.batch=8 --run.log_every=5 --eval.every=0 --sync.scheme=bsp)
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=counted "${counted[@]}" --run.workers=4 \
  --run.stop_at=7 --run.steps=24
of_four=$(look counted 'int(r["summary/bytes_sent"][()])')
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=of_two "${counted[@]}" --run.workers=2 \
  --run.steps=10 --run.stop_at=10
of_two=$(look of_two 'int(r["summary/bytes_sent"][()])')
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=counted "${counted[@]}" --run.workers=2 \
  --run.steps=24
expected="$((of_four + 34 * of_two / 10)) $((of_four + 34 * of_two / 10))"
# Rows of four workers are in a file of their own.
found=$(look counted 'int(r["summary/bytes_sent"][()]), sum(
  int(h5py.File(run + name)["comm/bytes_sent"][()].sum())
  for name in ["/results-1.h5", "/results.h5"])' | tr -d '(),')
[[ $found == "$expected" ]] || fail "bytes of summary and rows: $found, expected $expected"

grown=(--run.name=grown --data.batch=8 --checkpoint.every="5 steps" --checkpoint.keep=2)
expect_code 0 "$SYNCOPATE" train tiny.ini "${grown[@]}" --run.workers=2 --run.stop_at=20
expect_code 0 "$SYNCOPATE" train tiny.ini "${grown[@]}" --run.workers=8 --run.stop_at=6
# shellcheck disable=SC2012
[[ $(ls runs/grown/checkpoints | tr '\n' ' ') == "step-00000006 step-00000020 " ]] ||
  fail "not the newest two: $(ls runs/grown/checkpoints)"
printf x | dd of=runs/grown/checkpoints/step-00000006/replica.h5 bs=1 seek=999 \
  conv=notrunc 2>/dev/null
expect_code 0 "$SYNCOPATE" train tiny.ini "${grown[@]}" --run.workers=8 --run.stop_at=7
grep -q "resumed from .*step-00000020 (step 20)" runs/grown/log.txt ||
  fail "not from the newest whole one: $(grep resumed runs/grown/log.txt)"
# Postprocessing counts all steps in those of today's workers.
steps=$(PYTHONPATH=${SOURCE_DIR:-$here/../..}/postprocess python -c '
from run_reader import open_run
steps = open_run("runs/grown").tables["train"]["step"]
print(len(steps), all(a < b for a, b in zip(steps, steps[1:])))')
[[ $steps =~ ^[0-9]+\ True$ ]] || fail "steps go back: $steps"
# Of alike workers, of whom some were there all the time, the mean bar is as long
# as the bar of one of these.
bars=$(PYTHONPATH=${SOURCE_DIR:-$here/../..}/postprocess python -c '
from plot_runs import mean_time_parts, time_parts
from run_reader import open_run
run = open_run("runs/grown")
parts, mean = time_parts(run)["compute"], mean_time_parts(run)["compute"]
print(len(parts), min(parts) < max(parts), abs(mean / max(parts) - 1) < 1e-9)')
[[ $bars == "8 True True" ]] || fail "bars of 2 and 8 workers: $bars"
# A centre is evaluated whatever the input trains.
for command in evaluate predict; do
  words=() && [[ $command == predict ]] && words=(--output=centre.csv)
  expect_code 0 "$SYNCOPATE" $command tiny.ini --checkpoint=runs/s-easgd \
    --eval.model=centre "${words[@]}"
done
expect_code 65 "$SYNCOPATE" evaluate tiny.ini --checkpoint=runs/s-bsp --eval.model=centre
grep -q "has no centre" err || fail "bsp has a centre: $(cat err)"
# Another network has no use for the model.
expect_code 65 "$SYNCOPATE" train tiny.ini --run.name=other --model.family=resnet \
  --model.depth=8 --data.batch=8 --checkpoint.resume="$newest"
grep -q "model.family: the checkpoint has logistic, the input resnet" err ||
  fail "another network is not refused: $(cat err)"
finish
