#!/usr/bin/env bash
# `advise` where the answer is known: bsp on fast links; messages that are rare or
# compressed on slow ones; workers at their own speed where one is slow; no single
# parameter server that all workers share. Its figures are those of `simulate`.
# Under MPI it measures the cluster first.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1

cat >small.ini <<'INI'
[run]
threads = 1
epochs = 40
INI
small_network >>small.ini
cat >>small.ini <<'INI'
[eval]
every = 0
[checkpoint]
every = 0
INI
# A cluster is described by these keys; what schemes compute themselves is not
# measured, so that the figures are the same everywhere.
cluster=(--run.workers=8 --compute.step_s=0.05 --compute.update_s=0.0001
  --network.latency_us=20)


# advise WHAT KEYS...: the table is in $scratch/out; $advice is the line of keys.
advise() {
  local what=$1
  shift
  expect_code 0 "$SYNCOPATE" advise small.ini "${cluster[@]}" "$@"
  advice=$(sed -n 's/^advice *//p' out)
  [[ $advice ]] || fail "$what: no advice"
}
# row WORDS: the first row of the table whose keys have all of WORDS.
row() {
  awk -v words="$1" 'BEGIN { n = split(words, want, " ") }
    $3 + 0 > 0 && /scheme=/ {
      for (i = 1; i <= n; i++) if (index($0 " ", want[i] " ") == 0) next
      print; exit
    }' out
}
# ratio WORDS: its samples per second relative to the fastest bsp.
ratio() { row "$1" | awk '{ print $3 }'; }
# holds WHAT EXPRESSION: fails with WHAT unless awk finds EXPRESSION true.
holds() { awk "BEGIN { exit !($2) }" || fail "$1: '$2' is false: $(cat out)"; }

advise "fast links" --network.mbit_s=100000
[[ $advice == *scheme=bsp* ]] || fail "fast links: $advice"
cp out fast
advise "fast links" --network.mbit_s=100000
cmp -s out fast || fail "the same question has two answers"

advise "slow links" --network.mbit_s=20
[[ $advice != *scheme=bsp* ]] || fail "slow links: $advice"
sends_little='scheme=(local_sgd|choco|dgc|ef_sign_sgd|power_sgd|easgd|deepsqueeze|ds_sync)'
[[ $advice =~ $sends_little ]] || fail "slow links: $advice"
holds "slow links" "$(ratio "$advice") >= 1.3"
exposed_ms() { row "$1" | awk '{ print $4 }'; }
holds "slow links" "$(exposed_ms "--sync.scheme=bsp") > $(exposed_ms "$advice")"

# The advice is as fast as said: simulate finds the same step.
read -ra keys <<<"$advice"
said=$(row "$advice" | awk '{ print $2 }')
expect_code 0 "$SYNCOPATE" simulate small.ini "${cluster[@]}" \
  --network.mbit_s=20 --run.steps=96 "${keys[@]}"
simulated=$(awk '$1 == "throughput" { print $2 }' out)
holds "simulate agrees" "$simulated / $said > 0.999 && $simulated / $said < 1.001"

# Seven workers would wait for the eighth.
advise "a slow worker" --network.mbit_s=10000 --compute.speed=1,1,1,1,1,1,1,0.25
[[ $advice =~ scheme=(asp|ssp|esync)( |$) ]] || fail "a slow worker: $advice"
holds "a slow worker" "$(ratio "$advice") > 2"

