#!/usr/bin/env bash
# postprocess/ on generated results with known answers, and on a real run.
# shellcheck source=postprocess.sh
source "$(dirname "$0")/postprocess.sh"
usual_runs

last_line() { post "$@" | tail -n 1; }

make_run lr1 seed=1 optimizer.lr=0.2
make_run lr2 seed=2 optimizer.lr=0.2
make_run asp_lr1 scheme=asp seed=1 optimizer.lr=0.2
make_run workers4 seed=4 workers=4
make_run local2 scheme=local_sgd seed=1 local_sgd.period=2
make_run local4 scheme=local_sgd seed=2 local_sgd.period=4
make_run again scheme=bsp seed=2 run.name=again run.log_every=5
make_run h4-seed1 scheme=local_sgd seed=1 local_sgd.period=4
make_run h4-seed2 scheme=local_sgd seed=2 local_sgd.period=4
make_run h8-seed1 scheme=local_sgd seed=1 local_sgd.period=8 accuracy=0.88
make_run recomputed eval.batchnorm=recomputed eval.recompute_batches=20
make_run average eval.model=average
make_run longer scheme=asp seed=3 rows=8
make_run other/a-name-of-thirty-one-characters scheme=ssp seed=2

# 40 steps of 2 workers, 640 samples in 8 s; 4 rows x 2 workers x 1000 bytes.
expect "summary" 0 \
  'bsp1 +bsp +resnet-20 +idx +2 +40 +0.5000 +accuracy +0.9000 +0.9000 +8.0 +40.0 +16 +8.0 kB' \
  post summarize bsp1
expect "summary of a file" 0 'bsp1 +bsp' post summarize bsp1/results.h5
expect "throughput on the virtual clock" 0 'virtual s  samples/virtual s  bytes' \
  post summarize bsp1
expect "and on the wall's" 0 'virtual s  samples/s  bytes.* - +80 +8.0 kB' \
  post summarize wall
make_run partly seed=2 clock=both
expect "and of a run that was under MPI first" 0 \
  'virtual s  samples/s  bytes.* - +80 +8.0 kB' post summarize partly
expect "and in a comparison" 0 \
  'note: some runs have virtual time and others only wall time: .*bsp +1 +2 .* 8 +- +0.004.*bsp +1 of 1 +30 +6 +- .*verdict: none on the time to accuracy >= 0.65: some' \
  post compare partly asp1 --target accuracy=0.65
for target in '' --target=accuracy=0.65; do
  expect "and in a picture$target" 0 '^note: some runs have virtual time and others only' \
    post plot partly asp1 --by sync.scheme $target -o x.png
done
expect "one clock" 0 'median 6 s,' post compare partly wall --by run.seed --target accuracy=0.65
expect "and on both" 0 ' samples/s  samples/virtual s .* - +16 .* 80 + - ' \
  post summarize bsp1 wall
echo "what it printed" | tee bsp1.out >alone.out
expect "what a sweep puts beside a run" 0 '^run +scheme ' \
  post summarize bsp1 bsp1.out
# Nor do other files in a folder of runs end a command for all of them.
post export bsp1 -o exported.csv
"$python" -c '
import h5py
with h5py.File("simulated.h5", "w") as file:
    file["workers/steps"] = [10, 10]
    file["summary/samples"] = 9.0
    file.create_group("provenance").attrs["world"] = "simulation"'
for file in exported.csv simulated.h5; do
  expect "$file among runs" 0 "^note: $file: skipped: not a run.*bsp1 +bsp " \
    post summarize bsp1 $file
done
expect "a table alone" 65 '^error: exported.csv: no columns Step and Value' \
  post summarize exported.csv
expect "a simulation alone" 65 '^error: simulated.h5: no group /train' \
  post summarize simulated.h5
expect "what it does not" 0 '^note: alone.out: skipped: not a run' \
  post summarize bsp1 alone.out
make_run staged 'model.stages=1 1 1' 'model.widths=8 16 32'
expect "a network of stages" 0 ' resnet 1-1-1 of 8-16-32 ' post summarize staged
expect "how runs ended" 0 \
  'ended +loss.* diverged +1e\+20 .* unfinished .* unfinished +- .* finished ' \
  post summarize exploded stopped killed bsp1
