"""People with four labels and two groups that show in a column, as a frame; small enough for tests of milliseconds."""

from __future__ import annotations

import numpy as np
import pandas as pd

BANDS = ("A", "B", "C", "D")


def banded_people(n: int = 500, seed: int = 0) -> pd.DataFrame:
    """Columns a to d, the label `band` and the group `sex`; two labels lean on the column that shows the group."""
    rng = np.random.default_rng(seed)
    group, x = rng.integers(0, 2, n), rng.normal(size=(n, 4)).round(3)
    x[:, 0] += 1.5 * group
    values = 1.5 * np.stack([x[:, 1], x[:, 2] + 0.8 * group, x[:, 3], 0.6 - 0.8 * group], axis=1)
    label = (values + rng.gumbel(size=(n, 4))).argmax(axis=1)
    columns = {name: x[:, place] for place, name in enumerate("abcd")}
    return pd.DataFrame(columns | {"band": np.array(BANDS)[label], "sex": np.array(["female", "male"])[group]})
