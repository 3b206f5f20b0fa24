"""Images and labels of an input, and their augmentation, for the PyTorch
peer."""
import gzip
import os

import numpy as np
import torch
import torch.nn.functional as F

from peer_input import refuse


def read_idx(folder, name):
    for path in (os.path.join(folder, name), os.path.join(folder, name)
                 + ".gz"):
        if os.path.exists(path):
            opened = gzip.open if path.endswith(".gz") else open
            data = opened(path, "rb").read()
            rank = data[3]
            shape = np.frombuffer(data, ">i4", rank, 4)
            return np.frombuffer(data, np.uint8, offset=4 + 4 * rank
                                 ).reshape(shape)
    return refuse(f"{folder}/{name}: no such file", 66)


def read_cifar(folder, names):
    rows = np.concatenate([
        np.fromfile(os.path.join(folder, name), np.uint8).reshape(-1, 3073)
        for name in names])
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def read_samples(path):
    """What `syncopate prepare images INPUT -o FILE.h5` wrote."""
    import h5py  # only here: the rest does without
    with h5py.File(path) as file:
        return [(np.ascontiguousarray(
            file[f"{part}/images"][...].transpose(0, 3, 1, 2)),
            file[f"{part}/labels"][...]) for part in ("train", "test")]


def load(values, samples=None):
    """(images, labels) of train and test: uint8 (samples, C, H, W). `samples`:
    a file to read them from in place of what the input names."""
    kind, folder = values["data.kind"], values["data.path"]
    if samples or kind == "hdf5":
        return read_samples(samples or folder)
    if kind == "idx":
        return [(read_idx(folder, f"{part}-images-idx3-ubyte")[:, None],
                 read_idx(folder, f"{part}-labels-idx1-ubyte"))
                for part in ("train", "t10k")]
    if kind == "cifar10":
        return [read_cifar(folder, [f"data_batch_{i}.bin"
                                    for i in range(1, 6)]),
                read_cifar(folder, ["test_batch.bin"])]
    if kind == "synthetic_images":
        # Noise of the same shape, the same labels: good for timing alone.
        generator = np.random.default_rng(7)
        shape = [int(values[f"data.{key}"])
                 for key in ("channels", "height", "width")]
        return [(generator.integers(0, 256, [count] + shape, np.uint8),
                 np.arange(count) % int(values["data.classes"]))
                for count in (int(values["data.samples"]),
                              int(values["data.test_samples"]))]
    return refuse(f"data.kind = {kind}: not known to the PyTorch peer")


class Augment:
    """Normalise by channel, crop from images with a border, flip. The border is
    the mean colour or, with data.fill = black, what torchvision's RandomCrop
    followed by Normalize makes of it."""

    def __init__(self, values, images):
        pixels = images.astype(np.float32) / 255
        axes = (0, 2, 3)
        shape = (1, -1, 1, 1)
        self.mean = torch.from_numpy(pixels.mean(axes, np.float64).reshape(
            shape)).float()
        self.std = torch.from_numpy(pixels.std(axes, np.float64).reshape(
            shape)).float()
        kinds = values["data.augment"].replace(",", " ").split()
        kinds = [kind for kind in kinds if kind != "none"]
        if set(kinds) - {"crop", "flip"}:
            refuse(f"data.augment = {' '.join(kinds)}: the PyTorch peer has "
                   "crop and flip")
        self.pad = int(values["data.crop_pad"]) if "crop" in kinds else 0
        self.flip = "flip" in kinds
        self.is_black = values["data.fill"] == "black"

    def plain(self, images):
        x = (torch.from_numpy(images).float() / 255 - self.mean) / self.std
        return x.contiguous(memory_format=torch.channels_last)

    def padded(self, images):
        x = torch.from_numpy(images).float() / 255
        border = [self.pad] * 4
        if self.is_black:
            return (F.pad(x, border) - self.mean) / self.std
        return F.pad((x - self.mean) / self.std, border)

    def __call__(self, images):
        n, _, height, width = images.shape
        dy = torch.randint(0, 2 * self.pad + 1, (n, 1))
        dx = torch.randint(0, 2 * self.pad + 1, (n, 1))
        rows = dy + torch.arange(height)
        columns = dx + torch.arange(width)
        if self.flip:
            mirrored = torch.rand(n, 1) < 0.5
            columns = torch.where(mirrored, columns.flip(1), columns)
        x = self.padded(images).permute(0, 2, 3, 1)
        x = x[torch.arange(n)[:, None, None], rows[:, :, None],
              columns[:, None, :]]
        return x.permute(0, 3, 1, 2)  # stays channels last in memory
