"""Packages that take long to import: not where tests are looked for, but where one uses them."""

from typing import Any

import pytest


class Extra:
    """`pandas = Extra("pandas")`, then as the package; a test that uses it is skipped without it."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_", "pytest")):  # pytest asks every object whether it is a test
            raise AttributeError(name)
        return getattr(pytest.importorskip(self._package), name)
