#!/usr/bin/env bash
# interleaved.sh PROGRAM PATTERN...: the tests of PROGRAM that a PATTERN of
# GoogleTest names, with several blocks of a kernel in flight together, for
# two seeds. Each PATTERN has to name a test. Under EXHAUSTIVE=1: all tests of
# PROGRAM, for three seeds.
set -euo pipefail

program=$1
shift
for pattern; do
  "$program" --gtest_filter="$pattern" --gtest_list_tests | grep -q '^  ' ||
    { echo "No test is named by $pattern" && exit 1; }
done
filter=$(IFS=: && echo "$*")
seeds=(1 2)
if [[ ${EXHAUSTIVE:-0} == 1 ]]; then filter='*' seeds=(1 2 3); fi
for seed in "${seeds[@]}"; do
  # Two blocks, and more than two, interrupt each other in other places.
  blocks=$((seed % 2 == 0 ? 8 : 2))
  echo "seed $seed, $blocks blocks in flight"
  SYNCOPATE_EMULATOR_SEED=$seed SYNCOPATE_EMULATOR_BLOCKS=$blocks \
    "$program" --gtest_filter="$filter" --gtest_brief=1
done
