"""make_jpegs.py FOLDER CLASSES TRAIN VAL: a folder of JPEGs to train on.

Each class has its own colour and its own waves; noise, place and size differ
from image to image. TRAIN and VAL images a class; cjpeg makes the JPEGs.
"""
import pathlib
import subprocess
import sys

import numpy as np


def picture(rng, label):
    height, width = rng.integers(40, 90, 2)
    y, x = np.mgrid[0:height, 0:width] / 60.0
    angle = 0.8 * label
    wave = np.sin((6 + 3 * label) * (np.cos(angle) * x + np.sin(angle) * y)
                  + rng.uniform(0, 6))
    colour = np.cos(label * 1.7 + np.array([0.0, 2.1, 4.2]))
    pixels = 128 + 45 * wave[..., None] + 40 * colour
    return (pixels + rng.normal(0, 12, pixels.shape)).clip(0, 255).astype("u1")


def main():
    folder, classes, *counts = sys.argv[1:]
    rng = np.random.default_rng(1)
    for part, count in zip(("train", "val"), counts):
        for label in range(int(classes)):
            where = pathlib.Path(folder) / part / f"class{label}"
            where.mkdir(parents=True)
            for i in range(int(count)):
                pixels = picture(rng, label)
                height, width, _ = pixels.shape
                ppm = b"P6 %d %d 255\n" % (width, height) + pixels.tobytes()
                subprocess.run(["cjpeg", "-quality", "90", "-outfile",
                                str(where / f"{i:04}.JPEG")],
                               input=ppm, check=True)


main()
