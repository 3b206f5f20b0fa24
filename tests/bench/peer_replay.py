"""A run of syncopate taken again by its PyTorch peer: the first values out of a
checkpoint, and the samples in the order in which one worker is dealt them
without augmentation, which is a function of run.seed and the epoch alone."""
import os

import torch

DATA_ORDER = 2  # Purpose::kDataOrder of src/base/rng.h
WORD = (1 << 32) - 1
LONG = (1 << 64) - 1


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., SC11): four words for a counter of four."""
    a, b, c, d = counter
    low, high = key
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ low, q & WORD, (p >> 32) ^ d ^ high, \
            p & WORD
        low, high = (low + 0x9E3779B9) & WORD, (high + 0xBB67AE85) & WORD
    return a, b, c, d


def longs(seed, epoch):
    """Endless draws of 64 bits, the low word first."""
    key = (seed & WORD, (seed >> 32) ^ (DATA_ORDER << 24))
    count = 0
    while True:
        a, b, c, d = philox((count, 0, epoch & WORD, epoch >> 32), key)
        yield a | (b << 32)
        yield c | (d << 32)
        count += 1


def order_of(seed, epoch, samples):
    """The epoch's permutation (Fisher-Yates, unbiased by rejection)."""
    draws, order = longs(seed, epoch), list(range(samples))
    for i in range(samples - 1, 0, -1):
        limit = LONG - LONG % (i + 1)
        draw = next(draws)
        while draw >= limit:
            draw = next(draws)
        j = draw % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def load_parameters(model, folder):
    """Values of all parameters of `model` from a checkpoint's folder."""
    import h5py  # only here: the rest does without
    with h5py.File(os.path.join(folder, "replica.h5")) as file, \
            torch.no_grad():
        stored = file["parameters"]
        tensors = dict(model.tensors())
        if set(tensors) != set(stored):
            raise RuntimeError(f"{folder}: other tensors than the network's: "
                               f"{sorted(set(tensors) ^ set(stored))}")
        for name, value in tensors.items():
            value.copy_(torch.from_numpy(stored[name][...]).view(value.shape))
