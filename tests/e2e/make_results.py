"""Writes a results.h5 with known values, laid out as syncopate writes it.

make_results.py FILE KEY=VALUE...: scheme, seed, workers, rows, evaluations (of
the rows), metric and accuracy (its final value), digest, virtual_s per row or
clock=wall for a run under MPI (clock=both: only its first half), ended=diverged,
stopped or killed, loss (the last one), restarts, from (the first row that was
kept), start (as provenance has it), plus section.key=value for the echoed input.
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
    virtual = float(settings.pop("virtual_s", "10"))
    clock = settings.pop("clock", "virtual")
    ended = settings.pop("ended", "finished")
    metric = settings.pop("metric", "accuracy")
    first = int(settings.pop("from", "1"))
    restarts = int(settings.pop("restarts", "0"))
    start = settings.pop("start", "")
    num_evaluations = int(settings.pop("evaluations", rows))
    last_loss = settings.pop("loss", "nan" if ended == "diverged" else "")
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
    loss = 2.0 / count
    if last_loss:
        loss[-1:] = float(last_loss)
    per_worker = np.ones((rows, workers))
    virtual_s = count * virtual
    virtual_s[:{"virtual": 0, "wall": rows, "both": rows // 2}[clock]] = np.nan
    when = {"step": (10 * count, "1"), "worker_steps": (10 * workers * count,
                                                       "1"),
            "epoch": (count / 2, "1"), "time_s": (count * 2.0, "s"),
            "virtual_s": (virtual_s, "s")}
    # A user block, as the seal of src/base/hdf5_seal.h makes.
    with h5py.File(path, "w", userblock_size=512) as file:
        table(file, "train", {
            **when, "samples": (10 * workers * count * 8, "1"),
            "loss": (loss, "1"), "lr": (0.1 * per_worker[:, 0], "1"),
            "loss_worker": (per_worker * 2.0 / count[:, None], "1")})
        # The metric climbs evenly and ends at `final`.
        evaluations = {**when, "loss": (1.0 / count, "1"), metric: (
            final * count / max(rows, 1),
            "%" if metric in ("f1", "exact_match") else "1")}
        table(file, "eval", {
            name: (values[first - 1:num_evaluations], unit)
            for name, (values, unit) in evaluations.items()})
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
                "staleness": (per_worker * np.arange(1, workers + 1),
                              "updates"),
                "phase": (count % 2, "1")})
        provenance = file.create_group("provenance")
        provenance.attrs["input"] = text
        provenance.attrs["workers"] = workers
        provenance.attrs["data_digest"] = digest
        provenance.attrs["restarts"] = restarts
        if start:
            provenance.attrs["start"] = start
        if ended != "killed":
            summary = file.create_group("summary")
            summary.attrs["ended"] = ended
            summary.create_dataset("final_accuracy", data=final)
            summary.create_dataset("finished",
                                   data=float(ended == "finished"))


if __name__ == "__main__":
    main(sys.argv[1], dict(pair.split("=", 1) for pair in sys.argv[2:]))
