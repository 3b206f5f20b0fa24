#!/usr/bin/env bash
# Collectives over slow links: hosts of one rank each, made of network
# namespaces on this machine, behind token buckets. Prints a markdown table:
# each collective against 2 (N-1)/N bytes / bandwidth, where the bandwidth is
# that of the largest message point to point in the same run.
#   tests/bench/links.sh                      everything, some minutes
#   tests/bench/links.sh overlap              what of bsp's sums backward hides
#   tests/bench/links.sh sockets              a ring of plain sockets: what links
#                                             carry, whoever sends
#   tests/bench/links.sh --run MBIT HOSTS COMMAND...   one command on such hosts
# Environment: RATES ("100 1000", Mbit/s), RANKS ("2 3 4"), PER_HOST (1;
# with --run: ranks per host, which share its link), BYTES
# (65536,1048576,16777216), BY (all collectives), REPEATS (5; of overlap and
# sockets 3), STEPS (48) of overlap, CONGESTION (control of TCP: the kernel's),
# SYNCOPATE, MPIEXEC (mpiexec.hydra), UCX_RNDV_THRESH (inf),
# MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM (tsp_ring).
# Needs root and iproute2: without them exit code 77.
set -euo pipefail

skip() { echo "skipped: $*"; exit 77; }
usage() { sed -n '2,18s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
case ${1:-} in -h | --help) usage; exit 0 ;; esac

bench=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
self=$bench/links.sh
syncopate=${SYNCOPATE:-$bench/../../build/release/syncopate}
mpiexec=${MPIEXEC:-mpiexec.hydra}
congestion=${CONGESTION:-$(sysctl -n net.ipv4.tcp_congestion_control)}
native=${MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM:-tsp_ring}

# Hydra's launcher in place of ssh: [options] HOST COMMAND...
if [[ ${1:-} == --enter ]]; then
  shift
  while [[ $1 == -* ]]; do shift; done
  host=$1
  shift
  exec unshare --uts -- ip netns exec "$host" \
    bash -c "hostname $host; exec $*"
fi

# Everything lives in namespaces of this process's own, which go with it,
# however it ends: nothing is taken down because nothing is put up outside.
if [[ ${SLOW_LINKS:-} != inside ]]; then
  ((EUID == 0)) || skip "network namespaces need root"
  for tool in ip tc unshare "$mpiexec"; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
  done
  [[ -x $syncopate ]] || { echo "$syncopate: not built" >&2; exit 66; }
  private=(unshare --net --mount --pid --fork --kill-child --mount-proc)
  "${private[@]}" true 2>/dev/null || skip "no namespaces may be made here"
  SLOW_LINKS=inside exec "${private[@]}" "$self" "$@"
fi
mount -t tmpfs none /run
mkdir /run/netns
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
printf '#!/bin/sh\nexec %q --enter "$@"\n' "$self" >"$scratch/enter"
chmod +x "$scratch/enter"
ip link set lo up

# hosts COUNT MBIT: h1, h2, ... at 10.77.0.1, ..., each with its rate out and,
# at the switch's port, in. The buffer is what a switch has: 2 MB.
hosts() {
  local i
  ip link add switch type bridge
  ip addr add 10.77.0.254/24 dev switch
  ip link set switch up
  for ((i = 1; i <= $1; ++i)); do
    ip netns add "h$i"
    ip link add "port$i" type veth peer name eth0 netns "h$i"
    ip link set "port$i" master switch up
    ip -n "h$i" addr add "10.77.0.$i/24" dev eth0
    ip -n "h$i" link set lo up
    ip -n "h$i" link set eth0 up
    ip netns exec "h$i" \
      sysctl -qw net.ipv4.tcp_congestion_control="$congestion"
    tc qdisc add dev "port$i" root tbf rate "$2mbit" burst 64kb limit 2mb
    tc -n "h$i" qdisc add dev eth0 root tbf rate "$2mbit" burst 64kb limit 2mb
  done
}

down() {
  local i
  for ((i = 1; i <= $1; ++i)); do
    ip link del "port$i" # a namespace takes its own with it, but only later
    ip netns del "h$i"
  done
  ip link del switch
}

# on_all_links RATES COUNTS FUNCTION: FUNCTION RATE COUNT on hosts of each.
on_all_links() {
  local rate count
  for rate in $1; do
    for count in $2; do
      hosts "$count" "$rate"
      "$3" "$rate" "$count"
      down "$count"
    done
  done
}

# ranks N COMMAND...: PER_HOST ranks on each of the first N hosts.
ranks() {
  local count=$1 names
  shift
  names=$(seq -s, -f 'h%g' "$count")
  # UCX's rendezvous over TCP lets a request for data wait behind data that
  # leaves on the same connection: both directions at once become one by one.
  # MPICH's own choice for `native` leaves the link idle a third of the time.
  UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 OMP_WAIT_POLICY=passive \
    UCX_RNDV_THRESH=${UCX_RNDV_THRESH:-inf} \
    MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM=$native "$mpiexec" -launcher ssh \
    -launcher-exec "$scratch/enter" -localhost 10.77.0.254 -hosts "$names" \
    -n "$((count * ${PER_HOST:-1}))" -ppn "${PER_HOST:-1}" -bind-to none \
    "$@" </dev/null
}

