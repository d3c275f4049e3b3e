"""What a client learns from, and what it refuses: one file per check, for any method."""

from psofed.federation.schema import public

HELPERS = ("contract",)  # the files of this folder that are not checks
__getattr__, __dir__ = public(__name__)
