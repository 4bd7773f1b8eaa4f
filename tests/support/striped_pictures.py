"""Small pictures to train on."""

from __future__ import annotations

import numpy as np


def generated_pictures(n: int, size: int = 16, seed: int = 0) -> np.ndarray:
    """Stripes of a random colour, width and direction on a background of another."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size]
    pictures = []
    for _ in range(n):
        angle, period = rng.uniform(0, np.pi), rng.uniform(3, 9)
        stripes = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period) > 0
        front, back = rng.integers(0, 256, (2, 3, 1, 1))
        pictures.append(np.where(stripes, front, back))
    return np.array(pictures, dtype=np.uint8)
