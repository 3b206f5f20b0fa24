"""Checks what a run with run.target recorded against its own tables.

check_target.py RUN METRIC RELATION NUMBER yes|no [WHOLE]: the run ended at the
first evaluation with the target, or ran to its end without one. The run logs
every step, so that /train and /comm have a row at each evaluation. With WHOLE,
a run of the same input without a target, the evaluations are its first ones.
"""
import sys

import h5py
import numpy as np

path, metric, relation, number, expected = sys.argv[1:6]
with h5py.File(f"{path}/results.h5", "r") as file:
    tables = {name: {key: values[()] for key, values in file[name].items()}
              for name in ("train", "eval", "comm", "summary")}
    ended = file["summary"].attrs["ended"]
train, evaluations, comm, summary = (
    tables[name] for name in ("train", "eval", "comm", "summary"))
values = evaluations[metric]
hits = values >= float(number) if relation == ">=" else values <= float(number)
assert summary["target_reached"] == (expected == "yes"), summary
assert ended == "finished" and summary["finished"] == 1, (ended, summary)
if expected == "no":
    assert not hits.any(), values
    assert "target_step" not in summary, summary
    sys.exit()

# Exactly the last evaluation is the first that reached it, and the last step.
assert hits[-1] and not hits[:-1].any(), values
at = evaluations["worker_steps"][-1]
workers = comm["bytes_sent"].shape[1]
assert train["worker_steps"][-1] == comm["worker_steps"][-1] == at
assert summary["target_step"] == evaluations["step"][-1] == at / workers
assert summary["target_epoch"] == evaluations["epoch"][-1]
assert abs(summary["target_time_s"] - evaluations["time_s"][-1]) < 1e-9
if "target_virtual_s" in summary:
    assert summary["target_virtual_s"] == evaluations["virtual_s"][-1]
else:
    assert np.isnan(evaluations["virtual_s"]).all()
assert summary["target_samples"] == train["samples"][-1] > 0
assert summary["target_bytes_sent"] == comm["bytes_sent"].sum() > 0
if len(sys.argv) > 6:
    with h5py.File(f"{sys.argv[6]}/results.h5", "r") as file:
        whole = {key: column[()] for key, column in file["eval"].items()}
        sent = file["comm/bytes_sent"][()][
            file["comm/worker_steps"][()] <= at].sum()
        samples = file["train/samples"][()][
            file["train/worker_steps"][()] <= at].max()
    rows = len(values)
    assert rows < len(whole[metric]), "the target was the whole run's end"
    for key in (metric, "worker_steps", "virtual_s"):
        np.testing.assert_array_equal(whole[key][:rows], evaluations[key])
    assert summary["target_bytes_sent"] == sent, (summary, sent)
    assert summary["target_samples"] == samples
