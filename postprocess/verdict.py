"""Which group of runs is best, in one sentence, and from which others the runs
cannot tell it apart.

Two groups are separable if the 95% interval of the difference of their means
excludes zero (Welch's t, degrees of freedom rounded down). A time to a target
is known to lie between two evaluations: groups are not separable if the means
of these intervals overlap. Where runs did not reach a target, the mean of
their times is unknown. Then two groups are separable if every run of one
reached it before any of the other, and chance alone would order the runs so in
at most one of twenty cases: three runs against three. The same holds of two
groups without any spread, of which Welch's test would call any difference
clear. Neither test is corrected for the number of groups.
"""
import math

import numpy as np

from groups import CLOCKS_DIFFER, clocks_differ, common_clock, \
    common_limit, lacking, \
    metric_with_interval, t95
from run_reader import METRICS
from target import AMOUNTS, Survival, why_none

FEW = 3  # fewer runs than this say little about their spread

# What the verdict calls separable.
SEPARABLE = ("separable: the 95% interval of the difference of the means "
             "(Welch) excludes 0,\nnot corrected for several comparisons; "
             "groups without any spread need three runs each")
SEPARABLE_TIMES = (
    "separable: the 95% interval of the difference of the mean times (Welch) "
    "excludes 0,\nand the evaluations tell them apart; or, where runs did not "
    "reach it, every run of one group\nreached it before any of the other; "
    "not corrected for several comparisons")


def difference_is_clear(a, b):
    """Whether the 95% interval of the difference of two means excludes zero;
    never for a single run. Without any spread, the order of the runs decides."""
    if min(len(a), len(b)) < 2:
        return False
    errors = [np.var(values, ddof=1) / len(values) for values in (a, b)]
    distance = abs(np.mean(a) - np.mean(b))
    if sum(errors) == 0:
        return distance > 0 and order_is_clear(a, b)
    freedom = sum(errors) ** 2 / sum(
        error ** 2 / (len(values) - 1)
        for error, values in zip(errors, (a, b)))
    return distance > t95(freedom) * math.sqrt(sum(errors))


def order_is_clear(a, b):
    """Whether chance alone would put all of one group before all of the other
    in at most one of twenty cases."""
    return math.comb(len(a) + len(b), len(a)) >= 20


def comes_first(best, other):
    """Of the Ends of two groups: whether `best` needs less."""
    until = [end.amount for end in best]
    since = [end.since for end in other]
    if all(end.is_reached for end in best + other):
        return np.mean(until) <= np.mean(since) and \
            difference_is_clear(until, [end.amount for end in other])
    return order_is_clear(best, other) and all(end.is_reached for end in best) and \
        max(until) <= min(since)


def sentence(what, count, unclear, others, left_out):
    """`others` are the groups that the best one was compared with, `left_out`
    is {group: why}."""
    text = f"{what} (n = {count})"
    if unclear:
        text += f"; not separable from {', '.join(unclear)}"
    elif others:
        text += "; separable from all others"
    return text + told(left_out)


def told(left_out):
    """"; left out: asp (1 of 3 diverged)"."""
    if not left_out:
        return ""
    return "; left out: " + ", ".join(f"{label} ({why})"
                                      for label, why in left_out.items())


def duration_of(curve, unit):
    """The median of a group as in the table of target.py, with the distance of
    its evaluations."""
    resolution = max(end.amount - end.since for end in curve.found
                     if end.is_reached)
    return f"median {curve.text()} {unit}, evaluations {resolution:.4g} s apart"


def fastest(groups, target):
    """The verdict on the time to a target. Groups without evaluations are left
    out."""
    everyone = [run for runs in groups.values() for run in runs]
    if clocks_differ(everyone):
        return f"none on the time to {target}: {CLOCKS_DIFFER}"
    clock, unit = ("virtual s", "virtual s") \
        if common_clock(everyone) == "virtual_s" else ("time s", "s")
    curves = {label: Survival.of(runs, target, AMOUNTS[clock])
              for label, runs in groups.items()}
    left_out = {label: why_none(groups[label], target)
                for label, curve in curves.items() if not curve.found}
    medians = {label: curve.median()[0] for label, curve in curves.items()}
    reached = {label: median for label, median in medians.items()
               if median is not None}
    if not reached:
        return f"no group reached {target} in half of its runs" + \
            told(left_out)
    best = min(reached, key=reached.get)
    others = [label for label in curves
              if label != best and label not in left_out]
    unclear = [label for label in others
               if not comes_first(curves[best].found, curves[label].found)]
    return sentence(
        f"fastest to {target}: {best}, {duration_of(curves[best], unit)}",
        len(curves[best].found), unclear, others, left_out)


def budget_of(runs):
    """What all runs had in common: " after 360 steps"."""
    limit = common_limit(runs)
    if limit:
        return f" within {float(limit):g} virtual s"
    taken = {(run.last("train", "worker_steps"), run.workers) for run in runs}
    if len(taken) > 1:
        return ""
    worker_steps, workers = taken.pop()
    return f" after {worker_steps / workers:g} steps"


def compared(groups, metric):
    """{group: its runs} and {group: why it is left out}: one of its runs
    diverged, did not finish or has no evaluation."""
    left_out = {label: why for label, runs in groups.items()
                if (why := lacking(runs, metric))}
    return {label: runs for label, runs in groups.items()
            if label not in left_out}, left_out


def most_accurate(groups, metric):
    """The verdict on the metric at the end of the runs."""
    kept, left_out = compared(groups, metric)
    if not kept:
        return "no group of which all runs finished" + told(left_out)
    values = {label: [run.final_and_best(metric)[0] for run in runs]
              for label, runs in kept.items()}
    sign = 1 if METRICS[metric].larger_is_better else -1
    best = max(values, key=lambda label: sign * np.mean(values[label]))
    others = [label for label in values if label != best]
    unclear = [label for label in others
               if not difference_is_clear(values[best], values[label])]
    budget = budget_of([run for runs in kept.values() for run in runs])
    return sentence(f"{'highest' if sign > 0 else 'lowest'} {metric}{budget}: "
                    f"{best}, {metric_with_interval(values[best])}",
                    len(values[best]), unclear, others, left_out)


def verdict(groups, metric, target):
    """Lines, of which the last one is the verdict."""
    kept = groups if target else compared(groups, metric)[0]
    least = min((len(runs) for runs in kept.values()), default=0)
    if kept and least < FEW:
        yield (f"warning: {least} seed{'s' * (least != 1)} in a group: below "
               f"{FEW}, intervals say little")
    yield "verdict: " + (fastest(groups, target) if target
                         else most_accurate(groups, metric))