expect "all finished" 0 'asp1' bash -c "$(declare -f post); python=$python \
  source_dir=$source_dir; post summarize bsp1 asp1 >table || exit 1; \
  cat table; ! grep -q ended table"

# Student: 4.303 * 0.01 / sqrt(3) = 0.02484; 12.706 * 0.014142 / sqrt(2) = 0.12706
expect "mean and interval, three" 0 'bsp +3 +1 2 3 +40 ± 0 +0.9100 ± 0.0248' \
  post compare bsp1 bsp2 bsp3 asp1 asp2
expect "mean and interval, two" 0 'asp +2 +1 2 +40 ± 0 +0.8100 ± 0.1271' \
  post compare bsp1 bsp2 bsp3 asp1 asp2
expect "unequal seeds are told" 0 'note: seeds differ' \
  post compare bsp1 bsp2 bsp3 asp1 asp2
expect "unequal budgets are told" 0 'budgets differ: worker_steps 80, 160' \
  post compare bsp1 longer
# Accuracy climbs in four equal parts: 0.905 is reached by 0.91 and 0.92 only,
# at the fourth evaluation, where the third is censored. A third has not reached
# it: 1/3, with the limits 1/3 ^ exp(±1.96 sqrt(2/3) / log 3) = 0.009, 0.774.
expect "reached by" 0 \
  'bsp +2 of 3 +40 \[40, >40\] +8 \[8, >8\] +40 \[40, >40\] +0.004 ' \
  post compare bsp1 bsp2 bsp3 --target accuracy=0.905
expect "reached by none" 0 'asp +0 of 2 +>40 +>8 +>40 +>0.004' \
  post compare bsp1 asp1 asp2 --target accuracy=0.905
# By hand: 0.6 is reached at 30 steps, at 60, never by the run that diverged, and
# unknown after 20 for the shortest. 3 of 4 are left at 30: 2/3 have not reached
# it (limits 0.054, 0.945); at 60 a half of 2/3 (0.009, 0.774). Their mean, 45,
# would leave out the others.
make_run km7 scheme=bsp seed=7 accuracy=1.8
make_run km5 scheme=bsp seed=5 accuracy=0.3
make_run km6 scheme=bsp seed=6 accuracy=0.3
expect "Kaplan-Meier" 0 \
  'bsp +2 of 4 +60 \[30, >60\] +12 \[6, >12\] +60 \[30, >60\] +0.006 \[0.003, >0.006\]' \
  post compare km1 km2 km3 km4 --target 'accuracy >= 0.6'
expect "censored is told" 0 '1 of 4 runs ended before they reached it' \
  post compare km1 km2 km3 km4 --target 'accuracy >= 0.6'
expect "its resolution" 0 'evaluations, 10 steps apart' \
  post compare km1 km2 km3 km4 --target 'accuracy >= 0.6'
expect "most are censored" 0 'bsp +1 of 3 +>40 \[30, >40\] +>8 \[6, >8\] ' \
  post compare km1 km5 km6 --target accuracy=0.6
expect "from above" 0 'bsp +3 of 3 +20 +4 +20 ' \
  post compare km1 km5 km6 --target 'loss <= 0.5'
make_run own1 seed=1 'run.target=accuracy >= 0.6'
make_run own2 seed=2 'run.target=accuracy >= 0.6'
expect "the runs' own target" 0 'Until accuracy >= 0.6:.*bsp +2 of 2 +30 ' \
  post compare own1 own2
# Remission under 6-MP (Freireich et al. 1963), 21 patients of whom 12 were
# censored: the published estimate (Kalbfleisch and Prentice) and median.
expect "a published estimate" 0 '^0.857 0.807 0.753 0.690 0.627 0.538 0.448 23 13 None$' \
  "$python" -c '
import sys
sys.path.insert(0, sys.argv[1])
from target import End, Survival
reached = [6, 6, 6, 7, 10, 13, 16, 22, 23]
censored = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
found = Survival([End(x, x, True) for x in reached] +
                 [End(x, x, False) for x in censored])
