"""psofed: online federated learning of nonlinear regression when every byte counts.

>>> import psofed
>>> experiment = psofed.Experiment(clients=10, rounds=20, runs=2, test_samples=100)
>>> psofed.run(experiment).mse.shape
(7, 21)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Loaded on first use, so that `import psofed` and `psofed --help` are fast.
_HOMES = {
    "Experiment": "psofed.experiment",
    "Features": "psofed.experiment",
    "read": "psofed.experiment",
    "Curves": "psofed.curves",
    "run": "psofed.simulate.montecarlo",
    "predict_curves": "psofed.theory.prediction:curves",
    "predict": "psofed.theory.prediction:renamed",  # the old name, for one version
    "fit_table": "psofed.fit.fitting",
    "load_model": "psofed.fit.model:load",
    "InputError": "psofed.errors",
    "OnlineFed": "psofed.methods.onlinefed:Options",
    "PSOFed": "psofed.methods.psofed:Options",
    "LocalOnly": "psofed.methods.local:Options",
    "Centralised": "psofed.methods.centralised:Options",
    "PaperStream": "psofed.streams.paper:Options",
    "IIDStream": "psofed.streams.iid:Options",
    "Stream": "psofed.streams.function:Options",
}
__all__ = ["__version__", *_HOMES]

if TYPE_CHECKING:
    from psofed.curves import Curves as Curves
    from psofed.errors import InputError as InputError
    from psofed.experiment import Experiment as Experiment
    from psofed.experiment import Features as Features
    from psofed.experiment import read as read
    from psofed.fit.fitting import fit_table as fit_table
    from psofed.fit.model import load as load_model  # noqa: F401
    from psofed.methods.centralised import Options as Centralised  # noqa: F401
    from psofed.methods.local import Options as LocalOnly  # noqa: F401
    from psofed.methods.onlinefed import Options as OnlineFed  # noqa: F401
    from psofed.methods.psofed import Options as PSOFed  # noqa: F401
    from psofed.simulate.montecarlo import run as run
    from psofed.streams.function import Options as Stream  # noqa: F401
    from psofed.streams.iid import Options as IIDStream  # noqa: F401
    from psofed.streams.paper import Options as PaperStream  # noqa: F401
    from psofed.theory.prediction import curves as predict_curves  # noqa: F401
    from psofed.theory.prediction import renamed as predict  # noqa: F401


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'psofed' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute or name)


def __dir__() -> list[str]:
    return sorted(__all__)
