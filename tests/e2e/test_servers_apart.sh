#!/usr/bin/env bash
# Parameter servers on machines of their own (network.servers = apart): a run that
# was cut is the one that was not, in its own world and in the other; simulations
# take as long, and `validate` knows the bytes.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cat >>tiny.ini <<'INI'
[compute]
step_s = 0.01
law = gamma
spread = 0.3
[network]
mbit_s = 20, 20, 4
latency_us = 200
servers = apart
server_mbit_s = 15
INI
seconds() { python -c 'import h5py, sys; print(h5py.File(sys.argv[1])["summary/virtual_s"][()])' "$1"; }

while read -r name words; do
  read -ra keys <<<"$words"
  train_three 0 process "$name" "${keys[@]}"
  train_three 0 process "$name-cut" "${keys[@]}" --run.stop_at=7
  train_three 0 process "$name-cut" "${keys[@]}"
  resumed "$name-cut" 7
  python "$here/compare_runs.py" --virtual "runs/$name" "runs/$name-cut" ||
    fail "$name-cut differs"
  expect_code 0 "$SYNCOPATE" simulate tiny.ini --run.workers=3 "${keys[@]}" --output="$name.h5"
  took=$(seconds "runs/$name/results.h5") predicted=$(seconds "$name.h5")
  awk "BEGIN { exit !($took > 0 && ($took / $predicted - 1) ^ 2 < 1e-18) }" ||
    fail "$name took $took s, and $predicted s in a simulation"
done <<'RUNS'
asp --sync.scheme=asp
asp-bf16 --sync.scheme=asp --asp.servers=1 --asp.pull=before_step --sync.wire=bf16
ssp --sync.scheme=ssp --ssp.bound=1 --asp.servers=2
esync --sync.scheme=esync --sync.collective=parameter_server
bsp --sync.scheme=bsp --sync.collective=parameter_server
bsp-bf16 --sync.scheme=bsp --sync.collective=parameter_server --sync.wire=bf16
RUNS

echo "from one world to the other"
keys=(--sync.scheme=bsp --sync.collective=parameter_server)
for worlds in "process ranks" "ranks process"; do
  read -r first second <<<"$worlds"
  train_three 0 "$first" "$first-first" "${keys[@]}" --run.stop_at=7
  train_three 0 "$second" "$first-first" "${keys[@]}"
  resumed "$first-first" 7
  python "$here/compare_runs.py" --replica-only runs/bsp "runs/$first-first" ||
    fail "$worlds: another model"
done

echo "bytes"
read -ra launch <<<"$(ranks 3)"
sent() { # sent COMMAND...: as validate says
  expect_code 0 "$@"
  sed -n 's/^sent  *[a-z]*, \(.*\) per worker.*/\1/p' out >>sent
}
sent "$SYNCOPATE" validate tiny.ini --run.workers=3 --sync.scheme=asp
sent "${launch[@]}" "$SYNCOPATE" validate tiny.ini --sync.scheme=asp
sent "$SYNCOPATE" validate tiny.ini --run.workers=3 "${keys[@]}"
# Twice the model, or two thirds of that where the servers are on the ranks.
[[ $(paste -sd/ sent) == "621.22 kB/414.14 kB/621.22 kB" ]] || fail "sent: $(cat sent)"

echo "what has no server"
expect_code 0 "$SYNCOPATE" simulate tiny.ini --run.workers=3 --sync.scheme=choco
grep -q '^unused *network.servers: choco has no server here' out || fail "$(cat out)"
expect_code 0 "$SYNCOPATE" simulate tiny.ini --run.workers=3 --sync.scheme=asp
! grep -q '^unused' out || fail "$(grep unused out)"
expect_code 65 "$SYNCOPATE" validate tiny.ini --run.workers=3 --network.servers=on_workers
grep -q 'network.server_mbit_s: is used by network.servers = apart' err || fail "$(cat err)"
finish