print(*(f"{share:.3f}" for share in found.share), *found.median())' \
  "$source_dir/postprocess"
expect "a target of nothing" 65 'no run has evaluations of accuracy_top5' \
  post compare km1 --target 'accuracy_top5 >= 0.6'
expect "keys that differ" 0 'also different: optimizer.lr = 0.1 in bsp; 0.2 in asp' \
  post compare bsp1 bsp2 asp_lr1
expect "by another key" 0 'optimizer.lr +n .*0.1 +2 +1 2 .*0.2 +2 +1 2 ' \
  post compare bsp1 bsp2 lr1 lr2 --by optimizer.lr
expect "a picture by a key that no run has" 65 '^error: --by optimiser.lr: no run' \
  post plot bsp1 lr1 --by optimiser.lr -o x.png
expect "by a key that no run has" 65 \
  '^error: --by optimiser.lr: no run has this key; the nearest is optimizer.lr$' \
  post compare bsp1 lr1 --by optimiser.lr
expect "varied, but not by any run" 0 \
  '^note: --varied optimiser.lr: no run has this key; the nearest is optimizer.lr.sync.scheme' \
  post compare bsp1 --varied optimiser.lr
expect "two learning rates in one mean" 65 \
  '^error: bsp1 and lr1 cannot be pooled: optimizer.lr is 0.1 in bsp1 and 0.2 in lr1; use --by optimizer.lr to compare them, or pass only runs that agree in all other keys$' \
  post compare bsp1 bsp2 lr1 lr2
expect "a value is named with its key" 0 \
  'also different: sync.scheme = bsp in optimizer.lr = 0.1; asp in optimizer.lr = 0.2.*: optimizer.lr = 0.1, 0.9.*not separable from optimizer.lr = 0.2$' \
  post compare bsp1 asp_lr1 --by optimizer.lr
expect "two numbers of workers in one mean" 65 \
  '^error: bsp1 and workers4 cannot be pooled: run.workers is 2 in bsp1 and 4 in workers4; use --by run.workers' \
  post compare bsp1 workers4 asp1
expect "a scheme's own key in one mean" 65 \
  'local_sgd.period is 2 in local2 and 4 in local4; use --by local_sgd.period' \
  post compare bsp1 local2 local4
expect "a scheme before the keys it brings" 65 \
  'cannot be pooled: sync.scheme is local_sgd in local2 and bsp in bsp2; use --by' \
  post compare local2 bsp2 lr1 --by optimizer.lr
# Runs from another run's model differ from those that began anew, unless each
# began from its own seed's.
warm="warm start: a new run from the model of runs"
make_run cold checkpoint.resume=none seed=3
make_run warm1 checkpoint.resume=runs/a-seed1 \
  start="$warm/a-seed1/checkpoints/step-00000008 (scheme bsp, step 8)"
make_run warm2 checkpoint.resume=auto seed=2 restarts=1 \
  start="$warm/a-seed2/checkpoints/step-00000008 (scheme bsp, step 8)"
make_run warm_asp checkpoint.resume=runs/a scheme=asp \
  start="$warm/a/checkpoints/step-00000008 (scheme bsp, step 8)"
expect "a warm start and cold ones in one mean" 65 \
  '^error: bsp2 and warm1 cannot be pooled: checkpoint.resume is none in bsp2 and runs/a-seed./checkpoints/step-00000008 .scheme bsp, step 8. in warm1; use --by checkpoint.resume to' \
  post compare bsp2 cold warm1
expect "warm starts from each seed's own model" 0 'bsp +2 +1 2 ' post compare warm1 warm2
expect "different starts of two groups" 0 \
  'also different: checkpoint.resume = none in bsp; runs/a/.* .scheme bsp, step 8. in asp.note' \
  post compare bsp2 cold warm_asp
expect "groups by their starts" 0 '.none +2 +2 3 .*runs/a-seed./[^ ]* .scheme bsp, step 8. +1 +1 ' \
  post compare bsp2 cold warm1 --by checkpoint.resume
