# SPDX-License-Identifier: Apache-2.0
"""Values of a formula that the tests have too, to the same bits
(tests/support/fixtures.h)."""
import numpy as np


def bits(stream, count):
    """Element i of a stream: 24 bits."""
    with np.errstate(over="ignore"):
        x = np.arange(count, dtype=np.uint64) + np.uint64(1000003 * stream)
        x *= np.uint64(0x9E3779B97F4A7C15)
        x ^= x >> np.uint64(32)
        x *= np.uint64(0xD6E8FEB86659FD93)
        x ^= x >> np.uint64(32)
    return x >> np.uint64(40)


def uniform(stream, count):
    """In [-1/2, 1/2), exact in fp32."""
    return bits(stream, count).astype(np.float64) / 2**24 - 0.5
