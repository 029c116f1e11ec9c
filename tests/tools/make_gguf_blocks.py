#!/usr/bin/env python3
"""Writes tests/golden/gguf/: blocks of every GGUF format and the values the package gguf gives them.

TYPE.blocks holds ROWS rows of two blocks as a file would, TYPE.f32 their values, row-major. The
bytes are random, scales are finite halves of every kind: subnormal, zero, negative, the largest;
some blocks have all scale bytes at their ends. Needs `pip install gguf` (made with 0.19.0).
"""

import argparse
import pathlib

import numpy as np
from gguf import GGMLQuantizationType, quants

ROWS = 18  # more than one panel of 16
BLOCKS_PER_ROW = 2
# Elements, bytes of a block, where its f16 scales lie, where its scale bytes lie.
TYPES = {
    "Q8_0": (32, 34, [0], None),
    "Q4_0": (32, 18, [0], None),
    "Q4_1": (32, 20, [0, 2], None),
    "Q5_0": (32, 22, [0], None),
    "Q5_1": (32, 24, [0, 2], None),
    "Q4_K": (256, 144, [0, 2], (4, 16)),
    "Q5_K": (256, 176, [0, 2], (4, 16)),
    "Q6_K": (256, 210, [208], (192, 208)),
}
# f16 bit patterns: zero, -0, the least and the largest subnormal, 1, the largest, their negatives.
EXTREMES = [0x0000, 0x8000, 0x0001, 0x03FF, 0x3C00, 0x7BFF, 0x8001, 0xFBFF]
SCALE_BYTES = [0x00, 0xFF, 0x80, 0x7F, 0x3F, 0xC0]


def random_half(rng):
    bits = int(rng.integers(0, 1 << 16))
    return bits & 0xBFFF if bits & 0x7C00 == 0x7C00 else bits


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    root = pathlib.Path(__file__).resolve().parents[1]
    parser.add_argument("--out", type=pathlib.Path, default=root / "golden" / "gguf")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name, (elements, size, halves, scale_bytes) in TYPES.items():
        rng = np.random.default_rng(elements * 1000 + size)
        blocks = rng.integers(0, 256, (ROWS * BLOCKS_PER_ROW, size), dtype=np.uint8)
        for i, block in enumerate(blocks):
            for j, at in enumerate(halves):
                n = i + 3 * j
                bits = EXTREMES[n % len(EXTREMES)] if n < 2 * len(EXTREMES) else random_half(rng)
                block[at : at + 2] = (bits & 255, bits >> 8)
            if scale_bytes and i % 3 == 0:
                block[scale_bytes[0] : scale_bytes[1]] = SCALE_BYTES[i // 3 % len(SCALE_BYTES)]
        values = quants.dequantize(blocks, GGMLQuantizationType[name]).astype("<f4")
        assert values.size == blocks.shape[0] * elements and np.isfinite(values).all()
        (out / f"{name}.blocks").write_bytes(blocks.tobytes())
        (out / f"{name}.f32").write_bytes(values.tobytes())


if __name__ == "__main__":
    main()
