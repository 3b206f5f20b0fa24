#!/usr/bin/env bash
# Mistakes: one line each, the right code, nothing trained; also under mpiexec.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# one_line TEXT: exactly one line of error, and it holds TEXT.
one_line() {
  (($(wc -l <err) == 1)) || { fail "not one line:"; cat err; }
  grep -qF -- "$1" err || { fail "no '$1' in:"; cat err; }
}

expect_code 64 "$SYNCOPATE" trian tiny.ini
one_line "did you mean train?"
expect_code 64 "$SYNCOPATE" train
one_line "INPUT.ini"
expect_code 64 "$SYNCOPATE" evaluate tiny.ini
one_line "--checkpoint"
expect_code 64 "$SYNCOPATE" evaluate tiny.ini --checkpont=x
one_line "unknown option --checkpont (did you mean --checkpoint?)"
expect_code 64 "$SYNCOPATE" evaluate tiny.ini --checkpoint
one_line "--checkpoint: --name=value expected"
expect_code 64 "$SYNCOPATE" evaluate tiny.ini --checkpoint=x --checkpoint=y
one_line "--checkpoint: given twice"
expect_code 64 "$SYNCOPATE" train tiny.ini -x
one_line "-x: unknown option"
expect_code 64 "$SYNCOPATE" train tiny.ini --hel # abbreviations are not guessed
one_line "--hel: --name=value expected"
expect_code 64 "$SYNCOPATE" prepare images tiny.ini -o
one_line "output"
expect_code 65 "$SYNCOPATE" train tiny.ini --run.name=
one_line "run.name"
expect_code 66 "$SYNCOPATE" train nowhere.ini
one_line "nowhere.ini"
sed 's/^batch = 8/btach = 8/' tiny.ini >slip.ini
expect_code 65 "$SYNCOPATE" train slip.ini
grep -q "slip.ini.*data.btach.*did you mean data.batch" err ||
  fail "the slip is not explained: $(cat err)"
[[ -e runs ]] && fail "a refused input left a run directory"
printf '[run]\nsteps = 8x\nworkers = -1\n[model]\nfamly = resnet\n' >many.ini
expect_code 65 "$SYNCOPATE" train many.ini
(($(grep -c "^error: " err) >= 3)) || fail "not all mistakes at once: $(cat err)"
# Text that is not UTF-8, wherever it comes from, is refused before anything runs.
latin=$'caf\xe9'
sed "s/^\[run\]/[run]\n# the $latin run/" tiny.ini >latin.ini
for command in validate train; do
  expect_code 65 "$SYNCOPATE" $command latin.ini
  one_line 'latin.ini:2: not valid UTF-8 at byte \xE9'
  expect_code 64 "$SYNCOPATE" $command tiny.ini "--run.name=$latin"
  one_line '--run.name=caf\xE9: not valid UTF-8'
  expect_code 64 env SLURM_JOB_ID="$latin" "$SYNCOPATE" $command tiny.ini
  one_line 'SLURM_JOB_ID=caf\xE9: not valid UTF-8'
  cp tiny.ini "$latin.ini"
  expect_code 64 "$SYNCOPATE" $command "$latin.ini"
  one_line 'caf\xE9.ini: not valid UTF-8'
done
rm "$latin.ini"
for command in validate train; do # what the run's own input could not say
  expect_code 64 env SYNCOPATE_RUNS="there #2" "$SYNCOPATE" $command tiny.ini
  one_line 'SYNCOPATE_RUNS: "there #2" cannot be written in an input file'
done
[[ -e runs ]] && fail "text that is not UTF-8 left a run directory"
expect_code 0 "$SYNCOPATE" validate tiny.ini --run.name=café
sed -e 's/^kind = synthetic_images/kind = idx\npath = nowhere/' \
  -e '/samples =/d;/^classes/d;/^height/d;/^width/d' tiny.ini >absent.ini
expect_code 66 "$SYNCOPATE" train absent.ini
one_line "nowhere"
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=taken
expect_code 73 "$SYNCOPATE" train tiny.ini --run.name=taken --checkpoint.resume=none
one_line "already holds a run"
expect_code 76 "$SYNCOPATE" train tiny.ini --run.name=diverged --optimizer.lr=1e30
grep -q "diverged.*worker 0" err || fail "divergence is not named: $(cat err)"
grep -qxF "$(grep '^error: diverged' err)" runs/diverged/log.txt ||
  fail "log.txt does not name the divergence: $(tail -n 3 runs/diverged/log.txt)"
[[ -e runs/diverged/results.h5 ]] || fail "the diverged run kept no results"
expect_code 76 "$SYNCOPATE" train tiny.ini --run.name=early --optimizer.lr=1e30 \
  --schedule.warmup=0 --run.stop_at=2