# Eight workers' gradients of 310.6 kB, 12.42 ms on a link, and steps of 50.1 ms.
# One server: worker 0 has it beside itself; one of the others' gradients arrives
# every 12.42 ms; 8 steps take 8 / (1/50.1 + 1/12.42) = 79.6 ms. Eight servers, if
# clipping holds pushes back until the end of the backward pass: 7/8 of a gradient
# leaves and 7/8 of the parameters arrive, 50.1 + 2 * 10.87 = 71.8 ms. Otherwise only
# the first shard's messages, of 1.55 ms, are left at the end: one each way, behind
# those of up to seven others.
# That the input's scheme has a key of its own keeps no other scheme out.
incast=(--network.mbit_s=200 --sync.scheme=asp)
# plain SCHEME: the scheme's row with the input's keys and no others.
plain() { grep -F -- "--sync.scheme=$1 (" out; }
step_ms() { plain "$1" | awk '{ print $1 }'; }
advise "one server" "${incast[@]}" --asp.servers=1
holds "one server" "$(step_ms asp) / 79.6 - 1 < 0.02"
holds "one server" "$(step_ms asp) / 79.6 - 1 > -0.02"
advise "eight servers" "${incast[@]}" --asp.servers=8 --optimizer.clip_norm=1
holds "eight servers" "$(step_ms asp) / 71.8 - 1 < 0.01"
holds "eight servers" "$(step_ms asp) / 71.8 - 1 > -0.01"
advise "pushes under backward" "${incast[@]}" --asp.servers=8
holds "pushes under backward" "$(step_ms asp) > 50.1 + 2 * 1.55"
holds "pushes under backward" "$(step_ms asp) < 50.1 + 9 * 1.55"
advise "a graph" --network.mbit_s=100000 --sync.scheme=choco \
  --compress.kind=sign --topology.kind=complete
[[ $advice == *scheme=bsp* ]] || fail "a graph: $advice"

# dcd_psgd and ecd_psgd send as much and are a little faster here; choco, which
# bears more compression, is fast enough.
advise "gossip" --network.mbit_s=20 --sync.scheme=choco --compress.kind=sign \
  --topology.kind=ring
[[ $(grep -c -- '^ .*--sync.scheme=[de]cd_psgd' out) -ge 2 ]] || fail "gossip: $(cat out)"
[[ ! $advice =~ [de]cd_psgd ]] || fail "gossip: $advice"

# The gain is that over the fastest of bsp's variants, not over the simplest of
# those about as fast.
most() { # most HEADING: the largest samples/s of one part of the table
  awk -v heading="$1" '/^(Bulk|Other)/ { inside = $1 ~ heading }
    inside && /scheme=/ && $2 + 0 > most { most = $2 } END { print most }' out
}
cluster=(--run.workers=4 "--compute.speed=1,1,1,0.69" --compute.step_s=0.05
  --compute.update_s=0.0001 --network.mbit_s=350)
expect_code 0 "$SYNCOPATE" advise "$here/../../inputs/smoke.ini" "${cluster[@]}" --run.threads=1
gain=$(awk "BEGIN { print $(most Other) / $(most Bulk) }")
advice=$(sed -n 's/^advice *//p' out)
holds "near the gain" "$gain > 1.2 && $gain < 1.3"
[[ $advice == *scheme=bsp* ]] || fail "near the gain, $gain: $advice"
cluster=(--run.workers=8 --compute.step_s=0.05 --compute.update_s=0.0001
  --network.latency_us=20)

# Without compute.update_s, what schemes compute themselves is measured: choosing
# the largest of 75,000 values takes longer than the link, and exchanging half of
# them, whose indices double them, saves no bytes.
expect_code 0 "$SYNCOPATE" advise small.ini --run.workers=8 --compute.step_s=0.001 \
  --network.mbit_s=1000000 --network.latency_us=1 --sync.scheme=dgc \
  --compress.kind=top_k --compress.ratio=0.5
grep -q 'measured on this machine' out || fail "measured: $(cat out)"
holds "measured" "$(plain dgc | awk '{ print $3 }') < 0.95"
[[ $(sed -n 's/^advice *//p' out) == *scheme=bsp* ]] || fail "measured: $(cat out)"

# A measured row is what simulate finds with the keys and update_s that are printed:
# those of the advice, and the column of the others.
measured=(--run.workers=8 --compute.step_s=0.005 --network.mbit_s=100 --network.latency_us=20)
expect_code 0 "$SYNCOPATE" advise small.ini "${measured[@]}"
cp out table
advice=$(sed -n 's/^advice *//p' table)
printed=$(sed -n 's/^ *To simulate it, add --compute.update_s=//p' table)
holds "the advice's update_s" "$printed > 0"
holds "the advice's update_s" \
  "(1000 * $printed / $(row "$advice" | awk '{ print $5 }') - 1) ^ 2 < 0.002 ^ 2"
