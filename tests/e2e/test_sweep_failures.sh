#!/usr/bin/env bash
# Runs of a sweep that fail: what the comparison says of them, what becomes of the
# others, and which of them are listed at the end.
set -uo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
need_python

{
  cat <<'INI'
[run]
steps = 24
workers = 2
threads = 1
log_every = 1
[eval]
every = 6 steps
batch = 20
INI
  small_network | sed 's/^batch = .*/&\nvalidation = 40\nnoise = 2/'
} >base.ini
cat >final.sweep <<'END'
[sweep]
input = base.ini
directory = compared
[final]
seeds = 1 2 3
[variants]
bsp = sync.scheme=bsp
local = sync.scheme=local_sgd local_sgd.steps=4
some = sync.scheme=asp
gone = sync.scheme=d_psgd topology.kind=ring
END

# The program, of which runs fail as cases.sh says.
cat >program <<END
#!/usr/bin/env bash
syncopate=$SYNCOPATE
[[ \$1 != train ]] || . "$scratch/cases.sh"
exec "\$syncopate" "\$@"
END
chmod +x program
sweep() {
  SYNCOPATE=$scratch/program "$source_dir/jobs/sweep.sh" --local "$@" \
    --run.threads=1
}
shows() { grep -Eq -- "$1" "$2" || fail "no $1 in $2: $(cat "$2")"; }
failures_listed() { grep -c '^failed: ' "$scratch/err"; }

# Final runs that were cut short count as unfinished, also before their first
# evaluation; a note says how many runs left no results.
cat >cases.sh <<'END'
case "$*" in
*--run.name=local-seed2\ *) set -- "$@" --run.stop_at=12 ;;
*--run.name=local-seed3\ *) set -- "$@" --run.stop_at=3 ;;
*--run.name=some-seed1\ * | *--run.name=gone-seed*) exit 71 ;;
esac
END
expect_code 1 sweep final.sweep --jobs=1
[[ $(failures_listed) == 6 ]] || fail "not six failures: $(cat "$scratch/err")"
for note in 'note: some: 1 of 3 runs failed (not compared)' \
  'note: gone: 3 of 3 runs failed (not compared)'; do
  grep -qFx -- "$note" "$scratch/out" || fail "no $note: $(cat "$scratch/out")"
  grep -qFx -- "- $note" compared/comparison.md ||
    fail "no $note: $(cat compared/comparison.md)"
done
# Columns: n, seeds, steps, final, best, loss, diverged, unfinished.
shows '^\| local \| 1 \| 1 \| 24 \|([^|]*\|){3} 0 \| 2 \|' compared/comparison.md
shows '^\| some \| 2 \| 2 3 \|([^|]*\|){4} 0 \| 0 \|' compared/comparison.md
shows '^verdict: .*left out: local \(1 of 3 unfinished, 1 of 3 without evaluations\)$' \
  "$scratch/out"
# Until a target they are censored.
sed -e 's/= compared/= reached/' \
  -e 's/^seeds = .*/&\noverrides = "run.target=accuracy >= 1"/' \
  final.sweep >reached.sweep
expect_code 1 sweep reached.sweep --jobs=1
shows '^\| local \| 0 of 3 \| >24 ' reached/comparison.md
shows '^- 7 of 8 runs ended before they reached it' reached/comparison.md
# What failed runs again; then there is nothing to remark.
echo : >cases.sh
expect_code 0 sweep final.sweep --jobs=1
shows '^final: 6 of 12 runs have already finished$' "$scratch/out"
shows '^\| local \| 3 \| 1 2 3 \|' compared/comparison.md
! grep -q 'not compared' compared/comparison.md ||
  fail "a note stayed: $(cat compared/comparison.md)"

# A grid that extends itself tries failed tuning runs again. What succeeds then is
# no failure; what fails every time is listed once.
cat >grid.sweep <<'END'
[sweep]
input = base.ini
directory = healed
[tune]
key = optimizer.lr
grid = auto 0.01 0.1
metric = loss
seeds = 11
overrides = eval.every=0
[final]
seeds = 1
[variants]
a = sync.scheme=bsp
b = sync.scheme=local_sgd local_sgd.steps=4
END
cat >cases.sh <<'END'
if [[ "$*" == *--run.name=b-0.1-seed11\ * ]]; then
  echo tried >>tries
  [[ $(wc -l <tries) != 1 ]] || exit 71
