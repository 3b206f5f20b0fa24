#!/usr/bin/env bash
# output.trace in one process, in a simulation and under MPI: what the file says
# agrees with results.h5, and recording changes no result; windows, resumed and
# killed runs; what postprocess/timeline.py and scaling_plot.py draw of it.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
source_dir=${SOURCE_DIR:-$(cd "$here/../.." && pwd)}
# shellcheck source=jobs/env/python.sh
source "$source_dir/jobs/env/python.sh"
PYTHON=$(find_python "$source_dir") || {
  echo "skipped: no Python with h5py and matplotlib"
  exit 77
}
export PYTHON OMP_NUM_THREADS=1

cat >ranks.ini <<'INI'
[run]
threads = 1
steps = 12
log_every = 1
INI
small_network >>ranks.ini
cat >>ranks.ini <<'INI'
[eval]
every = 6 steps
[checkpoint]
every = 5 steps
INI
cp ranks.ini small.ini
cat >>small.ini <<'INI'
[compute]
step_s = 0.01
update_s = 0.001
law = lognormal
spread = 0.2
speed = 1, 1, 2, 1
[network]
mbit_s = 20, 20, 20, 50
latency_us = 300
INI
sed -i 's/^steps = 12/&\nworkers = 4/' small.ini

train() { # train NAME KEYS...: four workers in one process
  expect_code 0 "$SYNCOPATE" train small.ini --run.name="$1" \
    --output.trace=on "${@:2}"
}
read -ra two <<<"$(ranks 2)"
train_ranks() { # train_ranks CODE NAME KEYS...
  expect_code "$1" "${two[@]}" "$SYNCOPATE" train ranks.ini --run.name="$2" \
    --output.trace=on "${@:3}"
}
check() { # check TRACE RESULTS: of valid JSON, all that check_trace.py looks at
  python -m json.tool "$1" /dev/null || fail "$1 is no JSON"
  python "$here/check_trace.py" "$1" "$2" || fail "$1 and $2 differ"
}
shows() { grep -Eq -- "$1" "$2" || fail "no $1 in $2: $(cat "$2")"; }

# --- what a trace says ---------------------------------------------------------
schemes=(bsp asp choco esync sync_switch)
[[ -z ${EXHAUSTIVE:-} ]] || mapfile -t schemes < <(all_schemes)
for scheme in "${schemes[@]}"; do
  read -ra keys <<<"--sync.scheme=$scheme $(scheme_keys "$scheme")"
  train "$scheme" "${keys[@]}"
  shows "^trace +runs/$scheme/trace.json .steps 1:20, virtual time" out
  check "runs/$scheme/trace.json" "runs/$scheme/results.h5"
  expect_code 0 "$SYNCOPATE" simulate small.ini --run.name="simulated-$scheme" \
    "${keys[@]}" --output.trace=on --output="$scheme.h5"
  shows "^trace +runs/simulated-$scheme/trace.json" out
  check "runs/simulated-$scheme/trace.json" "$scheme.h5"
done
# Servers on machines of their own are shown with the workers of their numbers.
for scheme in asp bsp; do
  keys=(--sync.scheme="$scheme" --network.servers=apart --network.server_mbit_s=20)
  [[ $scheme == asp ]] || keys+=(--sync.collective=parameter_server)
  train "$scheme-apart" "${keys[@]}"
  check "runs/$scheme-apart/trace.json" "runs/$scheme-apart/results.h5"
  shows '"parameter s[a-z]*, own machine' "runs/$scheme-apart/trace.json"
done
# Sums that are computed rather than sent.
expect_code 0 "$SYNCOPATE" simulate small.ini --run.name=alike \
  --network.mbit_s=20 --output.trace=on --output=alike.h5
shows "^sums +computed" out
check runs/alike/trace.json alike.h5
for scheme in bsp asp choco; do
  read -ra keys <<<"--sync.scheme=$scheme $(scheme_keys "$scheme")"
  # Under asp, one worker may take nearly all of the 24 steps of both.
  train_ranks 0 "ranks-$scheme" "${keys[@]}" --output.trace_steps=1:24
  shows "^trace .*trace.json .steps 1:24, wall time, clocks .* within .* us" out
  check "runs/ranks-$scheme/trace.json" "runs/ranks-$scheme/results.h5"
  [[ -z $(find "runs/ranks-$scheme" -name 'trace-*') ]] || fail "parts are left"
done
shows '"worker 1 on ' runs/ranks-bsp/trace.json

# --- it changes nothing, and repeats -------------------------------------------
for scheme in bsp asp choco; do
  read -ra keys <<<"--sync.scheme=$scheme $(scheme_keys "$scheme")"
  train again "${keys[@]}"
  cmp runs/again/trace.json "runs/$scheme/trace.json" ||
    fail "another trace of the same run under $scheme"
  expect_code 0 "$SYNCOPATE" train small.ini --run.name=without "${keys[@]}"
  [[ ! -e runs/without/trace.json ]] || fail "a trace without output.trace"
  same_states without "$scheme" || fail "output.trace changes $scheme"
  python "$here/compare_runs.py" --virtual runs/without "runs/$scheme" ||
    fail "output.trace changes results of $scheme"
  rm -r runs/again runs/without
