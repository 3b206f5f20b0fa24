#!/usr/bin/env python3
"""The consensus step size of CHOCO gossip that converges fastest.

    postprocess/tune_gamma.py --topology ring --workers 8 --compressor sign
    postprocess/tune_gamma.py --topology torus --workers 16 \\
        --compressor top_k --ratio 0.99

Every worker starts from N(0, 1); for each gamma of a grid

    x_i <- x_i + gamma (s_i - xhat_i),      q_i = Q(x_i - xhat_i),
    xhat_i <- xhat_i + q_i,                 s_i <- s_i + sum_j w_ij q_j

from xhat = s = 0 (Koloskova, Stich, Jaggi 2019). It chooses the gamma with the
least sum_i |x_i - mean|^2 + |x_i - xhat_i|^2 at the end: after --iterations, or
when the error of the best gamma is down to rounding.

With --drift, the default for sign, every worker first moves by N(0, 1) in each
iteration, as it does in training, and the gamma with the least error is
chosen, averaged over the last quarter. Without drift, large steps under sign
may bring the magnitudes of all workers together, where every bit is exact;
training never is.

With qsgd, the error of a message grows with the size of the tensor, as does
what `biased` divides it by: --dim has to be the number of elements of the
network's largest tensor, such as 36,864 in ResNet-20, or the gamma is too
large.

W is what `syncopate list topologies` prints. Needs numpy only.
"""
import argparse
import os
import re
import shutil
import subprocess
from fractions import Fraction

import packages  # noqa: F401, says which package is missing
import numpy as np

from exit_codes import BAD_INPUT, INPUT_MISSING, INTERNAL
from script import Parser, RunError, run_main

GRID = np.logspace(-3, 0, 20)
DIM = 1000
# Relative to the initial error: about the square of 1e-13, where rounding of
# doubles begins to decide which gamma is best.
AT_ROUNDING = 1e-26


def number(kind, least, below, text):
    """An argparse type: `kind` in [least, below), called `text` if it is not.
    """
    def parse(argument):
        try:
            value = kind(argument)
            if least <= value < below:
                return value
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"{argument}: {text} expected")
    return parse


# --- compressors: q = Q(x), along the last axis ------------------------------

def identity(x, _):
    return x


def sign(x, _):
    """The mean magnitude times the sign; sign(0) is +, as in messages."""
    return np.where(x < 0, -1.0, 1.0) * np.abs(x).mean(axis=-1, keepdims=True)


def kept_of(elems, ratio):
    return max(1, int(elems * (1 - ratio)))


def top_k(kept):
    def compress(x, _):
        # A diverged gamma has NaN, for which any choice will do.
        places = np.argpartition(-np.abs(x), kept - 1, axis=-1)[..., :kept]
        q = np.zeros_like(x)
        np.put_along_axis(q, places, np.take_along_axis(x, places, -1), -1)
        return q
    return compress


def random_k(kept, scale):
    """One random choice per worker, the same for every gamma."""
    def compress(x, rng):
        keys = rng.random(x.shape[1:])
        chosen = np.zeros(x.shape[1:])
        places = np.argpartition(keys, kept - 1, axis=-1)[..., :kept]
        np.put_along_axis(chosen, places, scale, -1)
        return x * chosen
    return compress


def qsgd(levels, scale):
    """Alistarh et al. 2017; the draws are the same for every gamma."""
    def compress(x, rng):
        norm = np.linalg.norm(x, axis=-1, keepdims=True)
        level = levels * np.abs(x) / np.where(norm == 0, 1, norm)
        level = np.floor(level + rng.random(x.shape[1:]))
        return scale / levels * norm * np.sign(x) * level
    return compress