reproduces() { # reproduces UPDATE_S WITHIN KEYS...: the row of KEYS in table
  local took said
  cp table out
  said=$(grep -F -- "${*:3} (" out | awk '{ print $1 }')
  expect_code 0 "$SYNCOPATE" simulate small.ini "${measured[@]}" --run.epochs=0 \
    --run.steps=96 --compute.update_s="$1" "${@:3}"
  took=$(awk '$1 == "throughput" { print 1000 * 8 * 4 / $2 }' out)
  holds "${*:3} with update_s = $1" "($took / $said - 1) ^ 2 < $2 ^ 2"
}
read -ra keys <<<"$advice"
reproduces "$printed" 0.01 "${keys[@]}"
for words in 0.01:--sync.scheme=power_sgd 0.01:--sync.scheme=d_psgd 0.02:--sync.scheme=esync \
  "0.01:--sync.scheme=choco --compress.kind=top_k"; do
  cp table out
  update_s=$(grep -F -- "${words#*:} (" out | awk '{ print $5 / 1000 }')
  read -ra keys <<<"${words#*:}"
  reproduces "$update_s" "${words%%:*}" "${keys[@]}"
done
advise "update_s is given" --network.mbit_s=100
! grep -q 'To simulate it' out || fail "update_s is given: $(cat out)"

# Messages of bf16, whatever collective is the fastest.
cluster[0]=--run.workers=5
advise "bf16" --network.mbit_s=80
[[ $(row --sync.wire=bf16) ]] || fail "bf16 was not tried"
holds "bf16" "$(ratio "--sync.wire=bf16") == 1"

# What makes bsp faster, other schemes are tried with as well.
far=("${cluster[@]:0:3}" --network.mbit_s=80 --network.latency_us=5000)
expect_code 0 "$SYNCOPATE" advise small.ini "${far[@]}"
for scheme in asp d_psgd esync power_sgd; do
  tuned=$(grep -oE -- "--sync.scheme=$scheme --[^(]*" out) || fail "$scheme: not tried: $(cat out)"
  cp out table
  said=$(grep -F -- "$tuned" out | awk '{ print $2 }')
  # shellcheck disable=SC2086  # keys
  expect_code 0 "$SYNCOPATE" simulate small.ini "${far[@]}" $tuned --run.epochs=0 \
    --run.steps=96
  holds "$tuned" "($(awk '/^throughput/ { print $2 }' out) / $said - 1) ^ 2 < 0.02 ^ 2"
  cp table out
  holds "$tuned" "$said > 1.02 * $(plain $scheme | awk '{ print $2 }')"
done

cluster[0]=--run.workers=8
# Whole rounds of local_sgd, however long, with the steps that simulate finds.
rounds=(--network.mbit_s=0.5 --sync.scheme=local_sgd --run.epochs=0)
for H in 50 128; do
  advise "rounds of $H" "${rounds[@]}" --run.steps=1000 --local_sgd.steps=$H
  said=$(plain local_sgd | awk '{ print $2 }')
  expect_code 0 "$SYNCOPATE" simulate small.ini "${cluster[@]}" "${rounds[@]}" \
    --local_sgd.steps=$H --run.steps=$((20 * H))
  holds "rounds of $H" "$(awk '/^throughput/ { print $2 }' out) / $said < 1.01"
  holds "rounds of $H" "$(awk '/^throughput/ { print $2 }' out) / $said > 0.99"
done

# A worker 150 times as slow: rates, not the moment at which its last step ends.
unequal=(--network.mbit_s=150 "--stragglers.factor=150,1,1,1,1,1")
cluster[0]=--run.workers=6
advise "very unequal" "${unequal[@]}"
cp out table
for scheme in asp esync; do
  cp table out
  said=$(plain "$scheme" | awk '{ print $2 }')
  expect_code 0 "$SYNCOPATE" simulate small.ini "${cluster[@]}" "${unequal[@]}" \
    --sync.scheme=$scheme --run.epochs=0 --run.steps=20000
  holds "very unequal: $scheme" "$(awk '/^throughput/ { print $2 }' out) / $said < 1.1"
  holds "very unequal: $scheme" "$(awk '/^throughput/ { print $2 }' out) / $said > 0.9"
done
advise "very unequal" "${unequal[@]}"
[[ $advice == *esync* ]] || fail "very unequal: $advice"

# The memory of a worker, however many there are.
memory() { row "--sync.scheme=bsp" | awk '{ print $8, $9 }'; }
cluster[0]=--run.workers=2
advise "memory" --network.mbit_s=100
two=$(memory)
cluster[0]=--run.workers=16
advise "memory" --network.mbit_s=100
[[ $(memory) == "$two" ]] || fail "memory of 2 workers: $two, of 16: $(memory)"

