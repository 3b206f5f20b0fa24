#!/usr/bin/env bash
# Every scheme of `list schemes` in one process, in virtual time: the same input
# gives the same bytes, cut or not, however often a row is logged; no two
# schemes are the same by accident; checkpoints and results can be read; arrivals
# are recorded and replayed; unlike batches and stragglers count as they should.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
export OMP_NUM_THREADS=1
sed -i "s/^depth = 8/&\nwidths = 8, 8, 16/" tiny.ini

# shellcheck disable=SC2054  # commas within a key's list
unlike=(--compute.speed=1,2,4,1 --stragglers.random=exponential
  --stragglers.random_ms=400 --stragglers.random_share=0.5
  --network.latency_us=20000 --network.mbit_s=50)

# Schemes by their defaults and the keys of scheme_keys.sh, and other forms.
cases=()
declare -A scheme_of=() keys_of=()
form() { # form NAME SCHEME KEYS...: a key a line
  cases+=("$1")
  scheme_of[$1]=$2
  keys_of[$1]=$(printf '%s\n' "${@:3}")
}
for scheme in $(all_schemes); do
  # shellcheck disable=SC2046
  form "$scheme" "$scheme" $(scheme_keys "$scheme")
done
((${#cases[@]} >= 16)) || fail "list schemes names ${#cases[@]} schemes"
form bsp-local-clip bsp --optimizer.clip_norm=1 --bsp.clip=local \
  --bsp.batchnorm=averaged --data.accumulate=2
form ds_sync-after ds_sync --ds_sync.place=after_update --ds_sync.restart=never \
  --ds_sync.final_average=yes
form local_sgd-outer local_sgd --local_sgd.steps=3 --local_sgd.outer=momentum \
  "--local_sgd.start=4 steps" --local_sgd.outer_nesterov=yes
form choco-random choco --topology.kind=ring --compress.kind=random_k \
  --compress.ratio=0.8 --compress.biased=yes --choco.gamma=0.2
form dgc-random dgc --compress.kind=random_k --compress.ratio=0.9 \
  --compress.biased=yes --dgc.warmup_ratios=0.5,0.75 \
  "--dgc.warmup=9 steps" --dgc.clip=1
form dgc-quantised dgc --compress.kind=qsgd --compress.bits=4
form asp-dc asp --asp.compensation=per_worker --asp.servers=2
form ssp-dc ssp --ssp.bound=0 --asp.compensation=per_key --asp.servers=1
form asp-before asp --asp.pull=before_step --asp.servers=3
form ssp-before ssp --asp.batchnorm=shared --asp.pull=before_step
form asp-shared asp --asp.batchnorm=shared --asp.servers=3
form ssp-shared ssp --asp.batchnorm=shared
form switch-shared sync_switch --sync_switch.order=bsp,asp,bsp \
  --sync_switch.fractions=0.3,0.4,0.3 --asp.batchnorm=shared
form esync-free esync --esync.query=non_blocking --esync.batchnorm=local
form switch-any sync_switch --sync_switch.order=choco,esync,local_sgd \
  --sync_switch.fractions=0.3,0.3,0.4 --compress.kind=sign --topology.kind=ring
form switch-greedy sync_switch --sync_switch.order=10 \
  --sync_switch.fractions=0.8,0.2 --sync_switch.policy=greedy \
  --sync_switch.window=2 --sync_switch.consecutive=2
form switch-elastic sync_switch --sync_switch.order=10 \
  --sync_switch.fractions=0.8,0.2 --sync_switch.policy=elastic \
  --sync_switch.window=2 --sync_switch.consecutive=2 \
  --sync_switch.momentum_rule=ramp_linear "--sync_switch.momentum_ramp=6 steps"

train() { # train CASE NAME KEYS...
  local case=$1 name=$2 own=()
  shift 2
  [[ -z ${keys_of[$case]} ]] || mapfile -t own <<<"${keys_of[$case]}"
  expect_code 0 "$SYNCOPATE" train tiny.ini --sync.scheme="${scheme_of[$case]}" \
    "${own[@]}" --run.workers=4 --run.name="$name" --checkpoint.keep=9 "$@"
}

same_files() { # same_files RUN RUN: all checkpoints, byte for byte
  local file
  for file in "runs/$1"/checkpoints/step-*/*.h5; do
    cmp -s "$file" "${file/runs\/$1/runs\/$2}" || fail "$2: $file differs"
  done
}

metrics_of() { # metrics_of INI... : of evaluate's line, as "loss accuracy"
  sed -n 's/.*loss \([^ ]*\)  accuracy \([^ ]*\).*/\1 \2/p' out | tail -n 1
}

stops=(14 20) elsewhere=(11 20) log_every=(7) # steps
if [[ -n ${EXHAUSTIVE:-} ]]; then
  stops=(7 14 20) elsewhere=(5 11 20) log_every=(1 7)
fi
kinds=$(schemes_of_each_kind | xargs)
resumed=() equal=() evaluated=()
for case in "${cases[@]}"; do
  # 1. The same input twice, the second time stopped where the first run had
  # boundaries too.
  train "$case" "$case-whole" "${unlike[@]}"
  for stop in "${stops[@]}"; do
    train "$case" "$case-cut" "${unlike[@]}" --run.stop_at="$stop"
  done
  grep -q "resumed from .*(step 14)" "runs/$case-cut/log.txt" ||
    fail "$case did not resume at step 14"
  same_files "$case-whole" "$case-cut"
  resumed+=("runs/$case-whole" "runs/$case-cut")

  # Where workers wait for each other, a boundary more or less, anywhere, changes
  # nothing; the others are a little less stale behind one.
  # The default run asks one scheme of each kind.
  case ${scheme_of[$case]} in
    asp | ssp | esync | sync_switch) anywhere=no ;;
    *) anywhere=yes ;;
  esac
  if [[ $anywhere == yes && " $kinds " == *" $case "* ]]; then
    for stop in "${elsewhere[@]}"; do
      train "$case" "$case-anywhere" "${unlike[@]}" --run.stop_at="$stop" \
        --run.log_every=1 --checkpoint.every=0 --eval.every=0
    done
    equal+=("runs/$case-whole" "runs/$case-anywhere")
  fi
  expect_code 0 "$SYNCOPATE" inspect "runs/$case-cut/checkpoints/step-00000014"
  grep -q "scheme ${scheme_of[$case]}\$" out ||
    fail "$case: inspect does not name the scheme"

  # The default run asks what follows of every scheme by its defaults, and of the
  # forms that treat BatchNorm in another way.
  case $case in
    "${scheme_of[$case]}" | *-shared | bsp-local-clip) ;;
    *) [[ -n ${EXHAUSTIVE:-} ]] || continue ;;
  esac
  evaluated+=("$case")

  # 2. Rows of the log are no boundaries, and looking at all models changes none.
  for every in "${log_every[@]}"; do
    train "$case" "$case-log$every" "${unlike[@]}" --run.log_every="$every" \
      --eval.model=each_and_average
    equal+=("runs/$case-whole" "runs/$case-log$every")
  done

  # 3. A checkpoint is worth what the run said.
  scheme_ini=(tiny.ini "--checkpoint=runs/$case-log7" --run.workers=1)
  for which in average each; do
    expect_code 0 "$SYNCOPATE" evaluate "${scheme_ini[@]}" --eval.model=$which
    metrics_of >"$case-$which.txt"
  done

  expect_code 0 "$SYNCOPATE" inspect "runs/$case-whole/results.h5"
