"""Estimators for scikit-learn and River: thin adapters over the learner of the paper."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from psofed.extras import need

# Loaded on first use: scikit-learn and River are extras, and each needs only its own.
_HOMES = {
    "RFFKLMSRegressor": ("scikit", "sklearn"),
    "FederatedRegressor": ("scikit", "sklearn"),
    "RFFKLMSStream": ("stream", "river"),
    "FederatedStream": ("stream", "river"),
}
__all__ = ["FederatedRegressor", "FederatedStream", "RFFKLMSRegressor", "RFFKLMSStream"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'psofed.tables.estimators' has no attribute {name!r}")
    module, extra = _HOMES[name]
    need(extra, extra, "these estimators")
    return getattr(import_module(f"{__name__}.{module}"), name)
