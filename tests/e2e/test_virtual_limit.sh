#!/usr/bin/env bash
# run.virtual_limit_s: a run has the most steps that end within a virtual time,
# under schemes in lockstep and free-running ones, with random step times and
# stragglers; its schedule ends there, and it keeps its length on resume. In a
# sweep each run has its own length. Refused where it cannot hold.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source_dir=${SOURCE_DIR:-$(cd "$here/../.." && pwd)}
export OMP_NUM_THREADS=1
sed -i -e '/^steps = /d' -e 's/^every = 10 steps/every = 9 steps/' tiny.ini
cat >>tiny.ini <<'INI'
[compute]
step_s = 0.02
law = lognormal
spread = 0.3
speed = 1, 2, 1
[stragglers]
delay_ms = 20
delay_workers = 1
delay_from = 6
random = exponential
random_ms = 4
INI
network=(--network.mbit_s=100 --network.latency_us=500)
limit=(--run.virtual_limit_s=1.5)
run() { expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=3 "${network[@]}" "$@"; }
says() { grep -Eq -- "$1" "$scratch/$2" || fail "no $1: $(tail -n 5 "$scratch/$2")"; }
steps_said() { sed -n 's/^limit  *[0-9.]* s of virtual time: \([0-9]*\) steps.*/\1/p' "$scratch/out"; }

variants=("bsp" "asp" "esync" "choco --compress.kind=sign --topology.kind=ring"
  "sync_switch --sync_switch.order=10 --sync_switch.fractions=.5,.5")
[[ -z ${EXHAUSTIVE:-} ]] ||
  variants+=("ssp --ssp.bound=2" "local_sgd --local_sgd.steps=5" "ds_sync")
all=()
for words in "${variants[@]}"; do
  read -ra scheme <<<"--sync.scheme=$words"
  name=${words%% *}
  all+=("$name")
  run "${scheme[@]}" "${limit[@]}" --run.name="$name"
  says '^limit     1.5 s of virtual time: [0-9]+ steps, whose last worker ends at 1\.[0-9]+ s$' out
  steps=$(steps_said)
  echo "$steps $(sed -n 's/^limit .* ends at \(.*\) s$/\1/p' out)" >"$name.said"
  # The same as a run that is given these steps; with one more it is too late.
  run "${scheme[@]}" --run.steps="$steps" --run.name="$name-steps"
  python "$here/compare_runs.py" --virtual "runs/$name" "runs/$name-steps" ||
    fail "$name: not the run of its steps"
  run "${scheme[@]}" --run.steps=$((steps + 1)) --run.name="$name-longer"
  for command in validate simulate; do
    expect_code 0 "$SYNCOPATE" "$command" tiny.ini --run.workers=3 \
      "${network[@]}" "${scheme[@]}" "${limit[@]}"
    [[ $(steps_said) == "$steps" ]] || fail "$command: $(cat out)"
  done
  grep "^time" out | sed 's/^time *\([0-9.]*\) s.*/\1/' >>"$name.said"
done
python - 1.5 "${all[@]}" <<'PY' || fail "the virtual times"
import h5py, sys
limit = float(sys.argv[1])
for name in sys.argv[2:]:
    said = [float(word) for word in open(f"{name}.said").read().split()]
    ends = []
    for run in (name, f"{name}-longer"):
        with h5py.File(f"runs/{run}/results.h5") as file:
            ends.append(float(file["summary/virtual_s"][()]))
            if run != name:
                continue
            text = file["provenance"].attrs["input"]
            steps, workers = int(said[0]), file["comm/compute_s"].shape[1]
            assert file["train/worker_steps"][-1] == steps * workers
            # A step of the slowest worker, from when it took its last ones.
            busy = sum(file["comm"][key][-3:].sum(axis=0)
                       for key in ("compute_s", "exposed_s"))
            rates = file["train/lr"][()]
    for line in (f"steps = {steps}\n", "virtual_limit_s = 1.5\n"):
        assert line in text, (name, line)
        assert line in open(f"runs/{name}/input.ini").read(), (name, line)
    print(f"{name}: {steps} steps end at {ends[0]:.4f} s, one more at "
          f"{ends[1]:.4f} s")
    assert ends[0] <= limit * (1 + 1e-9) < ends[1], (name, ends)
    # What the log and simulate say is rounded.
    assert abs(ends[0] - said[1]) < 1e-4 and abs(ends[0] - said[2]) < 1e-7, name
    assert limit - ends[0] < 0.1 * limit, (name, ends)
    assert rates[-1] < 0.05 * rates.max(), (name, rates)
