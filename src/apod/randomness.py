"""Randomness that is passed in and keyed by content.

Every random draw in the package comes from `generator(seed, *key)`: the same seed and the same key words give the
same numbers, whatever else runs in the process, and adding a method or a dataset shifts nobody else's draws.
"""

from __future__ import annotations

import hashlib

import numpy as np


def generator(seed: int, *key: str | int) -> np.random.Generator:
    """A NumPy generator for this seed and these key words, independent of all others."""
    text = "\x1f".join([str(int(seed)), *(f"{type(part).__name__}:{part}" for part in key)])
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
