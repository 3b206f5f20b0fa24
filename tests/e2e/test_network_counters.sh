#!/usr/bin/env bash
# The traffic that results.h5 states against the kernel's own counters of the
# network interfaces, for a run whose ranks talk over TCP.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ -r /proc/net/dev ]] || { echo "skipped: no /proc/net/dev"; exit 77; }

sent_by_kernel() { awk 'NR > 2 { sub(/.*:/, ""); sum += $9 } END { printf "%.0f\n", sum }' /proc/net/dev; }

# 1.97 million parameters and 10 steps: 2 x 78.6 MB, far above what else a
# quiet machine sends.
cat >wide.ini <<'INI'
[run]
steps = 10
threads = 1
[model]
family = logistic
[data]
kind = synthetic_images
samples = 64
test_samples = 8
classes = 10
height = 256
width = 256
batch = 4
[optimizer]
lr = 0.001
[eval]
every = 0
batch = 8
INI
export UCX_TLS=tcp,self
for collective in ring native; do
  before=$(sent_by_kernel)
  # shellcheck disable=SC2046
  expect_code 0 $(ranks 2) "$SYNCOPATE" train wide.ini --run.name=$collective \
    --sync.collective=$collective
  after=$(sent_by_kernel)
  python - $collective $((after - before)) <<'PY' || fail "$collective: counters disagree"
import h5py, sys
name, kernel = sys.argv[1], int(sys.argv[2])
with h5py.File(f"runs/{name}/results.h5") as f:
    stated = int(f["comm/bytes_sent"][...].sum())
    D = int(f["provenance"].attrs["parameters"])
formula = 10 * 2 * 1 * 4 * D
# Acknowledgements, headers of 65 in 65,536 bytes, start-up, the initial model.
broadcast = 4 * D
low, high = formula, 1.1 * (formula + broadcast) + 4e6
print(f"{name}: stated {stated}, formula {formula}, kernel {kernel}")
sys.exit(0 if stated == formula and low <= kernel <= high else 1)
PY
done
finish
