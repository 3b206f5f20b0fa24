"""The tuning runs of a sweep: the grid's values of the tuned key and, with
`grid = auto ...`, values beyond an edge at which a variant's best one lies.
"""
from sweep_file import ROOT  # noqa: F401, puts postprocess/ on the path
from run_reader import METRICS
from sweep_runs import job_of, outcome

MOST_EXTENSIONS = 4  # for each variant


def mean_of(sweep, variant, value):
    """The mean of the metric over the tuning seeds, and "finished";
    otherwise None, and "diverged 1 of 3" or "missing"."""
    found = [outcome(sweep, job_of(sweep, "tune", variant, value, seed))
             for seed in sweep.tune_seeds]
    states = [state for state, _ in found]
    if "to do" in states:
        return None, "missing"
    if "diverged" in states:
        return None, "diverged" if len(states) == 1 else \
            f"diverged {states.count('diverged')} of {len(states)}"
    return sum(metric for _, metric in found) / len(found), "finished"


def best_of(sweep, means):
    """The best value of {value: mean or None}, among equals the smallest; None
    if there is no mean."""
    sign = 1 if METRICS[sweep.metric] else -1
    whole = [value for value in sorted(means, key=float)
             if means[value] is not None]
    return max(whole, key=lambda value: sign * means[value], default=None)


def is_at_edge(values, value):
    ordered = sorted(values, key=float)
    return len(ordered) > 1 and value in (ordered[0], ordered[-1])


def beyond(sweep, values, edge):
    """The next value beyond an edge, as far away as its neighbour, in ratio;
    None if whole numbers have none left."""
    ordered = sorted(values, key=float)
    neighbour = ordered[1] if edge == ordered[0] else ordered[-2]
    value = float(edge) ** 2 / float(neighbour)
    if all(word.isdigit() for word in sweep.grid):
        value = round(value)
        if value < 1 or value in map(float, values):
            return None
    return f"{value:.4g}"


def values_of(sweep, variant):
    """The grid, and the extensions that follow from the runs so far."""
    values = list(sweep.grid)
    while sweep.extends and len(values) < len(sweep.grid) + MOST_EXTENSIONS:
        means = {}
        for value in values:
            means[value], state = mean_of(sweep, variant, value)
            if state == "missing":
                return values
        best = best_of(sweep, means)
        if best is None or not is_at_edge(values, best):
            return values
        further = beyond(sweep, values, best)
        if further is None:
            return values
        values.append(further)
    return values


def grid_jobs(sweep):
    return [job_of(sweep, "tune", variant, value, seed)
            for variant in sweep.variants for value in sweep.grid
            for seed in sweep.tune_seeds]


def tune_jobs(sweep):
    """Those of the grid, and the extensions that follow from the runs so far, of
    all variants without a recorded value."""
    grid = [job for job in grid_jobs(sweep) if job.variant not in sweep.tuned]
    return grid + [
        job_of(sweep, "tune", variant, value, seed)
        for variant in sweep.variants if variant not in sweep.tuned
        for value in values_of(sweep, variant)[len(sweep.grid):]
        for seed in sweep.tune_seeds]


def extension_slots(sweep, number):
    """The runs of each variant's extension `number` (from 1); None for those
    that are not needed, or not known yet."""
    place = len(sweep.grid) + number - 1
    slots = []
    for variant in sweep.variants:
        values = values_of(sweep, variant)
        slots += [job_of(sweep, "tune", variant, values[place], seed)
                  if place < len(values) else None
                  for seed in sweep.tune_seeds]
    return slots