done
# Equal moments, at which the order of what happens could depend on it.
sed -e '/^\(update_s\|law\|spread\|speed\|mbit_s\) /d; s/^step_s = .*/step_s = 1/' small.ini >equal.ini
moments() { # moments NAME KEYS...: with a trace or without
  for trace in on off; do
    expect_code 0 "$SYNCOPATE" train equal.ini --run.name="equal-$trace" --output.trace=$trace \
      "${@:2}"
  done
  same_states equal-on equal-off || fail "output.trace changes $1"
  python "$here/compare_runs.py" --virtual runs/equal-on runs/equal-off ||
    fail "output.trace changes the times of $1"
  rm -r runs/equal-*
}
moments "pulls before steps" --sync.scheme=asp --asp.pull=before_step --network.mbit_s=20
moments "two servers" --sync.scheme=ssp --asp.servers=2 --run.workers=7 --network.mbit_s=20 \
  --network.message_us=5
moments "half a step" --sync.scheme=ssp --asp.pull=before_step --network.mbit_s=2

# --- windows -------------------------------------------------------------------
train window --output.trace_steps=3:4
steps=$(grep '"ph":"X"' runs/window/trace.json | grep -o '"step":[0-9]*' | sort -u)
[[ $steps == $'"step":3\n"step":4' ]] || fail "a window of steps $steps"
train never --output.trace_steps=30:40
shows "^trace .*trace.json is empty: no step of 30:40 was reached" out
python -m json.tool runs/never/trace.json /dev/null || fail "no JSON"
expect_code 65 "$SYNCOPATE" train small.ini --run.name=x --output.trace_steps=1:2
shows "output.trace_steps: is used by output.trace = on" err
expect_code 65 "$SYNCOPATE" train small.ini --run.name=x --output.trace=on \
  --output.trace_steps=4:3
shows "output.trace_steps: expected FIRST:LAST" err
expect_code 73 "$SYNCOPATE" simulate small.ini --run.name=bsp --output.trace=on
shows "runs/bsp: holds a run" err

# --- resumed and killed runs ---------------------------------------------------
# What a worker did and in which rows, without arrows, whose numbers differ.
told() {
  grep '"ph":"X"' "$1" | sed 's/,$//' | sort
}
train stopped --run.stop_at='7 steps'
train stopped
check runs/stopped/trace.json runs/stopped/results.h5
diff <(told runs/bsp/trace.json) <(told runs/stopped/trace.json) >/dev/null ||
  fail "a resumed run has another trace"
cp runs/bsp/trace.json before.json
train bsp --run.steps=14 --output.trace_steps=1:10
shows "^trace +the steps 1:10 lie before this start" out
cmp before.json runs/bsp/trace.json || fail "a later start changed the trace"

asp=(--sync.scheme=asp)
expect_code 137 "$SYNCOPATE" train small.ini --run.name=killed "${asp[@]}" \
  --output.trace=on --faults.kind=kill --faults.step=8
python -m json.tool runs/killed/trace.json /dev/null || fail "no JSON, once killed"
shows '"step":4' runs/killed/trace.json
train killed "${asp[@]}"
check runs/killed/trace.json runs/killed/results.h5
diff <(told runs/asp/trace.json) <(told runs/killed/trace.json) >/dev/null ||
  fail "a run that was killed and resumed has another trace"

# Ranks that were killed, then one process, then ranks again.
mixed=(--output.trace_steps=1:100 --run.steps=16)
train_ranks 71 mixed "${mixed[@]}" --faults.kind=kill --faults.step=8 --faults.rank=1
expect_code 0 "$SYNCOPATE" train ranks.ini --run.name=mixed --run.workers=2 \
  --output.trace=on "${mixed[@]}" --run.stop_at=11
train_ranks 0 mixed "${mixed[@]}"
[[ -z $(find runs/mixed -name 'trace-*') ]] || fail "mixed: parts are left"
steps=$(grep '"ph":"X"' runs/mixed/trace.json | grep -o '"step":[0-9]*' | sort -u | wc -l)
((steps == 16)) || fail "mixed: the trace has $steps steps of 16"

train_ranks 71 dead --faults.kind=kill --faults.step=8 --faults.rank=1
for part in runs/dead/trace-rank-{0,1}.json; do
  python -m json.tool "$part" /dev/null || fail "$part is no JSON"
done
post() { expect_code "$1" python "$source_dir/postprocess/$2.py" "${@:3}"; }
drawn() { [[ $(head -c 4 "$1" | tail -c 3) == PNG && $(wc -c <"$1") -gt 8000 ]] ||
  fail "$1 is no picture"; }
