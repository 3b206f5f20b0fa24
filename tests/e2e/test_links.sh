#!/usr/bin/env bash
# Collectives between hosts with a slow link each: above a loose share of what
# the link carries. tests/bench/links.sh measures all of them.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

bench=("$SYNCOPATE" bench comm tiny.ini --run.workers=2)
expect_code 64 "${bench[@]}" --bytes=8
grep -q 'messages take no time between workers of one process' err || fail "$(cat err)"
# A server's link is a cost, too: 4,096 bytes of two workers at 12.5 MB/s, twice.
expect_code 0 "${bench[@]}" --bytes=4096 --by=parameter_server --repeats=2 \
  --network.servers=apart --network.server_mbit_s=100
grep -qE '^ +4096 +parameter_server +1310.7 ' out || fail "a server: $(cat out)"
bench+=(--network.mbit_s=100 --network.latency_us=50)
expect_code 0 "${bench[@]}" --bytes=8,4096 --by=ring --repeats=2
rows=$(grep -c -E '^ +(8|4096) +(point_to_point|ring) ' out)
((rows == 4)) || fail "bench comm: $rows rows of 4"
# 50 us and 4,096 bytes at 12.5 MB/s.
grep -qE '^ +4096 +point_to_point +377.7 ' out || fail "virtual: $(cat out)"
# Between islands, not inside one, whose links are free.
expect_code 0 "${bench[@]/=2/=4}" --bytes=4096 --repeats=2 --network.group=2
grep -qE '^ +4096 +point_to_point +377.7 ' out || fail "islands: $(cat out)"
expect_code 64 "${bench[@]}" --bytes=6
expect_code 64 "${bench[@]}" --repeats=0
expect_code 64 "${bench[@]}" --by=rang
expect_code 64 "$SYNCOPATE" bench step tiny.ini --bytes=8

code=0
RATES=100 RANKS=2 BYTES=4194304 BY=ring,native REPEATS=3 \
  timeout 60 "$here/../bench/links.sh" >table 2>err || code=$?
if ((code == 77)); then
  ((failures == 0)) || finish
  tail -n 1 table
  exit 77
fi
((code == 0)) || fail "links.sh: exit $code: $(tail -n 5 err)"
cat table
# | rate | MB/s | ranks | bytes | by | ms | share |
bandwidth=$(awk -F'|' '$6 ~ /ring/ { printf "%d", $3 * 10 }' table)
((${bandwidth:-0} > 80 && ${bandwidth:-0} < 128)) ||
  fail "a link of 100 Mbit/s carried ${bandwidth:-0} x 0.1 MB/s"
for by in ring native; do
  share=$(awk -F'|' -v by="$by" '$6 ~ by { printf "%d", $8 }' table)
  # Measured 98%; by UCX's rendezvous the ring has 62%.
  ((${share:-0} >= 70)) || fail "$by reached ${share:-0}% of the bound"
done

# What backward hides, in six steps: the figures are there, and more buckets
# than one leave less exposed.
RATES=100 REPEATS=1 STEPS=6 timeout 60 "$here/../bench/links.sh" overlap \
  >table 2>err || fail "links.sh overlap: $(tail -n 5 err)"
cat table
awk -F'|' '$2 == " 100 " && $6 > 40 && $7 < $6 { found = 1 }
  END { exit !found }' table || fail "overlap: no gain"

# Plain sockets: no faster than the link, nor idle.
RATES=100 RANKS=2 REPEATS=1 timeout 60 "$here/../bench/links.sh" sockets \
  >table 2>err || fail "links.sh sockets: $(tail -n 5 err)"
cat table
awk -F'|' '$2 == " 100 " && $4 > 9 && $4 < 12.6 { found = 1 }
  END { exit !found }' table || fail "sockets: not what the link carries"
finish
