#!/usr/bin/env bash
# `advise` on two hosts of two ranks each, which share their host's link of 50
# Mbit/s: it tells links inside and between hosts apart.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cat >small.ini <<'INI'
[run]
steps = 10
threads = 1
workers = auto
INI
small_network >>small.ini

code=0
PER_HOST=2 timeout 120 "$here/../bench/links.sh" --run 50 2 "$SYNCOPATE" \
  advise small.ini >out 2>err || code=$?
if ((code == 77)); then
  tail -n 1 out
  exit 77
fi
((code == 0)) || fail "exit $code: $(tail -n 5 err)"
awk '/^hosts +2 with 2 workers each; inside/ {
    for (i = 1; i < NF; ++i)
      if ($(i + 1) == "Mbit/s") rate[++rates] = $i
    found = rate[1] > 200 && rate[2] > 35 && rate[2] < 65 && /shared by a host/
  } END { exit !found }' out || fail "$(cat out)"
grep -q '^  .*--sync.collective=hierarchical' out || fail "$(cat out)"

# What it measured is an input that simulate takes, as one of two hosts.
sed 's/^workers = auto/workers = 4/' small.ini >measured.ini
sed '1,/^The cluster as it was measured/d' out >>measured.ini
grep -qx 'group = 2' measured.ini || fail "no hosts: $(cat measured.ini)"
grep -q '^update_s = ' measured.ini || fail "no update_s: $(cat measured.ini)"
cp out advice
expect_code 0 "$SYNCOPATE" simulate measured.ini --sync.collective=hierarchical
simulated=$(awk '/^time/ { print $2 / 10 }' out)
advised=$(awk '/--sync.scheme=bsp --sync.collective=hierarchical \(/ { print $1 / 1000 }' advice)
python -c "import sys; s, a = map(float, sys.argv[1:]); sys.exit(abs(s / a - 1) > 0.2)" \
  "$simulated" "$advised" || fail "simulated $simulated s a step, advised $advised"
finish