done

python "$here/compare_runs.py" --virtual "${resumed[@]}" ||
  fail "a resumed run differs"

python "$here/compare_states.py" --pairs "${equal[@]}" ||
  fail "run.log_every, eval.model or a boundary changes a run"

python - "${cases[@]}" / "${evaluated[@]}" <<'PY' || fail "results or evaluations are not as they should be"
import h5py, numpy as np, sys
wrong = []
with_series = 0
split = sys.argv.index("/")
cases, evaluated = sys.argv[1:split], sys.argv[split + 1:]
wholes = {}
for case in cases:
    with h5py.File(f"runs/{case}-whole/results.h5") as f:
        wholes[case] = [f["eval"][m][-1] for m in ("loss", "accuracy")]
        if int(f["train/worker_steps"][-1]) != 80 or \
                f["summary/samples"][()] != 640 * (1 + (case == "bsp-local-clip")):
            wrong.append(f"{case}: not 80 worker_steps")
        for group in ("train", "comm", "sync"):
            for name, column in f.get(group, {}).items():
                if len(column) != 7:
                    wrong.append(f"{case}: /{group}/{name}: {len(column)} rows")
                for what in ("units", "description"):
                    if not column.attrs.get(what):
                        wrong.append(f"{case}: /{group}/{name}: no {what}")
        if not np.isfinite(f["train/loss"][...]).all():
            wrong.append(f"{case}: diverged")
        with_series += "sync" in f
