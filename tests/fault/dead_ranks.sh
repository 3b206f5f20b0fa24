# Shared by the tests that kill, stop and hold up ranks: one case, from its
# start to the last process gone.
# shellcheck shell=bash
# Sets: work, a scratch folder.

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work OMP_NUM_THREADS=1

# Steps of a tenth of a second on every rank; two evaluations and checkpoints.
cat >"$work/tiny.ini" <<'END'
[run]
steps = 16
threads = 1
log_every = 4
device = cpu
[model]
family = logistic
[data]
kind = synthetic_images
samples = 96
test_samples = 32
classes = 4
height = 8
width = 8
batch = 4
[eval]
every = 6 steps
[checkpoint]
every = 6 steps
[stragglers]
delay_ms = 100
delay_workers = 0,1,2
END

# case_of LAUNCHER KIND STAGE RANK [KEY...]: three ranks; prints what is wrong.
# Limits: 8 s to name it, 10 s more until all are gone, beside 40 s for a busy
# machine to start them and come to the stage.
case_of() {
  local launcher=$1 kind=$2 stage=$3 rank=$4
  shift 4
  local name=$kind-$stage-$rank-$BASHPID code=0 begin=$SECONDS wrong=0
  local limit=60 step=3 word
  case $kind in
    kill) word=died ;;
    stop) word=stopped ;;
    hang)
      word=hangs
      limit=75
      set -- --run.step_timeout_s=8 --run.io_timeout_s=8 "$@"
      ;;
  esac
  [[ $stage == start ]] && step=0
  # shellcheck disable=SC2086  # a launcher has arguments
  CASE=$name timeout -k 5 "$limit" $launcher "$SYNCOPATE" train "$work/tiny.ini" \
    --run.directory="$work/runs" --run.name="$name" "$@" \
    --faults.kind="$kind" --faults.stage="$stage" --faults.rank="$rank" \
    --faults.step=$step >"$work/$name.out" 2>"$work/$name.err" || code=$?
  complain() {
    echo "FAIL: $kind of rank $rank at $stage: $1"
    wrong=1
  }
  local lines
  lines=$(grep -c '^error: ' "$work/$name.err") || true
  ((code == 71)) || complain "exit code $code"
  ((lines == 1)) || complain "$lines lines of error"
  grep -Eq "^error: rank $rank \(host [^,]+, pid [0-9]+\) $word at step [0-9]+, stage $stage, last operation \"" \
    "$work/$name.err" || complain "it is not named"
  # The last row was printed shortly before the fault, the line is the last word.
  local took most=10
  took=$(($(stat -c %Y "$work/$name.err") - $(stat -c %Y "$work/$name.out")))
  [[ $kind == kill ]] || most=18
  ((took <= most)) || complain "named after $took s"
  local report=$work/runs/$name/hang-report.txt
  [[ $(grep -c 'last operations (begin' "$report" 2>/dev/null) == 3 ]] ||
    complain "no report of three ranks"
  local tries left=()
  for tries in {1..100}; do # launchers reap theirs
    mapfile -t left < <(grep -lsz "^CASE=$name\$" /proc/[0-9]*/environ)
    ((${#left[@]})) || break
    sleep 0.1
  done
  ((tries < 100)) || {
    complain "processes are left"
    printf "%s\n" "${left[@]}" | cut -d/ -f3 | xargs kill -KILL
  }
  ((wrong == 0)) || sed 's/^/    /' "$work/$name.err"
  echo "$kind $stage rank $rank: $((SECONDS - begin)) s"
  return "$wrong"
}
export -f case_of

# start_run CASE NAME: three ranks in the background that take steps when it
# returns. Sets launcher (a pid), out and err.
start_run() {
  out=$work/$2.out err=$work/$2.err
  : >"$out"
  CASE=$1 timeout -k 5 60 "$MPIEXEC" -bind-to none -n 3 "$SYNCOPATE" \
    train "$work/tiny.ini" --run.directory="$work/runs" --run.name="$2" \
    >"$out" 2>"$err" &
  # shellcheck disable=SC2034  # for whoever sources this
  launcher=$!
  for _ in {1..150}; do
    grep -q '^step' "$out" && break
    sleep 0.2
  done
}

# process_of CASE RANK guardian|rank: the pid of that process of a run.
process_of() {
  local file pid role
  # grep's own code is 2 where a process ended meanwhile.
  { grep -lsxzF "CASE=$1" /proc/[0-9]*/environ || true; } |
    while read -r file; do
      pid=${file//[!0-9]/}
      role=rank
      [[ $(cat "/proc/$pid/comm" 2>/dev/null) != guardian ]] || role=guardian
      # MPICH's name, or Open MPI's.
      if [[ $role == "$3" ]] &&
        grep -qsxzE "(PMI|OMPI_COMM_WORLD)_RANK=$2" "$file"; then
        echo "$pid"
      fi
    done
}
