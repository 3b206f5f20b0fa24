"""Which group of runs is best, in one sentence, and from which others the runs
cannot tell it apart.

Two groups are separable if the 95% interval of the difference of their means
excludes zero (Welch's t, degrees of freedom rounded down). Where runs did not
reach a target, the mean of their times is unknown. Then two groups are separable
if every run of one reached it before any of the other, and chance alone would
order the runs so in at most one of twenty cases: three runs against three.
Neither test is corrected for the number of groups.
"""
import math

import numpy as np

from groups import T95, common_limit, interval
from run_reader import METRICS
from target import AMOUNTS, Survival, ends

FEW = 3  # fewer runs than this say little about their spread


def difference_is_clear(a, b):
    """Whether the 95% interval of the difference of two means excludes zero;
    never for a single run."""
    if min(len(a), len(b)) < 2:
        return False
    errors = [np.var(values, ddof=1) / len(values) for values in (a, b)]
    distance = abs(np.mean(a) - np.mean(b))
    if sum(errors) == 0:
        return distance > 0
    freedom = sum(errors) ** 2 / sum(
        error ** 2 / (len(values) - 1)
        for error, values in zip(errors, (a, b)))
    t = T95[min(max(int(freedom), 1), len(T95)) - 1]
    return distance > t * math.sqrt(sum(errors))


def comes_first(best, other):
    """Of [(amount, whether it was reached)]: whether `best` needs less."""
    if all(is_reached for _, is_reached in best + other):
        return difference_is_clear([x for x, _ in best], [x for x, _ in other])
    orders = math.comb(len(best) + len(other), len(best))
    return orders >= 20 and all(is_reached for _, is_reached in best) and \
        max(x for x, _ in best) < min(x for x, _ in other)


def shown(values, form):
    mean, half = interval(values)
    return f"{mean:{form}}" + ("" if math.isnan(half) else f" ± {half:{form}}")


def sentence(what, best, count, unclear, others):
    text = f"{what} (n = {count})"
    if not others:
        return text
    if not unclear:
        return f"{text}; separable from all others"
    return f"{text}; not separable from {', '.join(unclear)}"


def fastest(groups, target):
    """The verdict on the time to a target."""
    everyone = [run for runs in groups.values() for run in runs]
    is_virtual = all(run.has_virtual_time() for run in everyone)
    clock = "virtual s" if is_virtual else "time s"
    found = {label: ends(runs, target, AMOUNTS[clock])
             for label, runs in groups.items()}
    medians = {label: Survival(times).median()[0]
               for label, times in found.items() if times}
    reached = {label: median for label, median in medians.items()
               if median is not None}
    if not reached:
        return f"no group reached {target} in half of its runs"
    best = min(reached, key=reached.get)
    unclear = [label for label in found if label != best and
               not comes_first(found[best], found[label])]
    amount = shown([x for x, _ in found[best]], ".4g") \
        if all(is_reached for _, is_reached in found[best]) \
        else Survival(found[best]).text()
    return sentence(f"fastest to {target}: {best}, {amount} "
                    f"{'virtual ' * is_virtual}s", best, len(found[best]),
                    unclear, len(found) > 1)


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


def most_accurate(groups, metric):
    """The verdict on the metric at the end of the runs. Groups with a run
    that diverged, or has no evaluation, are left out."""
    values = {label: [run.last("eval", metric) for run in runs]
              for label, runs in groups.items()
              if not any(run.has_diverged for run in runs)}
    values = {label: found for label, found in values.items()
              if np.isfinite(found).all()}
    if not values:
        return "no group has only runs with an evaluation and without divergence"
    sign = 1 if METRICS[metric] else -1
    best = max(values, key=lambda label: sign * np.mean(values[label]))
    unclear = [label for label in values if label != best and
               not difference_is_clear(values[best], values[label])]
    whole = [run for label in values for run in groups[label]]
    return sentence(f"{'highest' if sign > 0 else 'lowest'} {metric}"
                    f"{budget_of(whole)}: {best}, {shown(values[best], '.4f')}",
                    best, len(values[best]), unclear, len(values) > 1)


def verdict(groups, metric, target):
    """Lines, of which the last one is the verdict."""
    least = min(len(runs) for runs in groups.values())
    if least < FEW:
        yield (f"warning: {least} seed{'s' * (least != 1)} in a group: below "
               f"{FEW}, intervals say little")
    yield "verdict: " + (fastest(groups, target) if target
                         else most_accurate(groups, metric))