# Of a run that continues another, the evaluations before it are not known: that
# 0.3 was reached at 30 steps does not say when.
continued=(eval.every="10 steps" restarts=1)
make_run late1 "${continued[@]}" checkpoint.resume=runs/a-seed1 from=3
make_run late2 "${continued[@]}" checkpoint.resume=runs/a-seed2 seed=2 from=2
make_run same2 eval.every="1 epochs" restarts=2 from=2
make_run same3 "${continued[@]}" seed=3
expect "a continued run" 65 'checkpoint.resume is none in same3 and runs/a-seed. in late1' \
  post compare same3 late1
expect "a target that was reached before" 0 \
  'bsp +2 of 2 +- +- +- +-.*2 of 2 runs had already reached the target at their first recorded evaluation and are excluded from the medians.*verdict: no group reached .*; left out: bsp .reached before its evaluations' \
  post compare late1 late2 --target accuracy=0.3
expect "one that was not" 0 'bsp +2 of 2 +40 +8 ' \
  post compare late1 late2 --target accuracy=0.8
for name in same2 same3; do
  expect "evaluations of a run's own" 0 'bsp +1 of 1 +20 +4 ' \
    post compare $name --target accuracy=0.4
done
expect "also its first one" 0 'bsp +1 of 1 +20 ' \
  post compare same2 --target accuracy=0.3
make_run quiet scheme=bsp seed=2 output.csv=yes checkpoint.best=accuracy \
  run.stop_at=40 run.watchdog=no run.step_timeout_s=9 run.io_timeout_s=9 \
  run.audit=0 data.path=elsewhere data.decode_threads=2 run.cuda_graphs=no
expect "keys that change no result" 0 'bsp +2 +1 2 ' post compare bsp1 quiet
expect "a seed twice" 65 \
  '^error: repeated seed: run.seed is 2 in bsp2 and again$' \
  post compare bsp1 bsp2 again
expect "unlike data" 65 \
  '^error: unlike data: data_digest is abc in bsp1, xyz in other$' \
  post compare bsp1 other
expect "unlike evaluation" 65 \
  '^error: unlike evaluation: eval.model is each in bsp1, average in average$' \
  post compare bsp1 average
expect "unlike statistics" 65 \
  'eval.batchnorm is running in bsp1, recomputed in recomputed$' \
  post compare bsp1 recomputed
expect "one that diverged" 0 \
  'asp +2 +1 2 +40 ± 0 +0.8100 ± 0.1271 .* 1 +0 +8 ± 0 ' \
  post compare bsp1 asp1 asp2 nan1
expect "those that did not finish" 0 \
  'asp +2 +1 2 +40 ± 0 +0.8100 ± 0.1271 .* 1 +2 +8 ± 0 ' \
  post compare bsp1 asp1 asp2 nan1 stopped killed
expect "no budget of an empty run" 0 'verdict' bash -c "$(declare -f post); \
  python=$python source_dir=$source_dir; \
  post compare bsp1 longer killed >table || exit 1; \
  cat table; ! grep -q nan table"
make_run nan_low scheme=asp seed=4 ended=diverged accuracy=0.3
expect "has not reached" 0 'asp +2 of 3 .*runs that diverged before they reached the target never do' \
  post compare bsp1 asp1 asp2 nan_low --target accuracy=0.7
expect "reached, then diverged" 0 'asp +3 of 3 +40 ' \
  post compare bsp1 asp1 asp2 nan1 --target accuracy=0.7
# Not after an evaluation of a model that is NaN, whatever its accuracy.
make_run nan_late scheme=asp seed=4 ended=diverged
"$python" -c 'import h5py
with h5py.File("nan_late/results.h5", "a") as file:
    file["eval/loss"][2] = float("nan")'
expect "diverged, then at the target" 0 'asp +2 of 3 ' \
  post compare bsp1 asp1 asp2 nan_late --target accuracy=0.7
expect "only one that diverged" 0 'asp +0 +- +- +- .* 1 +0 +- +- +-' \
  post compare bsp1 nan1
