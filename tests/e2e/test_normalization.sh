#!/usr/bin/env bash
# data.normalize = auto: the constants are of the samples that are trained on,
# kept in results and checkpoints, and taken from there.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

sed 's/^normalize.*//' tiny.ini >auto.ini
held=(--data.validation=0.25 --data.normalize=auto)
constants() {
  python - "$1" <<'PY'
import h5py, sys
with h5py.File(f"{sys.argv[1]}/results.h5") as f:
    print(f["provenance"].attrs.get("normalization", "none"))
PY
}
kept() { grep -ho '"normalization": "[^"]*"' "$1"/checkpoints/*/manifest.json | sort -u; }

expect_code 0 "$SYNCOPATE" train auto.ini "${held[@]}" --run.name=held
expect_code 0 "$SYNCOPATE" train auto.ini --data.normalize=auto --run.name=all
[[ $(constants runs/held) == *" / "* ]] || fail "no constants: $(constants runs/held)"
[[ $(constants runs/held) != "$(constants runs/all)" ]] ||
  fail "held-out samples have a part in the constants"
[[ $(kept runs/held) == "\"normalization\": \"$(constants runs/held)\"" ]] ||
  fail "the checkpoint keeps $(kept runs/held)"
grep -q "^normalization $(constants runs/held)$" runs/held/log.txt ||
  fail "the log has no constants"

# A stopped run goes on with them; a checkpoint is evaluated with them, whatever
# the input holds out.
expect_code 0 "$SYNCOPATE" train auto.ini "${held[@]}" --run.name=cut --run.stop_at=7
expect_code 0 "$SYNCOPATE" train auto.ini "${held[@]}" --run.name=cut
resumed cut 7
python "$here/compare_runs.py" runs/held runs/cut || fail "resumed differently"
[[ $(constants runs/cut) == "$(constants runs/held)" ]] || fail "other constants"
expect_code 0 "$SYNCOPATE" evaluate auto.ini "${held[@]}" --checkpoint=runs/held
with=$(sed 's/.*samples: //' out)
expect_code 0 "$SYNCOPATE" evaluate auto.ini --checkpoint=runs/held
[[ $(sed 's/.*samples: //' out) == "$with" ]] || fail "evaluated with others: $(cat out), $with"
finish
