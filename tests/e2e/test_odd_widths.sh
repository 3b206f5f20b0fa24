#!/usr/bin/env bash
# Channels that fill no vector of the processor, through shortcuts of stride 2, by
# one and two threads. (oneDNN wrote beyond its scratch memory there: such runs
# crashed.)
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

small_network | sed 's/^height = .*/height = 32/; s/^width = .*/width = 32/' >small.ini
for widths in 4,4,8 5,7,9; do
  for threads in 1 2; do
    expect_code 0 "$SYNCOPATE" train small.ini --model.widths="$widths" \
      --run.threads="$threads" --run.steps=10 --run.name="odd-${widths//,/-}-$threads"
    grep -q '^results' out || fail "$widths, $threads threads: $(tail -n 3 out)"
  done
done
finish