def make_compressor(options):
    """Q and whether it is a contraction: E|q - x|^2 < |x|^2."""
    used = {"top_k": {"ratio"}, "random_k": {"ratio", "biased"},
            "qsgd": {"bits", "levels", "biased"}}.get(options.compressor,
                                                      set())
    for name in ("ratio", "bits", "levels", "biased"):
        if getattr(options, name) not in (None, False) and name not in used:
            raise RunError(BAD_INPUT, f"--{name}: {options.compressor} has "
                           "none")
    if options.bits and options.levels:
        raise RunError(BAD_INPUT, "--bits and --levels: one of them expected")
    dim = options.dim
    if options.compressor == "identity":
        return identity, True
    if options.compressor == "sign":
        return sign, True
    if options.compressor == "qsgd":
        levels = options.levels or 2 ** (options.bits or 8) - 1
        excess = min(dim / levels ** 2, np.sqrt(dim) / levels)
        return (qsgd(levels, 1 / (1 + excess) if options.biased else 1.0),
                options.biased or excess < 1)
    kept = kept_of(dim, 0.9 if options.ratio is None else options.ratio)
    if options.compressor == "top_k":
        return top_k(kept), True
    return (random_k(kept, 1.0 if options.biased else dim / kept),
            options.biased or 2 * kept > dim)


# --- the mixing matrix -------------------------------------------------------

def find_program(given):
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    built = [os.path.join(root, "build", preset, "syncopate")
             for preset in ("release", "cpu")]
    program = given or next(filter(os.path.isfile, built), "syncopate")
    found = shutil.which(program)
    if not found:
        raise RunError(INPUT_MISSING, f"{program}: no such program "
                       "(--syncopate PATH)")
    return found


def read_matrix(options):
    """W (n, n), and the first line of its listing."""
    command = [find_program(options.syncopate), "list", "topologies",
               f"--workers={options.workers}", f"--kind={options.topology}"]
    for name in ("group", "between"):
        if getattr(options, name) is not None:
            command.append(f"--{name}={getattr(options, name)}")
    try:
        result = subprocess.run(command, capture_output=True, text=True,
                                check=False)
    except OSError as error:
        raise RunError(INPUT_MISSING,
                       f"{command[0]}: {error.strerror}") from None
    if result.returncode:
        line = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise RunError(result.returncode if result.returncode > 0
                       else INTERNAL, line.removeprefix("error: "))
    title, *lines = result.stdout.splitlines() or [""]
    w = np.zeros((options.workers, options.workers))
    for line in lines:
        words = line.split()
        if words and words[0].isdigit():
            rank = int(words[0])
            w[rank, rank] = Fraction(words[1])
            for word in words[2:]:
                other, weight = word.split(":")
                w[rank, int(other)] = Fraction(weight)
    if not (np.allclose(w, w.T, atol=1e-12) and np.allclose(w.sum(1), 1)):
        raise RunError(BAD_INPUT, f"{command[0]}: its list topologies is of "
                       "another version")
    return w, re.sub(r"\s+", " ", title)


# --- gossip ------------------------------------------------------------------

def gossip(w, compress, options):
    """Errors (iterations + 1, gammas); infinite where a gamma has diverged."""
    rng = np.random.default_rng(options.seed)
    shape = (options.workers, options.dim)
    x = np.tile(rng.standard_normal(shape), (len(GRID), 1, 1))
    xhat, s = np.zeros_like(x), np.zeros_like(x)  # (gammas, workers, dim)
    gamma = GRID[:, None, None]

    def error():
        mean = x.mean(axis=1, keepdims=True)
        total = ((x - mean) ** 2 + (x - xhat) ** 2).sum(axis=(1, 2))
        return np.where(np.isfinite(total), total, np.inf)

    errors = [error()]
    for _ in range(options.iterations):
        if options.drift:
            x += rng.standard_normal(shape)
        x += gamma * (s - xhat)
        q = compress(x - xhat, rng)
        xhat += q
        s += w @ q
        errors.append(error())
        if errors[-1].min() <= AT_ROUNDING * errors[0].min():
            break
    return np.array(errors)


