"""make_published_data.py FOLDER: random images of the published data's shapes.

FOLDER/cifar10, cifar100: the binary files with 5120 and 20 images. FOLDER/
fashion: IDX with 768 and 20 images of 28 x 28. FOLDER/imagenet: one JPEG under
the names of 1000 classes, one image each for training and validation.
"""
import os
import pathlib
import subprocess
import sys

import numpy as np


def cifar(rng, samples, classes):
    records = rng.integers(0, 256, (samples, 3072 + (classes == 100)), "u1")
    fine = (np.arange(samples) % classes).astype("u1")[:, None]
    if classes == 10:
        return np.hstack([fine, records]).tobytes()
    records[:, 0] = fine[:, 0] // 5  # the coarse label
    return np.hstack([records[:, :1], fine, records[:, 1:]]).tobytes()


def idx(array):
    head = np.array([0x800 + array.ndim, *array.shape], ">i4")
    return head.tobytes() + array.astype("u1").tobytes()


def main():
    root = pathlib.Path(sys.argv[1])
    rng = np.random.default_rng(1)
    for folder, files in (
            ("cifar10", [(f"data_batch_{i}.bin", 1024, 10) for i in range(1, 6)]
             + [("test_batch.bin", 20, 10)]),
            ("cifar100", [("train.bin", 5120, 100), ("test.bin", 100, 100)])):
        (root / folder).mkdir(parents=True)
        for name, samples, classes in files:
            (root / folder / name).write_bytes(cifar(rng, samples, classes))

    fashion = root / "fashion"
    fashion.mkdir()
    for part, samples in (("train", 768), ("t10k", 20)):
        pixels = rng.integers(0, 256, (samples, 28, 28), "u1")
        (fashion / f"{part}-images-idx3-ubyte").write_bytes(idx(pixels))
        labels = np.arange(samples) % 10
        (fashion / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))

    jpeg = root / "image.JPEG"
    ppm = b"P6 240 230 255\n" + rng.bytes(240 * 230 * 3)
    subprocess.run(["cjpeg", "-outfile", str(jpeg)], input=ppm, check=True)
    for part in ("train", "val"):
        for label in range(1000):
            where = root / "imagenet" / part / f"n{label:08}"
            where.mkdir(parents=True)
            os.link(jpeg, where / "0.JPEG")


main()