[[ -z $(ls runs/early/checkpoints) ]] || fail "a diverged state was saved"
"$SYNCOPATE" train tiny.ini --run.name=shared --run.steps=100000 \
  --schedule.horizon=100000 >shared.out 2>&1 &
pid=$!
for _ in $(seq 1200); do grep -q "^step" shared.out && break; sleep 0.05; done
expect_code 73 "$SYNCOPATE" train tiny.ini --run.name=shared
one_line "in use by process $pid"
kill -9 $pid
wait $pid 2>/dev/null
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=shared --run.steps=100000 \
  --schedule.horizon=100000 --run.stop_at=30
touch file && expect_code 73 "$SYNCOPATE" train tiny.ini --run.directory=file

for n in 2 3; do
  # shellcheck disable=SC2046
  expect_code 65 $(ranks $n) "$SYNCOPATE" train slip.ini
  (($(grep -c "did you mean data.batch" err) == 1)) ||
    fail "$n ranks: said $(grep -c . err) times"
  # shellcheck disable=SC2046
  expect_code 76 $(ranks $n) "$SYNCOPATE" train tiny.ini --run.name=d$n \
    --optimizer.lr=1e30
  # shellcheck disable=SC2046
  expect_code 65 $(ranks $n) "$SYNCOPATE" train tiny.ini --run.workers=5
done

# Everything else answers, and a checkpoint can be used.
expect_code 0 "$SYNCOPATE" --help
expect_code 0 "$SYNCOPATE" --version
for what in models data schemes optimizers schedules collectives keys; do
  expect_code 0 "$SYNCOPATE" list $what
  [[ -s out ]] || fail "list $what prints nothing"
done
expect_code 0 "$SYNCOPATE" doctor
# shellcheck disable=SC2046
expect_code 0 $(ranks 2) "$SYNCOPATE" doctor
grep -q "^\[ok\] *watchdog " out || fail "doctor: no watchdogs: $(cat out)"
# What only another rank finds is said, once.
expect_code 0 "$MPIEXEC" -bind-to none -n 1 env -u CUDA_VISIBLE_DEVICES \
  "$SYNCOPATE" doctor : -n 2 env CUDA_VISIBLE_DEVICES=none "$SYNCOPATE" doctor
(($(grep -c '^\[note\] *gpu .*CUDA_VISIBLE_DEVICES is "none"' out) == 1)) ||
  fail "doctor: what rank 1 finds: $(cat out)"
grep -q '^\[note\] *gpu *rank 1 on ' out || fail "doctor: whose? $(cat out)"
# shellcheck disable=SC2046
SYNCOPATE_INTERFACE=lo expect_code 0 $(ranks 2) "$SYNCOPATE" doctor
# shellcheck disable=SC2046
SYNCOPATE_INTERFACE=none0 expect_code 64 $(ranks 2) "$SYNCOPATE" train tiny.ini
one_line "SYNCOPATE_INTERFACE=none0: no network interface"
expect_code 0 "$SYNCOPATE" validate tiny.ini
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=whole
expect_code 0 "$SYNCOPATE" inspect runs/whole
grep -q "whole" out || fail "inspect does not say that the checkpoint is whole"
expect_code 0 "$SYNCOPATE" inspect runs/whole/results.h5
grep -q "best_accuracy.*best of [0-9]* test evaluations" out ||
  fail "what best_accuracy is the best of: $(grep best out)"
cp -r runs/whole runs/flipped
printf x | dd of=runs/flipped/checkpoints/step-00000020/replica.h5 bs=1 seek=999 \
  conv=notrunc 2>/dev/null
expect_code 65 "$SYNCOPATE" inspect runs/flipped
one_line "damaged"
grep -q "step-00000014" out || fail "inspect does not fall back: $(cat out)"
expect_code 65 "$SYNCOPATE" inspect tiny.ini
expect_code 0 "$SYNCOPATE" evaluate tiny.ini --checkpoint=runs/whole
python - <<'PY' || fail "evaluate and the run disagree"
import h5py, re
text = open("out").read()
accuracy = float(re.search(r"accuracy ([0-9.]+)", text)[1])
with h5py.File("runs/whole/results.h5") as f:
    assert abs(f["eval/accuracy"][-1] - accuracy) < 1e-6, (text, f["eval/accuracy"][...])
