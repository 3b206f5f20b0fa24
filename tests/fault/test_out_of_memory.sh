#!/usr/bin/env bash
# More memory than there is: one line with the batch that would fit, and that
# batch then runs within the same limit. In one process and on ranks. However
# little is left for libraries: done or one line, no crash.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
export OMP_NUM_THREADS=1
sizes=(--data.samples=12000 --data.height=32 --data.width=32 --run.steps=2
  --eval.every=0 --run.log_every=1 --checkpoint.every=0 --schedule.warmup=0)

limited() { # limited v|d KIB COMMAND...
  (ulimit "-$1" "$2" && shift 2 && exec "$@")
}
limited v 1200000 "$SYNCOPATE" --version >/dev/null 2>&1 || {
  echo "skipped: does not start in 1.2 GB of addresses (built with a sanitizer?)"
  exit 77
}
train() { # train CODE v|d KIB NAME KEYS...
  expect_code "$1" limited "$2" "$3" "$SYNCOPATE" train tiny.ini \
    "${sizes[@]}" --run.name="$4" "${@:5}"
}

limits=("v 800000" "d 400000")
[[ -z ${EXHAUSTIVE:-} ]] || limits+=("v 1200000")
for limit in "${limits[@]}"; do
  read -r kind kib <<<"$limit"
  for workers in 1 3; do
    name=$kind-$kib-$workers
    train 65 "$kind" "$kib" "$name" --data.batch=4000 --run.workers=$workers
    [[ $(wc -l <err) == 1 ]] || fail "$name: more than a line: $(cat err)"
    fitting=$(sed -n 's/^error: data.batch: 4000.*; \(data.batch = .*\) fits$/\1/p' err)
    [[ -n $fitting ]] || fail "$name: names no batch: $(cat err)"
    named=$(sed -n 's/^data.batch = \([0-9]*\).*/\1/p' <<<"$fitting")
    ((${named:-0} >= 100)) || fail "$name: a much larger batch would fit: $fitting"
    echo "$name: $fitting"
    # shellcheck disable=SC2046
    train 0 "$kind" "$kib" "$name" --run.workers=$workers \
      $(sed 's/ with//; s/ = /=/g; s/\(^\| \)/ --/g' <<<"$fitting")
  done
done

# BatchNorm of single values refuses a batch of 1, which would fit.
train_clicks() { # train_clicks CODE KEYS...
  expect_code "$1" limited v 800000 "$SYNCOPATE" train clicks.ini "${@:2}"
}
cat >clicks.ini <<'INI'
[run]
name = clicks
threads = 1
steps = 2
[model]
family = deepfm
mlp = 400, 400
[data]
kind = synthetic_criteo
samples = 120000
field_rows = 50
[optimizer]
kind = adam
lr = 0.001
[eval]
every = 0
INI
train_clicks 65 --data.batch=60000
fitting=$(sed -n 's/^error: data.batch: 60000.*; data.batch = \([0-9]*\).* fits$/\1/p' err)
[[ $(wc -l <err) == 1 && -n $fitting ]] || fail "clicks: $(cat err)"
train_clicks 0 --data.batch="${fitting:-1}" --eval.batch=1000

# An evaluation needs no more memory than the samples of its set take.
train 0 v 800000 evaluated --data.batch=8 \
  --eval.batch=1152921504606846976

for ((kib = 166000; kib <= 286000; kib += 6000)); do
  code=0
  limited v "$kib" "$SYNCOPATE" train tiny.ini --run.steps=2 \
    --schedule.warmup=0 --eval.every=0 --run.name="least-$kib" >out 2>err ||
    code=$?
  [[ $code == 0 || $code == 65 || $code == 70 ]] ||
    fail "least-$kib: code $code: $(tail -3 err)"
  [[ $code == 0 || ($(wc -l <err) == 1 && $(<err) == *memory*) ]] ||
    fail "least-$kib: not one line that says why: $(cat err)"
  codes+="$code "
done
echo "limits from 166000 KiB: $codes"
[[ $codes == *65* && $codes == *\ 0\ * ]] || fail "no limit was refused, or none let a run end"
finish