for case in evaluated:
    with h5py.File(f"runs/{case}-log7/results.h5") as f:
        said = {"each": [f["eval"][m][-1] for m in ("loss", "accuracy")],
                "average": [f["eval"][m + "_average"][-1]
                            for m in ("loss", "accuracy")]}
    if wholes[case] != said["average"]:
        wrong.append(f"{case}: looking at each model changes the average's "
                     f"evaluation: {wholes[case]}, {said['average']}")
    for which, expected in said.items():
        text = open(f"{case}-{which}.txt").read().split()
        worst = max((abs(float(a) - b) for a, b in zip(text, expected)),
                    default=1)
        if not worst <= 1e-6 or len(text) != 2:
            wrong.append(f"{case}: evaluate --eval.model={which} says {text}, "
                         f"the run {expected}")
if with_series < 8:
    wrong.append(f"{with_series} cases have series in /sync")
print(f"{len(cases)} cases, {with_series} with series of their own")
print("\n".join(wrong))
sys.exit(bool(wrong))
PY

# 5. Six workers of three speeds: no two schemes end in the same model, but
# those that must.
six() { # six NAME SCHEME KEYS...
  expect_code 0 "$SYNCOPATE" train tiny.ini --sync.scheme="$2" --run.workers=6 \
    --data.batch=4 --checkpoint.every=0 --eval.every=0 --run.name="six-$1" \
    --compute.speed=1,1,2,2,3,3 "${@:3}"
}
mapfile -t schemes < <(all_schemes)
steps=--run.steps=12
for scheme in "${schemes[@]}"; do
  # shellcheck disable=SC2046
  six "$scheme" "$scheme" "$steps" $(scheme_keys "$scheme")
done
python "$here/compare_states.py" --unlike "${schemes[@]/#/runs/six-}" ||
  fail "two schemes are alike"
# A rate that does not change inside a round; gradients at one model.
# Eight steps: later a BatchNorm of four samples makes any two roundings, those of
# two collectives of bsp too, differ by a hundredth on some processors.
constant=(--schedule.kind=constant --schedule.warmup=0 --run.steps=8)
six each-step esync --esync.epsilon_steps=100 "${constant[@]}"
six constant bsp "${constant[@]}"
six one sync_switch "$steps" --sync_switch.order=1 --sync_switch.lr_rule=none
six zero sync_switch "$steps" --sync_switch.order=0
python "$here/compare_states.py" --parameters runs/six-one runs/six-bsp ||
  fail "sync_switch.order = 1 is not bsp"
python "$here/compare_states.py" --parameters runs/six-zero runs/six-asp ||
  fail "sync_switch.order = 0 is not asp"
python "$here/compare_states.py" --parameters --tolerance=1e-6 \
  runs/six-each-step runs/six-constant ||
  fail "esync with one local step is not bsp but for rounding"

# 6. The order of arrivals, recorded among workers that are unlike, and kept
# among workers that are alike.
for case in asp ssp asp-dc asp-shared; do
  train $case $case-recorded "${unlike[@]}" --asp.record=yes
  train $case $case-replayed --asp.replay=runs/$case-recorded/order.h5
  train $case $case-alike
  same_states $case-recorded $case-whole || fail "$case: recording changes the run"
  python "$here/compare_states.py" --parameters runs/$case-recorded \
    runs/$case-replayed || fail "$case: the replay differs"
  python "$here/compare_states.py" --parameters runs/$case-recorded \
    runs/$case-alike >out && fail "$case: arrivals make no difference"
