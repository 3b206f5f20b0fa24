#!/usr/bin/env bash
# A reader of standard output that pauses for longer than the limits of the
# watchdogs, like a pager or Ctrl-S: the ranks wait for it and go on.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
export OMP_NUM_THREADS=1
cat >small.ini <<'INI'
[run]
threads = 1
steps = 12000
log_every = 1
step_timeout_s = 3
io_timeout_s = 3
[model]
family = logistic
[data]
kind = synthetic_images
samples = 64
test_samples = 8
classes = 2
height = 4
width = 4
batch = 4
[optimizer]
lr = 0.001
[eval]
every = 0
INI
read -ra two <<<"$(ranks 2)"
"${two[@]}" "$SYNCOPATE" train small.ini --run.name=paused 2>err |
  { read -r && sleep 12 && cat; } >out # read takes no more than its line
code=${PIPESTATUS[0]}
((code == 0)) || fail "exit $code: $(tail -n 2 err)"
(($(wc -l <out) > 12000)) || fail "$(wc -l <out) lines"
# It was paused indeed: what it had to write by then did not fit into the pipes.
seconds=$(sed -n 's/^  training .* of \([0-9]*\).*/\1/p' out)
((${seconds:-0} >= 10)) || fail "never paused: ${seconds:-no} seconds"
finish