# 12.706 * 0.0028284 / sqrt(2) = 0.02541; four rows of 1000 bytes are 0.004 MB.
make_run quick1 scheme=dgc seed=1 virtual_s=0.45
make_run quick2 scheme=dgc seed=2 virtual_s=0.451
expect "short times and few bytes" 0 ' 1.802 ± 0.025 +0.004 ± 0' \
  post compare quick1 quick2
expect "variants of one scheme" 0 'h4 +2 .*h8 +1 ' \
  post compare h4-seed1 h4-seed2 h8-seed1 --by variant
expect "differ in its key" 0 'also different: local_sgd.period = 4 in h4; 8 in h8' \
  post compare h4-seed1 h4-seed2 h8-seed1 --by variant
# The verdict. Welch, of three against three with deviations of 0.01: the limit is
# 2.776 x sqrt(2 x 0.0001 / 3) = 0.02267.
for seed in 1 2 3; do
  make_run near$seed scheme=ssp seed=$seed accuracy=0.$((867 + 10 * seed + 1))
  make_run far$seed scheme=esync seed=$seed accuracy=0.$((866 + 10 * seed))
  make_run never$seed scheme=sgp seed=$seed accuracy=0.3
done
expect "the best, and what is not separable" 0 \
  '^verdict: highest accuracy after 40 steps: bsp, 0.9100 ± 0.0248 \(n = 3\); not separable from ssp$' \
  last_line compare bsp? near? far?
expect "separable" 0 '\(n = 3\); separable from all others$' \
  last_line compare bsp? far?
expect "what separable means" 0 \
  'separable: the 95% interval of the difference of the means .Welch. excludes 0,.not corrected for several comparisons' \
  post compare bsp? far?
expect "what it means of times" 0 \
  'separable: .* excludes 0,.and the evaluations tell them apart; or, where .* every run of one group.reached it before any of the other; not corrected for' \
  post compare km1 km2 km7 --target accuracy=0.6
expect "few seeds" 0 'warning: 2 seeds in a group: below 3, intervals say little' \
  post compare bsp? asp?
# Two equal runs have no spread; nor have three, but then their order says something.
for seed in 1 2 3; do
  make_run even$seed scheme=ssp seed=$seed accuracy=0.85
  make_run odd$seed scheme=esync seed=$seed accuracy=0.8501
done
expect "no spread, two runs" 0 'n = 2\); not separable from ssp$' \
  last_line compare even1 even2 odd1 odd2
expect "no spread, three runs" 0 'n = 3\); separable from all others$' \
  last_line compare even? odd?
expect "one run says nothing" 0 'n = 1\); not separable from asp$' \
  last_line compare bsp1 asp1
expect "left out of the best" 0 \
  '^verdict: highest accuracy .*: bsp, .* \(n = 2\); left out: asp \(1 of 2 diverged\)$' \
  last_line compare bsp1 bsp2 asp1 nan1
expect "why they are left out" 0 \
  '; separable from all others; left out: asp \(1 of 3 diverged, 1 of 3 unfinished, 1 of 3 without evaluations\)$' \
  last_line compare bsp? far? nan1 stopped killed
expect "all are left out" 0 \
  '^verdict: no group of which all runs finished; left out: asp \(1 of 1 unfinished\)$' \
  last_line compare stopped
# 0.7 of 0.9 is reached at the fourth row, of 1.8 at the second.
for seed in 1 2 3; do
  make_run soon$seed scheme=asp seed=$seed accuracy=1.8
done
expect "the fastest" 0 \
  '^verdict: fastest to accuracy >= 0.7: asp, median 20 virtual s, evaluations 10 s apart \(n = 3\); separable from all others$' \
  last_line compare soon? bsp? never? --target accuracy=0.7
# Reached after 20, 30 and 60 s; by hand as above.
expect "the median of the table" 0 \
  'bsp +3 of 3 .* 30 \[20, >60\] .*: bsp, median 30 \[20, >60\] virtual s, evaluations 10 s apart \(n = 3\)$' \
  post compare km1 km2 km7 --target accuracy=0.6
# Reached at the second evaluation of each, after 4.043 s and after 4.05 s.
for seed in 1 2 3; do
  make_run first$seed scheme=dgc seed=$seed accuracy=1.8 virtual_s=2.0215
  make_run second$seed scheme=choco seed=$seed accuracy=1.8 virtual_s=2.025
