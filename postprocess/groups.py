"""Groups runs that differ in one key over their seeds: checks that they are
comparable and computes means with 95% intervals.
"""
import difflib
import math
import re
import sys
from collections import defaultdict

import numpy as np

from exit_codes import BAD_INPUT
from script import RunError

# Two-sided 95% points of Student's t, by degrees of freedom 1..30.
T95 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
       2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
       2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]
# The seed, and the keys that do not change what a finished run computes.
NEUTRAL = {"run.seed",
           "run.name", "run.directory", "run.stop_at", "run.log_every",
           "run.time_limit_s", "run.bf16_weights", "run.cuda_graphs",
           "run.watchdog", "run.step_timeout_s", "run.io_timeout_s",
           "run.audit", "model.recompute", "data.path", "data.prefetch",
           "data.decode_threads", "data.vocabulary", "checkpoint.every",
           "checkpoint.keep", "checkpoint.best",
           "output.csv", "output.trace", "output.trace_steps"}
START = "checkpoint.resume"
# What the results of a run say that began from the model of another.
WARM_START = "warm start: a new run from the model of "
LIMIT = "run.virtual_limit_s"
# Keys that must agree for evaluations to be comparable, with their defaults.
EVALUATION = {"eval.on": None, "eval.model": None, "data.validation": None,
              "eval.batchnorm": "running", "eval.recompute_batches": None,
              "eval.n_best": None, "eval.max_answer_length": None}


def lacking(runs, metric):
    """What keeps runs of a group out of its mean, in words: "1 of 3 diverged,
    1 of 3 unfinished"; empty if nothing does."""
    def reason_of(run):
        final, _ = run.final_and_best(metric)
        if run.state == "diverged" or final is not None and \
                math.isfinite(final):
            return run.state
        return "without evaluations" if final is None else "ended in NaN"

    reasons = [reason_of(run) for run in runs]
    return ", ".join(f"{reasons.count(reason)} of {len(runs)} {reason}"
                     for reason in ("diverged", "unfinished",
                                    "without evaluations", "ended in NaN")
                     if reason in reasons)


def common_clock(runs):
    """virtual_s if all runs with evaluations have virtual time, else time_s.
    """
    evaluated = [run for run in runs if run.metric]
    return "virtual_s" if evaluated and all(
        run.has_virtual_time() for run in evaluated) else "time_s"


def clocks_differ(runs):
    """Whether some runs with evaluations have virtual time and others, such as
    those under MPI, only wall time."""
    return len({run.has_virtual_time() for run in runs if run.metric}) > 1


CLOCKS_DIFFER = ("some runs have virtual time and others only wall time: times "
                 "of the two do not compare")


def note_clocks(runs):
    if clocks_differ(runs):
        print(f"note: {CLOCKS_DIFFER}", file=sys.stderr)


def t95(freedom):
    """Student's two-sided 95% point; degrees of freedom are rounded down."""
    freedom = max(int(freedom), 1)
    if freedom <= len(T95):
        return T95[freedom - 1]
    # Beyond the table: 1.960 plus the first term of the expansion in 1/df.
    return 1.960 + 2.372 / freedom


def interval(values):
    """Mean and half-width of its 95% interval; no width (NaN) for one value, or
    if one is not finite."""
    values = np.asarray(values, float)
    if len(values) < 2 or not np.isfinite(values).all():
        return values.mean() if len(values) else math.nan, math.nan
    return values.mean(), \
        t95(len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))


def with_interval(values, form, half_form=None):
    """"0.91 ± 0.02": the mean and half of its 95% interval, if that is known;
    "-" without a mean."""
    mean, half = interval(values)
    if math.isnan(mean):
        return "-"
    text = f"{mean:{form}}"
    if math.isnan(half):
        return text
    # Virtual times of seeds may differ in their last bits only.
    if half <= 1e-9 * abs(mean):
        return f"{text} ± 0"
    return f"{text} ± {half:{half_form or form}}"


def metric_with_interval(values):
    """The same of a metric or a loss: four decimals, or four digits of one that
    exploded."""
    mean, half = interval(values)
    return with_interval(values, ".4g" if abs(mean) > 1e4 else ".4f",
                         ".4g" if half > 1e4 else ".4f")


def start_of(run):
    """What the run began from: none, or a checkpoint of another run, with
    -seed* for any seed. For a warm start the results record it, even after a
    resume."""
    start = str(run.provenance.get("start", ""))
    if start.startswith(WARM_START):
        start = start.removeprefix(WARM_START)
    else:
        start = run.input.get(START, "none")
    return "none" if start == "auto" else \
        re.sub(r"-seed\d+\b", "-seed*", start)


def compared_keys(run):
    """{key: value}: the keys, except the seed, that determine a run's result."""
    return {START: start_of(run), **{
        key: value for key, value in run.input.items()
        if key not in NEUTRAL and key != START}}


