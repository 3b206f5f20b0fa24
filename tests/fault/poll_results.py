"""Polls results.h5 with h5py while the driver commits it, and after kills."""
import os
import random
import signal
import subprocess
import sys
import time

import h5py


def read(path):
    """The number of rows, after checking that they belong together."""
    with h5py.File(path, "r") as file:
        assert file.attrs["format"] == "syncopate results"
        steps = file["train/worker_steps"][:]
        loss = file["train/loss"][:]
        assert file["train/loss"].attrs["units"] == "1"
    assert list(steps) == list(range(1, len(steps) + 1)), steps
    assert all(loss == 1.0 / steps), loss
    return len(steps)


def start(driver, folder):
    os.mkdir(folder)
    path = os.path.join(folder, "results.h5")
    process = subprocess.Popen([driver, "rows", folder, "60"])
    while not os.path.exists(path):
        assert process.poll() is None, "the driver ended"
        time.sleep(0.001)
    return process, path


def main():
    driver, work = sys.argv[1:]
    process, path = start(driver, os.path.join(work, "polled"))
    seen, changes = 0, 0
    for _ in range(100):
        rows = read(path)
        assert rows >= seen, (rows, seen)
        changes += rows > seen
        seen = rows
        time.sleep(0.005)
    assert process.poll() is None, "the driver ended"
    process.kill()
    process.wait()
    assert changes >= 10, f"only {changes} commits were seen"
    print(f"100 of 100 polls read it; {changes} saw new rows, {seen} in all")

    chance = random.Random(1)
    for trial in range(20):
        process, path = start(driver, os.path.join(work, f"killed{trial}"))
        time.sleep(chance.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert read(path) >= 1
    print("20 of 20 readable after kill -9")


main()
