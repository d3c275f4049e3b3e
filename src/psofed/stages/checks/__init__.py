"""What a client learns from, and what it refuses: one file per check, for any method."""

HELPERS = ("contract",)  # the files of this folder that are not checks
