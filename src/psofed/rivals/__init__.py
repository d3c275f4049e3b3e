"""Other published systems: one file each, found by its name."""

HELPERS = ("policies",)  # what is not a method
