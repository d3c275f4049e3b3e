"""Every method and every policy with some settings of it, and each way to play it."""

import numpy as np
import pytest

from helpers import ROOT
from psofed.cli.laws import rules
from psofed.cli.laws.drivers import exchange, fits, prepare, samples, simulate, small, stepwise
from psofed.experiment import Features
from psofed.federation import plugins, schema
from psofed.federation.learners import nlms
from psofed.federation.options import ServerStep
from psofed.rivals.policies import fedcs, folb, importance, optimal

__all__ = ["exchange", "fits", "prepare", "samples", "simulate", "small", "stepwise"]

# A model that is not linear, as a file from outside the package.
network = plugins.module(str(ROOT / "examples" / "network_learner.py"))

# A world of its own, with as many entries as that of the other methods.
WHITENED = {"features": Features(dim=16, width=1.5, basis="whitened", size=10)}
NORMALISED = {"learner": nlms.Options()}
MOMENTUM, ADAM = ServerStep(beta=0.8), ServerStep("adam", rate=0.02)

VARIANTS = {
    "psofed": [
        {"shared": m, "scheme": s, "selection": c, "mask": k, "idle": i, "allow_uneven": True}
        for m, s, c, k, i in [
            (1, "coordinated", "sequential", "subset", True),
            (3, "uncoordinated", "sequential", "subset", True),
            (4, "uncoordinated", "sequential", "block", True),
            (5, "coordinated", "stochastic", "subset", True),
            (2, "uncoordinated", "stochastic", "subset", True),
            (3, "uncoordinated", "sequential", "subset", False),
            (10, "uncoordinated", "sequential", "subset", True),
            (3, "uncoordinated", "sequential", "groups", True),
            (4, "coordinated", "stochastic", "groups", True),
        ]
    ]
    + [{"shared": 3, "average": True}, {"shared": 3, **WHITENED}, {"shared": 4, **NORMALISED}]
    + [{"shared": 3, "wire": "4 bit"}, {"shared": 4, "scheme": "coordinated", "wire": "float16"}]
    + [{"shared": 4, "server": MOMENTUM}, {"shared": 3, "average": True, "server": ADAM}],
    "centralised": [{"form": "batch"}, {"form": "sequential"}],
    "fedavg": [{"local_steps": e} for e in (1, 3, 7)]
    + [{"average": True}, {"local_steps": 4, **WHITENED, **NORMALISED}]
    + [{"local_steps": 3, "average": True, "wire": "2 bit", "server": MOMENTUM}],
    "onlinefed": [{}, {**WHITENED, **NORMALISED}, {"wire": "2 bit"}],
    "raw": [
        {"burst": 3, "bits": 6}, {"solver": "ridge"},
        {"solver": "ridge", "burst": 4, "bits": 5, "ridge": 0.1}, {},
    ],
    "fedprox": [{"local_steps": 4, "prox": 0.1}],
    "ditto": [{"prox": 0.1}, {"local_steps": 3, "wire": "4 bit"}, {"prox": 0.3, "average": True}],
    "fedpoe": [
        {"kernels": 3}, {"kernels": 2, "rate": 1.0, "local_steps": 3, "wire": "4 bit"},
        {"kernels": 4, "rate": 0.0, **NORMALISED},
        {"features": Features(dim=10, widths=(0.5, 1.5, 4.0))},
    ],
    "pofmkl": [
        {"kernels": 3},
        {"kernels": 5, "sent": 2, "rate": 1.0, "step": 0.1, "local_steps": 3, "wire": "float16"},
        {"kernels": 4, "sent": 4, **NORMALISED},
        {"explore": 1.0, "features": Features(dim=10, widths=(0.5, 1.5, 4.0))},
    ],
    "periodic": [
        {"local_steps": 3, "shared": 4},
        {"local_steps": 2, "shared": 3, "scheme": "coordinated", "selection": "stochastic"},
        {"local_steps": 4, "shared": 2, "idle": False, "wire": "4 bit"},
    ],
    "sketch": [
        {"bits": 1}, {"bits": 3, "local_steps": 3}, {"bits": None, "shared": 4, "wire": "float16"},
        {"bits": 2, "rotate": True, "wire": "2 bit"}, {"bits": 4, "rotate": True, "shared": 7},
    ],
    "qsgd": [
        {"levels": 1}, {"levels": 15}, {"levels": 4, "local_steps": 3, "wire": "float16"},
        {"levels": None},
    ],
    "structured": [
        {"form": "mask", "shared": 3},
        {"form": "subspace", "shared": 4, "local_steps": 3, "wire": "4 bit"},
        {"form": "lowrank", "shared": 5, "rows": 2},
        {"form": "lowrank", "shared": 3, "rows": 10, "local_steps": 2},
    ],
    "fedscr": [
        {"block": 2, "wire": "float16"},
        {"block": 5, "threshold": 1.3, "local_steps": 2, "wire": "2 bit"}, {"block": 1},
        {"block": 2, "rule": "fixed", "scale": 0.1},
        {"block": 2, "rule": "adaptive", "scale": 0.4},
        {"block": 5, "rule": "adaptive", "local_steps": 3},
    ],
    "etpsofed": [
        {"shared": 3}, {"shared": 4, "threshold": 1.0, "scheme": "coordinated", "wire": "4 bit"},
        {"shared": 3, "samples": "all"}, {"shared": 3, "unit": "error", "threshold": 0.2},
    ],
    "quantised": [
        {"shared": 4, "bits": 4}, {"shared": 3, "bits": 2, "reference": "last"},
        {"shared": 3, "bits": 3, "scheme": "coordinated", "idle": False},
    ],
    "cmfl": [
        {"rule": "literal", "threshold": 0.5, "local_steps": 1}, {"keep": 0.5, "local_steps": 3},
        {"rule": "literal", "threshold": 0.5, "local_steps": 2, "wire": "float16"},
        {"keep": 0.5, "local_steps": 2, "wire": "4 bit"},
        {"rule": "literal", "decay": "sqrt", "local_steps": 2, "server": MOMENTUM},
    ],
    "paofed": [
        {"shared": 5, "delay": 0.5, "longest": 3},
        {"shared": 3, "mask": "subset", "scheme": "uncoordinated", "availability": 0.4},
        {"shared": 2, "window": "same", "decay": 1.0, "delay": 0.0, "wire": "2 bit"},
        {"shared": 5, "delay": 0.9, "longest": 6, "decay": 0.9, "wire": "float16"},
    ],
    "memofed": [
        {"budget": 20.0, "size": 6}, {"budget": None, "size": 8, "bits": 8, "silent": 0},
        {"budget": 80.0, "size": 10, "bits": None, "forget": 0.97},
        {"budget": None, "size": 12, "bits": 3},
        {"budget": None, "size": 6, "least": 12, "forget": 0.95},
    ],
    "asofed": [
        {}, {"memory": True, "lam": 0.01, "step": 0.25}, {"lam": 0.1, "delays": "log"},
        {"barrier": True, "wire": "4 bit"},
        {"memory": True, "lam": 1.0, "delays": "log", "step": 0.1, "visitors": 1},
    ],
    "pdlms": [
        {"shared": 3, "degree": 2}, {"shared": 4, "graph": "star", "scheme": "coordinated"},
        {"shared": 5, "graph": "complete", "mask": "block"},
        {"shared": 2, "graph": "complete", "selection": "stochastic"}, {"shared": 10},
        {"shared": 4, "selection": "stochastic", "mask": "groups"},
    ],
    "pdrls": [
        {"shared": 3, "degree": 2}, {"shared": 4, "graph": "star", "forget": 0.99, "regular": 0.1},
    ],
    "psorls": [
        {"shared": 3}, {"shared": 4, "scheme": "coordinated", "regular": 0.0},
        {"shared": 5, "forget": 1.0, "start": 10.0, "idle": False, "wire": "2 bit"},
    ],
    "topk": [
        {"kept": 1, "wire": "4 bit"},
        {"kept": 3, "memory": 0.5, "local_steps": 2, "wire": "float16"}, {"kept": 9},
    ],
}  # fmt: skip