PY
keys=(--run.workers=2 --eval.batchnorm=recomputed --run.name=two)
expect_code 0 "$SYNCOPATE" train tiny.ini "${keys[@]}"
trained=$(sed -n 's/^eval 20.*loss \([0-9.]*\) .*/\1/p' out)
expect_code 0 "$SYNCOPATE" evaluate tiny.ini "${keys[@]}" --checkpoint=runs/two
evaluated=$(printf %.4f "$(sed -n 's/.*loss \([0-9.]*\) .*/\1/p' out)")
[[ $evaluated == "$trained" ]] || fail "evaluate: loss $evaluated, trained $trained"
for run in two whole; do
  expect_code 0 "$SYNCOPATE" export runs/$run -o $run.safetensors
  said=$(grep -c "running statistics, where evaluations of this run recomputed them" out)
  noted=$(head -c 4000 $run.safetensors | grep -ac '"batchnorm":"running"')
  [[ "$run $said $noted" == @("two 1 1"|"whole 0 0") ]] ||
    fail "export of $run: $said $noted $(cat out)"
done
expect_code 65 "$SYNCOPATE" evaluate tiny.ini --model.depth=14 --checkpoint=runs/two
one_line "model.depth"
sed 's/^family = resnet/family = logistic/;/^depth/d' tiny.ini >logistic.ini
expect_code 65 "$SYNCOPATE" evaluate logistic.ini --checkpoint=runs/two
one_line "model.family: the checkpoint has resnet, the input logistic"
# The average model is evaluated too, on a line of its own.
keys=(--run.workers=3 --sync.scheme=d_psgd --topology.kind=ring --run.name=gossip)
expect_code 0 "$SYNCOPATE" train tiny.ini "${keys[@]}"
metrics() { # metrics EVAL_MODEL LINE
  expect_code 0 "$SYNCOPATE" evaluate tiny.ini "${keys[@]}" --eval.model="$1" \
    --checkpoint=runs/gossip
  sed -n "s/.*loss/loss/;$2p" out
}
[[ $(metrics each_and_average 1) == "$(metrics each 1)" ]] || fail "each_and_average: each"
[[ $(metrics each_and_average 2) == "$(metrics average 1)" ]] ||
  fail "each_and_average: $(metrics each_and_average 2), average: $(metrics average 1)"
[[ $(metrics each 1) != "$(metrics average 1)" ]] || fail "workers' models are equal"
# Another user's files, of which nothing can be said but that.
cp "$SYNCOPATE" program && mkdir theirs && cp -r runs/two theirs/
chmod 755 . && chmod 700 theirs
as_other() { if ((EUID == 0)); then setpriv --reuid=65534 --clear-groups "$@"; else "$@"; fi; }
if ((EUID == 0)) && ! as_other ./program --version >/dev/null 2>&1; then
  echo "note: another user's files were not tried: setpriv does not work here"
else
  ((EUID == 0)) || chmod 000 theirs
  for words in "status theirs/two" "inspect theirs/two" "status tiny.ini --run.directory=theirs --run.name=two" \
    "evaluate tiny.ini --checkpoint=theirs/two"; do
    # shellcheck disable=SC2086
    expect_code 66 as_other ./program $words
    one_line "theirs/two"
    one_line "Permission denied"
  done
  chmod 700 theirs
fi
expect_code 0 "$SYNCOPATE" predict tiny.ini --checkpoint=runs/whole --output=labels.csv
(($(wc -l <labels.csv) == 41)) || fail "predict wrote $(wc -l <labels.csv) lines"
expect_code 0 "$SYNCOPATE" prepare images tiny.ini -o images.h5
expect_code 0 "$SYNCOPATE" predict tiny.ini --checkpoint=runs/whole --output=labels.h5
for file in images.h5:train/images labels.h5:scores; do
  expect_code 0 "$SYNCOPATE" inspect "${file%:*}"
  grep -q "^  ${file#*:} " out || fail "inspect of ${file%:*}: $(cat out)"
done
head -c 3000 labels.h5 >cut.h5
expect_code 65 "$SYNCOPATE" inspect cut.h5
# What has a seal is no healthy data once its bytes have changed.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=order --run.workers=2 \
  --sync.scheme=asp --asp.record=yes
expect_code 0 "$SYNCOPATE" inspect runs/order/order.h5
grep -q '^  tickets ' out || fail "inspect of order.h5: $(cat out)"
newest=$(printf '%s\n' runs/order/checkpoints/step-* | tail -n 1)
expect_code 0 "$SYNCOPATE" inspect "$newest/replica.h5"
printf '\x55' | dd of=runs/order/order.h5 bs=1 seek=700 conv=notrunc status=none
expect_code 65 "$SYNCOPATE" inspect runs/order/order.h5
sed -e 's/^kind = synthetic_images/kind = hdf5\npath = images.h5/' \
  -e '/samples =/d;/^classes/d;/^height/d;/^width/d' tiny.ini >own.ini
expect_code 0 "$SYNCOPATE" train own.ini --run.name=own
python "$here/compare_runs.py" runs/whole runs/own || fail "own HDF5 data trains differently"
finish
