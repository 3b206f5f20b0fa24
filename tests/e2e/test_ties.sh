#!/usr/bin/env bash
# Workers that act at the same virtual moment may do so in any order: schemes of
# each kind (all under EXHAUSTIVE=1), with the order of ties by rank and permuted by
# several seeds. Schemes whose workers wait for each other keep their bits. The
# others, where the first of several is served first, send as many messages of as
# many bytes and end elsewhere: the seed is not ignored.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
export OMP_NUM_THREADS=1
seeds=(1 2)
[[ -z ${EXHAUSTIVE:-} ]] || seeds=({1..20})
sed -e 's/^family = .*/family = logistic/' -e '/^depth/d' -e '/^augment/d' \
  -e '/^crop_pad/d' tiny.ini >small.ini

# run SEED NAME SCHEME KEYS...: alike workers on alike links, so that all of them
# compute, send and receive at the same moments.
run() {
  expect_code 0 "$SYNCOPATE" train small.ini --network.ties_seed="$1" \
    --run.name="$2-$1" --sync.scheme="$3" "${@:4}" --run.workers=5 --run.steps=12 \
    --schedule.warmup=0 --checkpoint.every=0 --eval.every=0 \
    --network.latency_us=100 --network.mbit_s=10
}

every_seed() { # every_seed NAME SCHEME KEYS...: and what was sent
  local seed
  for seed in 0 "${seeds[@]}"; do run "$seed" "$@"; done
  python - "$1" 0 "${seeds[@]}" <<'PY' || fail "$1: sends other messages"
import h5py, sys
def sent(seed):
    with h5py.File(f"runs/{sys.argv[1]}-{seed}/results.h5") as f:
        return [f["comm/" + name][...].sum() for name in
                ("bytes_sent", "messages_sent")] + [f["train/worker_steps"][-1]]
counts = {tuple(sent(seed)) for seed in sys.argv[2:]}
if len(counts) > 1:
    print(sys.argv[1], counts)
sys.exit(len(counts) > 1)
PY
}

keeps_bits() { # keeps_bits NAME SCHEME KEYS...
  every_seed "$@"
  same_states "$1-0" "${seeds[@]/#/$1-}" ||
    fail "$1: the order of simultaneous events changes the model"
}

serves_the_first() { # serves_the_first NAME SCHEME KEYS...
  every_seed "$@"
  if python "$here/compare_states.py" --parameters "runs/$1-0" "runs/$1-1" >out ||
    ! grep -q 'differs by' out; then
    fail "$1: the order of simultaneous events makes no difference: $(cat out)"
  fi
}

for scheme in $(schemes_of_each_kind); do
  # shellcheck disable=SC2046
  case $scheme in
    asp | ssp | sync_switch | esync)
      serves_the_first "$scheme" "$scheme" $(scheme_keys "$scheme") ;;
    *) keeps_bits "$scheme" "$scheme" $(scheme_keys "$scheme") ;;
  esac
done
for collective in butterfly binary_blocks parameter_server hierarchical native; do
  keeps_bits "bsp-$collective" bsp --sync.collective=$collective
done
serves_the_first esync-free esync --esync.query=non_blocking

expect_code 65 "$SYNCOPATE" validate small.ini --network.ties_seed=-1
finish