PY

# It goes on after a stop by the same command, by its name alone, and by its own
# input.ini, and keeps its length.
again=("${limit[@]}" --sync.scheme=asp)
for how in command name input; do
  run "${again[@]}" --run.name="cut-$how" --run.stop_at=9
  case $how in
    command) run "${again[@]}" --run.name=cut-command ;;
    name)
      grep -v '^virtual_limit_s' tiny.ini >bare.ini
      expect_code 0 "$SYNCOPATE" train bare.ini --run.name=cut-name
      ;;
    input)
      cp runs/cut-input/input.ini own.ini
      expect_code 0 "$SYNCOPATE" train own.ini --run.stop_at=0
      ;;
  esac
  says '^limit     1.5 s of virtual time: [0-9]+ steps of 3 workers, as when the run began$' out
  [[ $(steps_said) == $(cut -d' ' -f1 asp.said | head -n 1) ]] ||
    fail "$how: another length: $(cat out)"
  python - "$how" <<'PY' || fail "$how: resumed to another end"
import h5py, sys
cut, whole = (h5py.File(f"runs/{name}/results.h5") for name in
              (f"cut-{sys.argv[1]}", "asp-steps"))
assert cut["summary/finished"][()] == 1
assert cut["train/worker_steps"][-1] == whole["train/worker_steps"][-1]
assert cut["summary/virtual_s"][()] <= 1.5 * (1 + 1e-9)
assert int(cut["provenance"].attrs["restarts"]) == 1
PY
done
# As input.ini, it is also a run of its own.
expect_code 0 "$SYNCOPATE" train runs/bsp/input.ini --run.name=anew
python "$here/compare_runs.py" --virtual runs/bsp runs/anew || fail "input.ini"
# MPI ranks go on to the same step.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=3 "${limit[@]}" \
  --run.name=world --run.stop_at=9
sed '/^\[compute\]/,$d' tiny.ini >ranks.ini
read -ra three <<<"$(ranks 3)"
expect_code 0 "${three[@]}" "$SYNCOPATE" train ranks.ini --run.name=world
says '^resumed from .*\(step 9\)' out
says "^step +$(sed -n 's/^steps = //p' runs/world/input.ini)/" out

# Another limit only where the schedule does not hang on it.
refuses() { # refuses LINES PATTERN KEYS...
  local lines=$1 pattern=$2
  shift 2
  expect_code 65 "$SYNCOPATE" train tiny.ini --run.workers=3 "$@"
  [[ $(wc -l <"$scratch/err") == "$lines" ]] ||
    fail "not $lines lines: $*: $(cat "$scratch/err")"
  says "^error: .*$pattern" err
}
refuses 3 'run.steps: was [0-9]+, now [0-9]+: not allowed' --run.name=bsp \
  "${network[@]}" --run.virtual_limit_s=2
says 'run.virtual_limit_s: was 1.5, now 2: not allowed' err
constant=(--schedule.kind=constant --schedule.warmup=0 --run.name=constant)
run "${limit[@]}" "${constant[@]}"
first=$(steps_said)
run --run.virtual_limit_s=2 "${constant[@]}"
says "^resumed from .*\(step $first\)" out
(($(steps_said) > first)) || fail "no longer with more time: $(cat out)"

# Mistakes: a line each, 65.
key=run.virtual_limit_s
refuses 1 "$key: is 0.001 s, but one step takes 0.0[0-9]+ s" --$key=0.001
for wrong in -1 nan inf; do
  refuses 1 "$key: expected a number >= 0, found \"$wrong\"" --$key=$wrong
done
refuses 1 "$key: is 1e\+12 s, into which more than 10000000 steps fit" --$key=1e12
refuses 1 "$key: cannot be combined with run.steps = 7, expected one of the two" --$key=1 \
  --run.steps=7
refuses 1 "$key: cannot be combined with run.epochs = 3, expected one of the two" --$key=1 \
  --run.epochs=3
refuses 1 "schedule.warmup: is 5 steps, longer than run.steps = [1-4] steps" \
  --$key=0.1
