#!/usr/bin/env bash
# The traffic that results.h5 states against the kernel's own counters of the
# network interfaces, for a run whose ranks talk over TCP.
# What other tests send meanwhile must not be counted: the test runs in a network
# of its own, of which only the loopback interface is up. Where it may have none,
# the counters are checked for too little only.
own_network=(unshare --net)
((EUID == 0)) || own_network=(unshare --map-root-user --net)
case ${OWN_NETWORK:-} in
  '') "${own_network[@]}" ip link set lo up 2>/dev/null &&
    OWN_NETWORK=yes exec "${own_network[@]}" bash "$0" ;;
  yes) ip link set lo up ;;
esac
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ -r /proc/net/dev ]] || { echo "skipped: no /proc/net/dev"; exit 77; }

sent_by_kernel() { awk 'NR > 2 { sub(/.*:/, ""); sum += $9 } END { printf "%.0f\n", sum }' /proc/net/dev; }

# 1.97 million parameters and 10 steps: 2 x 78.6 MB.
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
  python - $collective $((after - before)) "${OWN_NETWORK:-no}" <<'PY' || fail "$collective: counters disagree"
import h5py, sys
name, kernel, own_network = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "yes"
with h5py.File(f"runs/{name}/results.h5") as f:
    stated = int(f["comm/bytes_sent"][...].sum())
    D = int(f["provenance"].attrs["parameters"])
formula = 10 * 2 * 1 * 4 * D
# Acknowledgements, headers of 65 in 65,536 bytes, start-up, the initial model.
broadcast = 4 * D
low, high = formula, 1.1 * (formula + broadcast) + 4e6
if not own_network:
    high = float("inf")
print(f"{name}: stated {stated}, formula {formula}, kernel {kernel}, "
      f"a network of its own: {sys.argv[3]}")
sys.exit(0 if stated == formula and low <= kernel <= high else 1)
PY
done
finish
