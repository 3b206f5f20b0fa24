#!/usr/bin/env bash
# The program limits the spinning of OpenMP threads, and UCX's backtraces, by
# executing itself once more: in one process, under a launcher with its guardians,
# and not where the user has decided or where a tracer follows.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset OMP_WAIT_POLICY GOMP_SPINCOUNT
long=(--run.steps=4000 --schedule.horizon=4000 --eval.every=0 --checkpoint.every=0)

# setting_of PID NAME: in the environment with which it was executed.
setting_of() { tr '\0' '\n' <"/proc/$1/environ" | sed -n "s/^$2=//p"; }
await_step() { # await_step FILE
  for _ in $(seq 1200); do grep -q '^step' "$1" && return; sleep 0.05; done
  fail "does not train: $(tail -n 3 "$1")"
}

echo "one process"
"$SYNCOPATE" train tiny.ini "${long[@]}" --run.name=alone >alone.out 2>&1 &
pid=$!
await_step alone.out
[[ $(setting_of $pid GOMP_SPINCOUNT) == 10000 ]] || fail "alone: $(setting_of $pid GOMP_SPINCOUNT)"
[[ -z $(setting_of $pid UCX_HANDLE_ERRORS) ]] || fail "alone: a setting of UCX"
[[ $(cat /proc/$pid/comm) == "$(basename "$SYNCOPATE")" ]] ||
  fail "ps shows $(cat /proc/$pid/comm)"
tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "train tiny.ini .*--run.name=alone" ||
  fail "other words: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
kill -TERM $pid
code=0
wait $pid || code=$?
((code == 75)) || fail "alone: exit $code"

echo "what the user set stays"
for setting in GOMP_SPINCOUNT=77 OMP_WAIT_POLICY=passive; do
  env "$setting" "$SYNCOPATE" train tiny.ini "${long[@]}" --run.name="$setting" \
    >kept.out 2>&1 &
  pid=$!
  await_step kept.out
  expected=$(sed -n 's/^GOMP_SPINCOUNT=//p' <<<"$setting")
  [[ $(setting_of $pid GOMP_SPINCOUNT) == "$expected" ]] ||
    fail "$setting: $(setting_of $pid GOMP_SPINCOUNT)"
  kill -TERM $pid
  wait $pid
done

echo "under a launcher, with guardians"
# shellcheck disable=SC2046
$(ranks 2) "$SYNCOPATE" train tiny.ini "${long[@]}" --run.name=ranks >ranks.out 2>&1 &
launcher=$!
await_step ranks.out
mapfile -t pids < <(pgrep -f "run.name=ranks\$" | while read -r pid; do
  [[ $(cat "/proc/$pid/comm") == "$(basename "$SYNCOPATE")" ]] && echo "$pid"
done)
((${#pids[@]} == 2)) || fail "ranks: ${pids[*]}"
for pid in "${pids[@]}"; do
  [[ $(setting_of "$pid" GOMP_SPINCOUNT) == 10000 ]] || fail "a rank spins"
  [[ $(setting_of "$pid" UCX_HANDLE_ERRORS) == none ]] || fail "UCX prints backtraces"
  guardian=$(sed -n 's/^PPid:\t//p' "/proc/$pid/status")
  [[ $(cat "/proc/$guardian/comm") == guardian ]] ||
    fail "a rank's parent is $(cat "/proc/$guardian/comm")"
done
kill -TERM "${pids[0]}"
code=0
wait $launcher || code=$?
((code == 75)) || fail "ranks: exit $code"

echo "a tracer follows the program that it started"
if command -v strace >/dev/null; then
  expect_code 0 strace -f -e trace=execve -o trace "$SYNCOPATE" --version
  (($(grep -c execve trace) == 1)) || fail "traced: $(grep execve trace)"
else
  echo "left out: no strace"
fi
finish
