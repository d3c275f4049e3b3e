"""Learners: one file each, found by its name in an experiment file."""

from psofed.federation.schema import public

HELPERS = ("contract",)  # the files of this folder that are not learners
__getattr__, __dir__ = public(__name__)
