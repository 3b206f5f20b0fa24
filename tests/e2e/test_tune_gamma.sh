#!/usr/bin/env bash
# postprocess/tune_gamma.py against what theory gives, and its refusals; the
# lists that it reads.
set -uo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
source_dir=${SOURCE_DIR:-$(cd "$here/../.." && pwd)}
# shellcheck source=../../jobs/env/python.sh
source "$source_dir/jobs/env/python.sh"
python=$(find_python "$source_dir") || {
  echo "skipped: no Python with numpy"
  exit 77
}

tune() {
  "$python" "$source_dir/postprocess/tune_gamma.py" \
    --syncopate "$SYNCOPATE" --dim 200 "$@"
}
gamma() { sed -n 's/^gamma = \([0-9.e-]*\):.*/\1/p' "$scratch/out"; }
# between LEAST MOST: the gamma just chosen.
between() {
  awk -v g="$(gamma)" -v least="$1" -v most="$2" \
    'BEGIN { exit !(g != "" && g >= least && g <= most) }' ||
    fail "gamma $(gamma) is not between $1 and $2"
}
shows() { grep -Eq "$1" "$scratch/out" || fail "no $1 in: $(cat "$scratch/out")"; }
# refuses CODE PATTERN WORDS...: one line on stderr.
refuses() {
  local code=$1 pattern=$2
  shift 2
  expect_code "$code" tune "$@"
  if [[ $(wc -l <"$scratch/err") != 1 ]] ||
    ! grep -Eq "^error: .*$pattern" "$scratch/err"; then
    fail "not one line with $pattern: $(cat "$scratch/err")"
  fi
}
ring=(--topology ring --workers 8)

# Uncompressed: x <- (I + gamma (W - I)) x. The largest step is best while
# 2 / (1 - l_2 + 1 - l_n) = 1.31 > 1, and errors fall by l_2^2 = (1 - gap)^2.
expect_code 0 tune "${ring[@]}" --compressor identity
between 1 1
shows 'ring: 8 workers, spectral gap 0.1953'
shows 'by a factor of 0.647[0-9] per iteration$'
# 16 of a torus: l_2 = 0.6.
expect_code 0 tune --topology torus --workers 16 --compressor identity
between 1 1
shows 'by a factor of 0.36[0-9]* per iteration$'
# Exact inside the groups: what remains is the gap of the groups' ring of 4.
expect_code 0 tune --topology hierarchical --workers 8 --compressor identity
shows 'spectral gap 0.6667'
shows 'by a factor of 0.11[0-9]* per iteration$'

# Contractions converge, with smaller steps the more is dropped.
expect_code 0 tune "${ring[@]}" --compressor top_k --ratio 0.9
between 0.1 0.7
mild=$(gamma)
expect_code 0 tune "${ring[@]}" --compressor top_k --ratio 0.9 --iterations 100
cp "$scratch/out" first
expect_code 0 tune "${ring[@]}" --compressor top_k --ratio 0.9 --iterations 100
cmp -s first "$scratch/out" || fail "two runs of one seed differ"
expect_code 0 tune "${ring[@]}" --compressor top_k --ratio 0.98
between 0.01 "$(awk -v g="$mild" 'BEGIN { print 0.8 * g }')"
expect_code 0 tune "${ring[@]}" --compressor random_k --biased
between 0.02 0.3
expect_code 0 tune "${ring[@]}" --compressor qsgd --levels 16 --biased
between 0.2 1
! grep -q '^note' "$scratch/out" || fail "a note although --dim is given"
of_few=$(gamma)
expect_code 0 tune "${ring[@]}" --compressor qsgd --levels 16 --biased --dim 4000 \
  --iterations 100
between 0.01 "$(awk -v g="$of_few" 'BEGIN { print 0.7 * g }')"
expect_code 0 "$python" "$source_dir/postprocess/tune_gamma.py" "${ring[@]}" \
  --syncopate "$SYNCOPATE" --compressor qsgd --levels 16 --biased --iterations 50
shows '^note: a tensor of more than 1000 elements needs a smaller gamma'
expect_code 0 tune "${ring[@]}" --compressor qsgd --bits 8
between 1 1
# In motion, as in training, where 0.45 to 0.5 are published.
expect_code 0 tune "${ring[@]}" --compressor sign --iterations 400
between 0.2 0.9
shows 'the least error under drift'
expect_code 0 tune "${ring[@]}" --compressor sign --no-drift
shows 'by a factor of'
expect_code 0 tune "${ring[@]}" --compressor top_k --drift --iterations 400
between 0.1 0.7

refuses 65 'no gamma of the grid converges: random_k is no contraction' \
  "${ring[@]}" --compressor random_k
refuses 65 'no gamma of the grid converges: random_k is no contraction' \
  "${ring[@]}" --compressor random_k --drift --iterations 400
refuses 65 'topology torus: not for 10 workers: .*; 9 or 12 would do' \
  --topology torus --workers 10 --compressor sign
refuses 65 'topology.kind: rings: .*did you mean ring' \
  --topology rings --workers 8 --compressor sign
refuses 65 '--ratio: sign has none' "${ring[@]}" --compressor sign --ratio 0.5
refuses 65 'one of them' "${ring[@]}" --compressor qsgd --bits 4 --levels 4
refuses 64 'invalid choice' "${ring[@]}" --compressor signs
refuses 64 '1: a number in \[0, 1\) expected' \
  "${ring[@]}" --compressor top_k --ratio 1
refuses 64 'required: --workers' --topology ring --compressor sign
refuses 64 '--group is for --kind=hierarchical' \
  "${ring[@]}" --compressor sign --group 2
refuses 66 'nowhere: no such program' \
  "${ring[@]}" --compressor sign --syncopate nowhere
refuses 65 'echo: its list topologies is of another version' \
  "${ring[@]}" --compressor sign --syncopate echo

# list: what there is, the matrices of one number of workers, refusals.
expect_code 0 "$SYNCOPATE" list topologies
shows '^hierarchical '
expect_code 0 "$SYNCOPATE" list topologies --workers=16
shows '^torus: 16 workers, spectral gap 0.4000$'
shows '^topology social: not for 16 workers: it needs exactly 32; 32 would do$'
expect_code 0 "$SYNCOPATE" list compressors
shows '^random_k '
for words in --workers=0 --workers=x --kind=ring --worker=8 \
  '--workers=8 --group=2' '--workers=8 --kind=hierarchical --group=0'; do
  # shellcheck disable=SC2086
  expect_code 64 "$SYNCOPATE" list topologies $words
  [[ $(wc -l <"$scratch/err") == 1 ]] || fail "more than a line: $words"
done
expect_code 65 "$SYNCOPATE" list topologies --workers=5 --kind=torus
expect_code 64 "$SYNCOPATE" list schemes --workers=8
finish
