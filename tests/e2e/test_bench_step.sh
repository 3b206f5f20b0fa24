#!/usr/bin/env bash
# `bench step` takes the trainer's steps under schemes of each kind (all under
# EXHAUSTIVE=1), in one process and on ranks, times at least twenty of them and
# leaves no files.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
export OMP_NUM_THREADS=1
smoke=$here/../../inputs/smoke.ini
tiny=(--run.threads=1 --data.height=4 --data.width=4 --data.crop_pad=1 --data.batch=2)

figures() { # figures WHAT WORKERS: the last command printed what a bench does
  local timings what
  timings=$(sed -n "s/^workers $2 x 1 threads, batch 2 each, fp32, \([0-9]*\) timings\$/\1/p" out)
  ((${timings:-0} >= 20)) || fail "$1: ${timings:-no} timings, expected 20"
  for what in data forward backward update; do
    grep -qE "^$what +[0-9]+\.[0-9]+ ms$" out || fail "$1: no line '$what'"
  done
  grep -qE '^replica +0\.[0-9]*[1-9][0-9]* MB' out || fail "$1: no replica"
  tail -n 1 out | grep -qE '^step: [0-9.]*[1-9][0-9.]* ms, [0-9.]+ samples/s$' ||
    fail "$1: no headline"
}

# What it prints for [compute] can be pasted: simulate computes with it.
expect_code 0 "$SYNCOPATE" bench step "$smoke" "${tiny[@]}"
sed -n '/^\[compute\]/,/^step: /{/^step: /!p}' out >compute.ini
step_s=$(awk '/^(step|update)_s = /{sum += $3; n++} END {if (n == 2) print sum}' compute.ini)
cat "$smoke" compute.ini >pasted.ini
expect_code 0 "$SYNCOPATE" validate pasted.ini
grep -vE '^(law|spread) ' pasted.ini >constant.ini
expect_code 0 "$SYNCOPATE" simulate constant.ini --run.steps=100
virtual_s=$(sed -n 's/^time *\([0-9.]*\) s.*/\1/p' out)
awk -v found="${virtual_s:-0}" -v step="${step_s:-0}" \
  'BEGIN { exit !(step > 0 && found > 99.9 * step && found < 100.1 * step) }' ||
  fail "100 steps of $step_s s take $virtual_s s"

for scheme in $(schemes_of_each_kind); do
  # shellcheck disable=SC2046
  expect_code 0 "$SYNCOPATE" bench step "$smoke" "${tiny[@]}" --run.workers=4 \
    --sync.scheme="$scheme" $(scheme_keys "$scheme")
  figures "$scheme" 4
done

# What a step has beside its scheme.
for keys in --data.accumulate=2 --run.on_nonfinite=skip --compute.speed=1,2,2,1 \
  "--stragglers.random=exponential --stragglers.random_ms=5"; do
  # shellcheck disable=SC2086
  expect_code 0 "$SYNCOPATE" bench step "$smoke" "${tiny[@]}" --run.workers=4 \
    $keys
  figures "$keys" 4
done

# On ranks: in lockstep, at their own pace, in phases of both kinds.
for scheme in bsp local_sgd easgd asp choco sync_switch; do
  # shellcheck disable=SC2046
  expect_code 0 $(ranks 2) "$SYNCOPATE" bench step "$smoke" "${tiny[@]}" \
    --sync.scheme="$scheme" $(scheme_keys "$scheme")
  figures "$scheme on ranks" 2
done

[[ ! -e runs && ! -e checkpoints && ! -e order.h5 ]] || fail "a bench left files"
finish