done
expect "the same evaluation is no difference" 0 \
  ': dgc, median 4.043 virtual s, evaluations 2.022 s apart \(n = 3\); not separable from choco$' \
  last_line compare first? second? --target accuracy=0.7
expect "nor beside runs that never reach it" 0 'not separable from choco$' \
  last_line compare first? second? never? --target accuracy=0.7
expect "the fastest without one that has no evaluation" 0 \
  '; left out: asp \(without evaluations\)$' \
  last_line compare first? killed --target accuracy=0.7
expect "too few to order by chance" 0 'not separable from sgp$' \
  last_line compare soon1 soon2 never? --target accuracy=0.7
expect "reached by no group" 0 '^verdict: no group reached accuracy >= 2 in half of its runs$' \
  last_line compare soon? bsp? --target accuracy=2
# Runs that did not finish are in no mean, rate or decision of Sync-Switch's: with
# them, 16.0 s and 10.0 s would be of asp, and 0.8750 its accuracy.
make_run timed_bsp scheme=bsp rows=12 virtual_s=2
make_run timed_asp scheme=asp rows=12 virtual_s=1 accuracy=0.8
make_run timed_cut scheme=asp seed=2 rows=4 virtual_s=2 accuracy=0.95 ended=stopped
expect "a table of runs that finished" 0 \
  'unfinished.*0 +2 +0 +240 +0.8000 +0 +12.0 +12.0 .*0.500 +1.*.1 of 3 runs did not finish: in no mean and no rate' \
  post switch_timing table timed_bsp timed_asp timed_cut
expect "a table without any that did" 0 \
  '0 +1 +0 +80 +- +0 +- +- +- +- +1.*no rate of asp' \
  post switch_timing table timed_cut
expect "a decision by runs that finished" 0 \
  '^note: timed_cut/results.h5: not finished: left out.*0: 0.8000, 1: 0.9000' \
  post switch_timing replay timed_bsp timed_asp timed_cut --settings=1
make_run timed_lost scheme=bsp seed=3 rows=12 virtual_s=2 ended=diverged
expect "no target of a run that diverged" 65 \
  '^error: timed_lost/results.h5: bsp diverged: no target$' \
  post switch_timing replay timed_bsp timed_lost timed_asp
printf 'fraction,seed,accuracy\n1,1,.9\n1,2,.91\n1,3,0\n' >lost.csv
for action in next replay; do
  expect "nor of rows, $action" 65 '^error: bsp diverged with seed 3: no target$' \
    post switch_timing $action lost.csv
done
# A search of many settings ends: fractions are written exactly.
echo 'fraction,seed,accuracy' >deep.csv
deep() {
  local words
  for _ in {1..20}; do
    read -ra words <<<"$(post switch_timing next deep.csv --runs=1 --settings=14)"
    [[ ${words[0]} == run ]] || break
    echo "${words[1]},${words[2]},.$((${#words[1]} == 1 ? 9 : 1))" >>deep.csv
  done
  echo "${words[@]}"
}
expect "fourteen settings" 0 '^use 1$' deep
expect "a decision without any" 65 'not finished: left out.error: no rows of fraction 1' \
  post switch_timing replay timed_cut timed_asp
expect "markdown" 0 '\| bsp \| 3 \| 1 2 3 \| 40 ± 0 \| 0.9100 ± 0.0248 \|' \
  post compare bsp1 bsp2 bsp3 --markdown
expect "markdown's file" 0 '^$' post compare bsp1 bsp2 --markdown -o table.md
expect "markdown, ruled" 0 '\| --- \| ---: ' cat table.md
expect "cannot create a table" 73 '^error: no/t.md: No such file' \
  post compare bsp1 -o no/t.md
expect "bad target" 65 '^error: --target accuracy=x' \
  post compare bsp1 --target accuracy=x

expect "missing" 66 '^error: nowhere: no such results$' post summarize nowhere
echo "no HDF5" >text.h5
expect "not HDF5" 65 '^error: text.h5: not readable as HDF5' \
  post summarize text.h5
