#!/usr/bin/env bash
# A gradient that is not finite, under schemes of each kind (all under
# EXHAUSTIVE=1): the run ends with code 76 and a line that names worker, step and
# tensor, and keeps its results; or the step is left out and counted. So in one
# process and on ranks. Parameters that are not finite end a run in any case.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
export OMP_NUM_THREADS=1
fault=(--faults.kind=nan --faults.rank=2 --faults.step=9)
common=(--optimizer.lr=0.02 "${fault[@]}")
train() {
  local long=()
  # Ranks of asp run freely: one of three may take 7 of 60 steps.
  [[ $2 != ranks || " $* " != *" --sync.scheme=asp "* ]] || long=(--run.steps=80)
  train_three "${@:1:3}" "${common[@]}" "${long[@]}" "${@:4}"
}

# Prints /summary/skipped_gradients; fails where a number of /train is not
# finite.
skipped() {
  python - "runs/$1/results.h5" <<'PY'
import sys
import h5py
import numpy as np
with h5py.File(sys.argv[1]) as file:
    for name, column in file["train"].items():
        values = column[...]
        if name == "loss_worker":  # NaN: no step of that worker in the row
            values = values[~np.isnan(values)]
        if name != "virtual_s" and not np.isfinite(values).all():
            sys.exit(f"/train/{name} is not finite")
    value = file["summary"]["skipped_gradients"]
    print(int(value[()]))
PY
}

# own_steps CHECKPOINT: of worker 2, who may be behind the others.
own_steps() {
  python -c 'import h5py, sys
print(h5py.File(sys.argv[1])["steps"][0])' "$1/worker-0002.h5"
}

check_stop() { # check_stop WORLD SCHEME
  local name=stop-$1-$2
  # shellcheck disable=SC2046
  train 76 "$1" "$name" --sync.scheme="$2" $(scheme_keys "$2")
  grep -qE "^error: diverged: the gradient of '.*[.]conv.*' of worker 2 is not \
finite at step 9 [(]results kept, this state is not saved[)]$" err ||
    fail "$name: $(cat err)"
  [[ $(wc -l <err) == 1 ]] || fail "$name: more than a line: $(cat err)"
  [[ -s runs/$name/results.h5 ]] || fail "$name: no results"
  # Of steps before it, at most.
  for folder in "runs/$name"/checkpoints/step-*; do
    [[ ! -e $folder ]] || ((10#${folder##*-} < 10)) ||
      (($(own_steps "$folder") < 10)) || fail "$name: saved $folder"
  done
}

check_skip() { # check_skip WORLD SCHEME
  local name=skip-$1-$2
  # shellcheck disable=SC2046
  train 0 "$1" "$name" --sync.scheme="$2" $(scheme_keys "$2") \
    --run.on_nonfinite=skip
  [[ $(skipped "$name") == 1 ]] || fail "$name: counted $(skipped "$name")"
  grep -q 'gradients skipped: 1$' out || fail "$name: nothing in the log"
}

for scheme in $(schemes_of_each_kind); do
  check_stop process "$scheme"
  check_skip process "$scheme"
done
on_ranks="bsp asp choco"
[[ -z ${EXHAUSTIVE:-} ]] || on_ranks=$(all_schemes)
for scheme in $on_ranks; do
  check_stop ranks "$scheme"
  check_skip ranks "$scheme"
done

# Worlds agree on what is left out, and so does a run that was resumed.
python "$here/compare_runs.py" --replica-only runs/skip-process-bsp \
  runs/skip-ranks-bsp || fail "skip: the worlds differ"
train 0 process resumed --sync.scheme=bsp --run.on_nonfinite=skip \
  --run.stop_at=12
common=(--optimizer.lr=0.02)
train 0 process resumed --sync.scheme=bsp --run.on_nonfinite=skip
python "$here/compare_runs.py" --virtual runs/skip-process-bsp runs/resumed ||
  fail "skip: a resumed run differs"
[[ $(skipped resumed) == 1 ]] || fail "resumed: $(skipped resumed) skipped"

# Before the first row of the log is due, too: what reads results sees it.
train 76 process early --run.log_every=50 --faults.kind=nan --faults.rank=0 \
  --faults.step=1
python - "$here/../../postprocess" runs/early <<'PY' || fail "early: not seen"
import sys
sys.path.insert(0, sys.argv[1])
from run_reader import open_run
sys.exit(not open_run(sys.argv[2]).has_diverged)
PY

# An update that blows up; nothing to skip then.
common=(--optimizer.lr=1e30 --schedule.kind=constant)
for what in stop skip; do
  train 76 process "blown-$what" --run.on_nonfinite=$what --schedule.warmup=0
  grep -qE "^error: diverged: .*parameter '.*'.* [(]results kept" err ||
    fail "blown-$what: $(cat err)"
done
finish