post 0 timeline runs/dead -o dead.png
shows "2 parts that were not joined" err
drawn dead.png
train_ranks 0 dead
check runs/dead/trace.json runs/dead/results.h5

# --- pictures ------------------------------------------------------------------
for run in bsp asp choco simulated-asp alike ranks-bsp; do
  post 0 timeline "runs/$run" -o "$run.png"
  drawn "$run.png"
done
post 0 timeline runs/bsp --steps=2:2 --workers=1:2 -o two.png
drawn two.png
post 0 timeline runs/asp/trace.json --from=0.1 --to=0.2 -o seconds.pdf
post 0 timeline runs/bsp -o many.png
shows "messages, more than 80: no arrows" err
post 65 timeline runs/bsp --steps=90:95 -o x.png
shows "^error: --steps=90:95: the trace has steps 1 to 1[0-9]$" err
post 65 timeline runs/bsp --from=2 --to=1 -o x.png
post 65 timeline runs/bsp -o x.txt
post 65 timeline runs/never -o x.png
shows "^error: .*none of the steps 30:40 was reached" err
post 65 timeline small.ini -o x.png
post 66 timeline runs/nothing -o x.png
post 73 timeline runs/bsp -o none/x.png

# Two rank traces of a truncated file: what is complete is read.
head -c 20000 runs/asp/trace.json >cut.json
post 0 timeline cut.json -o cut.png
drawn cut.png

cat >scaling.sweep <<'END'
[sweep]
input = small.ini
directory = scaling
command = simulate
[final]
seeds = 1
[over]
run.workers = 2 3 4
network.latency_us = 100 300
[variants]
bsp = sync.scheme=bsp
asp = sync.scheme=asp
END
sed -i 's/^speed = .*/speed = 1/; s/^mbit_s = .*/mbit_s = 20/' small.ini
sweep=(env SYNCOPATE="$SYNCOPATE" "$source_dir/jobs/sweep.sh" --local)
expect_code 0 "${sweep[@]}" scaling.sweep --jobs=2
shows "^\[10/10\] .*: samples_per_s " out
drawn scaling/scaling.png
expect_code 0 "${sweep[@]}" scaling.sweep --jobs=2
shows "^final: 10 of 10 runs have already finished" out
post 0 scaling_plot scaling/final/*.h5 --data-only -o scaling.csv
python - <<'PY' || fail "$(cat scaling.csv)"
import csv, glob, h5py
rows = list(csv.DictReader(open("scaling.csv")))
points = {(row["key"], float(row["value"]), row["scheme"]): row for row in rows}
assert len(points) == len(rows) == 3 * (3 + 2), len(rows)
with h5py.File("scaling/final/asp-workers-3-seed1.h5") as file:
    expected = file["summary/samples_per_s"][()]
assert float(points["run.workers", 3, "asp"]["samples_per_s"]) == expected
for (key, value, scheme), row in points.items():
    most = points[key, value, "without waiting"]["samples_per_s"]
    assert float(row["samples_per_s"]) <= float(most) * (1 + 1e-9)
PY
post 0 scaling_plot scaling/final/bsp-workers-*.h5 -o one.pdf
# Variants of a scheme have lines of their own, seeds are averaged, lengths and
# limits are no axes.
for seed in 1 2; do
  for words in "ring 2" "ring 4" "parameter_server 2" "parameter_server 4"; do
    read -r collective workers <<<"$words"
    expect_code 0 "$SYNCOPATE" simulate tiny.ini --run.seed=$seed \
      --sync.collective="$collective" --run.workers="$workers" \
      --compute.law=lognormal --compute.spread=0.3 --network.mbit_s=20 \
      --run.epochs=0 --run.steps=0 --run.virtual_limit_s="$((20 * workers))" \
      --output="of-$collective-$workers-$seed.h5"
  done
done
post 0 scaling_plot of-*.h5 --data-only -o of.csv
python - <<'PY' || fail "$(cat of.csv)"
import csv
rows = [row for row in csv.DictReader(open("of.csv"))
        if row["scheme"] != "without waiting"]
assert {row["key"] for row in rows} == {"run.workers"}, rows
assert sorted((row["scheme"], row["value"]) for row in rows) == [
    (f"bsp {name}", value) for name in ("parameter_server", "ring")
    for value in ("2.0", "4.0")], rows
PY
post 65 scaling_plot scaling/final/bsp-workers-2-seed1.h5 -o x.png
post 65 scaling_plot runs/bsp/results.h5 -o x.png
shows "^error: .*not the results of a simulation" err
sed 's/^command = .*/command = dream/' scaling.sweep >dream.sweep
expect_code 65 "${sweep[@]}" dream.sweep
sed '/^command/d' scaling.sweep >plain.sweep
expect_code 65 "${sweep[@]}" plain.sweep
shows "\[over\]: not of a sweep with command = train" err
finish