expect "one line" 0 'one line' one_line post summarize text.h5
head -c 3000 bsp1/results.h5 >cut.h5
expect "cut file" 65 '^error: cut.h5: not readable' post export cut.h5 -o x.csv
head -c 512 bsp1/results.h5 >seal.h5
expect "a seal only" 65 '^error: seal.h5: not readable' post summarize seal.h5
: >nothing.h5
expect "no bytes" 65 '^error: nothing.h5: not readable' post summarize nothing.h5
"$python" -c '
import h5py
with h5py.File("huge.h5", "w") as file:
    file.create_dataset("train/loss", (1 << 50,), chunks=(1024,))
with h5py.File("type.h5", "w") as file:
    kind = h5py.h5t.UNIX_D32LE
    h5py.h5d.create(file.create_group("train").id, b"loss", kind,
                    h5py.h5s.create_simple((1,)))'
for name in huge type; do
  expect "$name" 65 "^error: $name.h5: not readable" post summarize "$name.h5"
  expect "$name: one line" 0 'one line' one_line post summarize "$name.h5"
done
"$python" -c 'import h5py; h5py.File("empty.h5", "w").close()'
expect "no run" 65 'no group /train' post plot empty.h5 -o x.png

cat >expected.csv <<'END'
step,worker_steps,epoch,time_s,virtual_s,accuracy,loss
10,20,0.5,2.0,10.0,0.225,1.0
20,40,1.0,4.0,20.0,0.45,0.5
30,60,1.5,6.0,30.0,0.675,0.3333333333333333
40,80,2.0,8.0,40.0,0.9,0.25
END
expect "csv" 0 '^$' post export bsp1 -o out.csv --table eval
expect "csv, exact" 0 '^$' diff expected.csv out.csv
expect "csv by worker" 0 'loss_worker_0,loss_worker_1' \
  post export bsp1 -o - --format csv
expect "csv, no such table" 65 '^error: .*no table sync; it has comm eval train$' \
  post export bsp1 -o out.csv --table sync
expect "a table as json" 65 '^error: --table is written as csv$' \
  post export bsp1 -o out.json --table eval
expect "a table of steps" 65 '^error: --table: given together with --steps' \
  post export bsp1 -o x.csv --steps --table eval
expect "csv of two runs and a picture" 0 '^note: table.md: skipped: not a run$' \
  post export bsp1 table.md asp1 -o both.csv --table eval
expect "their column run" 0 '^run,step,.*bsp1,40,80,2.0,8.0,40.0,0.9,.*asp1,10,' \
  cat both.csv
expect "a table that only one has" 0 'note: bsp1.*: no table sync.*run,step.*asp1,10' \
  post export bsp1 asp1 -o - --format csv --table sync
expect "json of two runs" 0 '^$' post export bsp1 asp1 -o both.json
expect "their names" 0 "^.'bsp1', 'asp1'.$" "$python" -c '
import json
print([run["run"] for run in json.load(open("both.json"))])'
expect "steps of two runs" 64 '^error: --steps: expected one RUN, found 2$' \
  post export bsp1 bsp2 -o x.csv --steps
expect "json" 0 '^$' post export bsp1 -o out.json
expect "json, exact" 0 '0.9 byte \[1000, 1000\] bsp' "$python" -c '
import json
data = json.load(open("out.json"))
sent = data["tables"]["comm"]["bytes_sent"]
print(data["tables"]["eval"]["accuracy"]["values"][-1], sent["units"],
      sent["values"][0], data["input"]["sync.scheme"])'
# A stand-in for tensorboardX that names the folders of events.
mkdir -p fake/tensorboardX
cat >fake/tensorboardX/__init__.py <<'PY'
import os


class SummaryWriter:
    def __init__(self, folder):
        os.makedirs(folder)
        open(os.path.join(folder, "events.out.x"), "w").close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def add_scalar(self, *_):
        pass

    add_text = add_scalar