USUAL = 2  # settings of each method that are always tried; the others with `pytest --thorough`
SETTINGS = {
    name: [schema.load("psofed.methods", name).Options(**each) for each in VARIANTS.get(name, [{}])]
    for name in schema.names("psofed.methods")
}
METHODS = [options for some in SETTINGS.values() for options in some]
TRIED = [
    pytest.param(options, marks=[pytest.mark.thorough] * (i >= USUAL))
    for some in SETTINGS.values()
    for i, options in enumerate(some)
]

POLICIES = [
    importance.Options(),
    importance.Options(beta=0.9),
    optimal.Options(asked=4, uploads=2),
    fedcs.Options(share=0.8),
    fedcs.Options(share=1.0, deadline=0.05),
    folb.Options(),
]
every_method = pytest.mark.parametrize("options", TRIED, ids=lambda o: f"{o.name}-{o.title()}")


def holds(rule, *arguments):
    """The rule holds; if it does not apply, the test is skipped with the reason."""
    if reason := rules.why_not(rule, *arguments):
        pytest.skip(reason)
    rule(*arguments)


def same(one, other, **changes):
    """Whether two methods have the same models in every round; of one client it is that client's."""
    a, b = (simulate(small(options, **changes)) for options in (one, other))
    return np.abs(a - b.reshape(a.shape)).max() <= 1e-12