done

# 7. Unlike batches: the mean over samples, as one worker would have it.
sed -e 's/^family = .*/family = logistic/' -e '/^depth/d' -e '/^widths/d' -e '/^augment/d' \
  -e '/^crop_pad/d' tiny.ini >logistic.ini
for scheme in bsp ef_sign_sgd dgc power_sgd; do
  # shellcheck disable=SC2046
  expect_code 0 "$SYNCOPATE" train logistic.ini --run.workers=3 --run.steps=6 \
    --data.batch_by_worker=4,8,12 --run.name="unlike-$scheme" \
    --sync.scheme=$scheme $(scheme_keys $scheme) --data.partition=interleaved
done
# All have the rate of the mean batch, 8; the audit would find other replicas.
rate=$(sed -n 's/^lr = //p' logistic.ini)
expect_code 0 "$SYNCOPATE" train logistic.ini --run.workers=3 --run.steps=6 \
  --data.batch_by_worker=4,8,12 --run.name=scaled --run.audit=2 \
  --optimizer.lr_scale=linear --optimizer.lr_factor=1 --optimizer.base_batch=16 \
  --optimizer.lr="$(awk "BEGIN { print 2 * $rate }")" --data.partition=interleaved
python "$here/compare_states.py" --parameters --tolerance=1e-6 \
  runs/unlike-bsp runs/scaled || fail "the rate is not that of the mean batch"
expect_code 0 "$SYNCOPATE" train logistic.ini --run.workers=1 --run.steps=6 \
  --data.batch=24 --run.name=one-batch
expect_code 0 "$SYNCOPATE" train logistic.ini --run.workers=3 --run.steps=6 \
  --data.batch=8 --run.name=alike-batches
python "$here/compare_states.py" --parameters --tolerance=1e-5 \
  runs/one-batch runs/alike-batches runs/unlike-bsp || fail "unlike batches are not weighted by samples"

expect_code 0 "$SYNCOPATE" train logistic.ini --run.workers=3 --run.steps=6 \
  --data.batch_by_worker=4,8,12 --run.name=unlike-switch \
  --sync.scheme=sync_switch --sync_switch.order=1 --sync_switch.lr_rule=none
python "$here/compare_states.py" --parameters --tolerance=1e-6 \
  runs/unlike-bsp runs/unlike-switch ||
  fail "unlike batches weigh otherwise under sync_switch"

# Virtual time: 20 steps of the slowest; or of all together, where they are
# free; and four delays of half a second.
like=(--checkpoint.every=0 --eval.every=0)
train bsp slow "${like[@]}" --stragglers.factor=1,1,1,3
train asp free "${like[@]}" --stragglers.factor=1,1,1,3
train bsp late "${like[@]}" --stragglers.delay_ms=500 --stragglers.delay_from=4 \
  --stragglers.delay_workers=1 --stragglers.delay_until=8
train bsp random "${like[@]}" --stragglers.random=uniform \
  --stragglers.random_ms=100
python - <<'PY' || fail "stragglers do not cost what they should"
import h5py, sys
def seconds(run):
    with h5py.File(f"runs/{run}/results.h5") as f:
        return float(f["train/virtual_s"][-1]), f["comm/compute_s"][...].sum(0)
slow, compute = seconds("slow")
free, late, random = (seconds(run)[0] for run in ("free", "late", "random"))
print(f"slow {slow}, free {free}, late {late}, random {random}, "
      f"computed {compute}")
# 80 steps at a rate of 3 + 1/3 a second, and the last one under way.
sys.exit(not (abs(slow - 60) < 1e-6 and 24 - 1e-6 <= free <= 27 and
              abs(late - 22) < 1e-6 and 22 < random < 24 and
              abs(compute[3] - 60) < 1e-6 and abs(compute[0] - 20) < 1e-6))
PY
finish
