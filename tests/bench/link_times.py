"""How long steps took in runs over limited links."""
import h5py
import numpy as np


def measured(run):
    """Seconds per step of all workers, without what the first one takes more."""
    with h5py.File(f"{run}/results.h5") as f:
        compute = f["comm/compute_s"][...].max(axis=1)
        seconds = f["train/time_s"][-1] - (compute[0] - np.median(compute))
        return seconds / f["train/worker_steps"][-1] * \
            f["comm/compute_s"].shape[1]