fi
END
expect_code 0 sweep grid.sweep --jobs=1
shows '^\[4/4\] tune b-0.1-seed11: exit code 71' "$scratch/out"
shows '^tune: beyond the grid: a [0-9.]+$' "$scratch/out"
[[ $(failures_listed) == 0 ]] || fail "a failure stayed: $(cat "$scratch/err")"
sed 's/= healed/= lasting/' grid.sweep >lasting.sweep
cat >cases.sh <<'END'
[[ "$*" != *--run.name=b-0.1-seed11\ * ]] || { echo tried >>tries; exit 71; }
END
rm tries
expect_code 1 sweep lasting.sweep --jobs=1
(($(wc -l <tries) > 1)) || fail "it was not tried again: $(cat "$scratch/out")"
[[ $(failures_listed) == 1 ]] || fail "not listed once: $(cat "$scratch/err")"

# A metric that the runs do not measure is refused before the first one.
echo : >cases.sh
sed -e 's/= healed/= misnamed/; s/^metric = .*/metric = f1/' grid.sweep >f1.sweep
expect_code 65 sweep f1.sweep --jobs=2
[[ ! -e misnamed && $(wc -l <"$scratch/err") == 1 ]] ||
  fail "a run was started: $(cat "$scratch/out" "$scratch/err")"
shows "^error: f1.sweep: tune.metric: f1 is not one of this evaluation's metrics, which are loss, accuracy\$" \
  "$scratch/err"
sed -e '/^\[tune\]/,/^overrides/d; s/= misnamed/&\nmetric = auc/' f1.sweep >auc.sweep
expect_code 65 sweep auc.sweep --dry-run
shows '^error: auc.sweep: sweep.metric: auc is not one of' "$scratch/err"

# A sweep that cannot go on stops the runs under way and waits for them. The first
# run ends without an evaluation; the second goes on until it is told to stop.
sed -e 's/= healed/= abandoned/' grid.sweep >abandoned.sweep
cat >cases.sh <<'END'
case "$*" in
*--run.name=a-0.01-seed11\ *)
  until [[ -e under_way ]]; do sleep 0.05; done
  "$syncopate" "$@"
  exec "$PYTHON" -c 'import h5py, sys
with h5py.File(sys.argv[1], "r+") as file:
    del file["eval"]' abandoned/tune/a-0.01-seed11/results.h5
  ;;
*--run.name=a-0.1-seed11\ *)
  trap 'sleep 0.5; echo saved >saved; exit 75' TERM
  touch under_way
  for _ in {1..300}; do sleep 0.1; done
  exit 70
  ;;
esac
END
expect_code 65 sweep abandoned.sweep --jobs=2
shows '^error: .*: no loss at the end of /eval' "$scratch/err"
[[ -s saved ]] || fail "the second run was left behind"

# The end of the Slurm job in which a sweep runs ends the sweep, too; a limit of
# the runs' own ends each of them.
for directory in ended limited; do
  sed -e "s/= compared/= $directory/; /^\(some\|gone\) = /d" \
    final.sweep >"$directory.sweep"
done
cat >cases.sh <<'END'
END
in_job() { # in_job SECONDS COMMAND...: with what Slurm tells a job of one task
  SLURM_JOB_ID=77 SLURM_NTASKS=1 SLURM_PROCID=0 SLURM_JOB_NODELIST=$(hostname) \
    SLURM_JOB_END_TIME=$(($(date +%s) + $1)) "${@:2}"
}
expect_code 75 in_job 33 sweep ended.sweep --jobs=1 --run.steps=100000
shows '^\[1/6\] final bsp-seed1: stopped' "$scratch/out"
shows '^stopped: run again to resume$' "$scratch/out"
[[ ! -e ended/final/local-seed1 ]] || fail "another run was started: $(cat "$scratch/out")"
expect_code 1 sweep limited.sweep --jobs=2 --run.steps=100000 \
  --run.time_limit_s=2
[[ -e limited/final/local-seed3 ]] || fail "the sweep ended: $(cat "$scratch/out")"

# Only one sweep at a time is at work in a directory.
cat >cases.sh <<'END'
touch under_way
until [[ -e refused ]]; do sleep 0.05; done
END
rm -f under_way refused
sed -e 's/= compared/= shared/; /^\(some\|gone\|local\) = /d; s/= 1 2 3/= 1/' final.sweep >shared.sweep
sweep shared.sweep --jobs=1 >first 2>&1 &
until [[ -e under_way ]]; do sleep 0.05; done
expect_code 73 sweep shared.sweep --jobs=1
shows '^error: shared: another jobs/sweep.sh is at work there$' "$scratch/err"
expect_code 0 sweep shared.sweep --dry-run
touch refused
wait %1 || fail "the first sweep: $(cat first)"
finish