def judge(errors, drift):
    """By gamma: the error that counts, and how it went, below 1 if well: the
    factor per iteration over the second half; with drift the last quarter's
    error over twice the one's before."""
    last = len(errors) - 1
    if drift:
        before, final = (errors[last * part // 4 + 1:][:last // 4].mean(axis=0)
                         for part in (2, 3))
        trend = final / (2 * before)
    else:
        half = len(errors) // 2
        final = errors[-1]
        trend = (final / errors[half]) ** (1 / (last - half))
    return final, np.where(np.isfinite(final), trend, np.inf)


def print_table(final, trend, best, drift):
    print("    gamma         error"
          + ("" if drift else "  factor per iteration"))
    for place, gamma in enumerate(GRID):
        figures = "      diverges"
        if np.isfinite(trend[place]):
            figures = f"{final[place]:14.4e}"
            if not drift:
                figures += f"  {trend[place]:.5f}"
        print(f"{'*' if place == best else ' '} {gamma:.5f}{figures}")


def main(arguments):
    parser = Parser(description=__doc__.split("\n", maxsplit=1)[0])
    count = number(int, 1, 10 ** 9, "a whole number of at least 1")
    parser.add_argument("--topology", required=True, metavar="KIND",
                        help="as syncopate list topologies")
    parser.add_argument("--workers", required=True, metavar="N",
                        type=number(int, 2, 1025,
                                    "a whole number from 2 to 1024"))
    parser.add_argument("--group", type=count, metavar="G",
                        help="of --topology hierarchical (2)")
    parser.add_argument("--between", metavar="KIND",
                        help="of --topology hierarchical (ring)")
    parser.add_argument("--compressor", required=True,
                        choices=["identity", "sign", "top_k", "random_k",
                                 "qsgd"])
    parser.add_argument("--ratio", metavar="R",
                        type=number(float, 0, 1, "a number in [0, 1)"),
                        help="top_k, random_k: the share dropped (0.9)")
    parser.add_argument("--bits", metavar="B",
                        type=number(int, 1, 17, "a whole number from 1 to 16"),
                        help="qsgd: levels = 2^B - 1 (8)")
    parser.add_argument("--levels", metavar="S", type=count,
                        help="qsgd: levels, instead of --bits")
    parser.add_argument("--biased", action="store_true",
                        help="random_k, qsgd: scaled to be a contraction")
    parser.add_argument("--dim", type=count, metavar="D",
                        help="elements per worker, in one tensor (1000); for "
                        "qsgd those of the network's largest tensor")
    parser.add_argument("--iterations", default=1000, metavar="T",
                        type=number(int, 8, 10 ** 9,
                                    "a whole number of at least 8"),
                        help="at most so many (1000)")
    parser.add_argument("--drift", action=argparse.BooleanOptionalAction,
                        help="workers move by N(0, 1) in each iteration (for "
                        "sign)")
    parser.add_argument("--seed", default=1, metavar="S",
                        type=number(int, 0, 2 ** 63, "a whole number"),
                        help="of the start and of random choices (1)")
    parser.add_argument("--syncopate", metavar="PATH",
                        help="the program (build/release, build/cpu, or on "
                        "PATH)")
    options = parser.parse_args(arguments)
    if options.drift is None:
        options.drift = options.compressor == "sign"
    has_dim = options.dim is not None
    options.dim = options.dim or DIM
    compress, is_contractive = make_compressor(options)
    w, title = read_matrix(options)
    with np.errstate(all="ignore"):  # some gammas diverge
        errors = gossip(w, compress, options)
        final, trend = judge(errors, options.drift)
    best = int(np.argmin(final))
    print(f"{title}; {options.compressor} of {options.dim} elements, "
          f"{len(errors) - 1} iterations{' of drift' * options.drift}")
    print_table(final, trend, best, options.drift)
    if not trend[best] < 1:
        raise RunError(BAD_INPUT, "no gamma of the grid converges: " + (
            "try more --iterations" if is_contractive else
            f"{options.compressor} is no contraction here (--biased makes it "
            "one)"))
    print(f"gamma = {GRID[best]:.4g}: " + (
        "the least error under drift" if options.drift else
        f"the error falls by a factor of {trend[best]:.4f} per iteration") + (
            "" if is_contractive else
            " (not a contraction: convergence is not guaranteed)"))
    if options.compressor == "qsgd" and not has_dim:
        print(f"note: a tensor of more than {DIM} elements needs a smaller "
              "gamma: --dim D of the largest one")
    return 0


if __name__ == "__main__":
    run_main(main)
