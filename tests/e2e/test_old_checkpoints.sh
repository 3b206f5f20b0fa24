#!/usr/bin/env bash
# Checkpoints of format version 1 are resumed, and reach what the program that
# wrote them reached.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
fixtures=$here/fixtures/version_1
# shellcheck source=tests/e2e/fixtures/version_1/cases.sh
source "$fixtures/cases.sh"
export OMP_NUM_THREADS=1

tar -xf "$fixtures/runs.tar.xz"
write_inputs
for name in "${!cases[@]}"; do
  IFS=$' \n' read -rd '' -a words <<<"${cases[$name]}" || true
  expect_code 0 "$SYNCOPATE" train "${words[0]}.ini" --run.name="$name" \
    "${words[@]:2}"
  grep -q "resumed from runs/$name/.*(step ${words[1]})" "runs/$name/log.txt" ||
    fail "$name was not resumed: $(cat err)"
done
# Free-running workers request a step before their pull has arrived, so
# that under ssp another worker may be the one that is within the bound first.
python "$fixtures/reached.py" compare "$fixtures/reached.json" runs \
  --loose ssp=0.01 || fail "runs that reached other numbers"

# What the user does not give is the run's: here, nothing but its name and its
# new end.
python - <<'PY' >bare.ini
print("[run]\nsteps = 12\n[data]\nkind = synthetic_images")
PY
tar -xf "$fixtures/runs.tar.xz" runs/asp_adam
expect_code 0 "$SYNCOPATE" train bare.ini --run.name=asp_adam
grep -q "taken .*optimizer.kind = adam.*sync.scheme = asp" runs/asp_adam/log.txt ||
  fail "keys were not taken from the run: $(grep taken runs/asp_adam/log.txt)"
finish