cluster[0]=--run.workers=8
# Episodes beyond the simulated steps, and no word about what nobody asked for.
advise "episodes" --network.mbit_s=100 --stragglers.episodes=6:compute:x10:from=90s
grep -q '^note .*episodes' out || fail "no note about episodes"
! grep -q 'command line:\|kind=sign: compress.kind' out || fail "$(grep left out)"

# GPUs behind slow copies: NCCL avoids them under each scheme that can use it.
# Without copies, it is not tried.
advise "copies" --network.mbit_s=10000 --network.device_mbit_s=300
[[ $advice == *scheme=bsp*--sync.transport=nccl* ]] || fail "copies: $advice"
for scheme in local_sgd choco sgp; do
  [[ $(row "--sync.scheme=$scheme --sync.transport=nccl") ]] ||
    fail "copies: $scheme without NCCL: $(cat out)"
done
[[ $(row "--sync.scheme=asp") != *nccl* ]] || fail "asp cannot use NCCL"
advise "no copies" --network.mbit_s=10000
! grep -q 'transport' out || fail "no copies: $(grep transport out)"

# A factor that no scheme reaches.
# A scheme that reaches the gain is recommended, also where one that is nearly as
# fast, and comes earlier in the table of schemes, does not.
sed 's/^family = resnet/family = logistic/; /^depth/d; s/^height = 8/height = 32/
  s/^width = 8/width = 32/' small.ini >close.ini
for rate in 300 500 600 700 900; do
  words=(close.ini --run.workers=8 --network.latency_us=10 --network.mbit_s="$rate"
    --compute.step_s=0.01 --compute.update_s=0)
  expect_code 0 "$SYNCOPATE" advise "${words[@]}"
  fastest=$(sed -n '/^Other schemes/,/^$/p' out | awk '/scheme=/ { print $3; exit }')
  gain=$(awk -v most="$fastest" 'BEGIN { printf "%.6f", 0.994 * most }')
  expect_code 0 "$SYNCOPATE" advise "${words[@]}" --gain="$gain"
  ! grep -q '^advice .*scheme=bsp' out ||
    fail "$rate Mbit/s: the fastest gains $fastest, yet with --gain=$gain: $(grep ^advice out)"
done

advise "a great gain" --network.mbit_s=20 --gain=100
[[ $advice == *scheme=bsp* ]] || fail "a great gain: $advice"

# What the input does not describe is said.
expect_code 0 "$SYNCOPATE" advise small.ini --run.workers=2 --steps=4 \
  --compute.update_s=0
grep -q '^note .*compute.step_s is not given: .* 1 s' out ||
  fail "the step time is assumed silently"
grep -q '^note .*network.mbit_s is not given' out ||
  fail "the links are assumed silently"

# Tables of which a batch touches few rows: bsp sends only those. No scheme is
# missing.
rate() { # rate KEYS...: samples/s of plain bsp
  expect_code 0 "$SYNCOPATE" advise "$here/../../inputs/deepfm_smoke.ini" \
    "${cluster[@]}" --steps=4 --network.mbit_s=20 --data.field_rows=2000 "$@"
  awk '/--sync.scheme=bsp \(/ { print int($2); exit }' out
}
dense=$(rate --sync.tables=dense)
rows=$(rate)
((rows > 2 * dense)) || fail "rows: $rows samples/s, whole tables: $dense"
for scheme in $("$SYNCOPATE" list schemes | awk '{ print $1 }'); do
  grep -q -- "--sync.scheme=$scheme\b" out || fail "rows: nothing about $scheme"
done
# Too many workers to follow all their rows: said, and the keys are those simulated.
expect_code 0 "$SYNCOPATE" advise "$here/../../inputs/deepfm_smoke.ini" \
  --run.workers=300 --data.batch=16 --steps=1 --compute.step_s=0.05 --compute.update_s=0.0001 \
  --network.mbit_s=1000
grep -q '^note .*more than 256 workers.*sync.tables = dense' out || fail "$(cat out)"
grep -q -- '--sync.scheme=bsp --sync.tables=dense (' out || fail "$(cat out)"
grep -q '^left out .*=parameter_server: .* would carry 299 gradients each way' out ||
  fail "$(grep left out)"