if [[ ${1:-} == --run ]]; then
  hosts "$3" "$2"
  ranks "${@:3}"
  exit
fi

# overlap: ResNet-20 under bsp, gradients in one bucket and, in turns, in those
# of sync.bucket_mb = auto. Milliseconds a step, means over workers. The last bucket,
# an eighth, is ready when backward ends and cannot be hidden: what could be is
# what one bucket leaves exposed, less an eighth.
overlap() {
  echo "load $(cut -d' ' -f1 /proc/loadavg), $congestion"
  echo
  echo '| link, Mbit/s | ranks | steps/s, one bucket | auto | exposed ms a step, one bucket | auto | hidden of what could be |'
  echo '|---:|---:|---:|---:|---:|---:|---:|'
  on_all_links "${RATES:-100}" "${RANKS:-2}" overlap_on
}
overlap_on() { # overlap_on RATE COUNT
  local buckets repeat figures steps=${STEPS:-48}
  for ((repeat = 1; repeat <= ${REPEATS:-3}; ++repeat)); do
    figures=()
    for buckets in 1000 auto; do
      ranks "$2" "$syncopate" train "$bench/resnet20.ini" \
        --run.threads=1 --run.workers=auto --data.batch=32 --run.steps="$steps" \
        --eval.every=0 --checkpoint.every=0 --run.log_every="$steps" \
        --run.directory="$scratch" --run.name="$1-$2-$repeat-$buckets" \
        --sync.bucket_mb="$buckets" >"$scratch/out"
      figures+=("$(awk -v steps="$steps" '/communication exposed/ { exposed = $4 }
        /training .* s of/ { print 1000 * exposed / steps, steps / $2 }' "$scratch/out")")
    done
    echo "${figures[@]}" | awk -v rate="$1" -v ranks="$2" '{
      printf "| %d | %d | %.1f | %.1f | %.1f | %.1f | %.0f%% |\n", rate,
        ranks, $2, $4, $1, $3, 100 * ($1 - $3) / ($1 * 7 / 8) }'
  done
}

sockets() {
  echo "load $(cut -d' ' -f1 /proc/loadavg), $congestion"
  echo
  echo '| link, Mbit/s | ranks | MB/s of the slowest host | processors busy | in the kernel |'
  echo '|---:|---:|---:|---:|---:|'
  on_all_links "${RATES:-100 1000}" "${RANKS:-2 3 4}" sockets_on
}
sockets_on() { # sockets_on RATE COUNT
  local repeat shares
  for ((repeat = 1; repeat <= ${REPEATS:-3}; ++repeat)); do
    grep '^cpu ' /proc/stat >"$scratch/stat"
    ranks "$2" python3 "$bench/ring_sockets.py" >"$scratch/out"
    grep '^cpu ' /proc/stat >>"$scratch/stat"
    # user nice system idle iowait irq softirq steal
    shares=$(awk '
      { for (i = 2; i <= 9; ++i) all[NR] += $i
        idle[NR] = $5 + $6; kernel[NR] = $4 + $7 + $8 }
      END { t = all[2] - all[1]
        printf "%.0f%% | %.0f%%", 100 - 100 * (idle[2] - idle[1]) / t,
          100 * (kernel[2] - kernel[1]) / t }' "$scratch/stat")
    echo "| $1 | $2 | $(sort -g "$scratch/out" | head -n 1) | $shares |"
  done
}

case ${1:-} in
  overlap | sockets)
    "$1"
    exit
    ;;
esac

cat >"$scratch/comm.ini" <<'INI'
[run]
steps = 1
threads = 1
workers = auto
[model]
family = logistic
[data]
kind = synthetic_images
samples = 64
batch = 4
[optimizer]
lr = 0.1
INI
sizes=${BYTES:-65536,1048576,16777216}
options=("--bytes=$sizes" "--repeats=${REPEATS:-5}")
[[ -z ${BY:-} ]] || options+=("--by=$BY")
echo "UCX_RNDV_THRESH=${UCX_RNDV_THRESH:-inf}, native by $native, load $(cut -d' ' -f1 /proc/loadavg)," \
  "$congestion"
echo
echo '| link, Mbit/s | point to point, MB/s | ranks | bytes | by | ms | of the bound |'
echo '|---:|---:|---:|---:|---|---:|---:|'
collectives_on() { # collectives_on RATE COUNT
  ranks "$2" "$syncopate" bench comm "$scratch/comm.ini" "${options[@]}" \
    >"$scratch/out"
  awk -v rate="$1" -v ranks="$2" -v last="${sizes##*,}" '
    $1 ~ /^[0-9]+$/ && NF == 4 { row[++rows] = $0 }
    $2 == "point_to_point" && $1 == last { bandwidth = $4 }
    END {
      if (!bandwidth) exit 1
      for (i = 1; i <= rows; ++i) {
        split(row[i], word, " ")
        share = sprintf("%.0f%%", 100 * word[4] / bandwidth)
        if (word[2] == "point_to_point") share = ""
        printf "| %d | %.1f | %d | %d | %s | %.2f | %s |\n", rate, bandwidth,
          ranks, word[1], word[2], word[3] / 1000, share
      }
    }' "$scratch/out" || { cat "$scratch/out"; exit 1; }
}
on_all_links "${RATES:-100 1000}" "${RANKS:-2 3 4}" collectives_on
