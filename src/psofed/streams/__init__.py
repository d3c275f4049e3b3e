"""Where samples come from: one file per stream, found by its name."""

from psofed.federation.schema import public

HELPERS = ("contract", "data", "own_laws", "synthetic")  # files here that are not streams
__getattr__, __dir__ = public(__name__)
