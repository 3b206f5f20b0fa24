#!/usr/bin/env bash
# A private Slurm of four nodes on this one host, for tests.
#   tests/slurm/cluster.sh start DIR     then: export SLURM_CONF=DIR/slurm.conf
#   tests/slurm/cluster.sh stop DIR
# n3 and n4 have two GPUs each, which are files. Everything is in DIR, the munge
# key and socket too; ports are free ones, so clusters do not meet. Needs root,
# and the packages that jobs/env/packages.sh lists for tests. Exit 77: this
# machine cannot run one, and why.
set -euo pipefail
(($# == 2)) || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 64; }
dir=$(realpath -m "$2")
export SLURM_CONF=$dir/slurm.conf

cannot() { echo "no Slurm here: $*"; exit 77; }

free_ports() { # free_ports COUNT
  python3 - "$1" <<'END'
import socket, sys
held = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))
END
}

write_configuration() {
  local host ports node gpus
  host=$(hostname)
  read -r -a ports < <(free_ports 5)
  cat >"$SLURM_CONF" <<END
ClusterName=syncopate_test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
# Heterogeneous jobs are started by the backfill scheduler alone.
SchedulerParameters=sched_interval=2,batch_sched_delay=0,bf_interval=2
MpiDefault=pmi2
ReturnToService=2
# Each node says it has four processors, whatever the host has.
SlurmdParameters=config_overrides
SlurmdTimeout=20
InactiveLimit=0
KillWait=5
MinJobAge=300
JobRequeue=1
PropagateResourceLimits=NONE
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
END
  echo "NodeName=n[3-4] Name=gpu File=$dir/gpu[0-1]" >"$dir/gres.conf"
  for node in 1 2 3 4; do
    gpus=''
    ((node < 3)) || gpus='Gres=gpu:2'
    echo "NodeName=n$node NodeHostname=$host NodeAddr=127.0.0.1" \
      "Port=${ports[$node]} CPUs=4 Sockets=1 CoresPerSocket=4" \
      "ThreadsPerCore=1 RealMemory=1000 $gpus State=UNKNOWN" >>"$SLURM_CONF"
  done
  {
    echo "PartitionName=main Nodes=n[1-4] Default=YES MaxTime=60 State=UP"
    echo "PartitionName=cpu Nodes=n[1-2] MaxTime=60 State=UP"
    echo "PartitionName=gpu Nodes=n[3-4] MaxTime=60 State=UP"
    echo "PartitionName=low Nodes=n[1-2] MaxTime=60 GraceTime=30 State=UP"
    echo "PartitionName=urgent Nodes=n[1-2] PriorityTier=10 MaxTime=60 State=UP"
  } >>"$SLURM_CONF"
}

start() {
  local program gpu attempt
  ((EUID == 0)) || cannot "slurmd must be root"
  for program in slurmctld slurmd sbatch munged; do
    command -v "$program" >/dev/null || cannot "$program is not installed"
  done
  mountpoint -q /sys/fs/cgroup ||
    cannot "/sys/fs/cgroup is not mounted"
  mkdir -p "$dir"/{state,munge}
  chmod 0755 "$dir" "$dir/munge"
  for gpu in 0 1; do
    [[ -e $dir/gpu$gpu ]] || mknod "$dir/gpu$gpu" c 1 3 2>/dev/null ||
      cannot "no device files can be made for its GPUs"
  done

  head -c 128 /dev/urandom >"$dir/munge/key"
  chmod 0600 "$dir/munge/key"
  munged --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" \
    --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed" \
    --log-file="$dir/munge/log" 2>"$dir/munge/errors" ||
    cannot "munged: $(tail -n 1 "$dir/munge/errors")"
  for attempt in 1 2 3; do
    write_configuration
    start_daemons && return
    echo "attempt $attempt: $reason"
    stop_daemons
  done
  tail -n 3 "$dir"/*.log
  stop
  cannot "$reason"
}

# Fails with the reason. A port that was free may be taken by now.
start_daemons() {
  local node end=$((SECONDS + 40))
  reason="slurmctld does not start"
  slurmctld -c -f "$SLURM_CONF" || return
  reason="slurmd does not start"
  for node in n1 n2 n3 n4; do
    mkdir -p "$dir/spool-$node"
    slurmd -f "$SLURM_CONF" -N "$node" || return
  done
  while ((SECONDS < end)); do
    if [[ $(timeout 5 sinfo -h -p main -o '%T %D' 2>/dev/null) == "idle 4" ]]; then
      return 0
    fi
    # It goes to the background before it binds its port.
    reason="slurmctld has ended"
    pgrep -f "slurmctld -c -f $SLURM_CONF" >/dev/null || return
    sleep 0.5
  done
  reason="its nodes are not idle after 40 s"
  return 1
}

stop() {
  timeout 10 scancel --user=root 2>/dev/null || true
  stop_daemons "$dir/munge/pid"
}

stop_daemons() { # stop_daemons [PID-FILE]: all but munged, and that of the file
  local file pid pids=()
  for file in "$dir"/slurmd-n*.pid "$dir/slurmctld.pid" "$@"; do
    [[ -f $file ]] && pids+=("$(<"$file")")
  done
  rm -f "$dir"/*.pid
  ((${#pids[@]})) || return 0
  kill "${pids[@]}" 2>/dev/null || true
  for _ in {1..50}; do
    for pid in "${pids[@]}"; do
      kill -0 "$pid" 2>/dev/null && { sleep 0.1; continue 2; }
    done
    return 0
  done
  kill -KILL "${pids[@]}" 2>/dev/null || true
}

case $1 in
  start) start ;;
  stop) stop ;;
  *) exit 64 ;;
esac
