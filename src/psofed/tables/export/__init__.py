"""A trained model for other programs: ONNX, a C header, JSON."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from psofed.errors import InputError, nearest
from psofed.tables.export.portable import Portable

FORMATS = {"onnx": "onnx_graph", "c": "c_header", "json": "portable"}
SUFFIXES = {"onnx": ".onnx", "c": ".h", "json": ".json"}


def render(model: Portable, format: str, name: str = "model") -> bytes:
    """The file of a model in a format. In C, identifiers begin with `name`.

    >>> render(None, "xml")
    Traceback (most recent call last):
    psofed.errors.InputError: format is 'xml'; use one of c, json, onnx
    """
    if format not in FORMATS:
        raise InputError("format", f"is {format!r}", nearest(format, list(FORMATS)))
    made: bytes = import_module(f"psofed.tables.export.{FORMATS[format]}").render(model, name)
    return made


def default_name(path: Path, format: str, client: str | None = None) -> Path:
    """The file for a model, in the current folder.

    >>> str(default_name(Path("fit/model.psofed"), "c", "my mill"))
    'model-my_mill.h'
    """
    stem = path.resolve().name.removesuffix(".psofed")
    if client is not None:
        stem += "-" + "".join(c if c.isalnum() or c in "-." else "_" for c in client)
    return Path(stem + SUFFIXES[format])
