"""Other published systems: one file each, found by its name."""

from psofed.contract import public

HELPERS = ("policies",)  # what is not a method
__getattr__, __dir__ = public(__name__)
