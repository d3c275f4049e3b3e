"""Learners: one file each, found by its name in an experiment file."""

HELPERS = ("contract",)  # the files of this folder that are not learners
