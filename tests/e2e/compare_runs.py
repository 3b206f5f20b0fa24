"""compare_runs.py A B [C D]...: exit 0 if both runs of each pair ended in the
same state to the bit and recorded the same rows, times apart; otherwise says
where they differ.

--replica-only compares what all workers share (runs of different worlds).
--virtual compares the seconds of computing and waiting too: in one process they
are virtual.
"""
import json
import pathlib
import sys

import h5py
import numpy as np

WALL = {"time_s", "samples_per_s", "target_time_s"}  # of /summary
TIMES = {"time_s", "compute_s", "exposed_s", "overlapped_s", "wait_s"}


def newest(run):
    folders = sorted((run / "checkpoints").glob("step-????????"))
    if not folders:
        sys.exit(f"{run}: no checkpoint")
    return folders[-1]


def flat(item):
    """All values of a dataset or of a group, in the order of their names."""
    if isinstance(item, h5py.Dataset):
        return item[()].ravel().astype(float)
    return np.concatenate([flat(item[name]) for name in sorted(item)])


def differences(a, b, replica_only, times):
    """Where two runs differ, as lines."""
    found = []
    manifests = [json.loads((newest(r) / "manifest.json").read_text())
                 for r in (a, b)]
    digests = [{f["name"]: f["xxh3"] for f in m["files"]} for m in manifests]
    if replica_only:
        digests = [{"replica.h5": d["replica.h5"]} for d in digests]
    if digests[0] != digests[1]:
        found.append(f"checkpoints: {digests[0]} != {digests[1]}")
    if manifests[0]["worker_steps"] != manifests[1]["worker_steps"]:
        found.append("checkpoints of different steps")
    compared = 0
    with h5py.File(a / "results.h5") as fa, h5py.File(b / "results.h5") as fb:
        groups = ["train", "eval"] if replica_only else ["train", "eval", "comm"]
        if not replica_only and ("sync" in fa or "sync" in fb):
            groups.append("sync")
        for group in groups:
            if group not in fa or group not in fb or \
                    set(fa[group]) != set(fb[group]):
                found.append(f"/{group}: unlike columns")
                continue
            for name in set(fa[group]) & set(fb[group]):
                if name in times or (replica_only and name == "virtual_s"):
                    continue
                x, y = fa[group][name][...], fb[group][name][...]
                compared += x.size
                if x.shape != y.shape or not np.array_equal(
                        x, y, equal_nan=x.dtype.kind == "f"):
                    found.append(f"/{group}/{name}: {x} != {y}")
        if not replica_only:
            summaries = [{**f["summary"].attrs,
                          **{name: value[()]
                             for name, value in f["summary"].items()
                             if name not in WALL}} for f in (fa, fb)]
            found += [f"/summary/{name} differs"
                      for name in sorted({*summaries[0], *summaries[1]})
                      if summaries[0].get(name) != summaries[1].get(name)]
    if compared == 0:
        found.append("nothing was compared")
    return found


def main():
    replica_only = "--replica-only" in sys.argv
    times = {"time_s"} if "--virtual" in sys.argv else TIMES
    runs = [pathlib.Path(p) for p in sys.argv[1:] if not p.startswith("--")]
    if not runs or len(runs) % 2:
        sys.exit("compare_runs.py: runs come in pairs")
    lines = [f"{a} and {b}: {line}" for a, b in zip(runs[::2], runs[1::2])
             for line in differences(a, b, replica_only, times)]
    print(*lines, sep="\n", end="\n" if lines else "")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
