"""Golden cases: all draws of a run, and the models that must follow from them."""

import json

import numpy as np

from psofed.core.features import Cosines
from psofed.simulate.reference import Case


def read(path):
    """A case of tests/golden."""
    table = json.loads(path.read_text())
    online, dim = table["algorithm"] == "online", table["D"]
    masks = np.tile(np.arange(dim), (table["K"], 1)) if online else np.array(table["masks0"])
    arrays = {name: np.array(table[name], float) for name in ("W", "b", "x", "y", "w0", "wk0")}
    expected = {name: np.array(table["expected"][name], float) for name in ("w", "wk")}
    return Case(
        name=table["name"],
        algorithm=table["algorithm"],
        features=Cosines(arrays["W"], arrays["b"]),
        x=arrays["x"],
        y=arrays["y"],
        # Uploads are folded in client order, not in the order of the case.
        cohorts=tuple(tuple(sorted(row)) for row in table["selected"]),
        step=float(table["mu"]),
        masks=masks,
        shift=0 if online else table["tau"],
        w0=arrays["w0"],
        local0=arrays["wk0"],
        w=expected["w"],
        local=expected["wk"],
    )
