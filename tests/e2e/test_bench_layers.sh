#!/usr/bin/env bash
# `bench layers` times every op of a step: it finds each convolution as often as
# the network has it, counts its arithmetic as `bench step` does, and its shares
# make up a whole. It takes as few steps as that needs.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1
inputs=$here/../../inputs

# column COLUMN OP: its sum over the lines of an op, or of all (.).
column() {
  awk -v which="$1" -v op="$2" '
    /^op +shape/ {is_table = 1; next}
    /^arithmetic/ {is_table = 0}
    is_table && $1 ~ "^" op {
      line = $0; sub(/^[^ ]+ +/, "", line); if ($1 != "others") sub(/^.*[^ ]  +/, "", line)
      n = match($0, /[0-9.e-]+ +[0-9.]+ +[0-9.]+%/)
      split(substr($0, n), value, " +"); sub(/%/, "", value[3])
      sum += value[which]}
    END {print sum + 0}' out
}
is_near() { # is_near A B RELATIVE
  awk -v a="$1" -v b="$2" -v most="$3" \
    'BEGIN {d = a - b; if (d < 0) d = -d; exit !(d <= most * b)}'
}

# ResNet-8: a stem, three blocks of two convolutions, two shortcuts; no gradient
# of the images.
layers=("$SYNCOPATE" bench layers "$inputs/smoke.ini" --run.threads=1)
started=$SECONDS
expect_code 0 "${layers[@]}" --data.batch=2
((SECONDS - started < 5)) || fail "50 short steps took $((SECONDS - started)) s"
for wanted in conv_forward=9 conv_backward_data=8 conv_backward_weights=9 \
  batchnorm_forward=9 batchnorm_backward=9 sgd_update=1; do
  calls=$(column 1 "${wanted%=*}")
  # Lines of less than 0.2% are summed up under "others".
  awk -v n="$calls" -v m="${wanted#*=}" 'BEGIN {exit !(n <= m && n >= m / 2)}' ||
    fail "${wanted%=*}: $calls calls, expected ${wanted#*=}"
done
grep -qE '^conv_forward +2x16x16x16 -> 32, 3x3 /2 +1 .* oneDNN ' out ||
  fail "no line of the first convolution with a stride"
is_near "$(column 3 .)" 100 0.005 || fail "shares make up $(column 3 .)%"
ops_ms=$(sed -n 's/^ops: \([0-9.]*\) ms per step;.*/\1/p' out)
# Each line is rounded to a microsecond, of steps that take 300.
is_near "$(column 2 .)" "$ops_ms" 0.03 || fail "times make up $(column 2 .) ms"
counted=$(sed -n 's/^arithmetic of a step: \([0-9.]*\) GFLOP$/\1/p' out)

# The whole step's arithmetic is three times the forward pass, less the gradient
# of the images: 3 * 16 * 9 multiplications per pixel of 16 x 16.
expect_code 0 "$SYNCOPATE" bench step "$inputs/smoke.ini" --run.threads=1 \
  --data.batch=2
per_s=$(sed -n 's/^arithmetic *\([0-9.]*\) GFLOP.*/\1/p' out)
step_ms=$(sed -n 's/^step: \([0-9.]*\) ms.*/\1/p' out)
wanted=$(awk -v r="$per_s" -v ms="$step_ms" \
  'BEGIN {print r * ms * 1e-3 - 2 * 2 * 256 * 3 * 16 * 9 * 1e-9}')
is_near "$counted" "$wanted" 0.05 || fail "$counted GFLOP, expected $wanted"

# Where steps take long it ends some seconds after the first ten.
started=$SECONDS
expect_code 0 "${layers[@]}" --data.samples=1024 --data.batch=1024
took=$((SECONDS - started))
step_ms=$(sed -n 's/^ops: .*; an undisturbed step: \([0-9]*\)[.].* ms$/\1/p' out)
((step_ms > 100)) || fail "steps of $step_ms ms are not slow: $(tail -n 1 out)"
((took <= 10 * step_ms / 1000 + 5 + 4)) ||
  fail "slow steps, of $step_ms ms, took $took s"

# Sequences differ in length from step to step.
expect_code 0 "$SYNCOPATE" bench layers "$inputs/bert_smoke.ini" \
  --run.threads=1 --run.workers=1
grep -qE '^attention_forward +\*x192 +2 ' out || fail "no line of attention"
is_near "$(column 1 attention_backward)" 2 0 || fail "attention backward"

expect_code 0 "$SYNCOPATE" bench layers "$inputs/deepfm_smoke.ini" \
  --run.threads=1 --run.workers=1
grep -qE '^interaction_backward ' out || fail "no line of the interaction"

# On ranks each has its own; workers of one process would share one.
# shellcheck disable=SC2046
expect_code 0 $(ranks 2) "${layers[@]}" --data.batch=2
[[ $(grep -c '^op ' out) == 1 ]] || fail "one rank speaks"
for launcher in "" "$(ranks 1)"; do
  # shellcheck disable=SC2086
  expect_code 65 $launcher "${layers[@]}" --run.workers=2
  grep -q '^error: run.workers: 2 workers in one process' err ||
    fail "workers of one process: $(cat err)"
done

# Plans are measured on a GPU only.
CUDA_VISIBLE_DEVICES='' expect_code 66 "$SYNCOPATE" bench ops \
  "$inputs/smoke.ini" --tune=plans.txt
[[ $(wc -l <err) == 1 ]] || fail "not one line: $(cat err)"
grep -q '^error: bench ops --tune: measures plans of a GPU' err ||
  fail "bench ops --tune without a GPU: $(cat err)"
[[ ! -e plans.txt ]] || fail "bench ops --tune without a GPU writes plans"
finish