PY
events() { PYTHONPATH=fake post tensorboard "$@"; }
expect "events" 0 '^events: [0-9]+ values of bsp1$' events bsp1 -o events
expect "events of several runs" 0 \
  '^note: table.md: skipped: not a run.all/bsp1: [0-9]+ values of bsp1.all/long-a-name.*long/a-name' \
  events bsp1 table.md long/a-name-of-thirty-one-characters \
  other/a-name-of-thirty-one-characters -o all
expect "in a folder for each" 0 'bsp1.long-a-name.*other-a-name' ls all
expect "events of a folder with brackets" 0 '^.a.: ' events bsp1 -o '[a]'
expect "and over them" 73 '^error: .a.: holds events already' events bsp1 -o '[a]'
expect "events over events" 73 '^error: all/bsp1: holds events already' \
  events bsp1 bsp2 -o all
if [[ -x ${SYNCOPATE:-} ]]; then
  # What may change on resume does not change a result, with these exceptions.
  expect "the table of neutral keys" 0 '^as the program has it$' env \
    PYTHONPATH="$source_dir/postprocess" "$python" - <("$SYNCOPATE" list keys) <<'PY'
import re
import sys

from groups import NEUTRAL

EXCEPTIONS = {
    "run.target",        # ends the run earlier
    "run.on_nonfinite",  # may leave out gradients
    "model.weights",     # read at the start of a run only
    "checkpoint.resume",  # so is another run's model
    "faults.kind", "faults.rank", "faults.stage", "faults.step"}  # may do harm
ALSO_NEUTRAL = {"run.seed"}  # the runs of a group differ in it
with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
section, may_change = "", set()
for block in re.split(r"\n(?=\S)", text):
    if block.startswith("["):
        section = block.strip("[]\n ")
    elif "May change on resume" in re.sub(r"\s+", " ", block):
        may_change.add(f"{section}.{block.split()[0]}")
assert len(may_change) > 20, text
expected = may_change - EXCEPTIONS | ALSO_NEUTRAL
assert EXCEPTIONS <= may_change, EXCEPTIONS - may_change
assert NEUTRAL == expected, (NEUTRAL - expected, expected - NEUTRAL)
print("as the program has it")
PY
  # What a stopped run had sent between two rows, as if it had not been stopped;
  # of a killed one this is not known.
  for run in "whole 24" "stopped 19"; do
    "$SYNCOPATE" train "$source_dir/inputs/smoke.ini" --run.directory=rows \
      --run.name="${run% *}" --run.workers=2 --run.steps=24 --run.stop_at="${run#* }" \
      --run.log_every=10 --eval.every="3 steps" >rows.out || cat rows.out
  done
  expect "bytes between two rows" 0 '^True True$' env \
    PYTHONPATH="$source_dir/postprocess" "$python" -c '
import numpy as np
from run_reader import open_run
whole, stopped = (open_run("rows/" + name) for name in ("whole", "stopped"))
steps = stopped.column("eval", "worker_steps")
print(np.allclose(stopped.sent_per_worker(steps), whole.sent_per_worker(steps)),
      stopped.has_virtual_time())'
  expect "and of a killed run" 0 '^True True$' env \
    PYTHONPATH="$source_dir/postprocess" "$python" -c '
import numpy as np
from run_reader import open_run
run = open_run("rows/stopped")
run.summary = {}
steps = run.column("eval", "worker_steps")
unknown = np.isnan(run.sent_per_worker(steps))
print((unknown == (steps > 20)).all(), unknown.any())'
  expect "a real run" 0 '' "$SYNCOPATE" train "$source_dir/inputs/smoke.ini" \
    --run.directory="$work/runs" --run.name=real
  expect "its summary" 0 'real +bsp' post summarize runs/real
  expect "its picture" 0 '^$' post plot runs/real -o real.png
  expect "its comparison" 0 'bsp +1' post compare runs/real
  expect "its export" 0 '^$' post export runs/real -o real.json
  expect "units and descriptions" 0 'all told' "$python" -c '
import json
data = json.load(open("real.json"))
missing = [(t, c) for t, columns in data["tables"].items()
           for c, column in columns.items()
           if not column["units"] or not column["description"]]
print(missing or "all told")'
fi
finish
