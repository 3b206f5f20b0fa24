"""compare_states.py A B...: exit 0 if all runs ended with the same numbers of
the model and of the scheme (parameters, statistics, momentum, residuals, copies)
to the bit on all workers. Clocks, and what was counted for rows, may differ.

--pairs: of each pair A B, C D, ... instead of all.
--parameters compares nothing but them; --tolerance=X allows a difference of X
of the largest value in all tensors of a kind (parameters, momentum, ...).
compare_states.py --unlike RUNS: exit 0 if no two of them ended in the same mean
of the workers' parameters, but for rounding.
compare_states.py --members RUN: exit 0 if all workers ended with the same
parameters, to the bit.
"""
import itertools
import pathlib
import sys

import h5py
import numpy as np


def read(run, wanted):
    """float32 datasets of the newest checkpoint by file and name."""
    folders = sorted((run / "checkpoints").glob("step-????????"))
    if not folders:
        sys.exit(f"{run}: no checkpoint")
    found = {}
    for path in sorted(folders[-1].glob("*.h5")):
        with h5py.File(path) as file:
            def add(name, item, stem=path.stem):
                if isinstance(item, h5py.Dataset) and \
                        item.dtype == np.float32 and name.startswith(wanted):
                    found[stem + "/" + name] = item[...]
            file.visititems(add)
    if not found:
        sys.exit(f"{run}: nothing to compare")
    return found


def mean_of_workers(found):
    sums = {}
    for name, values in found.items():
        sums.setdefault(name.split("/", 1)[1], []).append(
            values.astype(np.float64))
    return np.concatenate(
        [np.mean(values, axis=0).ravel() for _, values in sorted(sums.items())])


def are_unlike(runs):
    means = {run: mean_of_workers(read(run, "parameters")) for run in runs}
    distance, pair = min(
        (np.abs(means[a] - means[b]).max() / np.abs(means[a]).max(), (a, b))
        for a, b in itertools.combinations(runs, 2))
    print(f"nearest: {pair[0]} and {pair[1]}, by {distance:.1e} of the largest "
          "parameter")
    return distance > 1e-5


def members_are_equal(run):
    by_name = {}
    for name, values in read(run, "parameters").items():
        by_name.setdefault(name.split("/", 1)[1], []).append(values)
    print(f"{run}: {max(map(len, by_name.values()))} copies")
    return all(np.array_equal(values[0].view(np.int32), other.view(np.int32))
               for values in by_name.values() for other in values[1:])


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    runs = [pathlib.Path(a) for a in sys.argv[1:] if not a.startswith("--")]
    if "--unlike" in options:
        sys.exit(not are_unlike(runs))
    if "--members" in options:
        sys.exit(not members_are_equal(runs[0]))
    wanted = "parameters" if "--parameters" in options else ""
    tolerance = 0.0
    for option in options:
        if option.startswith("--tolerance="):
            tolerance = float(option.split("=")[1])
    groups = [runs]
    if "--pairs" in options:
        groups = [runs[i:i + 2] for i in range(0, len(runs), 2)]
    alike = [are_alike(group, wanted, tolerance) for group in groups]
    sys.exit(not (alike and all(alike)))


def are_alike(runs, wanted, tolerance):
    first = read(runs[0], wanted)
    alike = [is_alike(runs[0], first, run, read(run, wanted), tolerance)
             for run in runs[1:]]
    return bool(alike) and all(alike)


def largest_by_kind(found):
    """Of "replica/momentum/conv1.weight", ...: {"replica/momentum": largest}"""
    largest = {}
    for name, values in found.items():
        kind = "/".join(name.split("/")[:2])
        largest[kind] = max(largest.get(kind, 1e-30),
                            np.abs(values).max(initial=0))
    return largest


def is_alike(run_a, a, run_b, b, tolerance):
    differences = [f"{name} in one of them only" for name in set(a) ^ set(b)]
    largest = largest_by_kind(a)
    for name in sorted(set(a) & set(b)):
        if a[name].shape != b[name].shape:
            differences.append(f"{name}: other shapes")
            continue
        if a[name].size == 0:
            continue
        worst = np.abs(a[name].astype(np.float64) - b[name]).max()
        if not worst <= tolerance * largest["/".join(name.split("/")[:2])]:
            differences.append(f"{name}: differs by {worst}")
    for line in differences[:5]:
        print(f"{run_a} and {run_b}: {line}")
    return not differences


main()
