#!/usr/bin/env bash
# Every bit of the manifest, and a bit in sampled bytes of the files (in every
# byte under EXHAUSTIVE=1): a flipped one is found and the checkpoint before is
# taken, with one warning.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"

run=$work/run
mkdir "$run"
"$driver" save "$run" 2 3
stride=53
[[ ${EXHAUSTIVE:-0} == 1 ]] && stride=1
"$driver" flip "$run" "$stride"

# The same as a user sees it.
file=$run/checkpoints/step-00000003/worker-0001.h5
printf '\xff' | dd of="$file" bs=1 seek=4000 conv=notrunc status=none
"$driver" verify "$run" 2 2 | tee "$work/out"
[[ $(grep -c 'skipped a damaged checkpoint' "$work/out") == 1 ]]
grep -q "^step 2$" "$work/out"
