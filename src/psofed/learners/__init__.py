"""Learners: one file each, found by its name in an experiment file."""

HELPERS = (
    "contract",
    "differentiable",
    "examine",
)  # the files of this folder that are not learners
