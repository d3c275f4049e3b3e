"""Where samples come from: one file per stream, found by its name."""

HELPERS = ("contract",)  # the files of this folder that are not streams