refuses 1 "$key: is resolved by a simulation; .*sync_switch.plateau" --$key=1 \
  --sync.scheme=sync_switch --sync_switch.order=10 --sync_switch.plateau=eval_loss
# Rows of tables, of which each batch touches other numbers.
expect_code 0 "$SYNCOPATE" train "$here/../../inputs/deepfm_smoke.ini" \
  --run.name=rows --run.steps=0 --run.workers=3 --network.mbit_s=5 \
  --compute.step_s=0.01 --$key=1
python - "$(sed -n 's/^limit .* ends at \(.*\) s$/\1/p' out)" <<'PY' || fail "rows"
import h5py, sys
with h5py.File("runs/rows/results.h5") as file:
    ended_s = file["summary/virtual_s"][()]
assert abs(float(sys.argv[1]) / ended_s - 1) < 1e-5 and 0.9 < ended_s <= 1, ended_s
PY
# A recorded trace must have as many rows as there are steps in that time.
printf '0.02\n%.0s' {1..30} >trace.csv
trace=(--compute.law=trace --compute.trace=trace.csv --run.name=trace)
sed '/^step_s/d; /^law/d; /^spread/d' tiny.ini >traced.ini
expect_code 65 "$SYNCOPATE" train traced.ini --run.workers=3 --$key=2 "${trace[@]}"
says 'compute.trace: trace.csv has 30 rows, expected one for each of .* steps' err
expect_code 0 "$SYNCOPATE" train traced.ini --run.workers=3 --$key=1 "${trace[@]}"
expect_code 65 "${three[@]}" "$SYNCOPATE" train ranks.ini --$key=1 --run.name=mpi
[[ $(wc -l <err) == 1 ]] || fail "more than a line: $(cat err)"
says "^error: .*$key: limits virtual time, .*run.target.*run.time_limit_s.*Slurm" err

# A signal ends the search for the steps of a long run.
"$SYNCOPATE" train tiny.ini --run.workers=3 --$key=60000 --run.name=long \
  >long.out 2>&1 &
pid=$!
sleep 2
kill -TERM "$pid"
code=0
wait "$pid" || code=$?
((code == 75)) || fail "a signal: exit $code: $(cat long.out)"
grep -q "before the first step" long.out || fail "a signal: $(cat long.out)"

# In a sweep every variant and seed has its own length, and they are compared at
# equal time.
cat >timed.sweep <<'END'
[sweep]
input = swept.ini
directory = swept
[tune]
key = optimizer.lr
grid = 0.02 0.1
metric = accuracy
seeds = 11
overrides = eval.every=0
[final]
seeds = 1 2
[variants]
bsp = sync.scheme=bsp
asp = sync.scheme=asp
END
sed '/^name/d; s/^\[run\]/[run]\nworkers = 3\nvirtual_limit_s = 1.5/; s/^\[data\]/[data]\nvalidation = 40/' \
  tiny.ini >swept.ini
PYTHON=${PYTHON:-/usr/bin/python3} expect_code 0 "$source_dir/jobs/sweep.sh" \
  --local timed.sweep --jobs=2 --run.threads=1
python - <<'PY' || fail "the sweep's lengths: $(cat "$scratch/out")"
import glob, h5py
steps = {}
for path in glob.glob("swept/*/*/results.h5"):
    with h5py.File(path) as file:
        end = float(file["summary/virtual_s"][()])
        assert 1.35 < end <= 1.5 * (1 + 1e-9), (path, end)
        assert file["summary/finished"][()] == 1
        steps[path.split("/")[2]] = int(file["train/worker_steps"][-1]) // 3
print(steps)
assert len(steps) == 8
assert steps["bsp-seed1"] < steps["asp-seed1"], steps
assert len({steps[f"asp-seed{seed}"] for seed in (1, 2)} |
           {steps[f"bsp-seed{seed}"] for seed in (1, 2)}) > 2, steps
PY
grep -q '^- note: equal virtual time, run.virtual_limit_s = 1.5: worker_steps ' \
  swept/comparison.md || fail "the comparison: $(cat swept/comparison.md)"
! grep -q 'also different: run.steps' swept/comparison.md ||
  fail "the comparison: $(cat swept/comparison.md)"
grep -q '^| asp | 2 | 1 2 |' swept/comparison.md || fail "no row of asp"
finish
