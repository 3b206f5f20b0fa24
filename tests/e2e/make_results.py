"""Writes a results.h5 with known values, laid out as syncopate writes it.

make_results.py FILE KEY=VALUE...: scheme, seed, workers, rows, accuracy
(final), digest, clock=wall for a run under MPI, ended=diverged, plus
section.key=value for the echoed input.
"""
import sys

import h5py
import numpy as np


def table(file, name, columns):
    group = file.create_group(name)
    for column, (values, unit) in columns.items():
        dataset = group.create_dataset(column, data=values)
        dataset.attrs["units"] = unit
        dataset.attrs["description"] = f"{column} of {name}."


def main(path, settings):
    scheme = settings.pop("scheme", "bsp")
    seed = settings.pop("seed", "1")
    workers = int(settings.pop("workers", "2"))
    rows = int(settings.pop("rows", "4"))
    final = float(settings.pop("accuracy", "0.9"))
    digest = settings.pop("digest", "abc")
    virtual = float("nan") if settings.pop("clock", "") == "wall" else 10.0
    has_diverged = settings.pop("ended", "") == "diverged"
    keys = {"run.name": "x", "run.seed": seed, "run.workers": str(workers),
            "model.family": "resnet", "model.depth": "20",
            "data.kind": "idx", "data.validation": "0",
            "optimizer.lr": "0.1", "sync.scheme": scheme, "eval.on": "test",
            "eval.model": "each", **settings}
    text = ""
    for section in dict.fromkeys(key.split(".")[0] for key in keys):
        text += f"[{section}]\n"
        for key, value in keys.items():
            if key.split(".")[0] == section:
                text += f"{key.split('.')[1]} = {value}\n"
    count = np.arange(1, rows + 1)
    per_worker = np.ones((rows, workers))
    when = {"step": (10 * count, "1"), "worker_steps": (10 * workers * count,
                                                       "1"),
            "epoch": (count / 2, "1"), "time_s": (count * 2.0, "s"),
            "virtual_s": (count * virtual, "s")}
    # A user block, as the seal of src/base/hdf5_seal.h makes.
    with h5py.File(path, "w", userblock_size=512) as file:
        table(file, "train", {
            **when, "samples": (10 * workers * count * 8, "1"),
            "loss": (np.where(has_diverged & (count == rows), np.nan,
                              2.0 / count), "1"), "lr": (0.1 * per_worker[:, 0], "1"),
            "loss_worker": (per_worker * 2.0 / count[:, None], "1")})
        # The accuracy climbs evenly and ends at `final`.
        table(file, "eval", {**when, "loss": (1.0 / count, "1"),
                             "accuracy": (final * count / rows, "1")})
        table(file, "comm", {
            "step": when["step"], "worker_steps": when["worker_steps"],
            "time_s": when["time_s"],
            "bytes_sent": ((1000 * per_worker).astype("i8"), "byte"),
            "compute_s": (1.5 * per_worker, "s"),
            "exposed_s": (0.4 * per_worker, "s"),
            "overlapped_s": (0.2 * per_worker, "s"),
            "wait_s": (0.1 * per_worker * np.arange(workers), "s")})
        if scheme == "asp":
            table(file, "sync", {
                "step": when["step"], "worker_steps": when["worker_steps"],
                "staleness": (per_worker * np.arange(1, workers + 1), "1"),
                "phase": (count % 2, "1")})
        provenance = file.create_group("provenance")
        provenance.attrs["input"] = text
        provenance.attrs["workers"] = workers
        provenance.attrs["data_digest"] = digest
        summary = file.create_group("summary")
        summary.create_dataset("final_accuracy", data=final)
        summary.create_dataset("finished", data=0.0 if has_diverged else 1.0)


if __name__ == "__main__":
    main(sys.argv[1], dict(pair.split("=", 1) for pair in sys.argv[2:]))
