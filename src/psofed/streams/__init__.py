"""Where samples come from: one file per stream, found by its name."""

HELPERS = ("contract", "data", "own_laws", "synthetic")  # files here that are not streams