grep -q '^left out .*=native: .* as fast as the ring$' out || fail "$(grep left out)"

# What schemes compute is measured among as many workers as their topology needs.
expect_code 0 "$SYNCOPATE" advise small.ini --run.workers=9 --steps=4 \
  --compute.step_s=0.05 --network.mbit_s=20 --sync.scheme=choco \
  --compress.kind=sign --topology.kind=torus
grep -q '^left out .*topology' out && fail "torus: $(grep '^left out' out)"
grep -q -- '--sync.scheme=choco' out || fail "torus: nothing about choco"

# The largest worker's memory: one server has values and momentum, and of each
# worker a message and a backup.
memory() { row "$1" | sed -n 's/^.* \([0-9.]* [kMG]*B\)  --sync.*/\1/p'; }
advise "one server" --network.mbit_s=1000 --sync.scheme=asp --asp.servers=1 \
  --asp.compensation=per_worker
one=$(memory "--sync.scheme=asp")
advise "a server each" --network.mbit_s=1000 --sync.scheme=asp
[[ $one && $one != "$(memory "--sync.scheme=asp")" && $one != "$(memory "--sync.scheme=bsp")" ]] ||
  fail "memory with one server: $one, with many: $(memory "--sync.scheme=asp")"

# With a server each, a worker has parameters and gradients, no momentum, an eighth
# of the servers' parameters and momentum, and eight messages of an eighth: 3.25 D.
# bsp's momentum makes it 3 D. On a machine of its own, the server takes no memory.
bytes() { # bytes WORDS: as a number
  memory "$1" | awk '{ print $1 * ($2 == "MB" ? 1e6 : $2 == "kB" ? 1e3 : 1) }'
}
advise "a server each" --network.mbit_s=1000 --sync.scheme=asp --optimizer.momentum=0.9
holds "memory of asp" "1.06 < $(bytes --sync.scheme=asp) / $(bytes --sync.scheme=bsp) &&
  $(bytes --sync.scheme=asp) / $(bytes --sync.scheme=bsp) < 1.11"
advise "servers apart" --network.mbit_s=1000 --sync.scheme=asp --optimizer.momentum=0.9 \
  --network.servers=apart
holds "memory beside servers" "0.64 < $(bytes --sync.scheme=asp) / $(bytes --sync.scheme=bsp) &&
  $(bytes --sync.scheme=asp) / $(bytes --sync.scheme=bsp) < 0.69"

# Sums in groups of many workers are simulated twice, which takes no memory.
expect_code 0 "$SYNCOPATE" advise small.ini "${cluster[@]:1}" --run.workers=289 --steps=2 \
  --data.samples=8192 --network.mbit_s=1000 --sync.scheme=ds_sync
holds "memory of ds_sync" "$(bytes --sync.scheme=ds_sync) == $(bytes --sync.scheme=bsp)"

# Among many workers with unlike links, a ring is followed for fewer steps.
expect_code 0 "$SYNCOPATE" advise small.ini "${cluster[@]:1}" --run.workers=96 \
  --data.samples=8192 --network.group=8 --network.mbit_s=1000 --network.group_mbit_s=10000
grep -q '^simulated  56 to ' out || fail "islands: $(grep simulated out)"

expect_code 64 "$SYNCOPATE" advise small.ini --run.workers=1
expect_code 64 "$SYNCOPATE" advise small.ini "${cluster[@]}" --gain=0.5
expect_code 64 "$SYNCOPATE" advise small.ini "${cluster[@]}" --steps=many
expect_code 65 "$SYNCOPATE" advise small.ini "${cluster[@]}" --network.mbit_s=-1
expect_code 65 "$SYNCOPATE" advise small.ini "${cluster[@]}" --network.mbits=1

# Under MPI: the steps and links of the ranks are measured, in pairs; of three,
# one sits out.
for ranks in 2 3; do
  began=$SECONDS
  # shellcheck disable=SC2046  # the launcher's words
  expect_code 0 $(ranks $ranks) "$SYNCOPATE" advise small.ini
  ((SECONDS - began < 60)) || fail "the probe took $((SECONDS - began)) s"
  for what in "cluster .* $ranks workers, measured" steps links advice; do
    grep -q "^$what" out || fail "$ranks ranks: no '$what' in $(cat out)"
  done
  advised=$(sed -n 's/^ *To simulate it, add --compute.update_s=//p' out)
  [[ $advised && $advised == "$(sed -n 's/^update_s = //p' out)" ]] ||
    fail "$ranks ranks: [compute] is not that of the advised scheme: $(cat out)"
