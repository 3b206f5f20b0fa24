"""Writes random images in IDX files, as of MNIST: 6 x 6 pixels, four classes.

make_idx.py FOLDER SEED TRAINING_SAMPLES TEST_SAMPLES
"""
import os
import struct
import sys

import numpy as np

folder, seed, *counts = sys.argv[1:]
os.mkdir(folder)
draw = np.random.default_rng(int(seed))
for name, count in zip(("train", "t10k"), map(int, counts)):
    with open(f"{folder}/{name}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 2051, count, 6, 6))
        file.write(draw.integers(0, 256, count * 36, np.uint8).tobytes())
    with open(f"{folder}/{name}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 2049, count))
        file.write(bytes(i % 4 for i in range(count)))