def value_of(run, by):
    """What the run is called in a comparison `by` a key; variant is its name
    without the seed, as jobs/sweep.sh names runs."""
    if by == "variant":
        value = re.sub(r"-seed\d+$", "", run.name)
    else:
        value = start_of(run) if by == START else run.input.get(by, "(unset)")
    return f"{value} (published)" if run.is_published else value


def shown_label(label, by):
    """Schemes and variants are names; other values say little without the
    key."""
    return label if by in ("sync.scheme", "variant") else f"{by} = {label}"


def in_order(groups):
    """The groups in ascending order if all labels are numbers, otherwise as
    they are."""
    try:
        return dict(sorted(groups.items(), key=lambda group: float(group[0])))
    except ValueError:
        return groups


def unknown_key(runs, option, key):
    """A line about a key that no run has; None for one that some have."""
    known = sorted({key for run in runs for key in run.input})
    if key == "variant" or key in known or not known:
        return None
    nearest = difflib.get_close_matches(key, known, 1, 0)[0]
    return f"{option} {key}: no run has this key; the nearest is {nearest}"


def refuse_unlike(runs, by):
    """One line and exit 65 where a comparison would be unfair. Of a published
    run only the kind of data is known, and its metric is accuracy."""
    if (line := unknown_key(runs, "--by", by)):
        raise RunError(BAD_INPUT, line)
    for run in runs:
        mine, theirs = (one.input.get("data.kind") for one in (runs[0], run))
        if True in (runs[0].is_published, run.is_published) and \
                None not in (mine, theirs) and mine != theirs and \
                by != "data.kind":
            raise RunError(BAD_INPUT, f"unlike data: data.kind is {mine} in "
                           f"{runs[0].label}, {theirs} in {run.label}")
    own = [run for run in runs if not run.is_published]
    first = own[0] if own else None
    for run in own[1:]:
        mine, theirs = first.data_identity(), run.data_identity()
        for key in sorted(mine.keys() | theirs.keys()):
            if mine.get(key) != theirs.get(key) and key != by:
                raise RunError(BAD_INPUT, f"unlike data: {key} is "
                               f"{mine.get(key)} in {first.label}, "
                               f"{theirs.get(key)} in {run.label}")
        for key, default in EVALUATION.items():
            mine, theirs = (one.input.get(key, default)
                            for one in (first, run))
            if mine != theirs and key != by:
                raise RunError(BAD_INPUT, f"unlike evaluation: {key} is "
                               f"{mine} in {first.label}, "
                               f"{theirs} in {run.label}")
        if None not in (first.metric, run.metric) and \
                first.metric != run.metric:
            raise RunError(BAD_INPUT, f"unlike evaluation: {first.label} has "
                           f"{first.metric}, {run.label} has {run.metric}")


def common_limit(runs):
    """The run.virtual_limit_s of all runs, or None. It decides run.steps,
    which then differs by scheme and seed."""
    limits = {run.input.get(LIMIT, "0") for run in runs}
    return limits.pop() if len(limits) == 1 and limits != {"0"} else None


def grouped(runs, by):
    """{value of `by`: its runs}, which differ only in their seeds."""
    groups = defaultdict(list)
    for run in runs:
        groups[value_of(run, by)].append(run)
    for first, *others in groups.values():
        with_seed = {first.input.get("run.seed"): first}
        for run in others:
            refuse_pooling(first, run)
            seed = run.input.get("run.seed")
            if seed in with_seed:
                raise RunError(BAD_INPUT, f"repeated seed: run.seed is {seed} "
                               f"in {with_seed[seed].label} and {run.label}")
            with_seed[seed] = run
    return groups


def refuse_pooling(first, run):
    """Exits with one line and 65 if an interval would cover different runs."""
    mine, theirs = compared_keys(first), compared_keys(run)
    if common_limit([first, run]):
        mine.pop("run.steps", None)
        theirs.pop("run.steps", None)
    differing = [key for key in mine.keys() | theirs.keys()
                 if mine.get(key) != theirs.get(key)]
    if differing:
        # A key that only one run has follows from one that both have, such as
        # sync.scheme.
        key = min(differing, key=lambda key: (
            key not in mine or key not in theirs, key))
        raise RunError(BAD_INPUT, f"{first.label} and {run.label} cannot be "
                       f"pooled: {key} is {mine.get(key, '(unset)')} in "
                       f"{first.label} and {theirs.get(key, '(unset)')} in "
                       f"{run.label}; use --by {key} to compare them, or pass "
                       "only runs that agree in all other keys")


def shown_metric(runs, metric):
    """Its name with the unit that some run gives it."""
    return max((run.with_unit(metric) for run in runs), key=len)


def metric_of(runs):
    """The name of the evaluations' metric; refuses if there are none."""
    for run in runs:
        if run.metric:
            return run.metric
    raise RunError(BAD_INPUT, f"{runs[0].path}: no evaluations to compare")