done
echo "a launcher with one rank measures nothing: the input describes the cluster"
# shellcheck disable=SC2086
for launcher in "" "$(ranks 1)"; do
  expect_code 0 $launcher "$SYNCOPATE" advise small.ini --network.mbit_s=50 \
    --run.workers=4 --compute.step_s=0.05 --compute.update_s=0.0001
  cp out "one-${launcher:+launched}"
done
grep -q '^cluster *4 workers, as \[compute\]' one-launched ||
  fail "one rank: $(head -n 3 one-launched)"
diff one- one-launched >&2 || fail "a launcher changes the advice"

echo "ranks are measured, whatever the input says of a cluster or a centre"
{ cat small.ini && printf '[compute]\nupdate_s = 7\n'; } >described.ini
# shellcheck disable=SC2046
expect_code 0 $(ranks 2) "$SYNCOPATE" advise described.ini \
  --sync.scheme=easgd --eval.model=centre
grep -q "own computations were measured on this machine" out ||
  fail "updates were not measured: $(grep ^simulated out)"
[[ $(row "--sync.scheme=bsp") && $(row "--sync.scheme=easgd") ]] ||
  fail "measured, easgd's centre: $(cat out)"

echo "keys of the input's own scheme keep no other scheme out"
advise "easgd's centre" --network.mbit_s=100 --sync.scheme=easgd --eval.model=centre
[[ $(row "--sync.scheme=bsp") && $(row "--sync.scheme=easgd") ]] ||
  fail "easgd's centre: $(cat out)"
# What is advised runs once the keys that it names are gone.
sed -e '/^\[sync\]/,/^\[/{/^scheme/d}' small.ini >own.ini
cat >>own.ini <<'INI'
[easgd]
steps = 2
INI
expect_code 0 "$SYNCOPATE" advise own.ini "${cluster[@]}" --network.mbit_s=100000 \
  --sync.scheme=easgd --eval.model=centre
read -ra keys <<<"$(sed -n 's/^advice *//p' out)"
[[ ${keys[*]} == *"--eval.model=average"* ]] || fail "the centre of bsp: ${keys[*]}"
grep -q '^ *after removing what it does not use from the input: easgd.steps$' out ||
  fail "does not say what to remove: $(cat out)"
expect_code 65 "$SYNCOPATE" simulate own.ini "${cluster[@]}" "${keys[@]}"
sed '/^steps = 2$/d; /^\[easgd\]/d' own.ini >removed.ini
expect_code 0 "$SYNCOPATE" simulate removed.ini "${cluster[@]}" "${keys[@]}"
advise "bf16" --network.mbit_s=20 --sync.wire=bf16
for scheme in local_sgd ds_sync ef_sign_sgd choco; do
  [[ $(row "--sync.scheme=$scheme") ]] || fail "bf16, $scheme: $(cat out)"
done

echo "a default that keeps a scheme from running has another value"
advise "adam" --network.mbit_s=20 --optimizer.kind=adam --steps=4
[[ $(row "--sync.scheme=dgc --dgc.mask_momentum=no") ]] || fail "adam, dgc: $(cat out)"
! grep -q '^left out .*=dgc' out || fail "adam, dgc: $(grep left out)"

echo "where dgc cannot run, that it takes no signs is not the point"
expect_code 0 "$SYNCOPATE" advise small.ini --run.workers=4100 --data.batch=1 \
  --data.samples=4100 --steps=1 --compute.step_s=0.05 --compute.update_s=0.0001 \
  --network.mbit_s=1000
why=$(grep '^left out .*=dgc' out)
[[ $why == *"too long for this table"* && $why != *"compress.kind: sign"* ]] ||
  fail "4100 workers, dgc: $(cat out)"

echo "that bsp cannot run is said before others are simulated"
expect_code 65 timeout 60 "$SYNCOPATE" advise small.ini --run.workers=4096 --data.samples=32768 \
  --compute.step_s=0.05 --compute.update_s=0.0001 --network.group=8 --network.mbit_s=1000 \
  --network.group_mbit_s=10000
grep -q 'too long for this table' err || fail "bsp cannot run: $(cat err)"

echo "what comes first under a scheme does not decide"
advise "late start" --network.mbit_s=20 --sync.scheme=local_sgd --local_sgd.start=300
late=$(ratio "--sync.scheme=local_sgd")
grep -q "^note  *local_sgd: only its steps after local_sgd.start" out ||
  fail "no note: $(cat out)"
advise "no start" --network.mbit_s=20 --sync.scheme=local_sgd
holds "local_sgd.start" "$late == $(ratio "--sync.scheme=local_sgd")"

echo "what a worker computes grows with the messages that it reads"
step_ms() { row "$1" | awk '{ print $1 }'; }
for workers in 4 24 48; do # all but the last are measured, the last extrapolated
  expect_code 0 "$SYNCOPATE" advise small.ini --run.workers=$workers \
    --compute.step_s=1e-6 --network.mbit_s=0 --network.latency_us=0 \
    --network.message_us=0 --steps=8 --sync.scheme=choco --topology.kind=complete
  declare "signs_$workers=$(step_ms "--sync.scheme=ef_sign_sgd")"
  declare "choco_$workers=$(step_ms "--sync.scheme=choco")"
  extrapolated=$(sed -n 's/^note .* computations of \(.*\) grow with .* extrapolated$/\1/p' out)
  if ((workers < 48)); then
    [[ ! $extrapolated ]] || fail "$workers workers, extrapolated: $extrapolated"
  else
    for scheme in ef_sign_sgd dgc choco d_psgd; do
      [[ " $extrapolated," == *" $scheme,"* ]] || fail "48 workers, extrapolated: $extrapolated"
    done
    [[ " $extrapolated," != *" bsp,"* ]] || fail "48 workers, extrapolated: $extrapolated"
  fi
done
for scheme in signs choco; do # measured: some 6 and 13 times as long as with 4
  few=${scheme}_4 more=${scheme}_24 most=${scheme}_48
  holds "$scheme" "${!more} > 2 * ${!few}"
  holds "$scheme" "${!most} > 3 * ${!few}"
done

# What schemes compute is measured with as many workers as fit into memory. Servers
# more than these, or a graph that gives a worker many neighbours, are no obstacle;
# where the least number that a scheme can have does not fit, this is said.
cat >wide.ini <<'INI'
[run]
threads = 1
steps = 100
[model]
family = logistic
[data]
kind = synthetic_images
samples = 320
test_samples = 16
classes = 100
height = 64
width = 64
batch = 4
[optimizer]
lr = 0.01
[eval]
every = 0
[checkpoint]
every = 0
INI
limited() { (ulimit -d 2000000 && exec "$@"); }
if limited "$SYNCOPATE" list schemes >/dev/null 2>&1; then
  echo "measurements fit into memory, or are said not to"
  expect_code 0 limited "$SYNCOPATE" advise wide.ini --run.workers=64 --steps=8 \
    --compute.step_s=0.01 --network.mbit_s=10000 --sync.scheme=sync_switch \
    --sync_switch.order=ds_sync,asp,choco --sync_switch.fractions=0.3,0.3,0.4 \
    --asp.servers=16 --ds_sync.group=64 --compress.kind=sign --topology.kind=complete
  for scheme in asp ssp dcd_psgd; do
    holds "$scheme in 2 GB" "$(row "--sync.scheme=$scheme" | awk '{ print $5 + 0 }') > 0"
  done
  [[ $(row "--sync.scheme=ds_sync" | awk '{ print $5 }') == unknown ]] ||
    fail "groups of 64 were measured: $(row "--sync.scheme=ds_sync")"
  row "--sync.scheme=ds_sync" | grep -q '(its own computations not measured)$' ||
    fail "not measured: $(row "--sync.scheme=ds_sync")"
  grep -q '^note .*not measured.* computations of ds_sync;' out ||
    fail "no note that something was not measured: $(cat out)"
  sed -n '/^Other schemes/,/^$/p' out | awk '/scheme=/' | tail -n 1 | grep -q ds_sync ||
    fail "what was not measured is not listed last: $(cat out)"
  ! grep -q '^advice .*ds_sync' out || fail "advises what was not measured: $(cat out)"
else
  echo "does not start in 2 GB of data (built with a sanitizer?): no test of memory"
fi

finish
